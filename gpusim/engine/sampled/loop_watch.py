"""How far the loops of a simulated launch are, and what an iteration of them costs while all warps are in it.

Mental model: instructions in front of the loop, in it and behind it are known, and how often each issues is counted
anyway. At every window boundary three sums are noted. Between the moment when all warps of a wave have entered the loop
and the moment when the first has left it, nothing is done but iterations: the *stretch* from which a cost is read, one
iteration (or walk from line to line) at a time, at equal phase. The counters are read once an iteration, so each can be
asked what an iteration adds to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gpusim.engine.sampled.plan import IterationPlan
from gpusim.engine.sampling import BATCHES, STUDENT, Reading
from gpusim.trace.record import MemoryKind, Space
from gpusim.trace.regular import BlockClass
from gpusim.trace.template import Path, path_runs

#: Shares of a wave's warps that may be outside its loop at an end of the stretch, smallest first; a larger one is taken
#: where too little is left, and where it makes the cost surer.
_OUTSIDE = (0.02, 0.1, 0.3)
#: Steps from line to line that a stretch should have.
_ENOUGH_STEPS = 3
#: Relative error of a cost that was read from one step alone, and the least of one from fewer than enough, which may be
#: alike by chance.
_ONE_STEP, _FEW_STEPS = 0.1, 0.03


@dataclass(frozen=True)
class LoopCost:
    """``cycles`` of an iteration, its relative half-width (95 %) with what it drifts by, over ``steps`` steps;
    ``first`` and ``last`` name the counters' readings at both ends."""

    cycles: float
    error: float
    steps: int
    first: int
    last: int


def in_block(each: BlockClass, instructions: int) -> np.ndarray:
    """How often each instruction issues in a block of a class in front of the loop, in one iteration and behind it,
    int64[3, instructions]."""
    template = each.template
    found = np.zeros((3, instructions + 1), np.int64)
    for path, warps in zip(template.paths, np.bincount(template.path, minlength=len(template.paths)), strict=True):
        runs = path_runs(path, 1)
        parts = (runs[: path.begin], runs[path.begin : path.end], runs[path.end :])
        for number, part in enumerate(parts):
            first = part["first"].astype(np.int64)
            np.add.at(found[number], first, warps)
            np.add.at(found[number], first + part["count"], -warps)
    return np.cumsum(found, axis=1)[:, :-1]


def writes_in_loop(plan: IterationPlan) -> bool:
    """Whether the loop of a launch writes to global memory."""
    regular, instructions = plan.trace.regular, plan.trace.program.instructions
    assert regular is not None
    body = np.any([in_block(each, len(instructions))[1] for each in regular.classes], axis=0)
    kinds = (MemoryKind.STORE, MemoryKind.ATOMIC, MemoryKind.REDUCTION)
    writes = np.isin(instructions["memory_kind"], kinds) & np.isin(instructions["space"], (Space.GLOBAL, Space.GENERIC))
    return bool((body.astype(bool) & writes).any())


