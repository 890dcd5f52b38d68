"""Codes of the tensor-core bodies' flags."""

from __future__ import annotations

ACCUMULATE_F32, ACCUMULATE_F16 = range(2)
BIT_AND, BIT_XOR = range(2)
A_BY_COLUMNS, B_BY_ROWS = 1, 2
A_SIGNED, B_SIGNED = 1, 2
#: In the place of a number of rows: the operand is RZ.
NOT_BESIDE = -(1 << 20)

#: Bits of a warp-group product: A lies in shared memory; A or B has rows (columns) side by side in memory, or its sign
#: changed; half of A's elements are there; an integer sum saturates.
A_IN_SHARED, A_TURNED, B_TURNED, A_NEGATED, B_NEGATED, HALF_OF_A, SATURATES = (1 << bit for bit in range(7))
