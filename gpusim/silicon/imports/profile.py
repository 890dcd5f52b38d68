"""One kernel launch as Nsight Compute reports it, whatever file it came in, as a row.

Mental model: a launch is a name, a few facts, and metrics by name in base units (nanoseconds, bytes, hertz). Cycles are
``sm__cycles_elapsed.max`` where they were collected, else the nearest figure that the default sections hold; time is
``gpu__time_duration.sum``. Nsight Compute's manual (Metrics Reference, Metrics Structure) defines both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpusim.errors import MeasurementFormatError
from gpusim.silicon.names import gpu_of_device
from gpusim.silicon.row import Estimate, SiliconRow

#: First of these that was collected. The second is the "Elapsed Cycles" of section SpeedOfLight.
CYCLES = ("sm__cycles_elapsed.max", "gpc__cycles_elapsed.max", "sm__cycles_elapsed.avg", "Elapsed Cycles")
TIME_NS = ("gpu__time_duration.sum", "gpu__time_duration.max", "gpu__time_duration.avg", "Duration")
SM_HZ = (
    "gpc__cycles_elapsed.avg.per_second",
    "sm__cycles_elapsed.avg.per_second",
    "smsp__cycles_elapsed.avg.per_second",
    "SM Frequency",
)
DRAM_HZ = ("dram__cycles_elapsed.avg.per_second", "DRAM Frequency")
#: Clocks outside this cannot be (MHz): a figure in a unit that was misread.
_CLOCK_RANGE_MHZ = (10.0, 20_000.0)
_METRIC_MARK = "__"


@dataclass
class Profile:
    """A launch: ``metrics`` in base units; grid and block (x, y, z) or None."""

    kernel: str
    metrics: dict[str, float] = field(default_factory=dict)
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    device_name: str = ""


def rows_of(profiles: Iterable[Profile], source: str) -> list[SiliconRow]:
    """A row for each launch, numbered among those of the same kernel."""
    seen: Counter[str] = Counter()
    rows = []
    for profile in profiles:
        rows.append(row_of(profile, seen[profile.kernel], source))
        seen[profile.kernel] += 1
    return rows


def named_rows(profiles: Iterable[Profile], source: str) -> list[SiliconRow]:
    """As :func:`rows_of`; what no measurement can be raises MeasurementFormatError that begins with ``source``."""
    try:
        return rows_of(profiles, source)
    except MeasurementFormatError as error:
        raise MeasurementFormatError(f"{source}: {error}") from None


def row_of(profile: Profile, launch: int, source: str) -> SiliconRow:
    """The row of one launch. State of the caches and shape are not in a report, so they stay empty."""
    cycles, time_ns = _first(profile.metrics, CYCLES), _first(profile.metrics, TIME_NS)
    sm_mhz = _mhz(_first(profile.metrics, SM_HZ))
    if sm_mhz is None and cycles and time_ns:
        sm_mhz = _mhz(cycles / time_ns * 1e9)
    return SiliconRow(
        kernel=profile.kernel,
        launch=launch,
        grid=profile.grid,
        block=profile.block,
        gpu=gpu_of_device(profile.device_name) if profile.device_name else "",
        device_name=profile.device_name,
        sm_clock_mhz=sm_mhz,
        memory_clock_mhz=_mhz(_first(profile.metrics, DRAM_HZ)),
        method="ncu",
        cycles=_exactly(cycles),
        time_us=_exactly(None if time_ns is None else time_ns / 1e3),
        samples_us=() if time_ns is None else (time_ns / 1e3,),
        counters={name: value for name, value in profile.metrics.items() if _METRIC_MARK in name},
        source=source,
    )


def _first(metrics: Mapping[str, float], names: tuple[str, ...]) -> float | None:
    return next((metrics[name] for name in names if name in metrics), None)


def _mhz(hertz: float | None) -> float | None:
    if hertz is None or not _CLOCK_RANGE_MHZ[0] <= hertz / 1e6 <= _CLOCK_RANGE_MHZ[1]:
        return None
    return hertz / 1e6


def _exactly(value: float | None) -> Estimate | None:
    return None if value is None or value < 0 else Estimate(value, value, value)
