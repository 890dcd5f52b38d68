"""``gpusim compare``: simulated beside measured, launch by launch or point by point, and a verdict on each; how it is
called."""

from __future__ import annotations

import os
from pathlib import Path

import click

from gpusim.cases.networks import refuse_unknown_workloads
from gpusim.commands.later import done_by
from gpusim.commands.launch_options import launch_options
from gpusim.commands.options import HELP, Figure, format_option, set_option
from gpusim.commands.output_place import refuse_no_place
from gpusim.compare.error import DEFAULT_TOLERANCE_CYCLES, DEFAULT_TOLERANCE_PERCENT
from gpusim.compare.published_names import refuse_unpublished, refuse_unpublished_on
from gpusim.errors import UsageError
from gpusim.gpus.load import built_in_of, load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.silicon.published import load_published
from gpusim.store.known_runs import refuse_unknown_runs


@click.command(context_settings=HELP)
@click.argument("kernels", nargs=-1, metavar="[SUITE|KERNEL[:SHAPE]]...")
@click.option(
    "--gpu",
    "gpus",
    multiple=True,
    default=("h200",),
    show_default=True,
    metavar="NAME",
    help="A GPU's name or TOML file; may be repeated.",
)
@click.option(
    "--against",
    default="published",
    show_default=True,
    metavar="published|recorded|silicon|FILE|RUN",
    help="Which measurements to lay beside the simulation: curves that others published; rows that were recorded on real "
    "GPUs; a GPU of this machine, measured now; a file of rows, or a profiler's; a run of the store.",
)
@set_option()
@click.option("--all-points", is_flag=True, help="Every published point instead of a spread of them.")
@click.option(
    "--tolerance",
    type=Figure(min=0),
    default=DEFAULT_TOLERANCE_PERCENT,
    show_default=True,
    metavar="PERCENT",
    help="Error up to which a launch (or, in the mean, a series) counts as SAME. Of a "
    "launch it is a factor either way: with 10 up to 1.1 times too slow, or too fast.",
)
@click.option(
    "--tolerance-cycles",
    type=Figure(min=0),
    default=DEFAULT_TOLERANCE_CYCLES,
    show_default=True,
    metavar="CYCLES",
    help="Error that is none, whatever it is in percent (not for published series).",
)
@click.option("--why", is_flag=True, help="Decompose the gaps: which unit's cost explains them (simulates many times).")
@click.option(
    "--check", is_flag=True, help="Exit 1 if anything is FASTER or SLOWER than silicon (with --baseline: newly so)."
)
@click.option("--strict", is_flag=True, help="Like --check, and exit 4 if anything is AMBIGUOUS.")
@click.option(
    "--save", "--save-run", metavar="NAME", default="", help="Keep the comparison in the store under this name."
)
@click.option("--baseline", metavar="NAME", default="", help="Lay it beside the comparison kept under this name.")
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Also write a JUnit XML file for CI.")
@click.option(
    "--markdown", type=click.Path(dir_okay=False, path_type=Path), help="Also write Markdown, for a CI comment."
)
@click.option(
    "--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Also write one self-contained page."
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    show_default="number of cores",
    metavar="N",
    help="Worker processes, for published points.",
)
@format_option()
@launch_options("kernels")
@done_by("comparing")
def compare(
    kernels: tuple[str, ...],
    gpus: tuple[str, ...],
    against: str,
    settings: tuple[str, ...],
    all_points: bool,
    tolerance: float,
    tolerance_cycles: float,
    why: bool,
    check: bool,
    strict: bool,
    save: str,
    baseline: str,
    junit: Path | None,
    markdown: Path | None,
    page: Path | None,
    jobs: int,
    form: str,
) -> None:
    """Simulate launches that real silicon has run, and print the error of each with a verdict.

    SUITE is a pinned suite (quick, networks, machine ...) or a file of `gpusim suite make`; KERNEL alone stands for every
    measured shape of it; nothing for all that was measured. Published curves are compared as whole series: KERNEL alone. Each row is simulated at its own SM clock and cache state. SAME means that the whole interval
    of the measurement lies within the tolerance, or within what the model is known to miss on this GPU. A GPU's TOML file,
    or one changed by --set, is laid beside the measurements of the built-in GPU that it starts from.

    \b
    Examples:
      gpusim compare --gpu gh200 --against published
      gpusim compare pointer_chase stream_triad --gpu a100_80gb --format json
      gpusim compare quick --gpu h200 --against silicon --save today
      gpusim compare --against rows.jsonl --why --html compare.html
      gpusim compare saxpy matmul_tiled --against profile.csv --junit compare.xml
      gpusim compare --against rows.jsonl --set l2.hit_latency_ns=60 --baseline today --check
    """
    refuse_no_place(junit, markdown, page)
    if against == "published":
        if page is not None:
            raise UsageError("--html is of launches: published curves are rates and latencies of whole series")
        if why:
            raise UsageError("--why needs rows of launches: published curves are rates and latencies of whole series")
        if kernels:
            published = load_published()
            refuse_unpublished(kernels, published)
            refuse_unpublished_on(kernels, [built_in_of(gpu) for gpu in gpus], published)
    else:
        if all_points:
            raise UsageError("--all-points belongs to --against published")
        refuse_unknown_workloads(kernels)
        if against not in ("recorded", "silicon"):
            refuse_no_measurements(against)
    if baseline:
        refuse_unknown_runs([baseline])
    for gpu in gpus:
        override_gpu(load_gpu(gpu), settings)


def refuse_no_measurements(against: str) -> None:
    """Raise if ``against`` is no file, can only be a file's name or, as far as is known at once, names no stored
    run."""
    path = Path(against)
    if path.is_file():
        return
    if path.suffix or path.parent != Path("."):
        raise UsageError(f"there is no file {against}")
    refuse_unknown_runs([against])
