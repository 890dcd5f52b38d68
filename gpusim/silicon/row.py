"""One measured launch: the row that every source of silicon figures becomes.

Mental model: whoever timed a kernel (``gpusim measure``, Nsight Compute, nvbench, an autotuner, a spreadsheet) says the
same few things: what ran (kernel, shape, launch, cubin), where (GPU, driver, clocks), how (method, state of the caches)
and what came out (cycles, time, counters, the raw samples). A row holds them all; what a source does not know is None
or empty, never invented. Rows are what is stored, exported, joined with simulated launches and judged.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpusim.errors import MeasurementFormatError
from gpusim.io.records import as_record, read_json

#: How a duration came about: profiler counters, CUPTI activity records, CUDA events, or another's figure.
METHODS = ("ncu", "cupti", "events", "imported", "simulated")
#: State of L2 before each timed launch.
CACHE_STATES = ("cold", "warm", "")
#: A row of more samples than this is refused: no measurement needs them, a damaged file may claim them.
MAX_SAMPLES = 1_000_000


@dataclass(frozen=True)
class Estimate:
    """A median with its confidence interval, all in one unit: ``low <= median <= high``."""

    median: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not all(math.isfinite(v) and v >= 0 for v in (self.low, self.median, self.high)):
            raise MeasurementFormatError(f"an estimate must be finite and not negative: {self}")
        if not self.low <= self.median <= self.high:
            raise MeasurementFormatError(f"an estimate's interval must hold its median: {self}")


@dataclass(frozen=True)
class SiliconRow:
    """A launch as measured. Times in microseconds, clocks in MHz, cycles of the SM clock.

    ``kernel``: the suite's name where it is one, else the profiler's. ``shape``: the axes as ``m=64,n=128`` in the
    suite's order, empty where unknown. ``launch``: index among the launches of that kernel and shape. ``gpu``: the
    name of gpusim's description, empty where none fits. ``samples_us``: every repeat in order of measurement,
    outliers included; ``cycles`` and ``time_us`` sum them up. ``samples_mhz``: the SM clock read beside each of them,
    empty where nobody did. ``counters``: Nsight Compute's name -> value.
    ``flags``: what was noticed (``throttled``, ``clock_drift``, ``budget_ended``, ``wrong_result`` ...).
    ``source``: the file or program that it comes from. Raises MeasurementFormatError for values that cannot be.
    """

    kernel: str
    shape: str = ""
    launch: int = 0
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    cubin_hash: str = ""
    gpu: str = ""
    device_name: str = ""
    device_uuid_hash: str = ""
    driver: str = ""
    toolchain: str = ""
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    method: str = "imported"
    cache: str = ""
    n: int = 1
    cycles: Estimate | None = None
    time_us: Estimate | None = None
    samples_us: tuple[float, ...] = ()
    samples_mhz: tuple[float, ...] = ()
    counters: Mapping[str, float] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    date: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        where = f"measurement of {self.kernel!r}"
        if not self.kernel:
            raise MeasurementFormatError("a measurement names no kernel")
        if self.method not in METHODS:
            raise MeasurementFormatError(f"{where}: method {self.method!r} is none of {', '.join(METHODS)}")
        if self.cache not in CACHE_STATES:
            raise MeasurementFormatError(f"{where}: cache {self.cache!r} is neither cold nor warm")
        if self.n < 1 or self.launch < 0 or len(self.samples_us) > MAX_SAMPLES:
            raise MeasurementFormatError(
                f"{where}: n={self.n}, launch={self.launch}, {len(self.samples_us)} samples are out of range"
            )
        if self.samples_mhz and len(self.samples_mhz) != len(self.samples_us):
            raise MeasurementFormatError(
                f"{where}: {len(self.samples_mhz)} clocks beside {len(self.samples_us)} samples: give one a sample, or none"
            )
        if not all(mhz > 0 for mhz in self.samples_mhz):
            raise MeasurementFormatError(f"{where}: a clock of a sample is not positive")
        numbers = [*self.samples_us, *self.samples_mhz, *self.counters.values()]
        numbers += [v for v in (self.sm_clock_mhz, self.memory_clock_mhz) if v is not None]
        if not all(math.isfinite(v) for v in numbers):
            raise MeasurementFormatError(f"{where}: a sample, clock or counter is not a finite number")

    def to_json(self) -> str:
        """One line of JSON with every field, keys in the order of the fields."""
        return json.dumps(dataclasses.asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> SiliconRow:
        """The row that :meth:`to_json` wrote. Raises MeasurementFormatError for anything else."""
        try:
            values = read_json(text)
        except ValueError as error:
            raise MeasurementFormatError(f"a measurement is not JSON: {error}") from None
        return cls.from_mapping(values)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> SiliconRow:
        """The row of parsed JSON. Unknown and ill-typed keys raise MeasurementFormatError by name."""
        return as_record(cls, values, "a measurement", MeasurementFormatError, closed=True)
