"""``gpusim measure``: launch the suite's kernels on the GPU of this machine and say how long they take; the work."""

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
from gpusim.errors import NoDataError, SiliconError, ToolchainError
from gpusim.explore.named_suites import expand_suites
from gpusim.io.progress import say, task
from gpusim.measure.builds import Compiler, Pack
from gpusim.measure.cuda_driver import CudaDriver
from gpusim.measure.driver import Driver
from gpusim.measure.ncu import profile_cases, profiled_child
from gpusim.measure.passes import COLD, CUPTI, EVENTS, WARM
from gpusim.measure.precision import Precision
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
STATES = {"cold": (COLD,), "warm": (WARM,), "both": (COLD, WARM)}


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
    """What :func:`gpusim.commands.measure.measure` declares, with its arguments."""
    requests = [MeasureRequest(*parse_request(text), small=small) for text in expand_suites(kernels)]
    for request in requests:
        complete_shape(request.name, request.shape)  # a slip of the pen is found before anything runs
    caches = STATES[cache]
    builder = Compiler() if cubins is None else Pack(cubins)
    times = method if method in (CUPTI, EVENTS) else AUTO
    options = MeasureOptions(budget, caches, Precision(relative_half_width=precision / 100), seed, gpu, builder, times)
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
