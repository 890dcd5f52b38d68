"""Codes of the tensor-core bodies' flags."""

from __future__ import annotations

ACCUMULATE_F32, ACCUMULATE_F16 = range(2)
BIT_AND, BIT_XOR = range(2)
A_BY_COLUMNS, B_BY_ROWS = 1, 2
A_SIGNED, B_SIGNED = 1, 2
#: In the place of a number of rows: the operand is RZ.
NOT_BESIDE = -(1 << 20)
