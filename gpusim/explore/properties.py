"""gpusim's own properties that need no file of their own: bounds, estimates, other GPUs, other builds, invariance,
NumPy.

Mental model: each runs a workload once, or twice in two ways, and says by how much that is off; what a property is
stands in :mod:`gpusim.explore.property`. The others are :mod:`gpusim.explore.counts` (``counts``),
:mod:`gpusim.explore.metamorphic` (``metamorphic``), :mod:`gpusim.explore.versions` and
:mod:`gpusim.explore.measured_rows` (``silicon``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gpusim.cases.names import is_reference
from gpusim.cases.run_case import GIVE_A_CHECK, NO_CHECK, run_case, run_made, unchecked_kernels
from gpusim.cases.signature import axes_of_work, parameters_of
from gpusim.cases.suite import find_kernel, make_case
from gpusim.cases.user_kernels import case_function, make_user_case
from gpusim.engine.gpu import simulate
from gpusim.engine.result import Result
from gpusim.errors import UsageError, WrongResultError
from gpusim.explore.cover import Covered, cover, cover_captured, workload_name
from gpusim.explore.own_properties import ANALYTIC, BOUNDS, BUILDS, GPUS, INVARIANCE, NUMPY, OTHER_SET
from gpusim.explore.property import Outcome, Property, share_above
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.theory.bounds import lower_bounds
from gpusim.theory.estimate import estimate
from gpusim.trace.record import Trace


class Bounds(Property):
    """Simulated time against its lower bound (never below) and a ceiling (not absurdly above)."""

    name = "bounds"
    asks = BOUNDS.asks

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
    asks = ANALYTIC.asks
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
            share_above(covered.result.cycles, expected),
            f"{covered.result.cycles} cycles, {expected:.0f} estimated",
            covered.coverage,
        )


class Gpus(Property):
    """Time on one description against time on another."""

    name = "gpus"
    asks = GPUS.asks
    threshold = 0.05
    options = GPUS.options

    def __init__(self, gpu: GpuSpec, other: GpuSpec) -> None:
        self.gpu, self.other = gpu, other

    @classmethod
    def make(cls, gpu: GpuSpec, options: Mapping[str, Any]) -> Gpus:
        settings = OTHER_SET.texts(options)
        if not options.get("other_gpu") and not settings:
            raise UsageError("property gpus compares two descriptions: give --other-gpu NAME or --other-set KEY=VALUE")
        base = load_gpu(options["other_gpu"]) if options.get("other_gpu") else gpu
        return cls(gpu, override_gpu(base, settings))

    def lacks(self, kernel: str) -> str:
        if replace(self.other, name=self.gpu.name, title=self.gpu.title) != self.gpu:
            return ""
        return f"it would compare {self.gpu.name} with itself; give an --other-gpu or --other-set that differs"

    def depends_on(self) -> tuple[Any, ...]:
        return (self.other,)

    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        covered = cover(kernel, shape, self.gpu)
        # The same machine code with the same launch serves both.
        alike = self.other.sm.shared_max_bytes == self.gpu.sm.shared_max_bytes
        if self.other.capability == self.gpu.capability and alike:
            other = simulate(covered.traces, self.other, warm=covered.warm)
        else:
            other = cover(kernel, shape, self.other).result
        return Outcome(
            share_above(other.time_us, covered.result.time_us),
            f"{covered.result.time_us:.3f} us on {self.gpu.name}, {other.time_us:.3f} us on {self.other.name}",
            covered.coverage,
        )


class Builds(Property):
    """Time of one kernel against that of another that should do the same: two builds, or two kernels of a suite.

    ``build_b(kernel, shape)`` gives the case of the other build; it is captured like the first.
    """

    name = "builds"
    asks = BUILDS.asks
    threshold = 0.05
    options = BUILDS.options

    def __init__(
        self, gpu: GpuSpec, build_b: Callable[[str, Mapping[str, Any]], Any], other: str = "", axes: Any = None
    ) -> None:
        self.gpu, self.build_b, self._other, self._axes = gpu, build_b, other, axes

    @classmethod
    def make(cls, gpu: GpuSpec, options: Mapping[str, Any]) -> Builds:
        other = str(options.get("other_kernel") or "")
        if not other:
            raise UsageError(
                "property builds compares two kernels of the same axes: give --other-kernel NAME or FILE.py:FUNCTION"
            )
        if is_reference(other):
            axes = parameters_of(case_function(other))  # refuses a file or function that is not there
            return cls(gpu, lambda _kernel, shape: make_user_case(other, dict(shape)), other, axes)
        axes = find_kernel(other).axes

        def build_b(_kernel: str, shape: Mapping[str, Any]) -> Any:
            return make_case(other, {axis: value for axis, value in shape.items() if axis in axes}, gpu)

        return cls(gpu, build_b, other, axes)

    def lacks(self, kernel: str) -> str:
        if kernel == self._other:
            return "it would be compared with itself; name another --other-kernel"
        sizes = axes_of_work()
        known = sizes if self._axes is None else self._axes
        lacking = [axis for axis in find_kernel(kernel).axes if axis in sizes and axis not in known]
        if not lacking:
            return ""
        return (
            f"kernel {self._other} has no axis {', '.join(lacking)}, which {kernel} has, so they do different work; name an"
            " --other-kernel with the same axes"
        )

    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        covered = cover(kernel, shape, self.gpu)
        timed, warm = split(run_made(self.build_b(kernel, shape), f"the other build of {kernel}", self.gpu).launches)
        other = simulate(timed, self.gpu, warm=warm)
        return Outcome(
            share_above(other.cycles, covered.result.cycles),
            f"{covered.result.cycles} cycles as built, {other.cycles} the other build",
            covered.coverage,
        )


class Invariance(Property):
    """What must not matter: window length, order of SMs, threads. Any difference at all is a divergence."""

    name = "invariance"
    asks = INVARIANCE.asks

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
                off = share_above(other.cycles, covered.result.cycles)
                return Outcome(off or 1e-9, f"{what}: {difference}", covered.coverage)
        return Outcome(0.0, f"{covered.result.cycles} cycles however it is run", covered.coverage)


class Numpy(Property):
    """The emulator's results against NumPy's: wrong or right."""

    name = "numpy"
    asks = NUMPY.asks

    def __init__(self, gpu: GpuSpec) -> None:
        self.gpu = gpu

    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        try:
            ran = run_case(kernel, dict(shape), self.gpu)
        except WrongResultError as error:
            return Outcome(1.0, str(error))
        if not ran.checked:
            raise UsageError(f"property numpy can check nothing on {kernel}: {NO_CHECK}; {GIVE_A_CHECK}")
        name = workload_name(kernel, shape, self.gpu)
        return Outcome(0.0, "NumPy's result", cover_captured(name, ran.launches, self.gpu).coverage)

    def lacks(self, kernel: str) -> str:
        return f"{NO_CHECK}; {GIVE_A_CHECK}" if unchecked_kernels([kernel], self.gpu) else ""


def split(launches: list) -> tuple[tuple[Trace, ...], tuple[Trace, ...]]:
    """(timed traces, preparation) of captured launches."""
    timed = tuple(launch.trace for launch in launches if launch.timed)
    return timed, tuple(launch.trace for launch in launches if not launch.timed)


def _difference(one: Result, other: Result) -> str:
    """What two results say differently, empty if nothing."""
    if one.cycles != other.cycles:
        return f"{one.cycles} and {other.cycles} cycles"
    names = [name for name, value in one.counters.items() if other.counters[name] != value]
    names += [name for name, value in one.stalls.items() if other.stalls[name] != value]
    return f"{names[0]} differs" if names else ""


__all__ = ["Analytic", "Bounds", "Builds", "Covered", "Gpus", "Invariance", "Numpy", "Outcome", "Property", "split"]
