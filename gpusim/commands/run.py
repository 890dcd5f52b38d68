"""``gpusim run``: an unmodified Numba CUDA program on a machine with no GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from gpusim.commands.cold_start import is_cold, start_compiling_engine
from gpusim.commands.options import HELP
from gpusim.driver.device import make_device
from gpusim.driver.run import run_program
from gpusim.errors import UsageError
from gpusim.io.whole_file import replacing
from gpusim.report.tables import FORMATS, format_records

#: Exit code: a check has found something.
FINDINGS = 1


@click.command(context_settings={**HELP, "ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--gpu",
    default="h200",
    show_default=True,
    metavar="NAME",
    help="The device that the program finds: a GPU of `gpusim gpus list`, a TOML file, or a capability such as sm_86.",
)
@click.option("-m", "as_module", is_flag=True, help="PROGRAM is a module's name, as for python -m.")
@click.option("--simulate", is_flag=True, help="Predict each launch's cycles; CUDA events then tell predicted time.")
@click.option(
    "--record", type=click.Path(path_type=Path), metavar="DIR", help="Keep each launch's trace in DIR, with index.json."
)
@click.option("--force", is_flag=True, help="Let --record replace the traces of a folder that is not empty.")
@click.option(
    "--leak-check",
    type=click.Choice(("no", "full")),
    default="no",
    show_default=True,
    help="List the device memory that the program has not freed at its end, with the line that allocated it.",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the launches here, not to stderr."
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="How they are written."
)
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    gpu: str,
    as_module: bool,
    simulate: bool,
    record: Path | None,
    force: bool,
    leak_check: str,
    output: Path | None,
    form: str,
    program: str,
    arguments: tuple[str, ...],
) -> int:
    """Run PROGRAM [ARGUMENTS] as python would, with an emulated GPU behind the CUDA driver.

    Options of gpusim stand before PROGRAM. stdout is the program's own. At the end, also of a program that
    fails, its launches are listed on stderr. The exit code is the program's; if it died of a launch that
    failed on the device, that failure's (docs/reference/exit-codes.md); 1 if it ended well and --leak-check has found
    something.

    \b
    Examples:
      gpusim run saxpy.py --size 100000
      gpusim run --gpu a100_80gb --simulate train.py
      gpusim run --leak-check full train.py
      gpusim run --record traces -o launches.json --format json -m package.module
    """
    if output is not None and not output.resolve().parent.is_dir():
        raise UsageError(f"there is no folder {output.parent} to write {output.name} into")
    device = make_device(gpu)
    compiling = start_compiling_engine() if simulate else None
    if compiling is not None:
        compiling.wait()
    elif is_cold("emulator"):
        click.echo("compiling gpusim for this machine, once: about half a minute", err=True)
    ending, ledger = run_program(
        program,
        arguments,
        device,
        as_module=as_module,
        simulate=simulate,
        record=record,
        force=force,
        leak_check=leak_check == "full",
        say=lambda line: click.echo(f"gpusim: {line}", err=True),
    )
    sys.stdout.flush()
    if ending.explanation:
        click.echo(f"error: {' '.join(ending.explanation.split())}", err=True)
    _write(ledger.records(), form, output, device.spec.name)
    if leak_check == "full":
        _show_leaks(ledger.leaks)
    return ending.exit_code or (FINDINGS if ledger.leaks else 0)


def _show_leaks(leaks: list[dict[str, Any]]) -> None:
    """What the program has not freed, on stderr."""
    if leaks:
        click.echo(f"\n{format_records(leaks, 'table')}", err=True)
    total, count = (sum(row[column] for row in leaks) for column in ("leaked_bytes", "allocations"))
    click.echo(f"gpusim: {total} bytes of device memory leaked in {count} allocations", err=True)


def _write(records: list[dict], form: str, output: Path | None, gpu: str) -> None:
    text = format_records(records, form)
    if output is not None:
        with replacing(output) as stream:
            stream.write(text.encode() + b"\n")
    elif records or form != "table":
        click.echo(f"\n{text}" if form == "table" else text, err=True)
    else:
        click.echo(f"gpusim: the program launched no kernel on {gpu}", err=True)
