"""``gpusim cover``: which behaviours of kernels and machine a set of workloads has exercised; how it is called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.cases.networks import refuse_unknown_workloads
from gpusim.commands.later import done_by
from gpusim.commands.launch_options import launch_options
from gpusim.commands.options import HELP, format_option, gpu_option, set_option
from gpusim.commands.output_place import refuse_no_place
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.store.run_names import checked_name

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(context_settings=HELP)
def cover() -> None:
    """Coverage of workloads: opcodes' units, limiters, coalescing, conflicts, caches, waves, and more.

    A cover point is a question about a launch whose answers fall into bins; a bin that no launch fell into is a
    hole. `cover points` lists them.

    \b
    Examples:
      gpusim cover run saxpy transpose:padding=0 --gpu h200 -o mine.coverage.json
      gpusim cover report mine.coverage.json --holes
      gpusim cover merge monday.json tuesday.json -o week.json
      gpusim cover diff old.json new.json
    """


@cover.command("run")
@click.argument("workloads", nargs=-1, metavar="[KERNEL[:AXIS=VALUE,...]|SUITE]...")
@gpu_option()
@set_option()
@click.option("--small", is_flag=True, help="Start from each kernel's small shape instead of its default.")
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Coverage file to write."
)
@click.option(
    "--save", "--save-run", metavar="NAME", default="", help="Also keep points and holes in the store under this name."
)
@format_option()
@launch_options("workloads")
@done_by("covering")
def run(
    workloads: tuple[str, ...], gpu: str, settings: tuple[str, ...], small: bool, output: Path, save: str, form: str
) -> None:
    """Simulate WORKLOADS (all kernels of the suite by default) and keep what they cover.

    A SUITE is a pinned one by its name, or a file of `gpusim suite make`. FILE is written after each workload.

    \b
    Examples:
      gpusim cover run --small -o suite.coverage.json
      gpusim cover run spmv_csr:rows=4096 histogram --gpu a100_80gb -o mine.json
      gpusim cover run ci.suite.json -o ci.coverage.json --save nightly
    """
    if save:
        checked_name(save)
    refuse_no_place(output)
    override_gpu(load_gpu(gpu), settings)
    refuse_unknown_workloads(workloads)


@cover.command("report")
@click.argument("files", nargs=-1, required=True, type=_FILE, metavar="FILE...")
@click.option("--holes", is_flag=True, help="One row a hole instead, with the workload most likely to fill it.")
@click.option("--crosses/--no-crosses", default=True, help="Count pairs of points, too.")
@format_option()
@done_by("covering")
def report(files: tuple[Path, ...], holes: bool, crosses: bool, form: str) -> None:
    """Print how much of each cover point the coverage FILEs hit together, or with --holes what they do not.

    \b
    Examples:
      gpusim cover report mine.coverage.json
      gpusim cover report mine.coverage.json --holes --no-crosses --format csv
    """


@cover.command("merge")
@click.argument("files", nargs=-1, required=True, type=_FILE, metavar="FILE...")
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Coverage file to write."
)
@done_by("covering")
def merge(files: tuple[Path, ...], output: Path) -> None:
    """Add up coverage FILEs, of several runs or machines.

    \b
    Example:
      gpusim cover merge monday.json tuesday.json -o week.json
    """


@cover.command("diff")
@click.argument("before", type=_FILE)
@click.argument("after", type=_FILE)
@format_option()
@done_by("covering")
def diff(before: Path, after: Path, form: str) -> None:
    """List the bins that only one of two coverage files has.

    \b
    Example:
      gpusim cover diff old.json new.json --format csv
    """


@cover.command("points")
@format_option()
@done_by("covering")
def points(form: str) -> None:
    """List the cover points, what each asks and its bins.

    \b
    Example:
      gpusim cover points --format md
    """
