"""Integer bodies: the common ones, which vector bodies execute, and logic, minimum and multiply-add with predicates.

Mental model: see :mod:`gpusim.isa.body`. ``x, y, z`` are the source words by lane, ``w`` the result words, ``p``
predicate inputs as lane masks and ``q`` the predicate outputs; which lanes keep the result is the interpreter's
business. Flags ``f`` mean what the lowerings in ``gpusim/isa/forms/integer*.py`` say. Lanes are widened to int64 before
arithmetic so that compiled and interpreted runs agree; the compiler narrows them again.

IMAD.WIDE has two bodies: as long as no carry enters or leaves (addresses are computed so, in every kernel), a vector
body multiplies all warps at once; with carries (128-bit products, a handful of instructions in a kernel that has them)
``mad_wide_carry`` goes lane by lane. One body for both would read and write predicates for each address, or put a
second 64-bit multiplication into the interpreter that every launch compiles.

Source of the semantics: CUDA Binary Utilities (instruction names), PTX ISA 8 (shf, prmt, lop3, lea by
way of shl+add, mad.hi, mad.wide, min, max, setp), and the carry idioms of compiled 64-bit code.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa.bodies import masked, wide
from gpusim.isa.body import vector_body, warp_body
from gpusim.isa.jit import inner

LANES = 32
LOW = 0xFFFFFFFF

mov = vector_body("mov", wide.MOV)
add = vector_body("add", wide.ADD)
add3 = vector_body("add3", wide.ADD3)
add3_carry = vector_body("add3_carry", masked=masked.ADD3_CARRY)
mad = vector_body("mad", wide.MAD)
mad_carry = vector_body("mad_carry", masked=masked.MAD_CARRY)
mad_wide = vector_body("mad_wide", wide.MAD_WIDE)
mad_high = vector_body("mad_high", wide.MAD_HIGH)
lea = vector_body("lea", wide.LEA, masked.LEA_CARRY)
lea_high = vector_body("lea_high", masked=masked.LEA_HIGH)
shift_left = vector_body("shift_left", wide.SHIFT_LEFT)
shift_right = vector_body("shift_right", wide.SHIFT_RIGHT)
compare = vector_body("compare", masked=masked.COMPARE)
select = vector_body("select", masked=masked.SELECT)

#: Truth tables of LOP3 with a vector body of their own: x & y, x | y, x ^ y.
_TABLES = {0xC0: wide.AND, 0xFC: wide.OR, 0x3C: wide.XOR}


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


@warp_body(unmasked=lambda flags, words: _TABLES.get(flags[0], wide.LOP3))
def lop3(f, p, x, y, z, w, q):
    """``f``: truth table, how "the result is not zero" joins the predicate input."""
    hits = np.int64(0)
    for l in range(LANES):
        value = table3(f[0], np.int64(x[0, l]), np.int64(y[0, l]), np.int64(z[0, l]))
        w[0, l] = np.int32(value)
        hits |= (value & LOW != 0) << l
    q[0] = masked.joined(hits, np.int64(p[0]), f[1])


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


@warp_body()
def mad_wide_carry(f, p, x, y, z, w, q):
    """Both words of x * y + {z1:z0} with carries; ``f``: signed, invert, extra."""
    _mad_wide_carry(False, f[0], f[1], f[2], p[0], x, y, z, w, q)


@warp_body()
def mad_high_carry(f, p, x, y, z, w, q):
    """The upper word of it."""
    _mad_wide_carry(True, f[0], f[1], f[2], p[0], x, y, z, w, q)


@warp_body(masked=lambda flags, words: 0 if flags[1] else masked.MINMAX)
def minmax(f, p, x, y, z, w, q):
    """Minimum or maximum of x and y; ``f``: unsigned, relu."""
    _minmax(False, f[0], f[1], p[0], x, y, z, w)


@warp_body()
def add_minmax(f, p, x, y, z, w, q):
    """Minimum or maximum of x + y and z; ``f``: unsigned, relu."""
    _minmax(True, f[0], f[1], p[0], x, y, z, w)


@warp_body()
def predicate_logic(f, p, x, y, z, w, q):
    """Two functions of three predicates by their truth tables ``f[0]`` and ``f[1]``."""
    a, b, c = np.int64(p[0]), np.int64(p[1]), np.int64(q[0])
    q[0] = table3(f[0], a, b, c) & LOW
    q[1] = table3(f[1], a, b, c) & LOW
