"""The commonest arithmetic bodies that read or write predicates, over all lanes of several warps.

Mental model: as the bodies of ``alu_wide.py``, but predicates are lane masks, one a warp. A mask that is read is
first spread to a row of zeros and ones on scratch; a mask that is written is gathered from such a row. In between
there are only plain loops over 32-bit lanes, which the compiler can make vector instructions of.

Shapes: as in ``alu_wide.py``; ``p0, p1`` uint32[8] predicates read and ``q`` uint32[8, 2] written, by warp; the
result area ``wi`` is always on scratch at host address ``w``, and its rows 1 to 3 are used on the way where the
result has one word. Semantics: see ``alu_integer.py`` and ``alu_float.py``.
"""

from __future__ import annotations

import numpy as np

from gpusim.capture.jit import inlined
from gpusim.capture.layout import LANES, ROW
from gpusim.capture.pointers import gather_mask, spread_mask
from gpusim.sass import float_ops, integer_ops

LOW = 0xFFFFFFFF
_ROW_BYTES, _WARP_BYTES = 4 * ROW, 4 * LANES

#: Numbers of these bodies; they follow those of ``alu_wide.py``.
FIRST_MASKED = 32
(
    ADD3_CARRY,
    MAD_CARRY,
    LEA_CARRY,
    LEA_HIGH,
    COMPARE,
    SELECT,
    MINMAX,
    FLOAT_COMPARE,
) = range(FIRST_MASKED, FIRST_MASKED + 8)

_INTEGER = {
    integer_ops.ADD3_CARRY: ADD3_CARRY,
    integer_ops.MAD_CARRY: MAD_CARRY,
    integer_ops.LEA: LEA_CARRY,
    integer_ops.LEA_HIGH: LEA_HIGH,
    integer_ops.COMPARE: COMPARE,
    integer_ops.SELECT: SELECT,
}


def masked_number(op: int, flags: tuple[int, ...]) -> int:
    """The body here of a micro-op (its number and flags), or 0."""
    flags = (*flags, 0, 0, 0, 0)
    if op == integer_ops.MINMAX and not flags[1]:
        return MINMAX
    if op == float_ops.COMPARE and not flags[2]:
        return FLOAT_COMPARE
    return _INTEGER.get(op, 0)


@inlined
def below(a, b):
    """1 if the 32-bit word a is less than b as unsigned numbers."""
    return np.int32((np.int64(a) & LOW) < (np.int64(b) & LOW))


@inlined
def joined(hits, predicate, join):
    """A comparison's mask joined with its predicate input."""
    if join == integer_ops.JOIN_AND:
        return hits & predicate
    if join == integer_ops.JOIN_OR:
        return hits | predicate
    return hits ^ predicate


