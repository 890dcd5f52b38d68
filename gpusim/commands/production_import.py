"""``gpusim production import`` and ``timing``; how they are called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.commands.later import done_by
from gpusim.commands.options import format_option
from gpusim.commands.output_place import refuse_no_place

_SOURCE = click.Path(exists=True, path_type=Path)
#: gpusim.production.imports.formats has who reads each (a test holds them against each other).
FORMATS = ("xla", "kineto", "nsys", "param", "chakra", "nvbench", "ncu-csv")
#: gpusim.production.facts has what each is about.
TOPICS = ("idle", "queue", "overlap", "delay", "straggler", "slower")


@click.command("import")
@click.argument("sources", nargs=-1, required=True, type=_SOURCE, metavar="FILE_OR_FOLDER...")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write (.production).",
)
@click.option(
    "--input-format",
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Of all FILEs; by default each is recognised.",
)
@done_by("production_importing")
def import_traces(sources: tuple[Path, ...], output: Path, form: str | None) -> None:
    """Read traces of other tools: what they launched, how long it took, what its timing shows.

    A folder is all traces in it, one a rank. A trace of any size is read as a stream.

    \b
    Examples:
      gpusim production import rank0.json.gz -o week.production
      gpusim production import traces/ -o week.production
    """
    refuse_no_place(output)


@click.command()
@click.argument("files", nargs=-1, required=True, type=_SOURCE, metavar="FILE...")
@click.option("--topic", "topics", type=click.Choice(TOPICS), multiple=True, help="Only this; may be repeated.")
@click.option("--evidence", is_flag=True, help="The launches and spans that show it instead, one a row.")
@format_option()
@done_by("production_importing")
def timing(files: tuple[Path, ...], topics: tuple[str, ...], evidence: bool, form: str) -> None:
    """What the timing of launches shows: idle time, queues, overlap, delays, ranks that lag, kernels slower on one GPU.

    FILEs are traces, folders of them, or files that import has written.

    \b
    Examples:
      gpusim production timing week.production
      gpusim production timing traces/ --topic straggler --topic slower
      gpusim production timing rank0.json.gz --topic idle --evidence --format csv
    """
