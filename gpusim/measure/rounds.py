"""Measuring many cases side by side until each is known well enough, or the time is over.

Mental model: a round visits every case that is not finished, in an order drawn anew, and takes a few timed runs of it,
then of an empty launch, then reads the SM clock. A slow drift of the GPU therefore falls on all cases alike, and is
seen: each case has its own readings of the clock over time. A case is finished when the interval of the median of each
of its launches is narrow enough. Samples are never thrown away; the median bears outliers.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from gpusim.errors import SiliconError
from gpusim.measure.driver import THROTTLE_REASONS, DeviceFacts, Driver
from gpusim.measure.helpers import Helpers
from gpusim.measure.passes import EVENTS, Stopwatch
from gpusim.measure.precision import DEFAULT_PRECISION, Precision
from gpusim.measure.workload import DeviceWorkload
from gpusim.silicon.estimate import median_estimate, relative_half_width
from gpusim.silicon.names import gpu_of_device
from gpusim.silicon.row import Estimate, SiliconRow

#: Counter of a row: what an empty launch took between its events, which the row's times are net of.
EMPTY_LAUNCH = "gpusim__empty_launch_us"
#: Spread of the clock's readings over a case from which it is said to drift.
DRIFT = 0.01
RUNS_A_ROUND = 3
#: Runs of a case that are not kept: the first ones load its code.
WARM_UP_RUNS = 2


@dataclass
class _Case:
    """What is known of a workload in one cache state so far."""

    workload: DeviceWorkload
    cache: str
    raw_us: list[tuple[float, ...]] = field(default_factory=list)
    clocks_mhz: list[float] = field(default_factory=list)  # one a sample
    gaps: int = 0
    reasons: int = 0

    def finished(self, precision: Precision, overhead_us: float) -> bool:
        """Whether every launch's median is known well enough."""
        if len(self.raw_us) < precision.least_samples:
            return False
        if len(self.raw_us) >= precision.most_samples:
            return True
        return all(
            relative_half_width(_net(samples, overhead_us)) <= precision.relative_half_width
            for samples in zip(*self.raw_us, strict=True)
        )


