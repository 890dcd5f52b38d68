"""Comparing the simulator with published silicon: choose points, replay them, sum up.

Mental model: published measurements x GPUs x kernels give jobs; points of one kernel on one GPU form a
group that one worker process replays in order (they share a warmed memory); every finished point is
reported at once; at the end the rows stand in published order and each series has its verdict. What
could not be run is listed with its reason, never dropped in silence.
"""

from __future__ import annotations

import math
import multiprocessing
import queue
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from gpusim.cases.suite import capture_case, make_case
from gpusim.compare.error import DEFAULT_TOLERANCE_PERCENT, ComparedPoint, Summary, Verdict, summarise
from gpusim.compare.points import default_points
from gpusim.compare.published_names import nothing_published, refuse_unpublished
from gpusim.compare.replay import REPLAYS, TIMED_REPLAYS
from gpusim.compare.replay_bench import Bench
from gpusim.engine.precompile import precompile
from gpusim.engine.result import Result
from gpusim.errors import (
    GpusimError,
    NoDataError,
    ToolchainError,
    UnsupportedOpcodeError,
)
from gpusim.gpus.clock import at_clock
from gpusim.gpus.load import built_in_of, load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.io.percent import signed_percent
from gpusim.io.progress import task
from gpusim.silicon.published import PublishedPoint, load_published
from gpusim.trace.record import Trace
from gpusim.workers import worker_pool

#: A point that failed: (exit code, message).
Failure = tuple[int, str]
#: How often the parent looks whether a worker has died, while no point comes in.
POLL_SECONDS = 1.0
#: In a worker process: the queue that finished points go to (set when the process starts).
_worker_queue: list[multiprocessing.Queue] = []


@dataclass(frozen=True)
class ComparedGpu:
    """A GPU to simulate, and the built-in GPU whose measurements are laid beside it: its own name, or what
    a user's file inherits from and a what-if starts from."""

    spec: GpuSpec
    measured_as: str


#: Points of one series, and the GPU that they are replayed on.
Group = tuple[ComparedGpu, list[PublishedPoint]]


@dataclass(frozen=True)
class Comparison:
    """``rows`` in published order; one summary a series and GPU; ``failures``: (gpu, series) -> the
    first failure's exit code and message."""

    rows: list[ComparedPoint]
    summaries: list[Summary]
    failures: dict[tuple[str, str], Failure]


@dataclass
class WatchedBench(Bench):
    """A bench that shares with its copies the last result that it made, which says what bounded the value."""

    last: list[Result] = field(default_factory=list)

    def run(self, timed: list[Trace], warm: Sequence[Trace] = ()) -> Result:
        """As Bench.run."""
        result = super().run(timed, list(warm))
        self.last[:] = [result]
        return result


def select(
    kernels: Sequence[str], gpus: Sequence[str], *, all_points: bool = False, settings: Sequence[str] = ()
) -> list[Group]:
    """The published points to replay, one group a series and GPU. Empty ``kernels``: every series of
    times and rates that can be replayed. Raises UnknownKernelError, UnknownGpuError, SpecError, NoDataError
    for an empty choice."""
    published = load_published()
    refuse_unpublished(kernels, published)
    for kernel in kernels:
        if kernel not in REPLAYS:
            raise NoDataError(f"{kernel} is published but cannot be simulated yet; these can: {', '.join(REPLAYS)}")
    compared_gpus = {
        compared_gpu.spec.name: compared_gpu
        for compared_gpu in (ComparedGpu(override_gpu(load_gpu(gpu), settings), built_in_of(gpu)) for gpu in gpus)
    }
    wanted = kernels or TIMED_REPLAYS
    groups: dict[tuple[str, str], Group] = {}
    for m in published:
        for name, compared_gpu in compared_gpus.items():
            if m.gpu == compared_gpu.measured_as and m.series in wanted:
                groups.setdefault((name, m.series), (compared_gpu, []))[1].append(m)
    if not groups:
        raise nothing_published(kernels, sorted(compared_gpus), [m for m in published if m.series in wanted])
    return [
        (compared_gpu, points if all_points else default_points(points)) for compared_gpu, points in groups.values()
    ]


def compare(
    kernels: Sequence[str] = (),
    gpus: Sequence[str] = ("h200",),
    *,
    all_points: bool = False,
    settings: Sequence[str] = (),
    jobs: int = 1,
    tolerance_percent: float = DEFAULT_TOLERANCE_PERCENT,
    progress: Callable[[str], None] = lambda line: None,
) -> Comparison:
    """Replay published points and lay the simulated values beside the measured ones.

    ``settings``: ``key=value`` texts that change every GPU (see :func:`gpusim.gpus.override.override_gpu`).
    ``jobs`` worker processes (1: in this one); ``progress`` gets a line for every finished point.
    Raises NoDataError when there is nothing to compare; a failing point ends its series and is
    reported in ``failures``.
    """
    groups = select(kernels, gpus, all_points=all_points, settings=settings)
    return compare_groups(groups, jobs=jobs, tolerance_percent=tolerance_percent, progress=progress)


