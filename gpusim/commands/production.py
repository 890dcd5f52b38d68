"""``gpusim production``: what production launches; how it is called."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import click

from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, Figure, format_option, gpu_option
from gpusim.commands.output_place import refuse_no_place
from gpusim.commands.production_import import import_traces, timing
from gpusim.gpus.load import load_gpu

_SOURCE = click.Path(exists=True, path_type=Path)
_OUTPUT = click.Path(dir_okay=False, path_type=Path)
#: What rows can be grouped by; gpusim.production.columns has what each means (a test holds them against each other).
COLUMNS = (
    "kernel", "function", "family", "operation", "library", "dtype", "accumulator", "tile", "stages", "cluster", "architecture", "layout",
    "unit", "kind", "grid", "block", "shared_bytes", "registers", "phase", "operator", "shapes", "gpu", "device", "rank", "stream", "shape",
)  # fmt: skip
#: What a histogram can be of.
SIZES = ("duration_ns", "blocks", "block_threads", "threads", "shared_bytes", "registers", "moved_bytes")


def by_option(default: tuple[str, ...]) -> Callable:
    """``--by COLUMN``: what rows are grouped by."""
    return click.option(
        "--by", type=click.Choice(COLUMNS), multiple=True, default=default, show_default=True, metavar="COLUMN",
        help="Group by this; may be repeated. shape: function, grid, block and the operator's shapes.",
    )  # fmt: skip


@click.group(context_settings=HELP)
def production() -> None:
    """What production launches, how long it takes, and what the suite makes of it.

    A FILE is one that `gpusim production import` has written, a trace that it reads (or a folder of them), or a folder of
    `gpusim collect serve --data`.

    \b
    Examples:
      gpusim production report week.production
      gpusim production diff monday.production tuesday.production
      gpusim production collected /var/lib/gpusim --since 2026-11-16 --until 2026-11-22 -o week.production
    """


@production.command()
@click.argument("files", nargs=-1, required=True, type=_SOURCE, metavar="FILE...")
@by_option(("family", "operation"))
@click.option("--most", type=click.IntRange(1), default=40, show_default=True, help="Rows; the rest is one row.")
@click.option("--unknown", is_flag=True, help="One row a column instead: how much of the time it leaves out.")
@format_option()
@done_by("production_reporting")
def report(files: tuple[Path, ...], by: tuple[str, ...], most: int, unknown: bool, form: str) -> None:
    """Where the time of FILEs goes.

    \b
    Examples:
      gpusim production report week.production --by family --by dtype
      gpusim production report week.production --by kernel --by shape --format csv
      gpusim production report week.production --by phase --by rank
      gpusim production report week.production --unknown
    """


@production.command()
@click.argument("files", nargs=-1, required=True, type=_SOURCE, metavar="FILE...")
@click.option(
    "--of", "size", type=click.Choice(SIZES), default="duration_ns", show_default=True, help="What of a launch."
)
@by_option(())
@format_option()
@done_by("production_reporting")
def histogram(files: tuple[Path, ...], size: str, by: tuple[str, ...], form: str) -> None:
    """How the launches and the time of FILEs are spread over durations or sizes, in steps of a power of two.

    \b
    Examples:
      gpusim production histogram week.production
      gpusim production histogram week.production --of blocks --by family
    """


@production.command()
@click.argument("before", type=_SOURCE)
@click.argument("after", type=_SOURCE)
@by_option(("kernel",))
@click.option(
    "--alpha", type=Figure(0, 1), default=0.01, show_default=True, help="Chance of one false difference in all."
)
@click.option(
    "--threshold",
    type=Figure(min=0),
    default=0.05,
    show_default=True,
    metavar="SHARE",
    help="Smaller differences are none.",
)
@click.option("--all", "every", is_flag=True, help="Also what does not differ.")
@format_option()
@done_by("production_diffing")
def diff(
    before: Path, after: Path, by: tuple[str, ...], alpha: float, threshold: float, every: bool, form: str
) -> None:  # fmt: skip
    """What two days, or two fleets, launch differently: new, gone, slower, faster, more or less often.

    \b
    Examples:
      gpusim production diff monday.production tuesday.production
      gpusim production diff old.production new.production --by family --by dtype --all
    """


@production.command()
@click.argument("folder", type=_SOURCE)
@click.option("--since", type=click.DateTime(), help="First minute, UTC.")
@click.option("--until", type=click.DateTime(), help="Last minute, UTC.")
@click.option("-o", "--output", required=True, type=_OUTPUT, help="File to write.")
@done_by("production_reporting")
def collected(folder: Path, since: datetime | None, until: datetime | None, output: Path) -> None:
    """Write what a collector's FOLDER holds of a span of time as a file of production.

    \b
    Example:
      gpusim production collected /var/lib/gpusim --since 2026-11-16 --until 2026-11-17 -o monday.production
    """
    refuse_no_place(output)


@production.command()
@click.argument("files", nargs=-1, required=True, type=_SOURCE, metavar="FILE...")
@click.option("--points", is_flag=True, help="One row a bin of the coverage model instead.")
@click.option(
    "--coverage",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="What the suite covers, with --points; the coverage that gpusim ships with, else.",
)
@click.option(
    "--simulate",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Simulate the N workloads with most time and known shape, so that their bins are known, with --points.",
)
@gpu_option()
@format_option()
@done_by("production_suiting")
def holes(
    files: tuple[Path, ...], points: bool, coverage: tuple[Path, ...], simulate: int, gpu: str, form: str
) -> None:  # fmt: skip
    """What FILEs spend time on that no case of the suite stands for; with --points, which bins of the coverage model they reach.

    \b
    Examples:
      gpusim production holes week.production
      gpusim production holes week.production --points --simulate 5 --gpu a100_80gb --format csv
    """
    load_gpu(gpu)


@production.command()
@click.argument("files", nargs=-1, required=True, type=_SOURCE, metavar="FILE...")
@click.option("--budget", type=click.IntRange(1), default=20, show_default=True, help="Workloads at most.")
@click.option(
    "--by-kernel", is_flag=True, help="Also kernels of which no shape is known, at the suite's default shape."
)
@click.option("-o", "--output", required=True, type=_OUTPUT, help="Suite file to write.")
@click.option(
    "--histogram", type=_OUTPUT, metavar="CSV", help="Also write workload,count for `gpusim suite make --histogram`."
)
@format_option()
@done_by("production_suiting")
def suite(
    files: tuple[Path, ...], budget: int, by_kernel: bool, output: Path, histogram: Path | None, form: str
) -> None:  # fmt: skip
    """Make a suite of the workloads that FILEs spend most time on, each with its share of it.

    \b
    Examples:
      gpusim production suite week.production -o week.suite.json
      gpusim production suite week.production --by-kernel --budget 50 -o week.suite.json --histogram week.csv
    """
    refuse_no_place(output)
    if histogram is not None:
        refuse_no_place(histogram)


@production.command()
@click.argument("files", nargs=-1, required=True, type=_SOURCE, metavar="FILE...")
@click.option(
    "--finding",
    "found",
    multiple=True,
    required=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="A finding of `gpusim explore`, or a folder of them; may be repeated.",
)
@format_option()
@done_by("production_suiting")
def findings(files: tuple[Path, ...], found: tuple[Path, ...], form: str) -> None:
    """How much of the time of FILEs the region of each finding of `gpusim explore` covers.

    \b
    Example:
      gpusim production findings week.production --finding explore
    """


production.add_command(import_traces)
production.add_command(timing)
