"""``gpusim gpus``: which GPUs are described, and every value with its source."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpusim.commands.options import HELP, format_option
from gpusim.errors import UsageError
from gpusim.gpus.datasheet import read_datasheet
from gpusim.gpus.describe import describe_gpu, diff_gpus
from gpusim.gpus.load import list_gpus, load_gpu
from gpusim.gpus.make import GENERATIONS, make_gpu
from gpusim.io.nearest import near
from gpusim.io.whole_file import write_whole
from gpusim.report.tables import folded, format_records


@click.group(context_settings=HELP)
def gpus() -> None:
    """The described GPUs.

    \b
    Examples:
      gpusim gpus list
      gpusim gpus show h200
      gpusim gpus diff gh200 h200
      gpusim gpus make my_gpu --from my_datasheet.toml --like ada
    """


@gpus.command("list")
@format_option()
def list_(form: str) -> None:
    """List the built-in GPUs.

    \b
    Example:
      gpusim gpus list --format json
    """
    records = []
    for name in list_gpus():
        spec = load_gpu(name)
        records.append(
            {
                "gpu": name,
                "title": spec.title,
                "capability": "{}.{}".format(*spec.capability),
                "sms": spec.sm_count,
                "clock_mhz": round(spec.clock_hz / 1e6),
                "l2_mib": round(spec.l2.total_bytes / 2**20, 1),
                "dram_gb_per_s": spec.dram.peak_bytes_per_ns,
            }
        )
    click.echo(format_records(records, form))


@gpus.command("show")
@click.argument("name")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@format_option()
def show(name: str, keys: tuple[str, ...], form: str) -> None:
    """Print every value of the GPU NAME (or TOML file), its kind of evidence, its source and the file that
    states it: what another file states is inherited. With KEYs only those, or all below a KEY (l2, dram).

    \b
    Examples:
      gpusim gpus show a100_80gb
      gpusim gpus show my_gpu.toml --format md
      gpusim gpus show h200 l2 dram.peak_bytes_per_ns
    """
    rows = describe_gpu(name)
    for key in keys:
        if not any(_is_below(row.key, key) for row in rows):
            known = dict.fromkeys(part for row in rows for part in (row.key, row.key.partition(".")[0]))
            found = near(key, known)
            raise UsageError(
                f"{name} has no value {key!r}" + (f"; did you mean {' or '.join(found)}?" if found else "")
            )
    chosen = [row for row in rows if not keys or any(_is_below(row.key, key) for key in keys)]
    records = [{**row._asdict(), "value": _plain(row.value)} for row in chosen]
    click.echo(format_records(folded(records, ("source",), sys.stdout) if form == "table" else records, form))


def _is_below(key: str, asked: str) -> bool:
    """Whether ``key`` is ``asked`` or one of its group (``l2`` has ``l2.slices``)."""
    return key == asked or key.startswith(f"{asked}.")


@gpus.command("diff")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@format_option()
def diff(a: str, b: str, form: str) -> None:
    """Print the values in which the GPUs A and B (names or TOML files) differ, with their sources.

    \b
    Examples:
      gpusim gpus diff gh200 h200
      gpusim gpus diff h200 my_gpu.toml --format md
    """
    records = [
        {
            "key": ours.key,
            "a": _plain(ours.value),
            "b": _plain(theirs.value),
            "a_source": f"{ours.kind}: {ours.source}",
            "b_source": f"{theirs.kind}: {theirs.source}",
        }
        for ours, theirs in diff_gpus(a, b)
    ]
    if not records:
        click.echo(f"{a} and {b} differ in no value", err=True)
    columns = ("a_source", "b_source")
    click.echo(format_records(folded(records, columns, sys.stdout) if form == "table" else records, form))


@gpus.command("make")
@click.argument("name")
@click.option(
    "--from", "datasheet", required=True, type=click.Path(path_type=Path), metavar="DATASHEET.toml",
    help="What the product's datasheet says (docs: Describe a GPU).",
)  # fmt: skip
@click.option(
    "--like", required=True, metavar="GPU",
    help=f"A GPU of the same kind that is described, a TOML file, or a generation: {', '.join(GENERATIONS)}.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write here instead of to stdout."
)
def make(name: str, datasheet: Path, like: str, output: Path | None) -> None:
    """Make the GPU file NAME from a product's datasheet, on top of the description of a related GPU.

    What the datasheet states is taken from it, what follows is computed, the rest inherited; each value
    says which. Nothing is measured: replace guesses as measurements come.

    \b
    Examples:
      gpusim gpus make rtx_a6000 --from rtx_a6000_datasheet.toml --like ga10x -o rtx_a6000.toml
      gpusim simulate saxpy --gpu rtx_a6000.toml
    """
    made = make_gpu(name, read_datasheet(datasheet), like)
    if made.doubt:
        click.echo(f"note: {made.doubt}", err=True)
    if output is None:
        click.echo(made.text, nl=False)
        return
    if output.exists():
        raise UsageError(f"{output} is there already: remove it first, or name another file")
    if not output.parent.is_dir():
        raise UsageError(f"there is no folder {output.parent} to write {output.name} into")
    write_whole(output, made.text.encode())
    click.echo(f"{output}: {made.spec.title}; `gpusim gpus show {output}` lists every value and its source")


def _plain(value: object) -> object:
    return " ".join(map(str, value)) if isinstance(value, (tuple, list)) else value
