"""Finds the loops in which a warp polls memory: what it reads again and again, and where it decides to go on.

Mental model: a loop polls if nothing but memory can end it. It stores nothing, and the branch that leaves it depends, within
one round, on a load or atomic whose address (and operands) are the same in every round, and on nothing that the loop itself
counts. Such a loop ends when another warp writes, however often it goes round; so a trace says *what was written* and the
simulated machine decides how often. Compilers often test once before the loop: that *early* decision leads to the same place
as the loop's own, and belongs to it.

Loops are looked for in the code matrix, so that all forms of an instruction are one thing here: a backward branch over
at most :data:`LONGEST` instructions with one way out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.number_ranges import LANES_BASE, MEMORY_BASE
from gpusim.trace.record import Space

#: Instructions of the longest loop that is looked at, and before it to look for an early decision.
LONGEST, _EARLIER = 192, 48
_TRUE = (at.TRUE_PREDICATE, at.TRUE_UNIFORM_PREDICATE)
_CLOCKS = (ops.SR_CLOCK, ops.SR_CLOCK_HIGH, ops.SR_CLOCK_64)
#: What a loop may hold beside arithmetic and branches.
_HARMLESS = (
    ops.NOP, ops.CONVERGE_SET, ops.CONVERGE_WAIT, ops.CONVERGE_LEAVE, ops.WARP_WAIT, ops.GIVE_WAY, ops.BRANCH_DIVERGENT,
    ops.BRANCH, ops.CONSTANT_LOAD,
)  # fmt: skip


@dataclass(frozen=True)
class Decision:
    """The branch ``at`` that goes on polling or not, and the load or atomic ``load`` that it depends on. ``stays_taken``: it
    is taken to go on polling. ``of_value_alone``: what was read decides, compared with nothing that differs from waiter to
    waiter (a flag that is set, not a ticket whose turn comes). ``path``: (first, count) of the instructions from it to the next decision, through the load."""

    at: int
    load: int
    loop: int
    stays_taken: bool
    of_value_alone: bool
    path: tuple[tuple[int, int], ...]


def find_decisions(matrix: np.ndarray) -> list[Decision]:
    """The decisions of all polling loops in a code matrix int32[n, COLUMNS] whose offsets are counted in whole rows."""
    code = _Code(matrix)
    found: list[Decision] = []
    for back in range(len(matrix)):
        row = matrix[back]
        if row[at.OP] == ops.BRANCH and 0 <= row[at.TARGET] <= back < row[at.TARGET] + LONGEST:
            found += _loop_decisions(code, int(row[at.TARGET]), back, len(found))
    return found


def _loop_decisions(code: _Code, head: int, back: int, number: int) -> list[Decision]:
    """The decisions of the loop ``head`` to ``back``; none if it does not only poll."""
    inside = range(head, back + 1)
    reads = [i for i in inside if code.op(i) in (ops.LOAD, ops.ATOMIC)]
    if not reads or any(not code.is_harmless(i) for i in inside if i not in reads):
        return []
    leaving = [i for i in inside if code.op(i) == ops.BRANCH and any(s not in inside for s in code.successors(i))]
    if len(leaving) != 1 or not code.is_conditional(leaving[0]):
        return []
    decision = leaving[0]
    awaited = code.awaited(decision, head, back)
    if awaited is None:
        return []
    load, alone = awaited
    stays_taken = code.target(decision) in inside
    found = []
    path = code.path(decision, load, inside, stays_taken)
    if path is None:
        return []
    out = decision + 1 if stays_taken else code.target(decision)
    found.append(Decision(decision, load, number, stays_taken, alone, path))
    for early in range(head - 1, max(-1, head - _EARLIER), -1):
        if code.op(early) == ops.BRANCH and code.is_conditional(early) and code.target(early) == out:
            before = code.awaited(early, max(0, early - _EARLIER), early, straight=True)
            if before is None or not code.same_place(before[0], load):
                continue
            way = code.path(early, load, range(early + 1, back + 1), False, decision)
            if way is not None:
                found.append(Decision(early, before[0], number, False, alone, way))
    return found


class _Code:
    """A code matrix seen as instructions with registers that they read and write; registers are rows, predicates -1 - slot."""

    def __init__(self, matrix: np.ndarray) -> None:
        self._matrix = matrix

    def op(self, i: int) -> int:
        return int(self._matrix[i, at.OP])

    def target(self, i: int) -> int:
        return int(self._matrix[i, at.TARGET])

    def is_conditional(self, i: int) -> bool:
        return any(slot not in _TRUE for slot in self._matrix[i, [at.GUARD, at.P0]].tolist())

    def is_harmless(self, i: int) -> bool:
        op = self.op(i)
        return op >= LANES_BASE or op in _HARMLESS

    def successors(self, i: int) -> list[int]:
        """Where the instruction may lead; a BRA.DIV is taken to fall through."""
        if self.op(i) != ops.BRANCH:
            return [i + 1]
        return [self.target(i), i + 1] if self.is_conditional(i) else [self.target(i)]

    def written(self, i: int) -> set[int]:
        row = self._matrix[i]
        registers = set()
        if row[at.D_WORDS] and row[at.D_OWN]:
            registers = set(range(int(row[at.D_OFFSET]), int(row[at.D_OFFSET] + row[at.D_WORDS])))
        return registers | {
            -1 - int(s) for s in row[[at.Q0, at.Q1]] if s != at.SINK_PREDICATE and row[at.PREDICATES_OUT]
        }

    def _guards(self, i: int) -> set[int]:
        row = self._matrix[i]
        return {-1 - int(s) for s in row[[at.GUARD, at.P0, at.P1, at.P2]] if s not in _TRUE and s < at.SINK_PREDICATE}

    def _operands(self, i: int) -> set[int]:
        row, registers = self._matrix[i], set()
        for column in (at.A, at.B, at.C):
            if row[column + at.SOURCE_OWN]:
                first = int(row[column + at.SOURCE_OFFSET])
                registers |= set(range(first, first + int(row[column + at.SOURCE_WORDS])))
        return registers

    def _address(self, i: int) -> set[int]:
        row, registers = self._matrix[i], set()
        for offset, own, words in (
            (at.BASE_OFFSET, at.BASE_OWN, at.BASE_WORDS),
            (at.UNIFORM_OFFSET, at.UNIFORM_OWN, at.UNIFORM_WORDS),
        ):
            if row[own]:
                registers |= set(range(int(row[offset]), int(row[offset] + max(1, row[words]))))
        return registers

    def same_place(self, one: int, other: int) -> bool:
        """Whether two accesses name the same address in the same way: registers, offset, space, size."""
        columns = [at.OP, at.SPACE, at.BASE_OFFSET, at.BASE_OWN, at.UNIFORM_OFFSET, at.UNIFORM_OWN]
        rows = self._matrix[[one, other]]
        return bool((rows[0, columns] == rows[1, columns]).all())

    def _is_invariant(self, register: int, head: int, back: int, depth: int = 4) -> bool:
        """Whether a register has the same value in every round: nothing writes it, or only from what is the same."""
        for i in range(head, back + 1):
            if register in self.written(i):
                row = self._matrix[i]
                special = row[at.OP] == ops.SPECIAL and row[at.F0] in _CLOCKS
                reads = self._operands(i) | self._guards(i) | self._address(i)
                memory = self.op(i) < LANES_BASE and self.op(i) != ops.CONSTANT_LOAD
                if depth == 0 or special or memory or register in reads:
                    return False
                if not all(self._is_invariant(r, head, back, depth - 1) for r in reads):
                    return False
        return True

    def awaited(self, branch: int, head: int, back: int, straight: bool = False) -> tuple[int, bool] | None:
        """The one load or atomic on which the branch depends within a round of ``head`` to ``back``, if it reads the same
        place in every round and the branch depends on nothing that changes from round to round. And whether it depends on nothing
        else at all. ``straight``: there is no loop, the code before the branch runs once."""
        found: set[int] = set()
        alone = True
        todo, seen = deque((r, branch) for r in self._guards(branch)), set()
        while todo:
            register, before = todo.popleft()
            if (register, before) in seen:
                continue
            seen.add((register, before))
            written = [i for i in range(head, before) if register in self.written(i)]
            if not written:
                alone = False
                if not straight and not self._is_invariant(register, head, back):
                    return None
                continue
            last = written[-1]
            if self.op(last) in (ops.LOAD, ops.ATOMIC):
                found.add(last)
                continue
            row = self._matrix[last]
            if row[at.OP] == ops.SPECIAL and row[at.F0] in _CLOCKS:
                return None
            if row[at.OP] < LANES_BASE and row[at.OP] != ops.CONSTANT_LOAD:
                return None
            todo.extend((r, last) for r in self._operands(last) | self._guards(last))
            if row[at.GUARD] not in _TRUE and len(written) > 1:
                todo.append((register, last))
        if len(found) != 1:
            return None
        load = found.pop()
        fixed = self._address(load) | (self._operands(load) if self.op(load) == ops.ATOMIC else set())
        if not straight and not all(self._is_invariant(r, head, back) for r in fixed):
            return None
        return load, alone

    def path(
        self, decision: int, load: int, inside: range, stays_taken: bool, until: int | None = None
    ) -> tuple[tuple[int, int], ...] | None:
        """The shortest way from a decision that goes on polling through the load to the next decision, as runs."""
        start = self.target(decision) if stays_taken else decision + 1
        until = decision if until is None else until
        there, back = self._shortest(start, load, inside, load), self._shortest(load, until, inside, load)
        if there is None or back is None:
            return None
        steps = [*there, *back[1:]]
        runs: list[tuple[int, int]] = []
        for step in steps:
            if runs and sum(runs[-1]) == step:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((step, 1))
        return tuple(runs) if len(runs) <= at.POLL_RUNS else None

    def _shortest(self, start: int, goal: int, inside: range, load: int) -> list[int] | None:
        before: dict[int, int | None] = {start: None}
        queue = deque([start])
        while queue:
            i = queue.popleft()
            if i == goal:
                return list(_back(before, i))[::-1]
            if i not in inside or (self._matrix[i, at.RECORDS] and i != load):
                continue
            for following in self.successors(i):
                if following in inside and following not in before:
                    before[following] = i
                    queue.append(following)
        return None


def _back(before: dict[int, int | None], i: int | None) -> Iterator[int]:
    while i is not None:
        yield i
        i = before[i]


def poll_columns(matrix: np.ndarray, strong: np.ndarray) -> np.ndarray:
    """Fill the column ORDERED of a code matrix whose offsets are counted in whole rows with what polling asks for; ``strong`` bool[n]: accesses served past the L1. Returns the table of decisions, int32[d, POLL columns]."""
    decisions = find_decisions(matrix)
    table = np.zeros((len(decisions), at.POLL_TABLE.width), np.int32)
    if not decisions:
        return table
    op = matrix[:, at.OP]
    space = matrix[:, at.SPACE]
    loads = np.array(sorted({d.load for d in decisions}))
    shared = np.isin(space[loads], (Space.SHARED, Space.GENERIC)).any()
    beyond = np.isin(space[loads], (Space.GLOBAL, Space.GENERIC)).any()
    here = (space == Space.SHARED) & shared | (space == Space.GLOBAL) & beyond | (space == Space.GENERIC)
    matrix[(op == ops.STORE) & here & ~strong, at.ORDERED] |= at.TRACK_ONE_LANE
    matrix[(op == ops.STORE) & here & strong, at.ORDERED] |= at.TRACK_WRITE
    matrix[(op == ops.ATOMIC) & here, at.ORDERED] |= at.TRACK_WRITE
    matrix[loads, at.ORDERED] |= at.TRACK_POLL | at.ORDER_SHOWS
    values = [load for load in loads if all(d.of_value_alone for d in decisions if d.load == load)]
    matrix[[load for load in values if op[load] == ops.LOAD], at.ORDERED] |= at.TRACK_VALUE
    for number, decision in enumerate(decisions):
        matrix[decision.at, at.ORDERED] |= at.DECIDES | at.ORDER_SHOWS
        row = table[number]
        row[at.POLL_AT] = decision.at
        row[at.POLL_LOOP], row[at.POLL_STAYS], row[at.POLL_COUNT] = (
            decision.loop,
            decision.stays_taken,
            len(decision.path),
        )
        row[at.POLL_PATH : at.POLL_PATH + 2 * len(decision.path)] = np.ravel(decision.path)
    return table


assert MEMORY_BASE < LANES_BASE
