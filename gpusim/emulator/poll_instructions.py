"""A kernel's instructions as who looks for polling loops sees them: what each reads and writes, and where it leads.

Mental model: rows of the code matrix are instructions, registers are rows of the register file, predicates numbers
below zero. All forms of an instruction are one thing here, whatever its mnemonic.
"""

from __future__ import annotations

import functools

import numpy as np

from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.number_ranges import LANES_BASE, MEMORY_BASE

TRUE = (at.TRUE_PREDICATE, at.TRUE_UNIFORM_PREDICATE)
#: What a loop may hold beside arithmetic and branches.
_HARMLESS = (
    ops.NOP, ops.CONVERGE_SET, ops.CONVERGE_READ, ops.CONVERGE_WAIT, ops.CONVERGE_LEAVE, ops.WARP_WAIT, ops.GIVE_WAY, ops.BRANCH_DIVERGENT,
    ops.BRANCH, ops.CONSTANT_LOAD,
)  # fmt: skip

#: What decides nothing and reads nothing that a round computes: BSSY, and BMOV, with which sm_75 begins each.
DECIDES_NOTHING = (ops.NOP, ops.CONVERGE_SET, ops.CONVERGE_READ)


class Instructions:
    """A code matrix seen as instructions with registers that they read and write; registers are rows, predicates -1 -
    slot."""

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
        return any(slot not in TRUE for slot in self._matrix[i, [at.GUARD, at.P0]].tolist())

    def is_harmless(self, i: int) -> bool:
        op = self.op(i)
        return op >= LANES_BASE or op in _HARMLESS or self.may_exit(i)

    def may_exit(self, i: int) -> bool:
        """Whether the instruction ends some lanes, and lets others go on: a wait that is the last thing a warp does
        ends in one."""
        return self.op(i) == ops.EXIT and self.is_conditional(i)

    def leads_where(self, i: int, out: int | None) -> bool:
        """Whether what instruction ``i`` decides is to go on or to lead to ``out`` (None: the warp's end), or to
        another EXIT where that is one."""
        if not self.is_conditional(i) or self.op(i) not in (ops.BRANCH, ops.EXIT):
            return False
        goal = None if self.op(i) == ops.EXIT else self.target(i)
        return goal == out or (self._ends(goal) and self._ends(out))

    def _ends(self, i: int | None) -> bool:
        """Whether who comes to instruction ``i`` ends."""
        return i is None or (0 <= i < len(self._ops) and self.op(i) == ops.EXIT and not self.is_conditional(i))

    def successors(self, i: int) -> list[int]:
        """Where the instruction may lead; a BRA.DIV is taken to fall through."""
        if self.op(i) != ops.BRANCH:
            return [i + 1]
        return [self.target(i), i + 1] if self.is_conditional(i) else [self.target(i)]

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

    def is_alike(self, one: int, other: int) -> bool:
        """Whether two accesses are of one kind: what they do, in which space."""
        columns = [at.OP, at.SPACE, at.BYTES]
        return bool((self._matrix[one, columns] == self._matrix[other, columns]).all())

    def _varies(self, i: int) -> bool:
        """Whether the instruction reads what is another thing each time: a clock, which lanes are there."""
        return self.op(i) == ops.SPECIAL and self._matrix[i, at.F0] in (*ops.CLOCKS, ops.SR_ACTIVE_MASK)

    def reads_clock(self, i: int) -> bool:
        return self.op(i) == ops.SPECIAL and self._matrix[i, at.F0] in ops.CLOCKS

    def _swaps(self, i: int) -> bool:
        return self.op(i) == ops.ATOMIC and self._matrix[i, at.F0] in (ops.CAS, ops.CAST, ops.EXCH)

    def only_looks(self, i: int) -> bool:
        """Whether a load or atomic leaves what others wait for as it is, or takes a lock: whoever adds 1, as to take
        the next piece of work, waits for nobody."""
        return self.op(i) != ops.ATOMIC or self._swaps(i) or self._matrix[i, at.F0] == ops.PHASE

    def is_straight(self, first: int, end: int) -> bool:
        """Whether whoever executes instruction ``first`` comes to ``end`` with nothing decided on the way."""
        return all(self.op(i) >= MEMORY_BASE or self.op(i) in DECIDES_NOTHING for i in range(first, end))


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
    return frozenset(-1 - slot for slot in slots if slot not in TRUE and slot < at.SINK_PREDICATE)


def _operands(matrix: np.ndarray, i: int) -> frozenset[int]:
    """The registers that it reads, but for those of an address."""
    row, registers = matrix[i], set()
    for column in (at.A, at.B, at.C):
        if row[column + at.SOURCE_OWN]:
            first = int(row[column + at.SOURCE_OFFSET])
            registers |= set(range(first, first + int(row[column + at.SOURCE_WORDS])))
    return frozenset(registers)
