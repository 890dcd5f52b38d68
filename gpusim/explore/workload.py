"""Property tests on cycles in a kernel team's own repository: a decorator that draws shapes and runs each.

Mental model: ``@gpusim.workload(kernel)`` turns a function of one :class:`WorkloadRun` into a Hypothesis test; each
example is a shape of the kernel, captured and simulated when the test first asks for a figure. Shapes that the kernel
refuses are drawn again. The profile ``ci`` draws the same few examples every time, ``nightly`` many and new ones.

@gpusim.workload("saxpy", gpu="h200") def test_saxpy_stays_near_its_bound(run): assert run.cycles < 4000 + 3 *
run.least_cycles
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

from gpusim.cases.case_forms import NotACaseError
from gpusim.cases.names import is_reference
from gpusim.cases.native_names import is_native
from gpusim.cases.requests import parse_request
from gpusim.cases.run_case import GIVE_A_CHECK, NO_CHECK, check_result, may_check, run_made
from gpusim.cases.suite import MACHINE_AXES, CaseTrace, complete_shape, find_kernel, shape_text
from gpusim.cases.user_entries import UserEntry, function_entry
from gpusim.cases.user_kernels import case_function
from gpusim.engine.gpu import simulate
from gpusim.engine.result import Result
from gpusim.errors import LaunchError, UsageError
from gpusim.explore.coverage import Coverage
from gpusim.explore.observe import observe
from gpusim.frontend.registry import is_kernel
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.io.sibling import load_sibling
from gpusim.theory.bounds import lower_bounds

_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
#: Not the phase that explains: it names lines of gpusim, and the shape says more.
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink)
#: Examples as Hypothesis settings; a test's own ``max_examples`` comes on top.
PROFILES = {
    "ci": settings(
        max_examples=20, derandomize=True, database=None, phases=_PHASES, deadline=None, suppress_health_check=_QUIET
    ),
    "nightly": settings(max_examples=500, phases=_PHASES, deadline=None, suppress_health_check=_QUIET),
}


class Defaults:
    """What a session has chosen (the pytest plugin sets it): GPU, profile, and the coverage of all runs so far."""

    gpu = "h200"
    profile = "ci"
    coverage = Coverage()


class WorkloadRun:
    """One shape of a kernel on one GPU. Figures are computed when first asked for, and once.

    ``shape``: axis -> value; ``case``: what the kernel's ``make`` returned; ``gpu``: the description;
    ``reference``: by which the command line knows the kernel, empty if it does not.
    """

    def __init__(self, name: str, shape: Mapping[str, Any], case: Any, gpu: GpuSpec, reference: str = "") -> None:
        self.name, self.shape, self.case, self.gpu = name, dict(shape), case, gpu
        self.reference = reference

    @functools.cached_property
    def launches(self) -> list[CaseTrace]:
        """All launches, captured in order; the case's arrays then hold the kernel's results, which its check has found
        right. Raises WrongResultError (an AssertionError) where that finds them wrong."""
        return run_made(self.case, str(self), self.gpu).launches

    @functools.cached_property
    def result(self) -> Result:
        """The timed launches on ``gpu``, after the preparation has warmed the caches."""
        found = self.on(self.gpu)
        traces = [launch.trace for launch in self.launches if launch.timed]
        seen = (
            Coverage.of(observe(trace, launch, self.gpu), str(self))
            for trace, launch in zip(traces, found.launches, strict=True)
        )
        Defaults.coverage = Defaults.coverage.merge(*seen)
        return found

    def on(self, gpu: str | GpuSpec) -> Result:
        """The same launches on another description of the same architecture."""
        timed = [launch.trace for launch in self.launches if launch.timed]
        return simulate(timed, gpu, warm=tuple(launch.trace for launch in self.launches if not launch.timed))

    @property
    def cycles(self) -> int:
        """SM cycles of the timed launches."""
        return self.result.cycles

    @property
    def time_us(self) -> float:
        """Their time in microseconds."""
        return self.result.time_us

    @property
    def counters(self) -> dict[str, float]:
        """Counters by Nsight Compute's names."""
        return self.result.counters

    @functools.cached_property
    def least_cycles(self) -> float:
        """The highest lower bound of each timed launch, summed."""
        cold = all(launch.timed for launch in self.launches)
        timed = [launch.trace for launch in self.launches if launch.timed]
        return sum(lower_bounds(t, self.gpu, cold=cold and i == 0).least_cycles for i, t in enumerate(timed))

    def check(self) -> None:
        """AssertionError unless the arrays hold what the case's own check expects (NumPy's result), which any figure
        asks for as well. Raises UsageError for a case that has none."""
        _ = self.launches
        if not check_result(self.case, str(self), self.gpu):
            raise UsageError(f"{self.name} cannot be checked: {NO_CHECK}; {GIVE_A_CHECK}")

    def failure_note(self) -> str:
        """What is known of the run so far, for whoever reads a failed test; simulates nothing."""
        lines = [str(self) if may_check(self.case) else f"{self} (not checked: {NO_CHECK})"]
        if "result" in self.__dict__:
            found = self.result
            total = max(1, sum(found.stalls.values()))
            waits = sorted(((c, n) for n, c in found.stalls.items() if n != "selected"), reverse=True)[:2]
            most = ", ".join(f"{name} {100 * cycles / total:.0f} %" for cycles, name in waits)
            lines.append(
                f"{found.cycles} cycles ({found.time_us:.4g} us), at least {self.least_cycles:.0f}; "
                f"of their time resident warps wait for {most}"
            )
        if self.reference:
            gpu = self.gpu.name.replace("[", " --set ").replace("]", "")
            lines.append(f"look closer: gpusim simulate {self.reference}:{shape_text(self.shape)} --gpu {gpu} --why")
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"{self.name}:{shape_text(self.shape)} @ {self.gpu.name}"

    __repr__ = __str__


