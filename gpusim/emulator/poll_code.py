"""A kernel's code as who looks for polling loops sees it: what reads and writes which register, and what a branch depends on.

Mental model: rows of the code matrix are instructions, registers are rows of the register file, predicates numbers below
zero. All forms of an instruction are one thing here, whatever its mnemonic.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np

from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.number_ranges import LANES_BASE, MEMORY_BASE

_TRUE = (at.TRUE_PREDICATE, at.TRUE_UNIFORM_PREDICATE)
#: What a loop may hold beside arithmetic and branches.
_HARMLESS = (
    ops.NOP, ops.CONVERGE_SET, ops.CONVERGE_READ, ops.CONVERGE_WAIT, ops.CONVERGE_LEAVE, ops.WARP_WAIT, ops.GIVE_WAY, ops.BRANCH_DIVERGENT,
    ops.BRANCH, ops.CONSTANT_LOAD,
)  # fmt: skip

#: What decides nothing and reads nothing that a round computes: BSSY, and BMOV, with which sm_75 begins each.
_DECIDES_NOTHING = (ops.NOP, ops.CONVERGE_SET, ops.CONVERGE_READ)


class Code:
    """A code matrix seen as instructions with registers that they read and write; registers are rows, predicates -1 - slot."""

    def __init__(self, matrix: np.ndarray) -> None:
        self._matrix = matrix
        jumps = np.isin(matrix[:, at.OP], (ops.BRANCH, ops.BRANCH_DIVERGENT, ops.CONVERGE_SET))
        self._targets = set(matrix[jumps, at.TARGET].tolist())
        self._ops: list[int] = matrix[:, at.OP].tolist()
        # Asked again for each register and branch of each loop.
        self.written = functools.cache(functools.partial(_written, matrix))
        self._guards = functools.cache(functools.partial(_guards, matrix))
        self._operands = functools.cache(functools.partial(_operands, matrix))

    def op(self, i: int) -> int:
        return self._ops[i]

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

    def leads_to(self, head: int, back: int) -> bool:
        """Whether whoever comes to ``head`` may come to ``back`` behind it by what lies between: it is not only behind them, as code is
        to which lanes that are not together go and come back from."""
        if self._ended[back] == self._ended[head]:  # nothing that leads away for certain
            return True
        todo, seen = [head], {head}
        while todo:
            i = todo.pop()
            if i == back:
                return True
            if self.op(i) == ops.EXIT and not self.is_conditional(i):
                continue
            new = {s for s in self.successors(i) if head <= s <= back} - seen
            todo += new
            seen |= new
        return False

    @functools.cached_property
    def _ended(self) -> list[int]:
        """How many instructions before each lead away for certain."""
        row = self._matrix
        always = np.isin(row[:, [at.GUARD, at.P0]], _TRUE).all(axis=1) & np.isin(row[:, at.OP], (ops.BRANCH, ops.EXIT))
        return np.concatenate(([0], np.cumsum(always))).tolist()

    def end(self, head: int, back: int) -> int:
        """The last instruction of a loop whose branch to its ``head`` is ``back``: behind it may stand another that leads into its midst,
        as sm_75 has it for lanes that join the others at the end of a round."""
        while back + 1 < len(self._ops) and self._leads(back + 1, head, back):
            back += 1
        return back

    def _leads(self, i: int, head: int, back: int) -> bool:
        return self.op(i) == ops.BRANCH and not self.is_conditional(i) and head <= self.target(i) <= back

    def core(self, inside: range, heads: Iterable[int]) -> set[int]:
        """The instructions of a loop from which it may go on to another round; others lie in its midst but lead out."""
        before: dict[int, list[int]] = {}
        for i in inside:
            if self.op(i) != ops.EXIT or self.is_conditional(i):
                for following in self.successors(i):
                    before.setdefault(following, []).append(i)
        core, todo = set(), list(heads)
        while todo:
            for i in before.get(todo.pop(), ()):
                if i not in core:
                    core.add(i)
                    todo.append(i)
        return core

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
                reads = self._operands(i) | self._guards(i) | self._address(i)
                memory = self.op(i) < LANES_BASE and self.op(i) != ops.CONSTANT_LOAD
                if depth == 0 or self._varies(i) or memory or register in reads:
                    return False
                if not all(self._is_invariant(r, head, back, depth - 1) for r in reads):
                    return False
        return True

    def _varies(self, i: int) -> bool:
        """Whether the instruction reads what is another thing each time: a clock, which lanes are there."""
        return self.op(i) == ops.SPECIAL and self._matrix[i, at.F0] in (*ops.CLOCKS, ops.SR_ACTIVE_MASK)

    def reads_same_place(self, load: int, head: int, back: int) -> bool:
        """Whether a load of the loop ``head`` to ``back`` reads the same address in every round."""
        return all(self._is_same(r, load, head, back) for r in self._address(load))

    def _is_same(self, register: int, before: int, head: int, back: int, depth: int = 4) -> bool:
        """Whether a register has the same value at an instruction of the loop in every round: it is invariant, or the round
        gives it that value anew, from what is the same, before it is used for something else."""
        if self._is_invariant(register, head, back):
            return True
        here = self._definition(register, before, head)
        if here is None or depth == 0 or self.op(here) < LANES_BASE or self._varies(here):
            return False
        return all(self._is_same(r, here, head, back, depth - 1) for r in self._operands(here) | self._guards(here))

    def may_see_others(self, inside: range, strong: np.ndarray) -> bool:
        """Whether there is an access in the code that could see what another block writes: past the L1 (``strong``), or an atomic."""
        return any(strong[i] or self._ops[i] == ops.ATOMIC for i in inside if self._ops[i] in (ops.LOAD, ops.ATOMIC))

    def _is_constant(self, register: int, before: int, head: int) -> bool:
        """Whether what last writes a register in the code before an instruction of the loop gives it a constant."""
        for i in range(before - 1, head - 1, -1):
            if register in self.written(i):
                reads = self._operands(i) | self._guards(i) | self._address(i)
                return self.op(i) >= LANES_BASE and self.op(i) != ops.SPECIAL and not reads
        return False

    def _values_behind(self, branch: int, head: int) -> Iterator[tuple[int, list[int], deque[tuple[int, int]]]]:
        """What the branch depends on within a round that begins at ``head``, once each: a register; the instructions of the round that
        write it before it is read, in order; and the values still to be looked at, (register, where it is read), to which whoever
        iterates adds those that it wants to follow."""
        todo, seen = deque((r, branch) for r in self._guards(branch)), set()
        while todo:
            register, before = todo.popleft()
            if (register, before) not in seen:
                seen.add((register, before))
                yield register, [i for i in range(head, before) if register in self.written(i)], todo

    def awaited(self, branch: int, head: int, back: int, straight: bool = False) -> tuple[int, bool] | None:
        """The one load or atomic on which the branch depends within a round of ``head`` to ``back``, if it reads the same
        place in every round and the branch depends on nothing that changes from round to round. And whether it depends on nothing
        else at all. ``straight``: there is no loop, the code before the branch runs once."""
        found: set[int] = set()
        alone = True
        for register, written, todo in self._values_behind(branch, head):
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
            if row[at.OP] == ops.SPECIAL and row[at.F0] in ops.CLOCKS:
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
        if not straight and not all(self._is_same(r, load, head, back) for r in fixed):
            return None
        return load, alone

    def awaits_time(self, branch: int, head: int, back: int) -> bool:
        """Whether the clock decides at the branch of a loop ``head`` to ``back``: it depends on what the clock says in this round, and
        on nothing else that changes from round to round."""
        reads_clock = False
        for register, written, todo in self._values_behind(branch, head):
            if not written:
                if not self._is_invariant(register, head, back):
                    return False
                continue
            last = written[-1]
            row = self._matrix[last]
            if row[at.GUARD] not in _TRUE:
                return False
            if row[at.OP] == ops.SPECIAL and row[at.F0] in ops.CLOCKS:
                reads_clock = True
            elif row[at.OP] < LANES_BASE and row[at.OP] != ops.CONSTANT_LOAD:
                return False
            todo.extend((r, last) for r in self._operands(last) | self._guards(last))
        return reads_clock

    def reads_clock(self, i: int) -> bool:
        return self.op(i) == ops.SPECIAL and self._matrix[i, at.F0] in ops.CLOCKS

    def sleep_changes(self, inside: range) -> bool:
        """Whether a NANOSLEEP of the loop is by a register that changes from round to round, as where it backs off."""
        return any(
            self.op(i) == ops.GIVE_WAY
            and not all(self._is_invariant(r, inside.start, inside.stop - 1) for r in self._operands(i))
            for i in inside
        )

    def carries_nothing(self, inside: range) -> bool:
        """Whether a round of the loop, whose instructions are executed one behind the other, computes what it would if it were
        the first: it reads nothing that an earlier one has written."""
        known: set[int] = set()
        changing = {r for i in inside for r in self.written(i)}
        for i in inside:
            if (self._operands(i) | self._guards(i) | self._address(i)) & changing - known:
                return False
            if self._matrix[i, at.GUARD] in _TRUE:
                known |= self.written(i)
            elif not self.written(i) <= known:
                return False
        return True

    def clock_sources(self, branch: int, head: int, back: int) -> frozenset[int]:
        """The instructions before a loop that read the clock for what does not change in it and its ``branch`` depends on: one of
        them, the one that was executed last, says when the loop began to wait. None where that is not known."""
        todo = [(r, head) for r, written, more in self._followed(branch, head) if not written]
        seen, found = set(todo), set()
        while todo:
            register, here = todo.pop()
            # None where a function begins or is come back to: what it was given is taken to be no time.
            for i in self._before[here]:
                wanted: set[int] = {register}
                if register in self.written(i):
                    always = self._matrix[i, at.GUARD] in _TRUE
                    wanted = set() if always else wanted
                    if self.reads_clock(i):
                        if not always:
                            return frozenset()
                        found.add(i)
                    elif self.op(i) >= LANES_BASE:
                        wanted |= self._operands(i) | self._guards(i)
                todo += [(r, i) for r in wanted if (r, i) not in seen]
                seen |= {(r, i) for r in wanted}
        return frozenset(found)

    def _followed(self, branch: int, head: int) -> Iterator[tuple[int, list[int], deque[tuple[int, int]]]]:
        """As :meth:`_values_behind`, with all values followed."""
        for register, written, todo in self._values_behind(branch, head):
            if written and not self.reads_clock(written[-1]):
                last = written[-1]
                todo.extend((r, last) for r in self._operands(last) | self._guards(last))
                if self._matrix[last, at.GUARD] not in _TRUE:
                    todo.append((register, last))
            yield register, written, todo

    @functools.cached_property
    def _before(self) -> list[list[int]]:
        """The instructions from which each is come to, as far as the code says."""
        before: list[list[int]] = [[] for _ in self._ops]
        for i, op in enumerate(self._ops):
            ends = op in (ops.EXIT, ops.BRANCH_INDEXED) and not self.is_conditional(i)
            for following in () if ends else self.successors(i):
                if 0 <= following < len(before):
                    before[following].append(i)
        return before

    def is_alike(self, one: int, other: int) -> bool:
        """Whether two accesses are of one kind: what they do, in which space."""
        columns = [at.OP, at.SPACE, at.BYTES]
        return bool((self._matrix[one, columns] == self._matrix[other, columns]).all())

    def is_straight(self, first: int, end: int) -> bool:
        """Whether whoever executes instruction ``first`` comes to ``end`` with nothing decided on the way."""
        return all(self.op(i) >= MEMORY_BASE or self.op(i) in _DECIDES_NOTHING for i in range(first, end))

    def _swaps(self, i: int) -> bool:
        return self.op(i) == ops.ATOMIC and self._matrix[i, at.F0] in (ops.CAS, ops.CAST, ops.EXCH)

    def swaps_what_changes(self, i: int, inside: range) -> bool:
        """Whether the instruction is an atomic that swaps in what changes from round to round, as one does that updates a word
        without a lock: it tries again because it was overtaken, and waits for nobody."""
        head, back = inside.start, inside.stop - 1
        swapped = self._address(i) | self._operands(i)
        return self._swaps(i) and not all(
            self._is_constant(r, i, head) or self._is_same(r, i, head, back) for r in swapped
        )

    def lock_end(self, atomic: int, inside: range) -> int | None:
        """The branch or barrier behind an atomic of the loop that may take a lock, if what is between them looks at its result;
        None if the atomic swaps in what changes from round to round, as those do that update a word without a lock."""
        if not self._swaps(atomic) or self.swaps_what_changes(atomic, inside):
            return None
        looked = False
        for i in range(atomic + 1, inside.stop):
            if self.op(i) < MEMORY_BASE and self.op(i) not in _DECIDES_NOTHING:
                return i if looked or self._guards(i) & self.written(atomic) else None
            looked |= bool((self._operands(i) | self._guards(i)) & self.written(atomic))
        return None

    def _definition(self, register: int, before: int, head: int) -> int | None:
        """The instruction that gives a register the value that it has at ``before``, if it stands in the straight code in front."""
        for i in range(before - 1, head - 1, -1):
            if i + 1 in self._targets:
                return None
            if register in self.written(i):
                return i if self._matrix[i, at.GUARD] in _TRUE else None
        return None

    def depends(self, branch: int, head: int, back: int) -> tuple[set[int], bool]:
        """The loads and atomics of the loop on which the branch depends in this round or a later one, through registers and
        through branches that jump over what writes them. And whether it depends on nothing from outside the loop."""
        found: set[int] = set()
        alone = True
        todo, seen = deque((r, branch) for r in self._guards(branch)), set()
        while todo:
            register, before = todo.popleft()
            here = self._definition(register, before, head)
            if (register, here) in seen:
                continue
            seen.add((register, here))
            writers = [i for i in range(head, back + 1) if register in self.written(i)] if here is None else [here]
            alone &= bool(writers)
            for writer in writers:
                if self.op(writer) in (ops.LOAD, ops.ATOMIC):
                    found.add(writer)
                    continue
                todo.extend((r, writer) for r in self._operands(writer) | self._guards(writer))
                if here is not None:
                    continue
                for i in range(head, writer):
                    if self.op(i) == ops.BRANCH and self.is_conditional(i) and writer < self.target(i) <= back + 1:
                        todo.extend((r, i) for r in self._guards(i))
        return found, alone

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
            stored = self._matrix[i, at.RECORDS] and self.op(i) != ops.GIVE_WAY
            if i not in inside or (stored and i != load):
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


def _written(matrix: np.ndarray, i: int) -> frozenset[int]:
    """The registers and predicates that an instruction writes."""
    row = matrix[i]
    registers: set[int] = set()
    if row[at.D_WORDS] and row[at.D_OWN]:
        registers = set(range(int(row[at.D_OFFSET]), int(row[at.D_OFFSET] + row[at.D_WORDS])))
    if row[at.PREDICATES_OUT]:
        registers |= {-1 - slot for slot in row[[at.Q0, at.Q1]].tolist() if slot != at.SINK_PREDICATE}
    return frozenset(registers)


def _guards(matrix: np.ndarray, i: int) -> frozenset[int]:
    """The predicates that it reads."""
    slots = matrix[i, [at.GUARD, at.P0, at.P1, at.P2]].tolist()
    return frozenset(-1 - slot for slot in slots if slot not in _TRUE and slot < at.SINK_PREDICATE)


def _operands(matrix: np.ndarray, i: int) -> frozenset[int]:
    """The registers that it reads, but for those of an address."""
    row, registers = matrix[i], set()
    for column in (at.A, at.B, at.C):
        if row[column + at.SOURCE_OWN]:
            first = int(row[column + at.SOURCE_OFFSET])
            registers |= set(range(first, first + int(row[column + at.SOURCE_WORDS])))
    return frozenset(registers)
