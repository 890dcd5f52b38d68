"""Cycles of a launch of which waves and iterations were left out, and their error.

Mental model: each part of the simulation has a cost of an iteration (:mod:`gpusim.engine.sampled.loop_watch`), or takes
that of the waves like it. The simulated cycles and the costs of all that was left out are the launch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpusim.engine.result import LaunchResult
from gpusim.engine.sampled.loop_watch import LoopCost, LoopWatch
from gpusim.engine.sampled.plan import IterationPlan

#: Share of the iterations left out that is claimed as error whatever was seen: warps and SMs drift apart over more
#: iterations than are simulated. Fitted, with a margin, to ``tools/sgemm_ladder.py --full``.
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


@dataclass(frozen=True)
class Costs:
    """Cycles of an iteration, with relative error, of each part and of the waves left out; ``of``: what was read."""

    of: list[LoopCost | None]
    cycles: list[float]
    errors: list[float]
    between: float
    between_error: float


def costs_of(plan: IterationPlan, watches: Sequence[LoopWatch], part: LaunchResult) -> Costs:
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
    return Costs(read, every, errors, between, between_error)


def _between(stays: float, first: LoopCost, second: LoopCost) -> tuple[float, float]:
    """Cycles of an iteration, and their relative error, of the waves between the first one and the last. Where no wave
    finds anything in L2 (``stays`` 0) the first two measure the same thing: what they differ by within their own errors
    is that of the less sure one."""
    errors = [max(0.001, each.error) * each.cycles for each in (first, second)]
    unlike = abs(first.cycles - second.cycles)
    weight = errors[1] ** 2 / (errors[0] ** 2 + errors[1] ** 2)  # of the first one: less where its error is larger
    both = weight * first.cycles + (1 - weight) * second.cycles
    if unlike <= max(errors):
        of_both = errors[0] * errors[1] / math.hypot(*errors)
        return both, max(of_both if stays == 0 else unlike, min(errors)) / both
    if stays == 1:
        return second.cycles, second.error  # the first wave found nothing, the others do
    middle = (first.cycles + second.cycles) / 2
    return middle, (max(errors) + unlike / 2) / middle


def whole_cycles(plan: IterationPlan, costs: Costs, result: LaunchResult) -> Extrapolated:
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


def _beside_the_loop(plan: IterationPlan, costs: Costs, result: LaunchResult) -> float:
    """Cycles that a wave takes beside its loop: of the second one from the start of its blocks to that of those behind
    it, of one or two waves to their ends."""
    number = min(1, plan.waves - 1)
    part, begin = plan.parts[number], sum(part.blocks for part in plan.parts[:number])
    behind = begin + part.blocks
    start, end = result.block_times[begin:behind, :2].mean(axis=0)
    if plan.waves > 2:
        end = result.block_times[behind : behind + plan.wave, 0].mean()
    return float(end - start - part.iterations * costs.cycles[number])
