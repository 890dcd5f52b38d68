"""The less common integer bodies: logic with a predicate, 64-bit multiply-add with carry, minimum of a sum.

Mental model: one call executes one instruction for all 32 lanes of a warp; which lanes keep the result is
the interpreter's business. ``xi, yi, zi`` int32[4, >= 32] are the source words by lane, ``wi`` the result
words; ``p0, p1`` uint32 are predicate inputs as lane masks and ``q`` uint32[2] predicate outputs.
Flags ``f0..f3`` mean what the rows of ``gpusim/isa/integer.py`` say. Lanes are widened to int64
before arithmetic so that compiled and interpreted runs agree; the compiler narrows them again. Forms that
are common are in ``alu_wide.py`` and ``alu_masked.py``.

Source of the semantics: CUDA Binary Utilities (instruction names), PTX ISA 8 (shf, prmt, lop3, lea by
way of shl+add, mad.hi, mad.wide, min, max, setp), and the carry idioms of compiled 64-bit code.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import integer_ops as ops
from gpusim.isa.bodies.integer_rare import execute_integer_rare
from gpusim.isa.bodies.masked import joined
from gpusim.isa.jit import inlined, inner

LANES = 32
LOW = 0xFFFFFFFF


@inlined
def execute_integer(op, f0, f1, f2, f3, p0, p1, xi, yi, zi, wi, xf, yf, zf, wf, q):
    """Execute the integer body ``op``; see the module docstring for shapes."""
    op, f0, f1 = np.int64(op), np.int64(f0), np.int64(f1)
    f2, f3 = np.int64(f2), np.int64(f3)
    if op >= ops.RARE_BASE:
        execute_integer_rare(op, f0, f1, f2, f3, p0, p1, xi, yi, zi, wi, xf, yf, zf, wf, q)
    elif op == ops.LOP3:
        _lop3(f0, f1, p0, xi, yi, zi, wi, q)
    elif op == ops.MAD_WIDE_CARRY or op == ops.MAD_HIGH_CARRY:
        _mad_wide_carry(op == ops.MAD_HIGH_CARRY, f0, f1, f2, p0, xi, yi, zi, wi, q)
    elif op == ops.MINMAX or op == ops.ADD_MINMAX:
        _minmax(op == ops.ADD_MINMAX, f0, f1, p0, xi, yi, zi, wi)
    elif op == ops.PREDICATE_LOGIC:
        a, b, c = np.int64(p0), np.int64(p1), np.int64(q[0])
        q[0] = table3(f0, a, b, c) & LOW
        q[1] = table3(f1, a, b, c) & LOW


@inner
def table3(table, a, b, c):
    """Bitwise function of three words by its truth table (bit 4a + 2b + c of ``table``)."""
    t0, t1, t2, t3 = -(table & 1), -(table >> 1 & 1), -(table >> 2 & 1), -(table >> 3 & 1)
    t4, t5, t6, t7 = -(table >> 4 & 1), -(table >> 5 & 1), -(table >> 6 & 1), -(table >> 7 & 1)
    low = (((t0 ^ t1) & c) ^ t0, ((t2 ^ t3) & c) ^ t2)
    high = (((t4 ^ t5) & c) ^ t4, ((t6 ^ t7) & c) ^ t6)
    off = ((low[0] ^ low[1]) & b) ^ low[0]
    on = ((high[0] ^ high[1]) & b) ^ high[0]
    return ((off ^ on) & a) ^ off


@inner
def _lop3(table, join, p0, xi, yi, zi, wi, q):
    hits = np.int64(0)
    for l in range(LANES):
        value = table3(table, np.int64(xi[0, l]), np.int64(yi[0, l]), np.int64(zi[0, l]))
        wi[0, l] = np.int32(value)
        hits |= (value & LOW != 0) << l
    q[0] = joined(hits, np.int64(p0), join)


@inner
def _mad_wide_carry(high, signed, invert, extra, p0, xi, yi, zi, wi, q):
    """x * y + {z1:z0} (complemented if ``invert``) + extra + carry-in over 64 bits, with carry-out."""
    mask = np.int64(-1) if signed else np.int64(LOW)
    flip = np.int64(-invert)
    carry = np.int64(p0)
    carries = np.int64(0)
    for l in range(LANES):
        product = (np.int64(xi[0, l]) & mask) * (np.int64(yi[0, l]) & mask)
        addend = ((np.int64(zi[1, l]) << 32) | (np.int64(zi[0, l]) & LOW)) ^ flip
        low = (product & LOW) + (addend & LOW) + extra + ((carry >> l) & 1)
        upper = ((product >> 32) & LOW) + ((addend >> 32) & LOW) + (low >> 32)
        if high:
            wi[0, l] = np.int32(upper)
        else:
            wi[0, l] = np.int32(low)
            wi[1, l] = np.int32(upper)
        carries |= (upper >> 32 > 0) << l
    q[0] = carries


@inner
def _minmax(sums, unsigned, relu, p0, xi, yi, zi, wi):
    """Minimum where p0 is set, else maximum, of x and y, or of x + y (32 bits) and z if ``sums``."""
    mask = np.int64(LOW) if unsigned else np.int64(-1)
    least = np.int64(p0)
    for l in range(LANES):
        a = np.int64(xi[0, l])
        b = np.int64(yi[0, l])
        if sums:
            a = (((a + b) & LOW) ^ 0x80000000) - 0x80000000
            b = np.int64(zi[0, l])
        a &= mask
        b &= mask
        value = min(a, b) if (least >> l) & 1 else max(a, b)
        if relu:
            value = max(value, np.int64(0))
        wi[0, l] = np.int32(value)
