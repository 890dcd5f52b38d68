"""A launch of the suite as it was measured: whole, behind what ran before it, at the clock that its loop leaves.

Mental model: captured without data where its kernel's path does not depend on any, as ``simulate --sample`` does. What
runs in turn with it is not simulated but projected, and only for its power. Two lesser depths of a product do not stand
for the whole: 4096 x 4096 x 7168 comes out at 179 us from 1,024 and 2,048 along k, where it takes 158.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import gpusim
from gpusim.cases.suite import capture_case, make_case
from gpusim.energy.operator import work_of
from gpusim.energy.shared_clock import Work
from gpusim.engine.result import Result
from gpusim.gpus.clock import at_clock
from gpusim.gpus.spec import GpuSpec
from gpusim.launch.memory import DeviceMemory
from gpusim.report.power import within_power
from gpusim.tile.operators import GemmOp, MemoryOp, project_gemm_op, project_memory_op
from gpusim.tile.projection import Projection
from gpusim.trace.record import Trace
from workloads.external.fp8_loop import Elementwise, Product
from workloads.external.launches import SuiteLaunch, Timed


def run_suite_launch(launch: SuiteLaunch, spec: GpuSpec) -> tuple[Trace, Result, str]:
    """The launch's trace, its result alone, and what stands for what at which clock, in words."""
    memory = DeviceMemory()
    case = make_case(launch.name, launch.shape(spec.sm_count), spec)
    before = [] if launch.before is None else [captured_before(launch.before(case), spec, memory)]
    trace = capture_case(case, spec, memory, sample=True)[0].trace

    def simulated(at: GpuSpec) -> Result:
        return _last(gpusim.simulate([*before, trace], at, code=trace, sample=True))

    if not launch.around:
        return trace, simulated(spec), "the whole launch"
    held = within_power(simulated, spec, beside=work_around(spec, launch.around))
    clock = f"at {held.result.clock_hz / 1e6:.0f} MHz, its loop at {held.watts:.0f} W"
    return trace, held.result, f"the whole launch, {clock}"


def captured_before(timed: Timed, spec: GpuSpec, memory: DeviceMemory) -> Trace:
    """What runs in front of a launch, on its device's memory."""
    return gpusim.capture(timed.kernel, timed.grid, timed.block, timed.arguments(None), gpu=spec, memory=memory)


def work_around(spec: GpuSpec, operators: Sequence[Product | Elementwise]) -> list[Work]:
    """Kernels of libraries that share a launch's clock: projected (:mod:`gpusim.tile`), not simulated, at a given
    clock, since the limit acts on the whole loop."""
    return [_work(spec, operator) for operator in operators]


def _work(spec: GpuSpec, operator: Product | Elementwise) -> Work:
    def projection(share: float) -> Projection:
        at = at_clock(spec, share * spec.clock_hz)
        if isinstance(operator, Product):
            op = GemmOp(operator.rows, operator.columns, operator.depth, "bf16")
            return project_gemm_op(at, op, math.inf)
        return project_memory_op(at, MemoryOp("copy", operator.read_bytes, operator.written_bytes), math.inf)

    return work_of(spec, projection(1.0), lambda share: projection(share).seconds)


def _last(result: Result) -> Result:
    last = result.launches[-1]
    return replace(result, cycles=last.cycles, counters=last.counters, stalls=last.stalls, launches=(last,))
