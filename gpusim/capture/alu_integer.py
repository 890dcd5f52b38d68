"""Integer bodies that make up most of a kernel: adders, multiply-add, logic, shifts, compare, select.

Mental model: one call executes one instruction for all 32 lanes; which lanes keep the result is the
interpreter's business. ``xi, yi, zi`` int32[4, 32] are the source words by lane, ``wi`` the result
words; ``p0, p1`` uint32 are predicate inputs as lane masks and ``q`` uint32[2] predicate outputs.
Flags ``f0..f3`` mean what the rows of ``gpusim/sass/integer.py`` say. Lanes are widened to int64
before arithmetic so that compiled and interpreted runs agree; the compiler narrows them again.

Source of the semantics: CUDA Binary Utilities (instruction names), PTX ISA 8 (shf, prmt, lop3, lea by
way of shl+add, mad.hi, mad.wide, min, max, setp), and the carry idioms of compiled 64-bit code.
"""

from __future__ import annotations

import numpy as np

from gpusim.capture.alu_integer_rare import execute_integer_rare
from gpusim.capture.alu_permute import permute_bytes
from gpusim.capture.jit import inner
from gpusim.sass import integer_ops as ops

LANES = 32
LOW = 0xFFFFFFFF


@inner
def execute_integer(op, f0, f1, f2, f3, p0, p1, xi, yi, zi, wi, xf, yf, zf, wf, q):
    """Execute the integer body ``op``; see the module docstring for shapes."""
    op, f0, f1 = np.int64(op), np.int64(f0), np.int64(f1)
    f2, f3 = np.int64(f2), np.int64(f3)
    if op >= ops.RARE_BASE:
        execute_integer_rare(op, f0, f1, f2, f3, p0, p1, xi, yi, zi, wi, xf, yf, zf, wf, q)
    elif op == ops.MOV:
        for l in range(LANES):
            wi[0, l] = xi[0, l]
    elif op == ops.ADD:
        for l in range(LANES):
            wi[0, l] = np.int32(np.int64(xi[0, l]) + np.int64(yi[0, l]))
    elif op == ops.ADD3:
        for l in range(LANES):
            wi[0, l] = np.int32(np.int64(xi[0, l]) + np.int64(yi[0, l]) + np.int64(zi[0, l]))
    elif op == ops.MAD:
        for l in range(LANES):
            wi[0, l] = np.int32(np.int64(xi[0, l]) * np.int64(yi[0, l]) + np.int64(zi[0, l]))
    elif op == ops.LOP3:
        _lop3(f0, f1, p0, xi, yi, zi, wi, q)
    elif op == ops.SHIFT_LEFT:
        for l in range(LANES):
            amount = np.int64(yi[0, l]) & LOW
            if f0:
                amount &= 31
            wi[0, l] = np.int32((np.int64(xi[0, l]) << (amount & 31)) if amount < 32 else np.int64(0))
    elif op == ops.SHIFT_RIGHT:
        for l in range(LANES):
            amount = np.int64(yi[0, l]) & LOW
            amount = amount & 31 if f0 else min(amount, np.int64(32))
            value = np.int64(zi[0, l])
            if not f1:
                value &= LOW
            wi[0, l] = np.int32(value >> amount)
    elif op == ops.COMPARE:
        _compare(f0, f1, f2, f3, p0, p1, xi, yi, q)
    elif op == ops.SELECT:
        chosen = np.int64(p0)
        for l in range(LANES):
            keep = -((chosen >> l) & 1)
            y = np.int64(yi[0, l])
            wi[0, l] = np.int32(y ^ ((np.int64(xi[0, l]) ^ y) & keep))
    elif op == ops.LEA:
        carries = np.int64(0)
        for l in range(LANES):
            x = ((np.int64(xi[0, l]) << f0) & LOW) ^ (-f1 & LOW)
            total = x + (np.int64(yi[0, l]) & LOW) + f2
            wi[0, l] = np.int32(total)
            carries |= (total >> 32 > 0) << l
        q[0] = carries
    elif op == ops.LEA_HIGH:
        _lea_high(f0, f1, f2, p0, xi, yi, zi, wi, q)
    elif op == ops.ADD3_CARRY:
        _add3_carry(f0, p0, p1, xi, yi, zi, wi, q)
    elif op == ops.MAD_WIDE:
        mask = np.int64(-1) if f0 else np.int64(LOW)
        for l in range(LANES):
            total = (np.int64(xi[0, l]) & mask) * (np.int64(yi[0, l]) & mask)
            total += (np.int64(zi[1, l]) << 32) | (np.int64(zi[0, l]) & LOW)
            wi[0, l] = np.int32(total)
            wi[1, l] = np.int32(total >> 32)
    elif op == ops.MAD_HIGH:
        mask = np.int64(-1) if f0 else np.int64(LOW)
        for l in range(LANES):
            total = (np.int64(xi[0, l]) & mask) * (np.int64(yi[0, l]) & mask)
            total += (np.int64(zi[1, l]) << 32) | (np.int64(zi[0, l]) & LOW)
            wi[0, l] = np.int32(total >> 32)
    elif op == ops.MAD_CARRY:
        carry = np.int64(p0)
        for l in range(LANES):
            total = np.int64(xi[0, l]) * np.int64(yi[0, l]) + np.int64(zi[0, l])
            wi[0, l] = np.int32(total + ((carry >> l) & 1))
    elif op == ops.MAD_WIDE_CARRY or op == ops.MAD_HIGH_CARRY:
        _mad_wide_carry(op == ops.MAD_HIGH_CARRY, f0, f1, f2, p0, xi, yi, zi, wi, q)
    elif op == ops.MINMAX or op == ops.ADD_MINMAX:
        _minmax(op == ops.ADD_MINMAX, f0, f1, p0, xi, yi, zi, wi)
    elif op == ops.FUNNEL:
        _funnel(f0, f1, f2, f3, xi, yi, zi, wi)
    elif op == ops.PERMUTE:
        permute_bytes(f0, xi, yi, zi, wi)
    elif op == ops.PREDICATE_LOGIC:
        a, b, c = np.int64(p0), np.int64(p1), np.int64(q[0])
        q[0] = _table3(f0, a, b, c) & LOW
        q[1] = _table3(f1, a, b, c) & LOW


