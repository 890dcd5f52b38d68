"""Codes of the packed 16-bit float bodies' flags: the bits of ``how``, half selectors."""

from __future__ import annotations

#: ``how``: format in bits 0..3 (float_ops.F16, BF16), then these.
FLUSH, SATURATE, RELU, PROPAGATE_NAN, XOR_SIGN = 16, 32, 64, 128, 256
ZERO_OUTSIDE = 1024  # HFMA2.OOB: the result is 0 where a source is OUTSIDE
BOTH = 512  # HSETP2.H_AND: q[0] holds where both halves compare, q[1] its complement

#: What a tensor map's copies write for elements outside the tensor, where it asks for NaN (measured by others on Hopper
#: and Blackwell: every 16 bits 0x7ff7); the sign does not count.
OUTSIDE = 0x7FF7

#: Which half of a source word (0 low, 1 high) the low and the high lane of the pair read.
SWIZZLES = {(): 0b10, ("H1_H0",): 0b10, ("H0_H0",): 0b00, ("H1_H1",): 0b11, ("H0_H1",): 0b01, ("H0_NH1",): 0b01}
#: Bits of a source word whose sign a selector changes: ``H0_NH1`` takes the upper half negated (complex products).
SWIZZLE_SIGNS = {("H0_NH1",): 0x80000000}
