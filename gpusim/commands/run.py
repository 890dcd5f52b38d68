"""``gpusim run``: an unmodified Numba CUDA program on a machine with no GPU."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from gpusim.commands.cold_start import is_cold, start_compiling_engine
from gpusim.commands.options import HELP
from gpusim.driver.device import make_device
from gpusim.driver.ledger import Ledger
from gpusim.driver.run import run_program
from gpusim.driver.wanted import Wanted
from gpusim.emulator.emulation import DEFAULT_INSTRUCTION_LIMIT
from gpusim.engine.gpu import simulate as simulate_trace
from gpusim.errors import UsageError
from gpusim.gpus.spec import GpuSpec
from gpusim.io.whole_file import replacing
from gpusim.report.tables import FORMATS, format_cards, format_records
from gpusim.sanitizer.findings import CHECKS, parse_checks
from gpusim.why.explain import explain

#: Exit codes: a check has found something; a SIGTERM.
FINDINGS, TERMINATED = 1, 143


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
    "--sample", is_flag=True, help="With --simulate: leave out the middle of large launches, and say with what error."
)
@click.option(
    "--cold",
    is_flag=True,
    help="With --simulate: sweep L2 before each launch; without it L2 stays warm between launches.",
)
@click.option(
    "--why",
    is_flag=True,
    help="Simulate, and say of the first launch of each kernel and shape what limits it.",
)
@click.option(
    "--check",
    "checks",
    metavar="CHECKS",
    help=f"Look for defects in each launch, as `gpusim capture --check` does: {', '.join(CHECKS)}, separated by commas.",
)
@click.option(
    "--kernel", metavar="REGEX", default="", help="Simulate, record, check and explain launches of these kernels only."
)
@click.option(
    "--launch-skip",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Leave out the first N launches (of those kernels).",
)
@click.option("--launch-count", type=click.IntRange(1), metavar="N", help="Take N launches (of those kernels) at most.")
@click.option(
    "--instruction-limit",
    type=click.IntRange(1),
    default=DEFAULT_INSTRUCTION_LIMIT,
    show_default=True,
    metavar="N",
    help="Warp instructions after which a launch fails as one that never ends.",
)
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
    sample: bool,
    cold: bool,
    why: bool,
    checks: str | None,
    kernel: str,
    launch_skip: int,
    launch_count: int | None,
    instruction_limit: int,
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
    fails or is interrupted, its launches are listed on stderr. The exit code is the program's; if it died of a launch
    that failed on the device, that failure's (docs/reference/exit-codes.md); 1 if it ended well but --check or
    --leak-check has found something; 130 and 143 if it died of SIGINT and SIGTERM.

    All launches are emulated, for their results. --kernel, --launch-skip and --launch-count, as ncu has them, choose which
    of them are simulated, recorded, checked and explained. L2 keeps its data from launch to launch, also of launches that
    are not simulated; ncu sweeps it before each, as --cold does.

    \b
    Examples:
      gpusim run saxpy.py --size 100000
      gpusim run --gpu a100_80gb --simulate train.py
      gpusim run --simulate --cold --kernel 'gemm|softmax' --launch-skip 2 --launch-count 4 train.py
      gpusim run --simulate --sample --why train.py
      gpusim run --check memory,race train.py
      gpusim run --leak-check full train.py
      gpusim run --record traces -o launches.json --format json -m package.module
    """
    if output is not None and not output.resolve().parent.is_dir():
        raise UsageError(f"there is no folder {output.parent} to write {output.name} into")
    chosen = parse_checks(filter(None, (name.strip() for name in checks.split(",")))) if checks else frozenset()
    simulate = simulate or why
    if (sample or cold) and not simulate:
        raise UsageError(f"{'--sample' if sample else '--cold'} says how launches are simulated: add --simulate")
    if (kernel or launch_skip or launch_count) and not (simulate or record or chosen):
        raise UsageError("there is nothing to choose launches for: add --simulate, --record, --check or --why")
    wanted = Wanted(simulate, sample, cold, why, chosen, kernel, launch_skip, launch_count, instruction_limit)
    device = make_device(gpu)
    compiling = start_compiling_engine() if simulate else None
    if compiling is not None:
        compiling.wait()
    elif is_cold("emulator"):
        click.echo("compiling gpusim for this machine, once: about half a minute", err=True)

    def on_terminated(ledger: Ledger) -> None:
        click.echo("error: terminated", err=True)
        _show(ledger, form, output, device.spec.name)
        _leave(TERMINATED)

    ending, ledger = run_program(
        program,
        arguments,
        device,
        as_module=as_module,
        wanted=wanted,
        record=record,
        force=force,
        leak_check=leak_check == "full",
        say=lambda line: click.echo(f"gpusim: {line}", err=True),
        on_terminated=on_terminated,
    )
    if ending.explanation:
        click.echo(f"error: {' '.join(ending.explanation.split())}", err=True)
    _show(ledger, form, output, device.spec.name)
    if ending.interrupted or not ending.at_rest:  # Python itself takes its time to end
        if ending.at_rest:
            atexit._run_exitfuncs()
        _leave(ending.exit_code)
    if leak_check == "full":
        _show_leaks(ledger.leaks)
    if why:
        _explain(ledger, device.spec, sample)
    return ending.exit_code or (FINDINGS if ledger.findings or ledger.leaks else 0)


def _show_leaks(leaks: list[dict[str, Any]]) -> None:
    """What the program has not freed, on stderr."""
    if leaks:
        click.echo(f"\n{format_records(leaks, 'table')}", err=True)
    total, count = (sum(row[column] for row in leaks) for column in ("leaked_bytes", "allocations"))
    click.echo(f"gpusim: {total} bytes of device memory leaked in {count} allocations", err=True)


def _leave(code: int) -> NoReturn:
    """End the process now, whatever of the program still runs in it."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a signal may have come in the middle of a write to it
            stream.flush()
    os._exit(code)


def _show(ledger: Ledger, form: str, output: Path | None, gpu: str) -> None:
    """Write what has become of the launches, to ``output`` or stderr."""
    with contextlib.suppress(RuntimeError):  # as above
        sys.stdout.flush()
    if ledger.findings:
        click.echo(f"\n{format_cards(ledger.findings, 'table')}", err=True)
    if standing := ledger.interrupted():
        click.echo(f"gpusim: {standing}", err=True)
    records = ledger.records()
    if output is not None:
        with replacing(output) as stream:
            stream.write(format_records(records, form).encode() + b"\n")
    elif form != "table":
        click.echo(format_records(records, form), err=True)
    elif records:
        if ledger.wanted.simulate:
            state = "swept before each launch" if ledger.wanted.cold else "kept from launch to launch; --cold sweeps it"
            click.echo(f"\nlaunches on {gpu}, L2 {state}", err=True)
        blank = [{key: "" if value is None else value for key, value in record.items()} for record in records]
        click.echo(f"\n{format_records(blank, form)}", err=True)
    else:
        click.echo(f"gpusim: {ledger.none_ended()} on {gpu}", err=True)


def _explain(ledger: Ledger, spec: GpuSpec, sample: bool) -> None:
    """Say what limits the launches that were kept for it."""
    for kept in ledger.kept:
        warm = () if kept.before is None else (kept.before,)
        result = simulate_trace(kept.trace, spec, warm=warm, sample=sample)
        found = explain([kept.trace], spec, result, warm=warm, sample=sample)
        click.echo(f"\nlaunch {kept.number}: {found.sentence}", err=True)
