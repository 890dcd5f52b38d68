"""``gpusim measure``: launch the suite's kernels on the GPU of this machine and say how long they take; how it is
called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.cases.networks import refuse_unknown_workloads
from gpusim.commands.later import done_by
from gpusim.commands.launch_options import launch_options
from gpusim.commands.options import HELP, Figure, format_option
from gpusim.commands.output_place import refuse_no_place
from gpusim.errors import UsageError
from gpusim.measure.precision import Precision

#: What ``--cache`` may say; :data:`gpusim.commands.measuring.STATES` has them.
CACHES = ("cold", "warm", "both")


@click.command(context_settings=HELP)
@click.argument("kernels", nargs=-1, required=True, metavar="[SUITE|KERNEL[:SHAPE]]...")
@click.option(
    "--gpu", default="", metavar="NAME", help="Description whose machine axes are used.  [default: by the GPU's name]"
)
@click.option("--device", default=0, show_default=True, type=click.IntRange(min=0), help="Which GPU of this machine.")
@click.option("--small", is_flag=True, help="Start from each kernel's small shape instead of its default.")
@click.option(
    "--cache",
    type=click.Choice(CACHES),
    default="both",
    show_default=True,
    help="State of L2 before each timed run.",
)
@click.option(
    "--method",
    type=click.Choice(["auto", "cupti", "events", "ncu", "all"]),
    default="auto",
    show_default=True,
    help="CUPTI's records of kernels, CUDA events, or Nsight Compute's counters; all: times and counters. auto: times by CUPTI "
    "where it can be had, else by events, and counters where they are permitted.",
)
@click.option(
    "--budget",
    type=Figure(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time to measure in, in all.",
)
@click.option(
    "--precision",
    type=Figure(min=0),
    default=100 * Precision.relative_half_width,
    show_default=f"{100 * Precision.relative_half_width:g}",
    metavar="PERCENT",
    help="Half-width of the median's 95 % interval at which a kernel is done.",
)
@click.option("--seed", default=0, show_default=True, help="Of the order in which the kernels take turns.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Append the rows to this file (JSON lines)."
)
@click.option(
    "--save", "--save-run", metavar="NAME", default="", help="Also keep the rows in the store, as a run of this name."
)
@click.option(
    "--record-session",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep every call of the driver with its answer.",
)
@click.option(
    "--replay-session",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take the driver's answers from such a file: needs no GPU.",
)
@click.option(
    "--cubins",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Take the machine code from this pack (tools/record_silicon.py --pack) instead of compiling it here.",
)
@format_option()
@launch_options("kernels")
@done_by("measuring")
def measure(
    kernels: tuple[str, ...],
    gpu: str,
    device: int,
    small: bool,
    cache: str,
    method: str,
    budget: float,
    precision: float,
    seed: int,
    output: Path | None,
    save: str,
    record_session: Path | None,
    replay_session: Path | None,
    cubins: Path | None,
    form: str,
) -> None:
    """Measure KERNEL[:axis=value,...] or a SUITE on the GPU of this machine: the machine code that `gpusim simulate` runs.

    SUITE is the name of a pinned suite, or a file of `gpusim suite make`. Each kernel's result is compared with NumPy first; one that computes wrongly has no time (exit code 1). Times are
    medians of interleaved runs, less that of an empty launch timed the same way, with the SM clock that was held. The
    clock is measured, never set. Rows go to -o as they come, so an interrupted run loses none.

    \b
    Examples:
      gpusim measure saxpy reduce_sum:n=1048576 -o rows.jsonl
      gpusim measure matmul_tiled --cache cold --method events --budget 20
      gpusim measure softmax --small --record-session softmax.session
      gpusim compare softmax --against rows.jsonl --gpu h200
    """
    refuse_no_place(output, record_session)
    if replay_session is not None and (record_session is not None or method in ("ncu", "all")):
        raise UsageError(
            "--replay-session answers for the driver alone, not for ncu: leave out --record-session and --method"
        )
    refuse_unknown_workloads(kernels)