def compare_groups(
    groups: Sequence[Group],
    *,
    jobs: int = 1,
    tolerance_percent: float = DEFAULT_TOLERANCE_PERCENT,
    progress: Callable[[str], None] = lambda line: None,
) -> Comparison:
    """As :func:`compare`, for points that were chosen before, on GPUs of any description."""
    work = list(enumerate(groups))
    total = sum(len(points) for _, points in groups)
    rows: dict[int, list[ComparedPoint]] = {index: [] for index, _ in work}
    failures: dict[tuple[str, str], Failure] = {}
    with task(f"comparing {len(groups)} series", total, "points") as shown:
        for done, (index, outcome) in enumerate(_run_all(work, jobs), 1):
            shown.to(done)
            if isinstance(outcome, ComparedPoint):
                rows[index].append(outcome)
                progress(
                    f"[{done:>4}/{total}] {outcome.gpu} {outcome.series} {outcome.point}: "
                    f"{outcome.simulated:.4g} simulated, {outcome.measured:.4g} measured "
                    f"{outcome.unit} ({signed_percent(outcome.error_percent)})"
                )
            else:
                key = _key(groups[index])
                failures.setdefault(key, outcome)
                progress(f"[{done:>4}/{total}] {key[0]} {key[1]}: {outcome[1]}")
    summaries = [_summarise(group, rows[index], failures, tolerance_percent) for index, group in work]
    return Comparison([row for index, _ in work for row in rows[index]], summaries, failures)


def _key(group: Group) -> tuple[str, str]:
    """(GPU, series) of a group."""
    compared_gpu, points = group
    return compared_gpu.spec.name, points[0].series


def _summarise(
    group: Group,
    rows: list[ComparedPoint],
    failures: dict[tuple[str, str], Failure],
    tolerance_percent: float,
) -> Summary:
    gpu, series = _key(group)
    summary = summarise(gpu, series, rows, tolerance_percent)
    failure = failures.get((gpu, series))
    if failure is None:
        return summary
    unsupported = failure[0] == UnsupportedOpcodeError.exit_code
    verdict = Verdict.UNSUPPORTED if unsupported else Verdict.NO_DATA
    return replace(summary, verdict=verdict, reason=failure[1])


def _run_all(work: Sequence[tuple[int, Group]], jobs: int) -> Iterator[tuple[int, ComparedPoint | Failure]]:
    """(group index, row or failure) of every point, as they finish."""
    if jobs <= 1 or len(work) == 1:
        for index, group in work:
            for outcome in replay_group(*group):
                yield index, outcome
        return
    finished = multiprocessing.get_context("spawn").Queue()
    with worker_pool(min(jobs, len(work)), _adopt, (finished,)) as pool:
        ahead = [pool.submit(compile_ahead, half, work[0][1][0].measured_as) for half in ("emulator", "engine")]
        with task("compiling gpusim, if this is its first run here"):
            for future in ahead:
                future.result()
        yield from _collect({pool.submit(_replay_reporting, *item) for item in work}, finished)


def _collect(running: set[Future], finished: multiprocessing.Queue) -> Iterator[tuple[int, ComparedPoint | Failure]]:
    """What the workers put into the queue, until each of them has put the None that ends its group."""
    open_groups = len(running)
    while open_groups:
        try:
            index, outcome = finished.get(timeout=POLL_SECONDS)
        except queue.Empty:
            for future in [f for f in running if f.done()]:
                running.remove(future)
                future.result()  # raises what the worker died of
            continue
        if outcome is None:
            open_groups -= 1
        else:
            yield index, outcome


def compile_ahead(half: str, gpu: str) -> None:
    """Fill the cache of compiled code for the ``emulator`` or the ``engine``: on a machine that has never
    run gpusim each takes half a minute, and neither needs the other."""
    if half == "engine":
        precompile(gpu)
    else:
        spec = load_gpu(gpu)
        capture_case(make_case("saxpy", {}, spec, small=True), spec)


def _adopt(finished: multiprocessing.Queue) -> None:
    """In a worker process: remember the queue that the points go to."""
    _worker_queue.append(finished)


def _replay_reporting(index: int, group: Group) -> None:
    for outcome in replay_group(*group):
        _worker_queue[-1].put((index, outcome))
    _worker_queue[-1].put((index, None))


def as_measured(spec: GpuSpec, point: PublishedPoint) -> GpuSpec:
    """``spec`` as the point's board was, where it is the built-in description of the point's GPU: another one is so on
    purpose."""
    return override_gpu(spec, point.board) if point.board and spec == load_gpu(point.gpu) else spec


def replay_group(compared_gpu: ComparedGpu, points: Iterable[PublishedPoint]) -> Iterator[ComparedPoint | Failure]:
    """Replay the points of one series on one GPU; the first failure is the last thing yielded.

    The GPU runs at the clock of the measurement, unless its description has another clock on purpose, and as the
    measured board was, unless it is another description on purpose.
    """
    spec = compared_gpu.spec
    keeps_clock = spec.clock_hz == load_gpu(compared_gpu.measured_as).clock_hz
    bench = WatchedBench(spec)
    for m in points:
        measured = as_measured(spec, m)
        bench.gpu = at_clock(measured, m.sm_clock_mhz * 1e6) if keeps_clock else measured
        start = time.monotonic()
        try:
            simulated = REPLAYS[m.series](bench, m)
        except ToolchainError:
            raise  # nothing can be captured here: not a matter of this series
        except GpusimError as error:
            yield error.exit_code, f"{m.point}: {error}"
            return
        factor = bench.last[0].interval.high_us / bench.last[0].time_us if bench.last else math.nan
        yield ComparedPoint(
            spec.name, m.series, m.point, m.unit, simulated, m.value, m.fitted, factor, time.monotonic() - start
        )
