"""A difference in cycles, split over stall reasons, instructions and source lines that add up to it exactly.

Mental model: a launch of ``c`` cycles has ``W`` resident warp-cycles, so ``h = c / W`` is what one warp-cycle costs
in elapsed time: the inverse of the warps in flight. Between two launches

    c' - c  =  (W' - W) * (h + h') / 2   +   (h' - h) * (W + W') / 2

holds exactly. The first term is more (or less) time that warps spent, and splits over reasons and instructions as
the warp-cycles themselves do; the second, ``warps in flight``, is the same warp time with fewer (or more) warps side
by side: occupancy, the tail of the grid, imbalance. It is an attribution, not an experiment: that a reason grew by so
many cycles does not say that removing it would save as many. Terms are whole cycles, rounded so that they still add up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from gpusim.io.source_line import source_text
from gpusim.regress.align import Change, Pair, align
from gpusim.store.launch import Instruction, SimulatedLaunch

IN_FLIGHT = "warps in flight"
#: Stall reason -> the part of the machine that makes a warp wait so.
UNITS = {
    "selected": "instructions issued",
    "not_selected": "issue slots",
    "wait": "fixed latencies",
    "branch_resolving": "branches",
    "no_instruction": "instruction caches",
    "long_scoreboard": "global and local memory: L1, L2, DRAM",
    "short_scoreboard": "shared memory, shuffles, XU and FP64 pipes",
    "imc_miss": "constant cache",
    "barrier": "barriers",
    "membar": "memory fences",
    "math_pipe_throttle": "execution pipes",
    "gmma": "tensor cores",
    "lg_throttle": "memory queue, global and local",
    "mio_throttle": "memory queue, shared",
    "drain": "stores before exit",
    IN_FLIGHT: "occupancy and balance",
}


@dataclass(frozen=True)
class StallTerm:
    """``cycles`` of the difference that go to a reason; ``base`` and ``head`` are its warp-cycles."""

    stall: str
    unit: str
    base: int
    head: int
    cycles: int


@dataclass(frozen=True)
class InstructionTerm:
    """``cycles`` of the difference that go to an instruction, most of it to ``stall``."""

    pair: Pair
    cycles: int
    stall: str


@dataclass(frozen=True)
class LineTerm:
    """``cycles`` of the difference that go to a source line; ``changed``: instructions of it that are not the same;
    ``code``: its text as the launches kept it, of the new build where it has the line, else empty."""

    file: str
    line: int
    cycles: int
    changed: int
    code: str = ""

    @property
    def text(self) -> str:
        """``code``, or what stands at the line now where no launch kept it."""
        return self.code or source_text(self.file, self.line)


@dataclass(frozen=True)
class Attribution:
    """``stalls``, and likewise ``instructions`` plus ``in_flight_cycles``, and ``lines`` plus that, add up to the
    difference. ``instructions`` and ``lines`` are empty where a side does not know its instructions."""

    stalls: tuple[StallTerm, ...]
    in_flight_cycles: int
    instructions: tuple[InstructionTerm, ...]
    lines: tuple[LineTerm, ...]

    @property
    def changed(self) -> tuple[Pair, ...]:
        """The instructions that are not the same in both builds."""
        return tuple(term.pair for term in self.instructions if term.pair.change != Change.SAME)


def attribute(base: SimulatedLaunch, head: SimulatedLaunch) -> Attribution:
    """Split ``head.cycles - base.cycles``; terms by falling size."""
    difference = head.cycles - base.cycles
    if not base.warp_cycles or not head.warp_cycles:
        term = StallTerm(IN_FLIGHT, UNITS[IN_FLIGHT], base.warp_cycles, head.warp_cycles, difference)
        return Attribution((term,), difference, (), ())
    costs = base.cycles / base.warp_cycles, head.cycles / head.warp_cycles
    cost = sum(costs) / 2
    in_flight = round((costs[1] - costs[0]) * (base.warp_cycles + head.warp_cycles) / 2)
    grown = {
        reason: head.stalls.get(reason, 0) - base.stalls.get(reason, 0) for reason in {**base.stalls, **head.stalls}
    }
    shares = apportion({reason: cost * cycles for reason, cycles in grown.items()}, difference - in_flight)
    stalls = [
        StallTerm(reason, UNITS.get(reason, reason), base.stalls.get(reason, 0), head.stalls.get(reason, 0), cycles)
        for reason, cycles in shares.items()
        if cycles or grown[reason]
    ]
    stalls.append(StallTerm(IN_FLIGHT, UNITS[IN_FLIGHT], base.warp_cycles, head.warp_cycles, in_flight))
    stalls.sort(key=lambda term: -abs(term.cycles))
    if not base.instructions or not head.instructions:
        return Attribution(tuple(stalls), in_flight, (), ())
    instructions = _by_instruction(align(base.instructions, head.instructions), cost, difference - in_flight)
    return Attribution(tuple(stalls), in_flight, tuple(instructions), tuple(_by_line(instructions, base, head)))


def apportion(exact: Mapping[Hashable, float], total: int) -> dict:
    """Whole numbers nearest to ``exact`` that add up to ``total`` (largest remainders first)."""
    if not exact:
        return {}
    scale = total - sum(exact.values())  # what rounding elsewhere has left: below one cycle
    moved = {key: value + scale / len(exact) for key, value in exact.items()}
    whole = {key: math.floor(value) for key, value in moved.items()}
    left = total - sum(whole.values())
    for key in sorted(moved, key=lambda key: whole[key] - moved[key])[:left]:
        whole[key] += 1
    return whole


def _by_instruction(pairs: Sequence[Pair], cost: float, total: int) -> list[InstructionTerm]:
    shares = apportion({index: cost * pair.warp_cycles for index, pair in enumerate(pairs)}, total)
    terms = []
    for index, pair in enumerate(pairs):
        stalls = pair.stalls
        sign = 1 if shares[index] >= 0 else -1
        reason = max(stalls, key=lambda reason, stalls=stalls: sign * stalls[reason], default="-")
        terms.append(InstructionTerm(pair, shares[index], reason if stalls.get(reason) else "-"))
    return sorted(terms, key=lambda term: -abs(term.cycles))


def _place(instruction: Instruction) -> tuple[str, int]:
    return (instruction.file if instruction.line else "", instruction.line)


def _by_line(terms: Sequence[InstructionTerm], base: SimulatedLaunch, head: SimulatedLaunch) -> list[LineTerm]:
    """Terms by the line of the new build; removed instructions go by the line that became of theirs, else by their
    own."""
    became: dict[tuple[str, int], Counter] = {}
    for term in terms:
        old, new = term.pair.base, term.pair.head
        if old is not None and new is not None and old.line and new.line:
            became.setdefault(_place(old), Counter())[_place(new)] += 1
    sums: dict[tuple[str, int], list[int]] = {}
    for term in terms:
        instruction = term.pair.head or term.pair.base
        assert instruction is not None
        place = _place(instruction)
        if term.pair.head is None and place in became:
            place = became[place].most_common(1)[0][0]
        entry = sums.setdefault(place, [0, 0])
        entry[0] += term.cycles
        entry[1] += term.pair.change != Change.SAME
    lines = [
        LineTerm(*place, cycles, changed, head.source_line(*place) or base.source_line(*place))
        for place, (cycles, changed) in sums.items()
    ]
    return sorted((line for line in lines if line.cycles or line.changed), key=lambda line: -abs(line.cycles))