@inner
def _table3(table, a, b, c):
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
        value = _table3(table, np.int64(xi[0, l]), np.int64(yi[0, l]), np.int64(zi[0, l]))
        wi[0, l] = np.int32(value)
        hits |= (value & LOW != 0) << l
    q[0] = _joined(hits, np.int64(p0), join)


@inner
def _joined(hits, predicate, join):
    if join == ops.JOIN_AND:
        return hits & predicate
    if join == ops.JOIN_OR:
        return hits | predicate
    return hits ^ predicate


@inner
def _compare(code, unsigned, join, extended, p0, p1, xi, yi, q):
    """q[0] = compare(x, y) joined with p0, q[1] = its complement joined with p0; ``extended``: the
    words are the high ones and p1 is the verdict on the low ones, which decides where they are equal.
    """
    mask = np.int64(LOW) if unsigned else np.int64(-1)
    less, equal = code & 1, code >> 1 & 1
    greater = code >> 2 & 1
    hits = np.int64(0)
    ties = np.int64(0)
    for l in range(LANES):
        x = np.int64(xi[0, l]) & mask
        y = np.int64(yi[0, l]) & mask
        hits |= (((x < y) & less) | ((x > y) & greater)) << l
        ties |= np.int64(x == y) << l
    if extended:
        hits |= ties & np.int64(p1)
    elif equal:
        hits |= ties
    predicate = np.int64(p0)
    q[0] = _joined(hits, predicate, join)
    q[1] = _joined(hits ^ LOW, predicate, join)


@inner
def _add3_carry(extra, p0, p1, xi, yi, zi, wi, q):
    """Three unsigned addends, two carry-ins and ``extra`` (one for each negated, that is complemented,
    addend); the carry of 0, 1 or 2 leaves as two predicates, so a chain may simply add both."""
    first, second = np.int64(p0), np.int64(p1)
    once = np.int64(0)
    twice = np.int64(0)
    for l in range(LANES):
        total = (np.int64(xi[0, l]) & LOW) + (np.int64(yi[0, l]) & LOW) + (np.int64(zi[0, l]) & LOW)
        total += extra + ((first >> l) & 1) + ((second >> l) & 1)
        wi[0, l] = np.int32(total)
        once |= (total >> 32 > 0) << l
        twice |= (total >> 32 > 1) << l
    q[0] = once
    q[1] = twice


@inner
def _lea_high(shift, signed, extra, p0, xi, yi, zi, wi, q):
    """Upper word of {z:x} << shift (z is x's sign when ``signed``), plus y, carry-in and ``extra``."""
    carry = np.int64(p0)
    carries = np.int64(0)
    for l in range(LANES):
        low = np.int64(xi[0, l]) & LOW
        high = np.int64(xi[0, l]) >> 32 if signed else np.int64(zi[0, l])
        upper = ((high << shift) | (low >> (32 - shift))) & LOW
        total = upper + (np.int64(yi[0, l]) & LOW) + extra + ((carry >> l) & 1)
        wi[0, l] = np.int32(total)
        carries |= (total >> 32 > 0) << l
    q[0] = carries


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


@inner
def _funnel(right, high, signed, modulus, xi, yi, zi, wi):
    """{z:x} shifted by y, low or ``high`` word. ``modulus`` 32 or 64: amounts saturate there; -32 or
    -64: they wrap."""
    for l in range(LANES):
        amount = np.int64(yi[0, l]) & LOW
        amount = amount & (-modulus - 1) if modulus < 0 else min(amount, np.int64(modulus))
        near = min(amount, np.int64(63))
        low = np.int64(xi[0, l]) & LOW
        value = (np.int64(zi[0, l]) << 32) | low
        if right:
            shifted = value >> near
            if not signed:
                # clear the copies of the sign that the arithmetic shift brought in
                shifted &= ~(np.int64(-2) << (63 - near))
            if amount == 64:
                shifted = shifted >> 63 if signed else np.int64(0)
        else:
            shifted = value << near if amount < 64 else np.int64(0)
        wi[0, l] = np.int32(shifted >> 32 if high else shifted)