@inlined
def execute_masked(number, f0, f1, f2, f3, xi, yi, zi, wi, xf, yf, p0, p1, q, w, warps):
    """Execute body ``number`` for ``warps`` warps."""
    f0, f1, f2, f3 = np.int64(f0), np.int64(f1), np.int64(f2), np.int64(f3)
    lanes = np.uint64(warps) * np.uint64(LANES)
    for warp in range(warps):
        place = w + warp * _WARP_BYTES
        spread_mask(place + _ROW_BYTES, p0[warp])
        if number == ADD3_CARRY:
            spread_mask(place + 2 * _ROW_BYTES, p1[warp])
    if number == ADD3_CARRY:
        for l in range(lanes):
            one = np.int32(np.int64(xi[0, l]) + np.int64(yi[0, l]))
            two = np.int32(np.int64(one) + np.int64(zi[0, l]))
            total = np.int32(np.int64(two) + np.int64(wi[1, l]) + np.int64(wi[2, l]) + f0)
            wi[0, l] = total
            carry = below(one, xi[0, l]) + below(two, one) + below(total, two)
            wi[1, l] = np.int32(carry)
            wi[2, l] = np.int32(carry > 1)
    elif number == MAD_CARRY:
        for l in range(lanes):
            wi[0, l] = np.int32(np.int64(xi[0, l]) * np.int64(yi[0, l]) + np.int64(zi[0, l]) + np.int64(wi[1, l]))
    elif number == LEA_CARRY:
        for l in range(lanes):
            shifted = np.int32((np.int64(xi[0, l]) << f0) ^ -f1)
            one = np.int32(np.int64(shifted) + np.int64(yi[0, l]))
            total = np.int32(np.int64(one) + f2)
            wi[0, l] = total
            wi[1, l] = np.int32(below(one, shifted) + below(total, one))
    elif number == LEA_HIGH:
        _lea_high(f0, f1, f2, xi, yi, zi, wi, lanes)
    elif number == COMPARE:
        if f1:
            for l in range(lanes):
                wi[1, l] = below(xi[0, l], yi[0, l])
                wi[2, l] = np.int32(xi[0, l] == yi[0, l])
        else:
            for l in range(lanes):
                wi[1, l] = np.int32(xi[0, l] < yi[0, l])
                wi[2, l] = np.int32(xi[0, l] == yi[0, l])
    elif number == SELECT:
        for l in range(lanes):
            wi[0, l] = xi[0, l] if wi[1, l] else yi[0, l]
    elif number == MINMAX:
        if f0:
            for l in range(lanes):
                wi[0, l] = xi[0, l] if below(xi[0, l], yi[0, l]) == wi[1, l] else yi[0, l]
        else:
            for l in range(lanes):
                wi[0, l] = xi[0, l] if np.int32(xi[0, l] < yi[0, l]) == wi[1, l] else yi[0, l]
    elif number == FLOAT_COMPARE:
        for l in range(lanes):
            wi[1, l] = np.int32(xf[0, l] < yf[0, l])
            wi[2, l] = np.int32(xf[0, l] == yf[0, l])
            wi[3, l] = np.int32(xf[0, l] > yf[0, l])
    if number == COMPARE or number == FLOAT_COMPARE:
        _verdicts(number, f0, f2 if number == COMPARE else f1, f3 if number == COMPARE else np.int64(0), p0, p1, q, w, warps)
    elif number <= LEA_HIGH and number != MAD_CARRY:
        for warp in range(warps):
            place = w + warp * _WARP_BYTES
            q[warp, 0] = gather_mask(place + _ROW_BYTES)
            q[warp, 1] = gather_mask(place + 2 * _ROW_BYTES)


@inlined
def _lea_high(shift, signed, extra, xi, yi, zi, wi, lanes):
    """Upper word of {z:x} << shift (z is x's sign when ``signed``), plus y, carry-in and ``extra``."""
    for l in range(lanes):
        low = np.int64(xi[0, l]) & LOW
        high = np.int64(xi[0, l]) >> 32 if signed else np.int64(zi[0, l])
        upper = np.int32((high << shift) | (low >> (32 - shift)))
        one = np.int32(np.int64(upper) + np.int64(yi[0, l]))
        total = np.int32(np.int64(one) + np.int64(wi[1, l]) + extra)
        wi[0, l] = total
        wi[1, l] = np.int32(below(one, upper) + below(total, one))


@inlined
def _verdicts(number, code, join, extended, p0, p1, q, w, warps):
    """From rows less, equal (and greater) to q: the comparison and its complement, each joined with p0.
    ``extended``: the words are the high ones and p1 is the verdict on the low ones, which decides where they are
    equal."""
    for warp in range(warps):
        place = w + warp * _WARP_BYTES
        less = np.int64(gather_mask(place + _ROW_BYTES))
        ties = np.int64(gather_mask(place + 2 * _ROW_BYTES))
        greater = LOW & ~(less | ties)
        unordered = np.int64(0)
        if number == FLOAT_COMPARE:
            greater = np.int64(gather_mask(place + 3 * _ROW_BYTES))
            unordered = LOW & ~(less | ties | greater)
        hits = less & -(code & 1) | greater & -(code >> 2 & 1) | unordered & -(code >> 3 & 1)
        if extended:
            hits |= ties & np.int64(p1[warp])
        else:
            hits |= ties & -(code >> 1 & 1)
        predicate = np.int64(p0[warp])
        q[warp, 0] = np.uint32(joined(hits, predicate, join) & LOW)
        q[warp, 1] = np.uint32(joined(hits ^ LOW, predicate, join) & LOW)
