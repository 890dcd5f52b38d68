"""Numbers of the tensor-core bodies, and what their flags hold."""

from __future__ import annotations

from gpusim.isa.opcodes import TENSOR_BASE

#: flags: styles of A and of B (float_ops) in bits 0..7 and 8..15; row tiles (1 or 2) of 8 rows in bits 0..3 and
#: register steps along k (1 or 2) in bits 4..7; accumulator format (ACCUMULATE_*).
FLOAT = TENSOR_BASE + 0
#: flags: bits of an element and signs of A (bit 0) and of B (bit 1); tiles and steps as above; saturate.
INTEGER = TENSOR_BASE + 1
#: flags: AND or XOR; tiles and steps as above.
BIT = TENSOR_BASE + 2
#: flags: rounding mode of alu_scalar.
DOUBLE = TENSOR_BASE + 3
#: The quarter-warp products of Volta: flags: step, A by columns (bit 0) and B by rows (bit 1), format of D, of C.
QUAD = TENSOR_BASE + 4
#: MOVM: an 8 x 8 matrix of 16-bit elements transposed; 8 x 32 4-bit elements widened to 8 bits.
TRANSPOSE = TENSOR_BASE + 5
WIDEN = TENSOR_BASE + 6

ACCUMULATE_F32, ACCUMULATE_F16 = range(2)
BIT_AND, BIT_XOR = range(2)
A_BY_COLUMNS, B_BY_ROWS = 1, 2
A_SIGNED, B_SIGNED = 1, 2
