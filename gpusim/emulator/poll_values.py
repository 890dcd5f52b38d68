"""Where the values of registers come from within a loop of a kernel, and which are the same in every round.

Mental model: from where a register is read one looks back for what wrote it, as far as the code of the loop says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from gpusim.emulator.poll_instructions import TRUE
from gpusim.emulator.poll_ways import Ways
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.number_ranges import LANES_BASE


class Values(Ways):
    """Instructions, the ways between them, and where the values come from that they read."""

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

    def _is_same(self, register: int, before: int, head: int, back: int, depth: int = 4) -> bool:
        """Whether a register has the same value at an instruction of the loop in every round: it is invariant, or the
        round gives it that value anew, from what is the same, before it is used for something else."""
        if self._is_invariant(register, head, back):
            return True
        here = self._definition(register, before, head)
        if here is None or depth == 0 or self.op(here) < LANES_BASE or self._varies(here):
            return False
        return all(self._is_same(r, here, head, back, depth - 1) for r in self._operands(here) | self._guards(here))

    def reads_same_place(self, load: int, head: int, back: int) -> bool:
        """Whether a load of the loop ``head`` to ``back`` reads the same address in every round."""
        return all(self._is_same(r, load, head, back) for r in self._address(load))

    def _is_constant(self, register: int, before: int, head: int) -> bool:
        """Whether what last writes a register in the code before an instruction of the loop gives it a constant."""
        for i in range(before - 1, head - 1, -1):
            if register in self.written(i):
                reads = self._operands(i) | self._guards(i) | self._address(i)
                return self.op(i) >= LANES_BASE and self.op(i) != ops.SPECIAL and not reads
        return False

    def _definition(self, register: int, before: int, head: int) -> int | None:
        """The instruction that gives a register the value that it has at ``before``, if it stands in the straight code
        in front."""
        for i in range(before - 1, head - 1, -1):
            if i + 1 in self._targets:
                return None
            if register in self.written(i):
                return i if self._matrix[i, at.GUARD] in TRUE else None
        return None

    def _values_behind(self, branch: int, head: int) -> Iterator[tuple[int, list[int], deque[tuple[int, int]]]]:
        """What the branch depends on within a round that begins at ``head``, once each: a register; the instructions of
        the round that write it before it is read, in order; and the values still to be looked at, (register, where it
        is read), to which whoever iterates adds those that it wants to follow."""
        todo, seen = deque((r, branch) for r in self._guards(branch)), set()
        while todo:
            register, before = todo.popleft()
            if (register, before) not in seen:
                seen.add((register, before))
                yield register, [i for i in range(head, before) if register in self.written(i)], todo

    def _followed(self, branch: int, head: int) -> Iterator[tuple[int, list[int], deque[tuple[int, int]]]]:
        """As :meth:`_values_behind`, with all values followed."""
        for register, written, todo in self._values_behind(branch, head):
            if written and not self.reads_clock(written[-1]):
                last = written[-1]
                todo.extend((r, last) for r in self._operands(last) | self._guards(last))
                if self._matrix[last, at.GUARD] not in TRUE:
                    todo.append((register, last))
            yield register, written, todo