def workload(
    kernel: str | Any,
    *,
    gpu: str | GpuSpec | None = None,
    axes: Mapping[str, Sequence[Any]] | None = None,
    small: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
    growth: float = 16.0,
    max_examples: int | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a test of a function of one :class:`WorkloadRun` (and any pytest fixtures after it).

    ``kernel``: a name of the suite or ``FILE.py:FUNCTION``, each also with axes that keep a value behind it as on a
    command line (``saxpy:block_threads=128``), a case function (or class) in any form that
    :mod:`gpusim.cases.case_forms` takes, or an object with ``name``, ``axes``, ``small`` and ``make`` as the suite's
    entries have. A function's axes are its parameters (:mod:`gpusim.cases.signature`), unless ``axes`` (axis -> values
    worth trying) names them; ``small``: the simplest value of all axes or of some. ``fixed``: axes that keep a value;
    ``growth``: most work as a multiple of the small shape's; ``max_examples``: of this test, whatever the profile says
    (Hypothesis takes no ``@settings`` beside). A function refuses a shape by ValueError. Raises UsageError for a kernel
    that is none of these.
    """
    if isinstance(kernel, str) and not is_native(kernel):
        kernel, said = parse_request(kernel)
        if said:
            whole = complete_shape(kernel, said)
            fixed = {axis: whole[axis] for axis in said} | dict(fixed or {})
    entry = _entry(kernel, axes, small)
    name, known, simplest = entry.name, entry.axes, entry.small
    reference = _reference(kernel)
    load_sibling("workloads", "the workloads")
    shapes = importlib.import_module("gpusim.workloads.strategies").shapes

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        spec = gpu if isinstance(gpu, GpuSpec) else load_gpu(gpu or Defaults.gpu)
        machine = {axis: read(spec) for axis, read in MACHINE_AXES.items() if axis in known}
        unknown = [axis for axis in fixed or {} if axis not in known]
        if unknown:
            raise UsageError(f"workload({name}): fixed names {unknown[0]!r}, which is no axis of {', '.join(known)}")
        bounds = getattr(entry, "bounds", {})
        drawn = shapes(known, simplest, growth=growth, fixed={**machine, **(fixed or {})}, bounds=bounds)

        def run_of(shape: dict[str, Any]) -> WorkloadRun:
            try:
                made = entry.make(**shape)
            except NotACaseError:
                raise
            except (ValueError, UsageError, LaunchError):
                return reject()
            return WorkloadRun(name, shape, made, spec, reference)

        example = st.builds(run_of, drawn)
        # By name: what stands to the right of the run are pytest's fixtures.
        names = [name for name in inspect.signature(test).parameters if name != "self"]
        first = names[0] if names else None
        if first is None:
            raise UsageError(f"{test.__name__} must take the run as its first parameter")

        @functools.wraps(test)
        def told(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True  # pytest shows the test, not this
            try:
                test(*args, **kwargs)
            except AssertionError as error:
                error.add_note(kwargs[first].failure_note())
                raise

        # Hypothesis shows what it wraps as the place of a failure: that is the test.
        code = getattr(test, "__code__", None)
        if code is not None:
            place = {"co_filename": code.co_filename, "co_firstlineno": code.co_firstlineno}
            setattr(told, "__code__", getattr(told, "__code__").replace(**place))  # noqa: B009, B010 - wraps() hides it
        profile = PROFILES[Defaults.profile]
        chosen = profile if max_examples is None else settings(profile, max_examples=max_examples)
        return chosen(given(**{first: example})(told))

    return decorate


def _reference(kernel: Any) -> str:
    """What the command line calls ``kernel``: a name of the suite, or a function of a file of the user's."""
    if isinstance(kernel, str):
        return kernel
    if not inspect.isfunction(kernel) or kernel.__qualname__ != kernel.__name__:
        return ""
    source = inspect.getsourcefile(kernel)
    return f"{os.path.relpath(source)}:{kernel.__name__}" if source else ""


def _entry(kernel: str | Any, axes: Mapping[str, Sequence[Any]] | None, small: Mapping[str, Any] | None) -> Any:
    """The entry of ``kernel``, with the axes and the small shape that were given in place of its own."""
    if isinstance(kernel, str) and is_reference(kernel):
        return function_entry(kernel, case_function(kernel), axes, small)
    entry = find_kernel(kernel) if isinstance(kernel, str) else kernel
    if all(hasattr(entry, name) for name in ("name", "axes", "small", "make")):
        given = {axis: tuple(values) for axis, values in (axes or entry.axes).items()}
        bounds = getattr(entry, "bounds", {})
        return UserEntry(entry.name, "", given, {}, dict(small or entry.small), entry.make, bounds)
    name = getattr(entry, "__name__", "workload")
    if is_kernel(entry):
        raise UsageError(
            f"workload({name}): it is a kernel, whose arguments are not known: give a function that makes them and returns"
            f" ({name}, grid, block, (its arguments...), check)"
        )
    if name.startswith("test") and not isinstance(entry, type):
        raise UsageError(
            f"workload({name}): it is a test in the place of a kernel: write @gpusim.workload(KERNEL), with a kernel of the suite or a"
            f" case function, above def {name}(run)"
        )
    if callable(entry):
        return function_entry(name, entry, axes, small)
    raise UsageError(
        f"workload({kernel!r}): give a kernel of the suite, FILE.py:FUNCTION, a case function, or an entry as the suite's"
    )
