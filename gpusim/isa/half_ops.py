"""Numbers of the packed 16-bit float bodies, and the bits of their ``how`` flag."""

from __future__ import annotations

from gpusim.isa.opcodes import HALF_BASE

ADD = HALF_BASE + 0
MULTIPLY = HALF_BASE + 1
FUSED = HALF_BASE + 2
COMPARE = HALF_BASE + 3
SET = HALF_BASE + 4
MINMAX = HALF_BASE + 5
ADD_WIDE = HALF_BASE + 6  # one sum or product in FP32
MULTIPLY_WIDE = HALF_BASE + 7
FUSED_WIDE = HALF_BASE + 8
MIXED_ADD = HALF_BASE + 9  # FHADD, FHFMA: FP32 results of half and FP32 sources
MIXED_FUSED = HALF_BASE + 10
NARROW_SUM = HALF_BASE + 11  # HADD2 of FP32 sources
MINMAX3 = HALF_BASE + 12

#: ``how``: format in bits 0..3 (float_ops.F16, BF16), then these.
FLUSH, SATURATE, RELU, PROPAGATE_NAN, XOR_SIGN = 16, 32, 64, 128, 256
BOTH = 512  # HSETP2.H_AND: q[0] holds where both halves compare, q[1] its complement

#: Which half of a source word (0 low, 1 high) the low and the high lane of the pair read.
SWIZZLES = {(): 0b10, ("H1_H0",): 0b10, ("H0_H0",): 0b00, ("H1_H1",): 0b11, ("H0_H1",): 0b01}
