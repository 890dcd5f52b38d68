"""One measured launch: the row that every source of silicon figures becomes.

Mental model: whoever timed a kernel (``gpusim measure``, Nsight Compute, nvbench, a spreadsheet) says the same
few things: what ran (kernel, shape, launch, cubin), where (GPU, driver, clocks), how (method, state of the
caches) and what came out (cycles, time, counters, the raw samples). A row holds them all; what a source does
not know is None or empty, never invented. Rows are what is stored, exported, joined with simulated launches
and judged.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpusim.errors import MeasurementFormatError

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
    outliers included; ``cycles`` and ``time_us`` sum them up. ``samples_mhz``: the SM clock read beside each of them, empty where
    nobody did. ``counters``: Nsight Compute's name -> value.
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
    def from_json(cls, text: str) -> SiliconRow:
        """The row that :meth:`to_json` wrote. Raises MeasurementFormatError for anything else."""
        try:
            return cls.from_mapping(json.loads(text))
        except json.JSONDecodeError as error:
            raise MeasurementFormatError(f"a measurement is not JSON: {error}") from None

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> SiliconRow:
        """The row of parsed JSON. Unknown and ill-typed keys raise MeasurementFormatError by name."""
        if not isinstance(values, Mapping):
            raise MeasurementFormatError(f"a measurement is no JSON object: {values!r:.80}")
        unknown = set(values) - set(_READERS)
        if unknown:
            raise MeasurementFormatError(f"a measurement has unknown keys: {', '.join(sorted(unknown))}")
        read = {}
        for key, value in values.items():
            try:
                read[key] = _READERS[key](value)
            except (TypeError, ValueError, KeyError):
                raise MeasurementFormatError(f"a measurement's {key} cannot be {value!r:.80}") from None
        if "kernel" not in read:
            raise MeasurementFormatError("a measurement names no kernel")
        return cls(**read)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return float(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _maybe(read: Any) -> Any:
    return lambda value: None if value is None else read(value)


def _dimensions(value: Any) -> tuple[int, int, int]:
    x, y, z = value
    return _whole(x), _whole(y), _whole(z)


def _estimate(value: Any) -> Estimate:
    return Estimate(_number(value["median"]), _number(value["low"]), _number(value["high"]))


def _items(read: Any) -> Any:
    def items(value: Any) -> tuple:
        if not isinstance(value, (list, tuple)):
            raise TypeError
        return tuple(read(item) for item in value)

    return items


def _counters(value: Any) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise TypeError
    return {_text(name): _number(number) for name, number in value.items()}


_READERS: dict[str, Any] = {
    **dict.fromkeys(
        ("kernel", "shape", "cubin_hash", "gpu", "device_name", "device_uuid_hash", "driver", "toolchain")
        + ("method", "cache", "date", "source"),
        _text,
    ),
    **dict.fromkeys(("launch", "n"), _whole),
    **dict.fromkeys(("grid", "block"), _maybe(_dimensions)),
    **dict.fromkeys(("sm_clock_mhz", "memory_clock_mhz"), _maybe(_number)),
    **dict.fromkeys(("cycles", "time_us"), _maybe(_estimate)),
    "samples_us": _items(_number),
    "samples_mhz": _items(_number),
    "flags": _items(_text),
    "counters": _counters,
}