def measure_rounds(
    driver: Driver,
    helpers: Helpers,
    facts: DeviceFacts,
    workloads: Iterable[DeviceWorkload],
    caches: Iterable[str],
    *,
    until_seconds: float,
    precision: Precision = DEFAULT_PRECISION,
    seed: int = 0,
    toolchain: str = "",
    method: str = EVENTS,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[SiliconRow]:
    """Rows of every workload in every cache state, each case's as soon as it is finished; when the host's clock
    passes ``until_seconds`` (:meth:`Driver.now_seconds`) the rest come out as they stand, flagged ``budget_ended``.
    ``method``: EVENTS, or CUPTI where kernels are being traced; only times by events have an empty launch to be net
    of."""
    watch = Stopwatch(driver, helpers, method)
    open_cases = [_Case(workload, cache) for workload in workloads for cache in caches]
    order, empties = random.Random(seed), []
    helpers.wake()
    for case in open_cases:
        for _ in range(WARM_UP_RUNS):
            watch.case(case.workload, case.cache)
    clock_before = helpers.clock_mhz()
    while open_cases:
        order.shuffle(open_cases)
        for case in list(open_cases):
            runs = [watch.case(case.workload, case.cache) for _ in range(RUNS_A_ROUND)]
            empties += [watch.empty() if method == EVENTS else 0.0 for _ in range(RUNS_A_ROUND)]
            clock = helpers.clock_mhz()
            case.raw_us += [run.times_us for run in runs]
            case.clocks_mhz += [(clock_before + clock) / 2] * len(runs)
            case.gaps += sum(run.gap for run in runs)
            case.reasons |= driver.throttle_reasons() or 0
            clock_before = clock
            over = driver.now_seconds() > until_seconds
            if over or case.finished(precision, _middle(empties)):
                open_cases.remove(case)
                rows = _rows(case, facts, _middle(empties), precision, over, toolchain, method)
                say(f"{case.workload.label} {case.cache}: {len(case.raw_us)} runs")
                yield from rows


def _middle(samples: list[float]) -> float:
    return median_estimate(samples).median


def _net(samples: Iterable[float], overhead_us: float) -> list[float]:
    return [max(0.0, sample - overhead_us) for sample in samples]


def _rows(
    case: _Case, facts: DeviceFacts, overhead_us: float, precision: Precision, over: bool, toolchain: str, method: str
) -> list[SiliconRow]:
    clocks = case.clocks_mhz
    flags = []
    if over and not case.finished(precision, overhead_us):
        flags.append("budget_ended")
    if max(clocks) - min(clocks) > DRIFT * _middle(clocks):
        flags.append("clock_drift")
    flags += [f"throttled_{name}" for bit, name in THROTTLE_REASONS.items() if case.reasons & bit]
    if any(flag.startswith("throttled_") for flag in flags):
        flags.append("throttled")
    if case.gaps:
        flags.append("host_gap")
    rows = []
    for launch, raw in zip(case.workload.timed, zip(*case.raw_us, strict=True), strict=True):
        net = _net(raw, overhead_us)
        cycles = [us * mhz for us, mhz in zip(net, clocks, strict=True)]
        row = base_row(facts, case.workload, launch.index, toolchain)
        rows.append(
            replace(
                row,
                sm_clock_mhz=_middle(clocks),
                method=method,
                cache=case.cache,
                n=len(net),
                cycles=_rounded(median_estimate(cycles)),
                time_us=_rounded(median_estimate(net)),
                samples_us=tuple(round(us, 4) for us in net),
                samples_mhz=tuple(round(mhz, 3) for mhz in clocks),
                counters={EMPTY_LAUNCH: round(overhead_us, 4)} if method == EVENTS else {},
                flags=tuple(flags if _middle(net) > 0 else [*flags, "below_overhead"]),
            )
        )
    return rows


def _rounded(estimate: Estimate) -> Estimate:
    return Estimate(round(estimate.median, 4), round(estimate.low, 4), round(estimate.high, 4))


def base_row(facts: DeviceFacts, workload: DeviceWorkload, index: int, toolchain: str) -> SiliconRow:
    """A row that says what ran and where, and nothing yet of how long."""
    launch = next(launch.launch for launch in workload.launches if launch.index == index)
    memory_mhz = facts.memory_clock_khz / 1e3
    return SiliconRow(
        kernel=workload.name,
        shape=workload.shape,
        launch=index,
        grid=launch.grid,
        block=launch.block,
        cubin_hash=launch.image.sha256,
        gpu=gpu_of_device(facts.name),
        device_name=facts.name,
        device_uuid_hash=facts.uuid_hash,
        driver=facts.driver,
        toolchain=launch.binary.toolchain or toolchain,
        memory_clock_mhz=memory_mhz or None,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        source="gpusim measure",
    )


def wrong_row(facts: DeviceFacts, name: str, shape: str, reason: str, toolchain: str) -> SiliconRow:
    """The row of a kernel that computed wrongly: it has no time."""
    return SiliconRow(
        kernel=name,
        shape=shape,
        gpu=gpu_of_device(facts.name),
        device_name=facts.name,
        device_uuid_hash=facts.uuid_hash,
        driver=facts.driver,
        toolchain=toolchain,
        method="events",
        flags=("wrong_result",),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        source=f"gpusim measure: {reason}",
    )


def deadline(driver: Driver, budget_seconds: float) -> float:
    """The host's time at which a budget that begins now is spent; raises SiliconError for one of nothing."""
    if budget_seconds <= 0:
        raise SiliconError(f"a budget of {budget_seconds} seconds measures nothing: give --budget more")
    return driver.now_seconds() + budget_seconds
