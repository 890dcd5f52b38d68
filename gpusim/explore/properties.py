"""What a search looks for: properties of a workload, each a number that should be zero.

Mental model: a property measures how far a workload is from what should hold, as a signed share (+0.38: 38 % above);
beyond its threshold that is a divergence. Each is a small class with :meth:`Property.measure`; the registry
:data:`PROPERTIES` makes them by name, so that a team can add its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpusim.cases.suite import capture_case, make_case
from gpusim.engine.gpu import simulate
from gpusim.engine.result import Result
from gpusim.errors import ExecutionError, UsageError
from gpusim.explore.coverage import Coverage
from gpusim.explore.measure import Covered, cover
from gpusim.gpus.spec import GpuSpec
from gpusim.theory.bounds import lower_bounds
from gpusim.theory.estimate import estimate
from gpusim.trace.record import Trace


@dataclass(frozen=True)
class Outcome:
    """``divergence``: signed share of what should be zero; ``detail``: the numbers behind it, one line; ``coverage``:
    what the workload exercised, empty where nothing was simulated."""

    divergence: float
    detail: str
    coverage: Coverage = field(default_factory=Coverage)


#: The divergence of a workload that did not run to its end.
DIED = 10.0


class Property(ABC):
    """The base of all properties: ``name``, ``asks``, and the ``threshold`` beyond which a divergence is a finding."""

    name = ""
    asks = ""
    threshold = 0.0

    @abstractmethod
    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        """Run ``kernel`` at ``shape`` (complete). Raises UsageError for a shape that the kernel refuses."""

    def judge(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        """As :meth:`measure`; a workload that cannot be run to its end (a deadlock, an address outside every allocation)
        is a divergence of :data:`DIED` whatever the property asks. Raises UsageError for a shape that is refused."""
        try:
            return self.measure(kernel, shape)
        except ExecutionError as error:
            return Outcome(max(DIED, 2.0 * self.threshold), f"{type(error).__name__}: {error}")

    def shapes(self, kernel: str) -> list[dict[str, Any]] | None:
        """The only shapes of ``kernel`` that can be measured; None when any can."""
        return None

    def fails(self, outcome: Outcome) -> bool:
        """Whether the outcome is a divergence."""
        return abs(outcome.divergence) > self.threshold


class Bounds(Property):
    """Simulated time against its lower bound (never below) and a ceiling (not absurdly above)."""

    name = "bounds"
    asks = "is the time between the speed of light and what the work can explain?"

    def __init__(self, gpu: GpuSpec) -> None:
        self.gpu = gpu

    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        covered = cover(kernel, shape, self.gpu)
        worst, detail = 0.0, ""
        cold = not covered.warm
        for index, (trace, launch) in enumerate(zip(covered.traces, covered.result.launches, strict=True)):
            least = lower_bounds(trace, self.gpu, cold=cold and index == 0).least_cycles
            ceiling = estimate(trace, self.gpu).ceiling
            off = min(0.0, launch.cycles / least - 1) if least else 0.0
            off = off or max(0.0, launch.cycles / ceiling - 1)
            if abs(off) >= abs(worst):
                worst = off
                detail = f"{launch.kernel}: {launch.cycles} cycles between {least:.0f} and {ceiling:.0f}"
        return Outcome(worst, detail, covered.coverage)


class Analytic(Property):
    """Simulated time against an analytical estimate: off by a factor is worth a look, whichever is wrong."""

    name = "analytic"
    asks = "is the time within a factor of an estimate from work and latencies?"
    threshold = 1.5

    def __init__(self, gpu: GpuSpec) -> None:
        self.gpu = gpu

    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        covered = cover(kernel, shape, self.gpu)
        cold = not covered.warm
        expected = sum(
            estimate(trace, self.gpu, cold=cold and index == 0).expected for index, trace in enumerate(covered.traces)
        )
        return Outcome(
            _off(covered.result.cycles, expected),
            f"{covered.result.cycles} cycles, {expected:.0f} estimated",
            covered.coverage,
        )


class Gpus(Property):
    """Time on one description against time on another."""

    name = "gpus"
    asks = "does the launch take as long on another GPU's description?"
    threshold = 0.05

    def __init__(self, gpu: GpuSpec, other: GpuSpec) -> None:
        self.gpu, self.other = gpu, other

    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        covered = cover(kernel, shape, self.gpu)
        # The same machine code with the same launch serves both.
        alike = self.other.sm.shared_max_bytes == self.gpu.sm.shared_max_bytes
        if self.other.capability == self.gpu.capability and alike:
            other = simulate(covered.traces, self.other, warm=covered.warm)
        else:
            other = cover(kernel, shape, self.other).result
        return Outcome(
            _off(other.time_us, covered.result.time_us),
            f"{covered.result.time_us:.3f} us on {self.gpu.name}, {other.time_us:.3f} us on {self.other.name}",
            covered.coverage,
        )


class Builds(Property):
    """Time of one kernel against that of another that should do the same: two builds, or two kernels of a suite.

    ``build_b(kernel, shape)`` gives the case of the other build; it is captured like the first.
    """

    name = "builds"
    asks = "is the other build as fast?"
    threshold = 0.05

    def __init__(self, gpu: GpuSpec, build_b: Callable[[str, Mapping[str, Any]], Any]) -> None:
        self.gpu, self.build_b = gpu, build_b

    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        covered = cover(kernel, shape, self.gpu)
        timed, warm = split(capture_case(self.build_b(kernel, shape), self.gpu))
        other = simulate(timed, self.gpu, warm=warm)
        return Outcome(
            _off(other.cycles, covered.result.cycles),
            f"{covered.result.cycles} cycles as built, {other.cycles} the other build",
            covered.coverage,
        )


class Invariance(Property):
    """What must not matter: window length, order of SMs, threads. Any difference at all is a divergence."""

    name = "invariance"
    asks = "is the result the same whatever the window, order and threads?"

    def __init__(self, gpu: GpuSpec) -> None:
        self.gpu = gpu

    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        covered = cover(kernel, shape, self.gpu, threads=1)
        varied = {
            "shorter windows": {"window_cycles": 5, "threads": 1},
            "another order": {"order_seed": 7, "threads": 1},
            "two threads": {"threads": 2},
        }
        for what, how in varied.items():
            other = simulate(covered.traces, self.gpu, warm=covered.warm, **how)
            difference = _difference(covered.result, other)
            if difference:
                off = _off(other.cycles, covered.result.cycles)
                return Outcome(off or 1e-9, f"{what}: {difference}", covered.coverage)
        return Outcome(0.0, f"{covered.result.cycles} cycles however it is run", covered.coverage)


class Numpy(Property):
    """The emulator's results against NumPy's: wrong or right."""

    name = "numpy"
    asks = "do the arrays hold NumPy's result?"

    def __init__(self, gpu: GpuSpec) -> None:
        self.gpu = gpu

    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        case = make_case(kernel, dict(shape), self.gpu)
        capture_case(case, self.gpu)
        try:
            case.check()
        except AssertionError as error:
            return Outcome(1.0, " ".join(str(error).split())[:200])
        return Outcome(0.0, "NumPy's result")


def split(launches: list) -> tuple[tuple[Trace, ...], tuple[Trace, ...]]:
    """(timed traces, preparation) of captured launches."""
    timed = tuple(launch.trace for launch in launches if launch.timed)
    return timed, tuple(launch.trace for launch in launches if not launch.timed)


def _off(value: float, reference: float) -> float:
    """Signed share by which ``value`` is above ``reference``."""
    if reference <= 0:
        raise UsageError("a launch of no cycles cannot be compared")
    return value / reference - 1.0


def _difference(one: Result, other: Result) -> str:
    """What two results say differently, empty if nothing."""
    if one.cycles != other.cycles:
        return f"{one.cycles} and {other.cycles} cycles"
    names = [name for name, value in one.counters.items() if other.counters[name] != value]
    names += [name for name, value in one.stalls.items() if other.stalls[name] != value]
    return f"{names[0]} differs" if names else ""


__all__ = ["Analytic", "Bounds", "Builds", "Covered", "Gpus", "Invariance", "Numpy", "Outcome", "Property", "split"]