class LoopWatch:
    """Told at every window boundary of a simulation of ``plan``'s parts: ``watch(cycle, executions, read)``, the latter
    two to be called for how often each instruction has issued, int64[instructions], and for all counters."""

    def __init__(self, plan: IterationPlan) -> None:
        regular, size = plan.trace.regular, len(plan.trace.program.instructions)
        assert regular is not None
        self.plan = plan
        classes = np.array([in_block(each, size) for each in regular.classes])
        front, body, behind = (classes.max(axis=0)[i] > 0 for i in range(3))
        alone = (front & ~body & ~behind, behind & ~body & ~front)
        edges = [
            _edge([each for one in regular.classes for each in one.template.paths], *of)
            for of in zip(alone, (-1, 1), strict=True)
        ]
        self._sets = np.stack((edges[0], body, edges[1])).astype(np.int64)
        of_class = np.einsum("cpi,si->csp", classes, self._sets)
        parts = [
            np.bincount(regular.class_of(np.arange(p.first, p.first + p.blocks)), minlength=len(classes))
            for p in plan.parts
        ]
        #: Of each part: executions of what is last in front of all loops, of one iteration, and of what is first behind
        #: all loops.
        self.entering, self.iterating, self.leaving = np.array(
            [[blocks @ of_class[:, s, p] for p, s in ((0, 0), (1, 1), (2, 2))] for blocks in parts]
        ).T
        self._left = np.cumsum(self.leaving)
        self._series: list[tuple[int, int, int, int]] = []
        self.readings: list[Reading] = []
        self._marks: list[int] = []
        self._next = 0
        #: Of each part: the reading taken when all its warps had left their loops.
        self.ends: list[int] = []

    def __call__(self, cycle: int, executions: Callable[[], np.ndarray], read: Callable[[int], Reading]) -> None:
        entered, body, left = (self._sets @ executions()).tolist()
        self._series.append((cycle, entered, body, left))
        ended = len(self.ends)
        while ended < len(self._left) and left >= self._left[ended]:
            ended += 1
        if body >= self._next or ended > len(self.ends):
            self.ends += [len(self.readings)] * (ended - len(self.ends))
            self.readings.append(read(cycle))
            self._marks.append(body)
            self._next = body + int(self.iterating[min(ended, len(self._left) - 1)])

    def cost(self, part: int) -> LoopCost | None:
        """What an iteration of all blocks of a part costs; None where they were never in their loops together."""
        best = None
        for outside in _OUTSIDE:
            found = self._stretch(part, outside)
            if found is not None and (best is None or found.error < best.error):
                best = found
            if best is not None and best.steps >= _ENOUGH_STEPS:
                break
        return best

    def _stretch(self, part: int, outside: float) -> LoopCost | None:
        cycle, entered, body, left = np.array(self._series, np.int64).T
        before = int(self._left[part] - self.leaving[part])
        inside = entered >= self.entering[: part + 1].sum() - outside * self.entering[part]
        inside &= (left <= before + outside * self.leaving[part]) & (left >= before - outside * self.leaving[part])
        at = np.flatnonzero(inside)
        if len(at) < 3 or not self.iterating[part]:
            return None
        done, first = np.unique(body[at[0] : at[-1] + 1] / self.iterating[part], return_index=True)
        when = cycle[at[0] : at[-1] + 1][first]
        whole = self.plan.whole
        begin = done[0] + 1.0  # the pipelines fill
        steps = int((done[-1] - begin) / whole)
        if steps < 1:
            return None
        each = whole if steps >= _ENOUGH_STEPS else 1  # of a few walks the iterations show how unlike they are
        marks = np.interp(begin + np.arange(0, steps * whole + 1, each), done, when)
        costs = np.diff(marks) / each
        span = np.array([begin, done[-1]]) * self.iterating[part]
        readings = np.flatnonzero((np.array(self._marks) >= span[0]) & (np.array(self._marks) <= span[1]))
        if len(readings) < 2:
            return None
        return LoopCost(
            float(costs.mean()),
            max(_scatter(costs), _FEW_STEPS * (steps < _ENOUGH_STEPS)) + (outside - _OUTSIDE[0]) / 2,
            steps,
            int(readings[0]),
            int(readings[-1]),
        )

    def second_wave(self) -> tuple[Reading, float]:
        """What was counted while the second wave left its loops, from the end of the first one's to that of its own, in
        float64, and how many iterations all blocks made meanwhile, in iterations of a block."""
        first, last = self.ends[:2]
        done = (self._marks[last] - self._marks[first]) / float(self.iterating[1]) * self.plan.parts[1].blocks
        return less(self.readings[last], self.readings[first], 1.0), done

    def rates(self, cost: LoopCost | None, part: int) -> Reading | None:
        """What an iteration of a block of a part adds to each counter, in the stretch of ``cost``; all numbers are
        float64."""
        if cost is None:
            return None
        first, last = self.readings[cost.first], self.readings[cost.last]
        iterations = (self._marks[cost.last] - self._marks[cost.first]) / float(self.iterating[part])
        return less(last, first, 1.0 / (iterations * self.plan.parts[part].blocks))


def less(last: Reading, first: Reading, times: float) -> Reading:
    """``times`` what was counted between two readings, in float64."""
    memory = {name: times * (value - first.memory[name]) for name, value in last.memory.items()}
    stalls, work = times * (last.stalls - first.stalls), times * (last.work - first.work)
    totals = times * (last.totals - first.totals)
    return Reading(last.cycle - first.cycle, last.issued - first.issued, 0.0, stalls, work, totals, memory)


def _edge(paths: Sequence[Path], alone: np.ndarray, step: int) -> np.ndarray:
    """The instructions of each path that are next to its loop, in front of it (``step`` -1) or behind it (1), of those
    that are ``alone`` there."""
    found = np.zeros_like(alone)
    for path in paths:
        runs = path.runs[: path.begin][::-1] if step < 0 else path.runs[path.end :]
        for run in runs:
            inside = np.flatnonzero(alone[run["first"] : run["first"] + run["count"]])
            if len(inside):
                found[run["first"] + inside[0 if step > 0 else -1]] = True
                break
    return found


def _scatter(costs: np.ndarray) -> float:
    """Relative half-width of the mean of ``costs`` and how much it drifts, together."""
    steps = len(costs)
    if steps == 1:
        return _ONE_STEP
    half = steps // 2
    drift = abs(costs[-half:].mean() - costs[:half].mean()) / 2
    if steps < 4:
        # Costs are differences of marks: what one mark is off by, one step has more and the next one less, and the mean
        # hardly any.
        return float((costs.max() - costs.min()) / 2 / (steps - 1) / costs.mean())
    batches = min(steps, BATCHES)
    means = np.array([each.mean() for each in np.array_split(costs, batches)])
    half_width = STUDENT[batches - 2] * float(np.std(means, ddof=1)) / math.sqrt(batches)
    return float(math.hypot(half_width, drift) / costs.mean())
