"""What a branch of a kernel's loop waits for: a word of memory, a lock, or a time.

Mental model: a branch that depends within a round on one load of the same place, and on nothing that the rounds
themselves change, waits for whoever writes there; one that depends on a clock waits for a time. What a loop computes
anew in each round keeps it from being either.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from gpusim.emulator.poll_instructions import DECIDES_NOTHING, TRUE
from gpusim.emulator.poll_values import Values
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.number_ranges import LANES_BASE, MEMORY_BASE


class Code(Values):
    """A code matrix as who looks for polling loops sees it."""

    def may_see_others(self, inside: range, strong: np.ndarray) -> bool:
        """Whether there is an access in the code that could see what another block writes: past the L1 (``strong``), or
        an atomic."""
        return any(strong[i] or self._ops[i] == ops.ATOMIC for i in inside if self._ops[i] in (ops.LOAD, ops.ATOMIC))

    def awaited(self, branch: int, head: int, back: int, straight: bool = False) -> tuple[int, bool] | None:
        """The one load or atomic on which the branch depends within a round of ``head`` to ``back``, if it reads the
        same place in every round and the branch depends on nothing that changes from round to round. And whether it
        depends on nothing else at all. ``straight``: there is no loop, the code before the branch runs once."""
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
            if row[at.GUARD] not in TRUE and len(written) > 1:
                todo.append((register, last))
        if len(found) != 1:
            return None
        load = found.pop()
        fixed = self._address(load) | (self._operands(load) if self.op(load) == ops.ATOMIC else set())
        if not straight and not all(self._is_same(r, load, head, back) for r in fixed):
            return None
        return load, alone

    def awaits_time(self, branch: int, head: int, back: int) -> bool:
        """Whether the clock decides at the branch of a loop ``head`` to ``back``: it depends on what the clock says in
        this round, and on nothing else that changes from round to round."""
        reads_clock = False
        for register, written, todo in self._values_behind(branch, head):
            if not written:
                if not self._is_invariant(register, head, back):
                    return False
                continue
            last = written[-1]
            row = self._matrix[last]
            if row[at.GUARD] not in TRUE:
                return False
            if row[at.OP] == ops.SPECIAL and row[at.F0] in ops.CLOCKS:
                reads_clock = True
            elif row[at.OP] < LANES_BASE and row[at.OP] != ops.CONSTANT_LOAD:
                return False
            todo.extend((r, last) for r in self._operands(last) | self._guards(last))
        return reads_clock

    def sleep_changes(self, inside: range) -> bool:
        """Whether a NANOSLEEP of the loop is by a register that changes from round to round, as where it backs off."""
        return any(
            self.op(i) == ops.GIVE_WAY
            and not all(self._is_invariant(r, inside.start, inside.stop - 1) for r in self._operands(i))
            for i in inside
        )

    def carries_nothing(self, inside: range) -> bool:
        """Whether a round of the loop, whose instructions are executed one behind the other, computes what it would if
        it were the first: it reads nothing that an earlier one has written."""
        known: set[int] = set()
        changing = {r for i in inside for r in self.written(i)}
        for i in inside:
            if (self._operands(i) | self._guards(i) | self._address(i)) & changing - known:
                return False
            if self._matrix[i, at.GUARD] in TRUE:
                known |= self.written(i)
            elif not self.written(i) <= known:
                return False
        return True

    def clock_sources(self, branch: int, head: int, back: int) -> frozenset[int]:
        """The instructions before a loop that read the clock for what does not change in it and its ``branch`` depends
        on: one of them, the one that was executed last, says when the loop began to wait. None where that is not
        known."""
        todo = [(r, head) for r, written, more in self._followed(branch, head) if not written]
        seen, found = set(todo), set()
        while todo:
            register, here = todo.pop()
            # None where a function begins or is come back to: what it was given is taken to be no time.
            for i in self._before[here]:
                wanted: set[int] = {register}
                if register in self.written(i):
                    always = self._matrix[i, at.GUARD] in TRUE
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

    def swaps_what_changes(self, i: int, inside: range) -> bool:
        """Whether the instruction is an atomic that swaps in what changes from round to round, as one does that updates
        a word without a lock: it tries again because it was overtaken, and waits for nobody."""
        head, back = inside.start, inside.stop - 1
        swapped = self._address(i) | self._operands(i)
        return self._swaps(i) and not all(
            self._is_constant(r, i, head) or self._is_same(r, i, head, back) for r in swapped
        )

    def lock_end(self, atomic: int, inside: range) -> int | None:
        """The branch or barrier behind an atomic of the loop that may take a lock, if what is between them looks at its
        result; None if the atomic swaps in what changes from round to round, as those do that update a word without a
        lock."""
        if not self._swaps(atomic) or self.swaps_what_changes(atomic, inside):
            return None
        looked = False
        for i in range(atomic + 1, inside.stop):
            if self.op(i) < MEMORY_BASE and self.op(i) not in DECIDES_NOTHING:
                return i if looked or self._guards(i) & self.written(atomic) else None
            looked |= bool((self._operands(i) | self._guards(i)) & self.written(atomic))
        return None

    def depends(self, branch: int, head: int, back: int) -> tuple[set[int], bool]:
        """The loads and atomics of the loop on which the branch depends in this round or a later one, through registers
        and through branches that jump over what writes them. And whether it depends on nothing from outside the
        loop."""
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
