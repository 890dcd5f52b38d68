"""``gpusim measure``: launch the suite's kernels on the GPU of this machine and say how long they take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from gpusim.cases.suite import complete_shape, parse_request
from gpusim.commands.options import HELP, Figure, format_option
from gpusim.errors import NoDataError, SiliconError, ToolchainError, UsageError
from gpusim.explore.named_suites import expand_suites
from gpusim.io.progress import say, task
from gpusim.measure.builds import Compiler, Pack
from gpusim.measure.cuda_driver import CudaDriver
from gpusim.measure.driver import Driver
from gpusim.measure.ncu import profile_cases, profiled_child
from gpusim.measure.passes import COLD, CUPTI, EVENTS, WARM
from gpusim.measure.rounds import Precision
from gpusim.measure.run import AUTO, MeasureOptions, MeasureRequest, measure_cases
from gpusim.measure.session import RecordingDriver, ReplayDriver
from gpusim.report.tables import format_records
from gpusim.silicon.row import SiliconRow
from gpusim.silicon.rows import append_rows

try:
    from gpusim.store import open_store
except ImportError:  # a bare machine with a GPU: rows go into a file
    open_store = None

#: The GPU's result is not NumPy's.
WRONG_RESULT = 1
_CACHES = {"cold": (COLD,), "warm": (WARM,), "both": (COLD, WARM)}


@click.command(context_settings=HELP)
@click.argument("kernels", nargs=-1, required=True, metavar="[SUITE|KERNEL[:SHAPE]]...")
@click.option(
    "--gpu", default="", metavar="NAME", help="Description whose machine axes are used.  [default: by the GPU's name]"
)
@click.option("--device", default=0, show_default=True, type=click.IntRange(min=0), help="Which GPU of this machine.")
@click.option("--small", is_flag=True, help="Start from each kernel's small shape instead of its default.")
@click.option(
    "--cache",
    type=click.Choice(list(_CACHES)),
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
@click.option("--save", metavar="NAME", default="", help="Also keep the rows in the store, as a run of this name.")
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
) -> int:
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
    for path in (output, record_session):
        if path is not None and not path.resolve().parent.is_dir():
            raise UsageError(f"there is no folder {path.parent} to write {path.name} into")
    requests = [MeasureRequest(*parse_request(text), small=small) for text in expand_suites(kernels)]
    for request in requests:
        complete_shape(request.name, request.shape)  # a slip of the pen is found before anything runs
    caches = _CACHES[cache]
    builder = Compiler() if cubins is None else Pack(cubins)
    times = method if method in (CUPTI, EVENTS) else AUTO
    options = MeasureOptions(budget, caches, Precision(relative_half_width=precision / 100), seed, gpu, builder, times)
    if replay_session is not None and (record_session is not None or method in ("ncu", "all")):
        raise UsageError(
            "--replay-session answers for the driver alone, not for ncu: leave out --record-session and --method"
        )
    plan = profiled_child()
    if plan is not None:  # this process is the one that Nsight Compute looks at
        with CudaDriver(device) as driver:
            return plan.run(driver, requests, options)

    with ExitStack() as stack:
        kept = _open_run(save, stack) if save else None
        rows: list[SiliconRow] = []

        def keep(row: SiliconRow) -> None:
            rows.append(row)
            if output is not None:
                append_rows(output, [row])
            if kept is not None:
                kept.add_measurements([row])

        begun = time.monotonic()

        def how_far() -> tuple[float, float]:
            return len(rows), (time.monotonic() - begun) / budget

        with task("measuring", unit="rows", read=how_far):
            _measure(kernels, requests, options, method, device, small, record_session, replay_session, keep)
    if not rows:
        raise NoDataError("nothing was measured: give --budget more seconds")
    click.echo(format_records([_record(row) for row in rows], form))
    return WRONG_RESULT if any("wrong_result" in row.flags for row in rows) else 0


def _measure(
    kernels: Sequence[str],
    requests: Sequence[MeasureRequest],
    options: MeasureOptions,
    method: str,
    device: int,
    small: bool,
    record_session: Path | None,
    replay_session: Path | None,
    keep: Callable[[SiliconRow], None],
) -> None:
    """Measure by every method that was asked for; ``keep`` gets each row as it comes."""
    if method != "ncu":
        driver = _open(device, record_session, replay_session)
        if method == "auto" and isinstance(driver, ReplayDriver) and not driver.has_traces:
            options = replace(options, method=EVENTS)
        try:
            for row in measure_cases(driver, requests, options, say):
                keep(row)
        finally:
            driver.close()
    if method in ("ncu", "all") or (method == "auto" and replay_session is None):
        try:
            for row in profile_cases(kernels, options, device, small, say):
                keep(row)
        except SiliconError as error:
            if method != "auto":
                raise
            say(f"no counters: {error}")


def _open_run(name: str, stack: ExitStack) -> Any:
    """A run of the store that rows can be added to, closed by ``stack``."""
    if open_store is None:
        raise ToolchainError("--save needs sqlalchemy: pip install sqlalchemy, or keep the rows in a file with -o")
    store = stack.enter_context(open_store())
    return stack.enter_context(store.new_run(name=name, command="measure", arguments=sys.argv[1:]))


def _open(device: int, record: Path | None, replay: Path | None) -> Driver:
    if replay is not None:
        return ReplayDriver(replay)
    driver = CudaDriver(device)
    return driver if record is None else RecordingDriver(driver, record)


def _record(row: SiliconRow) -> dict:
    """A row as the table shows it; the file of -o holds everything."""
    nan = float("nan")
    return {
        "kernel": row.kernel,
        "shape": row.shape,
        "launch": row.launch,
        "method": row.method,
        "cache": row.cache,
        "n": row.n,
        "cycles": row.cycles.median if row.cycles else nan,
        "time_us": row.time_us.median if row.time_us else nan,
        "low_us": row.time_us.low if row.time_us else nan,
        "high_us": row.time_us.high if row.time_us else nan,
        "sm_mhz": row.sm_clock_mhz or nan,
        "flags": " ".join(row.flags),
    }
