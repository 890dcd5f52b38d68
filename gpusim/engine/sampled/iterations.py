"""Leaving iterations of a loop out of every block: what an iteration costs in the steady state, times the iterations
left out.

Mental model: all blocks of a launch make the same loop of N iterations, and N is large. A few waves are simulated with
a few iterations each (:mod:`gpusim.engine.sampled.plan`), once, and what an iteration costs is read while all warps of
a wave are in their loops (:mod:`gpusim.engine.sampled.loop_watch`), where nothing of the ramp and of the ends gets into
it. With n[i] iterations of part i and c[i] cycles each,

    cycles = simulated cycles + sum over parts of (N - n[i]) c[i] + waves left out x (N c[1] + what a wave takes beside
    its loop)

and what is said of counters in :mod:`gpusim.engine.sampled.extrapolated`.

Claimed error (95 %), of the cycles left out: how much iterations differ from each other and drift, how much the waves
differ where they should not, and :data:`SEAM_SHARE` for what so few iterations do not show; of what a wave costs beside
its loop :data:`OUTSIDE_SHARE`, since blocks that have drifted apart hide some of it behind each other's loops; and
where nobody knows what stays in L2, or how much of the blocks left over is hidden, half the difference.

A loop that writes fills the L2 with lines that have to be written back for each new one; few iterations would not show
it. So it is simulated once more in an L2 full of such lines, and the launch takes a mean of both, by the share of it in
which the L2 is full.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpusim.engine.device import Device
from gpusim.engine.graph import gpu_graph
from gpusim.engine.launch import Observation
from gpusim.engine.machine import Machine
from gpusim.engine.result import LaunchResult
from gpusim.engine.sampled.cycles import costs_of, whole_cycles
from gpusim.engine.sampled.extrapolated import extrapolated, with_tables
from gpusim.engine.sampled.loop_watch import LoopWatch, writes_in_loop
from gpusim.engine.sampled.plan import IterationPlan
from gpusim.engine.sampling import LEAST_SHARE, Reading, Sampling
from gpusim.io.progress import task
from gpusim.model.stall_reasons import SELECTED
from gpusim.trace.record import Trace

#: Least share that lines written have among the lines that a loop brings into L2, for what they cost to be simulated.
LEAST_WRITTEN = 0.05
#: How much of the L2 is filled with them: all, whatever the replacement keeps.
_FILLED = 1.5
#: Of the difference between an L2 that is full and one that is not, what is claimed: when it is full is known roughly.
FULL_SHARE = 0.25


def leave_out_iterations(plan: IterationPlan, machine: Machine, warmed: bool) -> LaunchResult:
    """The launch of ``plan``, simulated in part on a machine like ``machine``. ``warmed``: something ran there
    before."""
    found, rate = _sampled(plan, machine, warmed, 0.0)
    allocated = sum(size for _, size in plan.trace.launch.allocations)
    filling = min(1.0, plan.spec.l2.total_bytes / max(1, allocated))
    written = _written(rate, plan.spec.l2.sector_bytes) if rate is not None and writes_in_loop(plan) else 0.0
    if filling == 1.0 or written < LEAST_WRITTEN:
        return found
    full, _ = _sampled(plan, machine, warmed, written)
    return _mixed(plan, found, full, filling)


def _sampled(
    plan: IterationPlan, machine: Machine, warmed: bool, written: float
) -> tuple[LaunchResult, Reading | None]:
    """The launch from one simulation of the parts, with an L2 of which a share is ``written``, and what an iteration of
    the first wave adds."""
    watches = [LoopWatch(each) for each in ([plan, plan.rest_alone()] if plan.rest else [plan])]
    traces = [watch.plan.part() for watch in watches]
    weights = [trace.warp_instructions for trace in traces]
    what = f"sampling {plan.trace.launch.kernel}, {plan.parts[0].iterations} of {plan.iterations} iterations"
    results = []
    with task(what, len(traces), "parts", weights=weights) as shown:
        for trace, watch in zip(traces, watches, strict=True):
            results.append(_simulated(plan, trace, watch, machine, warmed, written))
            shown.to(len(results))
    part, watch = results[0], watches[0]
    costs = costs_of(plan, watches, part)
    found = whole_cycles(plan, costs, part)
    full = watches[:1] * (len(plan.parts) - bool(plan.rest))
    every = enumerate(zip([*full, *watches[1:]], costs.of, strict=True))
    rates = [each.rates(cost, min(i, len(each.plan.parts) - 1)) for i, (each, cost) in every]
    known = [(cost.error, i) for i, cost in enumerate(costs.of[: len(full)]) if cost]
    result = extrapolated(plan, watch, part, rates, min(known)[1] if known else 0, round(found.cycles))
    total = int(result.stalls_by_instruction[:, SELECTED].sum())
    sampling = Sampling(
        skipped_blocks=plan.left_out * plan.wave,
        simulated_percent=min(100.0, 100.0 * int(part.stalls_by_instruction[:, SELECTED].sum()) / total),
        steady_waves=len(full),
        error_cycles=float(max(found.error, LEAST_SHARE * found.cycles)),
        skipped_iterations=plan.least_skipped,
        iterations=plan.iterations,
    )
    return replace(result, sampling=sampling), rates[0]


def _simulated(
    plan: IterationPlan, trace: Trace, watch: LoopWatch, machine: Machine, warmed: bool, written: float
) -> LaunchResult:
    with Machine(gpu_graph(plan.spec), len(machine.devices[0].groups)) as alone:
        device: Device = alone.devices[0]
        if written:
            device.fill_data(_FILLED, written)
        elif plan.stays == 1 and warmed:
            device.warm([trace], trace)
        elif plan.stays == 1 and watch.plan is not plan:
            device.warm([plan.in_front_of_rest()], trace)
        return alone.launch(trace, wanted=Observation(watch=watch))


def _written(rate: Reading, sector_bytes: int) -> float:
    """Share of lines written among the lines that an iteration brings into L2."""
    wrote, read = rate.memory["lts__t_sectors_op_write.sum"], rate.memory["dram__bytes_read.sum"] / sector_bytes
    return wrote / (wrote + read) if wrote > 0 else 0.0


def _mixed(plan: IterationPlan, found: LaunchResult, full: LaunchResult, filling: float) -> LaunchResult:
    """The launch of which a share is ``found`` while the L2 fills, and the rest as it is ``full``."""

    def mean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.rint(filling * a + (1 - filling) * b).astype(np.int64)

    assert found.sampling is not None and full.sampling is not None
    error = filling * found.sampling.error_cycles + (1 - filling) * full.sampling.error_cycles
    error += FULL_SHARE * abs(full.cycles - found.cycles)
    sampling = replace(
        found.sampling, error_cycles=error, simulated_percent=min(100.0, 2 * found.sampling.simulated_percent)
    )
    counters = {name: filling * value + (1 - filling) * full.counters[name] for name, value in found.counters.items()}
    whole = {name: round(value) if isinstance(found.counters[name], int) else value for name, value in counters.items()}
    stalls = mean(found.stalls_by_instruction, full.stalls_by_instruction)
    work = mean(found.work_by_instruction, full.work_by_instruction)
    cycles = round(filling * found.cycles + (1 - filling) * full.cycles)
    return replace(with_tables(plan, found, cycles, stalls, work, whole), sampling=sampling)
