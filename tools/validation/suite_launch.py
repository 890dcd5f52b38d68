"""A launch of the suite as it was measured: behind what ran before it, at the clock that its loop leaves, deep ones by two lesser depths.

Mental model: captured without data where its kernel's path does not depend on any, as ``simulate --sample`` does. Where the busiest SM takes hundreds of steps along the common dimension, all
blocks run to two lesser depths, at which each has as many tiles as at the full one; cycles and counts are linear in the depth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

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
from workloads.external.families import SuiteLaunch, Timed
from workloads.external.fp8_loop import Elementwise, Product

#: The two depths, and the steps of an SM from which on they stand for the whole: a guess at what is worth it.
SHORT, LONG, MOST_STEPS = 1024, 2048, 300


def run_suite_launch(launch: SuiteLaunch, spec: GpuSpec) -> tuple[Trace, Result, str]:
    """The launch's trace, its result alone, and what stands for what at which clock, in words."""
    cut = launch.depth > LONG and launch.steps_per_sm(spec.sm_count) > MOST_STEPS
    captured = [_captured(launch, spec, {"k": depth} if cut else {}) for depth in ((SHORT, LONG) if cut else (0,))]

    def simulated(at: GpuSpec) -> Result:
        runs = [_last(gpusim.simulate(traces, at, code=traces[-1], sample=True)) for traces in captured]
        return extrapolated(runs[0], runs[1], (launch.depth - LONG) / (LONG - SHORT)) if cut else runs[0]

    part = f"all blocks, depths {SHORT} and {LONG} of {launch.depth}" if cut else "the whole launch"
    if not launch.around:
        return captured[-1][-1], simulated(spec), part
    held = within_power(simulated, spec, beside=work_around(spec, launch.around))
    clock = f"at {held.result.clock_hz / 1e6:.0f} MHz, its loop at {held.watts:.0f} W"
    return captured[-1][-1], held.result, f"{part}, {clock}"


def _captured(launch: SuiteLaunch, spec: GpuSpec, changed: dict[str, int]) -> list[Trace]:
    """What runs in front of the launch, if anything, and the launch, on one device's memory."""
    memory = DeviceMemory()
    case = make_case(launch.name, launch.shape(spec.sm_count) | changed, spec)
    before = [] if launch.before is None else [captured_before(launch.before(case), spec, memory)]
    return [*before, capture_case(case, spec, memory, sample=True)[0].trace]


def captured_before(timed: Timed, spec: GpuSpec, memory: DeviceMemory) -> Trace:
    """What runs in front of a launch, on its device's memory."""
    return gpusim.capture(timed.kernel, timed.grid, timed.block, timed.arguments(None), gpu=spec, memory=memory)


def work_around(spec: GpuSpec, operators: Sequence[Product | Elementwise]) -> list[Work]:
    """Kernels of libraries that share a launch's clock: projected (:mod:`gpusim.tile`), not simulated, at a given clock, since the limit acts on the whole loop."""
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


def extrapolated(short: Result, long: Result, further: float) -> Result:
    """A launch as it would be ``further`` times the difference between two runs of it beyond the longer one: its cycles, and all that was counted, are linear in the depth."""

    def line(first: Any, second: Any) -> Any:
        return second + further * (second - first)

    def lines(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
        return {name: line(first[name], second[name]) for name in second}

    a, b = short.launches[-1], long.launches[-1]
    cycles = round(line(a.cycles, b.cycles))
    last = replace(
        b, cycles=cycles, counters=lines(a.counters, b.counters), stalls=lines(a.stalls, b.stalls), sampling=None,
        work_by_instruction=line(a.work_by_instruction, b.work_by_instruction),
        stalls_by_instruction=line(a.stalls_by_instruction, b.stalls_by_instruction),
    )  # fmt: skip
    return replace(long, cycles=cycles, counters=last.counters, stalls=last.stalls, launches=(last,))
