"""measure_cases(): requests in, measured rows out.

Mental model: a measurement is a list of requests (kernel and shape), a GPU, and a budget. The cases are brought onto
the GPU some at a time, so that a long list needs bounded device memory and its rows come out as it goes; each is first
run once and compared with NumPy, and one that computes wrongly gets a row that says so and no time. The budget is
shared out over what is left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusim.cases.run_case import NO_CHECK
from gpusim.cases.suite import complete_shape, shape_text
from gpusim.errors import LaunchError, SiliconError
from gpusim.frontend.toolchain_versions import toolchain
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.measure.builds import Builder, Compiler
from gpusim.measure.driver import DeviceFacts, Driver
from gpusim.measure.helpers import Helpers
from gpusim.measure.passes import COLD, CUPTI, EVENTS, WARM
from gpusim.measure.precision import Precision
from gpusim.measure.rounds import deadline, measure_rounds, wrong_row
from gpusim.measure.workload import CheckFailed, DeviceWorkload, make_workload
from gpusim.silicon.names import gpu_of_device
from gpusim.silicon.row import SiliconRow

#: Cases on the GPU at a time.
GROUP = 8
AUTO = "auto"


@dataclass(frozen=True)
class MeasureRequest:
    """A kernel of the suite and the axes that are to differ from its default (or small) shape."""

    name: str
    shape: dict[str, Any] = field(default_factory=dict)
    small: bool = False


@dataclass(frozen=True)
class MeasureOptions:
    """``budget_seconds`` for everything; ``caches`` of COLD, WARM; ``precision`` at which a case is done; ``seed`` of
    the order of visits; ``gpu``: the description whose machine axes are used, by default that of the GPU found;
    ``builder``: where the machine code comes from. ``method``: CUPTI, EVENTS, or AUTO, which is CUPTI's records where
    they can be had."""

    budget_seconds: float = 60.0
    caches: tuple[str, ...] = (COLD, WARM)
    precision: Precision = field(default_factory=Precision)
    seed: int = 0
    gpu: str = ""
    builder: Builder = field(default_factory=Compiler)
    method: str = EVENTS


def described(facts: DeviceFacts, gpu: str) -> GpuSpec | None:
    """The description to take machine axes from: ``gpu``, or that of the GPU at hand, or None if there is none.
    Raises LaunchError for a description of another architecture."""
    name = gpu or gpu_of_device(facts.name)
    if not name:
        return None
    spec = load_gpu(name)
    if tuple(spec.capability) != tuple(facts.capability):
        have, want = (".".join(map(str, c)) for c in (facts.capability, spec.capability))
        raise LaunchError(f"{facts.name} has compute capability {have}, {spec.name} is {want}: give another --gpu")
    return spec


def measure_cases(
    driver: Driver,
    requests: Sequence[MeasureRequest],
    options: MeasureOptions = MeasureOptions(),
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[SiliconRow]:
    """Rows of times, each as soon as it is known, by CUPTI's records or CUDA events as ``options.method`` says.

    Raises what building a case raises (before any is timed, within its group of GROUP), and SiliconError where the GPU
    refuses."""
    if not requests:
        raise SiliconError("nothing to measure: name a kernel of `gpusim kernels list`")
    facts, tools = driver.facts(), options.builder.toolchain() or toolchain()
    spec = described(facts, options.gpu)
    for request in requests:  # a wrong name or axis shows before anything runs
        complete_shape(request.name, request.shape, spec, small=request.small)
    method = _begin(driver, options.method, say)
    try:
        yield from _measure(driver, requests, options, facts, spec, tools, method, say)
    finally:
        if method == CUPTI:
            driver.trace(False)


def _begin(driver: Driver, wanted: str, say: Callable[[str], None]) -> str:
    """The method that times are taken by; kernels are being traced if it is CUPTI."""
    if wanted == EVENTS:
        return EVENTS
    problem = driver.trace(True)
    if not problem:
        return CUPTI
    if wanted == CUPTI:
        raise SiliconError(f"kernels cannot be traced: {problem}; CUDA events need nothing of it (--method events)")
    say(f"times by CUDA events, for kernels cannot be traced: {problem}")
    return EVENTS


def _measure(
    driver: Driver,
    requests: Sequence[MeasureRequest],
    options: MeasureOptions,
    facts: DeviceFacts,
    spec: GpuSpec | None,
    tools: str,
    method: str,
    say: Callable[[str], None],
) -> Iterator[SiliconRow]:
    helpers = Helpers(driver, facts, options.builder.build)
    end = deadline(driver, options.budget_seconds)
    for start in range(0, len(requests), GROUP):
        group = requests[start : start + GROUP]
        now = driver.now_seconds()
        if now > end:
            say(f"the budget is spent: {len(requests) - start} of {len(requests)} cases are not measured")
            return
        loaded: list[DeviceWorkload] = []
        try:
            for request in group:
                found = load_case(driver, facts, request, spec, tools, options.builder)
                if isinstance(found, SiliconRow):
                    say(f"{request.name}: {found.source}")
                    yield found
                else:
                    loaded.append(found)
                    if found.case.check is None:
                        say(f"not checked: {found.name} ({NO_CHECK})")
            if loaded:
                yield from measure_rounds(
                    driver,
                    helpers,
                    facts,
                    loaded,
                    options.caches,
                    until_seconds=now + (end - now) * len(group) / (len(requests) - start),
                    precision=options.precision,
                    seed=options.seed,
                    toolchain=tools,
                    method=method,
                    say=say,
                )
        finally:
            for workload in loaded:
                workload.free()


def load_case(
    driver: Driver, facts: DeviceFacts, request: MeasureRequest, spec: GpuSpec | None, tools: str, builder: Builder
) -> DeviceWorkload | SiliconRow:
    """The request on the GPU, run once and found right; or the row that says that it computes wrongly."""
    try:
        return make_workload(driver, facts, request.name, request.shape, spec, request.small, builder)
    except CheckFailed as error:
        shape = shape_text(complete_shape(request.name, request.shape, spec, small=request.small))
        return wrong_row(facts, request.name, shape, f"the result differs from NumPy's: {error}", tools)
