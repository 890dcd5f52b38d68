"""Leaving iterations of a loop out of every block: what an iteration costs in the steady state, times the iterations left out.

Mental model: all blocks of a launch make the same loop of N iterations, and N is large. A few waves are simulated with a few iterations each
(:mod:`gpusim.engine.sampled.plan`), once, and what an iteration costs is read while all warps of a wave are in their loops
(:mod:`gpusim.engine.sampled.loop_watch`), where nothing of the ramp and of the ends gets into it. With n[i] iterations of part i and c[i] cycles each,

    cycles = simulated cycles + sum over parts of (N - n[i]) c[i] + waves left out x (N c[1] + what a wave takes beside its loop)

and what is said of counters in :mod:`gpusim.engine.sampled.extrapolated`.

Claimed error (95 %), of the cycles left out: how much iterations differ from each other and drift, how much the waves differ where they should not, and
:data:`SEAM_SHARE` for what so few iterations do not show; of what a wave costs beside its loop :data:`OUTSIDE_SHARE`, since blocks that have
drifted apart hide some of it behind each other's loops; and where nobody knows what stays in L2, or how much of the blocks left over is hidden, half the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpusim.engine.graph import gpu_graph
from gpusim.engine.launch import Observation
from gpusim.engine.machine import Machine
from gpusim.engine.result import LaunchResult
from gpusim.engine.sampled.extrapolated import extrapolated
from gpusim.engine.sampled.loop_watch import LoopCost, LoopWatch
from gpusim.engine.sampled.plan import IterationPlan
from gpusim.engine.sampling import LEAST_SHARE, Sampling
from gpusim.io.progress import task
from gpusim.model.stall_reasons import SELECTED
from gpusim.trace.record import Trace

#: Share of the iterations left out that is claimed as error whatever was seen: warps and SMs drift apart over more iterations than are
#: simulated. Fitted, with a margin, to ``tools/sgemm_ladder.py --full``.
SEAM_SHARE = 0.03
#: Share of what waves cost beside their loops that is claimed.
OUTSIDE_SHARE = 0.25
#: Relative error of a cost that could not be read.
UNREAD_SHARE = 0.2


@dataclass(frozen=True)
class Extrapolated:
    """``cycles`` of the whole launch and their 95 % half-width ``error``."""

    cycles: float
    error: float


def leave_out_iterations(plan: IterationPlan, machine: Machine, warmed: bool) -> LaunchResult:
    """The launch of ``plan``, simulated in part on a machine like ``machine``. ``warmed``: something ran there before."""
    watches = [LoopWatch(each) for each in ([plan, plan.rest_alone()] if plan.rest else [plan])]
    traces = [watch.plan.part() for watch in watches]
    weights = [trace.warp_instructions for trace in traces]
    what = f"sampling {plan.trace.launch.kernel}, {plan.parts[0].iterations} of {plan.iterations} iterations"
    results = []
    with task(what, len(traces), "parts", weights=weights) as shown:
        for trace, watch in zip(traces, watches, strict=True):
            results.append(_simulated(plan, trace, watch, machine, warmed))
            shown.to(len(results))
    part, watch = results[0], watches[0]
    costs = _costs(plan, watches, part)
    found = _cycles(plan, costs, part)
    full = watches[:1] * (len(plan.parts) - bool(plan.rest))
    rates = [
        each.rates(cost, min(i, len(each.plan.parts) - 1))
        for i, (each, cost) in enumerate(zip([*full, *watches[1:]], costs.of, strict=True))
    ]
    surest = (
        min((cost.error, i) for i, cost in enumerate(costs.of[: len(full)]) if cost)[1]
        if any(costs.of[: len(full)])
        else 0
    )
    result = extrapolated(plan, watch, part, rates, surest, round(found.cycles))
    total = int(result.stalls_by_instruction[:, SELECTED].sum())
    sampling = Sampling(
        skipped_blocks=plan.left_out * plan.wave,
        simulated_percent=min(100.0, 100.0 * int(part.stalls_by_instruction[:, SELECTED].sum()) / total),
        steady_waves=len(plan.parts) - bool(plan.rest),
        error_cycles=float(max(found.error, LEAST_SHARE * found.cycles)),
        skipped_iterations=plan.least_skipped,
        iterations=plan.iterations,
    )
    return replace(result, sampling=sampling)


def _simulated(plan: IterationPlan, trace: Trace, watch: LoopWatch, machine: Machine, warmed: bool) -> LaunchResult:
    with Machine(gpu_graph(plan.spec), len(machine.devices[0].groups)) as alone:
        if warmed and plan.stays == 1:
            alone.devices[0].warm([trace], trace)
        return alone.launch(trace, wanted=Observation(watch=watch))


@dataclass(frozen=True)
class _Costs:
    """Cycles of an iteration, with relative error, of each part and of the waves left out; ``of``: what was read."""

    of: list[LoopCost | None]
    cycles: list[float]
    errors: list[float]
    between: float
    between_error: float


def _costs(plan: IterationPlan, watches: Sequence[LoopWatch], part: LaunchResult) -> _Costs:
    read = [watches[0].cost(i) for i in range(len(plan.parts) - bool(plan.rest))]
    read += [watch.cost(0) for watch in watches[1:]]
    first = read[0]
    if first is None:
        begin = plan.parts[0]
        cycles, error = float(part.block_times[: begin.blocks, 1].mean()) / begin.iterations, UNREAD_SHARE
    else:
        cycles, error = first.cycles, first.error
    between, between_error = cycles, error
    second = read[1] if plan.waves > 1 else None
    if second is not None:
        between, between_error = _between(
            plan.stays, LoopCost(cycles, error, 1, 0, 0) if first is None else first, second
        )
    every, errors = [cycles], [error]
    for _ in plan.parts[1 : len(plan.parts) - bool(plan.rest)]:
        every.append(between)
        errors.append(between_error)
    if plan.rest:
        rest = read[-1]
        least = between * plan.rest / plan.wave
        every.append(rest.cycles if rest else (least + between) / 2)
        errors.append(rest.error if rest else (between - least) / (between + least))
    return _Costs(read, every, errors, between, between_error)


def _between(stays: float, first: LoopCost, second: LoopCost) -> tuple[float, float]:
    """Cycles of an iteration, and their relative error, of the waves between the first one and the last."""
    errors = [max(0.001, each.error) * each.cycles for each in (first, second)]
    unlike = abs(first.cycles - second.cycles)
    weight = errors[1] ** 2 / (errors[0] ** 2 + errors[1] ** 2)  # of the first one: less where its error is larger
    both = weight * first.cycles + (1 - weight) * second.cycles
    if unlike <= max(errors):
        return both, max(unlike / 2, errors[0] * errors[1] / max(errors)) / both
    if stays == 1:
        return second.cycles, second.error  # the first wave found nothing, the others do
    middle = (first.cycles + second.cycles) / 2
    return middle, (max(errors) + unlike / 2) / middle


def _cycles(plan: IterationPlan, costs: _Costs, result: LaunchResult) -> Extrapolated:
    """Cycles of the launch with all its waves and iterations."""
    cycles, error, loops = float(result.cycles), 0.0, 0.0
    for part, cost, wrong in zip(plan.parts, costs.cycles, costs.errors, strict=True):
        more = (plan.iterations - part.iterations) * cost
        cycles += more
        loops += more
        error += wrong * more
    outside = max(0.0, _beside_the_loop(plan, costs, result))
    more = plan.left_out * plan.iterations * costs.between
    cycles += more + plan.left_out * outside
    error += costs.between_error * more + OUTSIDE_SHARE * plan.waves * outside + SEAM_SHARE * (loops + more)
    return Extrapolated(cycles, error)


def _beside_the_loop(plan: IterationPlan, costs: _Costs, result: LaunchResult) -> float:
    """Cycles that a wave takes beside its loop: of the second one from the start of its blocks to that of those behind it, of one or two waves
    to their ends."""
    number = min(1, plan.waves - 1)
    part, begin = plan.parts[number], sum(part.blocks for part in plan.parts[:number])
    behind = begin + part.blocks
    start, end = result.block_times[begin:behind, :2].mean(axis=0)
    if plan.waves > 2:
        end = result.block_times[behind : behind + plan.wave, 0].mean()
    return float(end - start - part.iterations * costs.cycles[number])
