"""Sums of a warp group's products: one row of D at a time, all its columns side by side.

Mental model: the rule is that of :mod:`gpusim.isa.bodies.tensor`: the exact products of a block and the accumulator are
aligned to the largest exponent, cut to a number of fraction bits and added exactly; the sum is cut (FP32) or rounded
(FP16). Here the largest exponent of each column is found first, then each product is scaled by its power of two and cut
by the conversion to an integer, which for numbers of 11 bits is exact in FP32. Columns where that is not so (an
infinity, a NaN, a block of numbers all below 2 ** -60, or one above 2 ** 100) are computed again one by one.

A block is all that one instruction multiplies along k: 32 bytes of a dense row of A. Fraction bits: 25, of 8-bit floats
13, and 13 of the FP32 result then. Source: Xie et al., "MMA-Sim", arXiv 2511.10909, equal to an H100 in every bit;
Khattak and Mikaitis, arXiv 2512.07004, and DeepSeek-V3's report (arXiv 2412.19437) say the same of FP8 in other words.
That a sparse block has as many products as a dense one's is a guess.
"""

from __future__ import annotations

import math

import numpy as np

from gpusim.emulator.warpgroup_tiles import A_PLACE, NARROW, NOTHING, PITCH, PLANE, ROWS, STRIP
from gpusim.isa import tensor_ops as ops
from gpusim.isa.bodies.scalar import bits64_of, bits_of, double_of, float_of
from gpusim.isa.bodies.tensor import ACCUMULATOR_BITS, INFINITE, UNDEFINED, write_accumulator
from gpusim.isa.jit import apart, inner

FRACTION_BITS, FRACTION_BITS_8 = 25, 13
#: An exponent below this one belongs to a product of which a factor is zero.
_NO_PRODUCT = -(1 << 12)
#: Blocks whose largest exponent lies between have products that FP32 holds as far as they count, and sums that are
#: normal numbers.
_LOWEST, _HIGHEST = -60, 100
_BIAS = 127
#: Where the rows of B that a row of a sparse A is multiplied with are brought together.
CHOSEN = PLANE
_1, _2, _3, _4, _5, _6, _7 = (np.uint64(i) for i in range(1, 8))
_ROW = np.uint64(PITCH)


@inner
def _power(exponent):
    """2 ** exponent as FP64."""
    return double_of((np.int64(exponent) + 1023) << 52)


@inner
def _biased_exponent(code, form):
    """Biased exponent of an accumulator given as FP32 pattern: 255 if it is not finite, of a denormal that of the least
    normal number."""
    biased = np.int32(np.int32(code >> 23) & np.int32(255))
    low = np.int32(1)
    if form == ops.ACCUMULATE_F16:
        low = np.int32(1 if np.int32(code & np.int32(0x7FFFFFFF)) == 0 else _BIAS - 14)
    return biased if biased > low else low


@inner
def _needs_care(code, product, largest):
    """Whether FP32 does not hold what counts: an exponent out of bounds, unless there are zeros alone. ``product``:
    exponent of the largest product; ``largest``: biased, of all."""
    some = product > np.int32(_NO_PRODUCT) or np.int32(code & np.int32(0x7FFFFFFF)) != 0
    return (largest < np.int32(_LOWEST + _BIAS) and some) or largest > np.int32(_HIGHEST + _BIAS)


@apart
def _again(work, row, first, code, products, fraction_bits, form):
    """One element of D from its accumulator's pattern, whatever its terms are. ``first``: where its column of B
    begins."""
    values, exponents, own = work.values, work.exponents, row * products
    result_bits = np.int64(FRACTION_BITS_8 if fraction_bits == FRACTION_BITS_8 else ACCUMULATOR_BITS)
    c = np.float64(float_of(code))
    top = np.int64(_biased_exponent(code, form)) - _BIAS
    undefined, above, below = math.isnan(c), c == math.inf, c == -math.inf
    for j in range(products):
        b = first + j * PITCH
        x, y = np.float64(values[A_PLACE + own + j]), np.float64(values[b])
        product = x * y
        undefined |= math.isnan(product)
        above |= product == math.inf
        below |= product == -math.inf
        exponent = np.int64(exponents[A_PLACE + own + j]) + np.int64(exponents[b])
        top = max(top, exponent)
    if undefined or (above and below):
        return np.int32(write_accumulator(np.int64(0), np.int64(UNDEFINED), fraction_bits, form, result_bits))
    if above or below:
        sign = np.int64(1) if above else np.int64(-1)
        return np.int32(write_accumulator(sign, np.int64(INFINITE), fraction_bits, form, result_bits))
    power = _power(fraction_bits - top)
    total = np.int64(c * power)
    for j in range(products):
        b = first + j * PITCH
        total += np.int64(np.float64(values[A_PLACE + own + j]) * np.float64(values[b]) * power)
    return np.int32(write_accumulator(total, top, fraction_bits, form, result_bits))


def _strip_of(width):
    """The function that computes ``width`` columns of all rows, from place ``start`` on."""

    @inner
    def bring_chosen(work, row, start, products):
        """Copy the strip of those rows of B that a row of a sparse A is multiplied with to CHOSEN."""
        values, exponents = work.values, work.exponents
        for j in range(products):
            chosen = np.int64(work.chosen[row * products + j])
            b, to = np.uint64(chosen * PITCH + start), np.uint64(CHOSEN + j * PITCH)
            for n in range(np.uint64(width)):
                values[to + n] = values[b + n]
            for n in range(np.uint64(width)):
                exponents[to + n] = exponents[b + n]

    @inner
    def largest_exponents(work, row, first, products):
        """Fill ``top`` with the largest exponent of each column's products."""
        top, exponents = work.top, work.exponents
        for n in range(np.uint64(width)):
            top[n] = np.int16(2 * NOTHING)
        for j in range(0, products, 8):
            a = np.uint64(A_PLACE + row * products + j)
            a0, a1, a2, a3 = exponents[a], exponents[a + _1], exponents[a + _2], exponents[a + _3]
            a4, a5, a6, a7 = exponents[a + _4], exponents[a + _5], exponents[a + _6], exponents[a + _7]
            b0 = np.uint64(first + j * PITCH)
            b1, b2, b3, b4, b5 = b0 + _ROW, b0 + _2 * _ROW, b0 + _3 * _ROW, b0 + _4 * _ROW, b0 + _5 * _ROW
            b6, b7 = b0 + _6 * _ROW, b0 + _7 * _ROW
            for n in range(np.uint64(width)):
                e0, e1 = np.int16(a0 + exponents[b0 + n]), np.int16(a1 + exponents[b1 + n])
                e2, e3 = np.int16(a2 + exponents[b2 + n]), np.int16(a3 + exponents[b3 + n])
                e4, e5 = np.int16(a4 + exponents[b4 + n]), np.int16(a5 + exponents[b5 + n])
                e6, e7 = np.int16(a6 + exponents[b6 + n]), np.int16(a7 + exponents[b7 + n])
                e0, e2 = e0 if e0 > e1 else e1, e2 if e2 > e3 else e3
                e4, e6 = e4 if e4 > e5 else e5, e6 if e6 > e7 else e7
                e0, e4 = e0 if e0 > e2 else e2, e4 if e4 > e6 else e6
                e0 = e0 if e0 > e4 else e4
                top[n] = e0 if e0 > top[n] else top[n]

    @inner
    def align(work, row, start, fraction_bits, form):
        """Fill ``scale`` and ``unit``, begin ``parts`` with the accumulators' part; returns whether some column needs
        care."""
        top, scale, unit, parts, sums = work.top, work.scale, work.unit, work.parts, work.sums
        place = np.uint64(row * PITCH + start)
        bits = np.int32(fraction_bits)
        care = np.int32(0)
        for n in range(np.uint64(width)):
            code = sums[place + n]
            product, own = np.int32(top[n]), _biased_exponent(code, form)
            largest = np.int32(product + np.int32(_BIAS))
            largest = largest if largest > own else own
            care = np.int32(care | np.int32(1 if _needs_care(code, product, largest) else 0))
            largest = largest if largest > np.int32(_LOWEST + _BIAS) else np.int32(_LOWEST + _BIAS)
            largest = largest if largest < np.int32(_HIGHEST + _BIAS) else np.int32(_HIGHEST + _BIAS)
            factor = float_of(np.int32(np.int32(bits + np.int32(2 * _BIAS) - largest) << np.int32(23)))
            scale[n] = factor
            unit[n] = float_of(np.int32(np.int32(largest - bits) << np.int32(23)))
            parts[n] = np.int32(float_of(code) * factor)
            parts[STRIP + n] = np.int32(0)
        return care != 0

    @inner
    def add_products(work, row, first, products):
        """Add the products to ``parts``, eight along k to the one, the next eight to the other: each stays below 2 **
        31."""
        values, scale, parts = work.values, work.scale, work.parts
        for j in range(0, products, 8):
            a = np.uint64(A_PLACE + row * products + j)
            a0, a1, a2, a3 = values[a], values[a + _1], values[a + _2], values[a + _3]
            a4, a5, a6, a7 = values[a + _4], values[a + _5], values[a + _6], values[a + _7]
            b0 = np.uint64(first + j * PITCH)
            b1, b2, b3, b4, b5 = b0 + _ROW, b0 + _2 * _ROW, b0 + _3 * _ROW, b0 + _4 * _ROW, b0 + _5 * _ROW
            b6, b7 = b0 + _6 * _ROW, b0 + _7 * _ROW
            to = np.uint64((j >> 3 & 1) * STRIP)
            for n in range(np.uint64(width)):
                s = scale[n]
                t0, t1 = np.int32(a0 * values[b0 + n] * s), np.int32(a1 * values[b1 + n] * s)
                t2, t3 = np.int32(a2 * values[b2 + n] * s), np.int32(a3 * values[b3 + n] * s)
                t4, t5 = np.int32(a4 * values[b4 + n] * s), np.int32(a5 * values[b5 + n] * s)
                t6, t7 = np.int32(a6 * values[b6 + n] * s), np.int32(a7 * values[b7 + n] * s)
                low, high = (
                    np.int32(np.int32(t0 + t1) + np.int32(t2 + t3)),
                    np.int32(np.int32(t4 + t5) + np.int32(t6 + t7)),
                )
                parts[to + n] = np.int32(parts[to + n] + np.int32(low + high))

    @inner
    def write(work, row, start, fraction_bits, form):
        """D's patterns from ``parts``."""
        unit, parts, sums = work.unit, work.parts, work.sums
        place = np.uint64(row * PITCH + start)
        if form == ops.ACCUMULATE_F16:
            for n in range(np.uint64(width)):
                total = np.int64(parts[n]) + np.int64(parts[STRIP + n])
                top = np.int64(bits_of(unit[n]) >> 23) - _BIAS + fraction_bits
                sums[place + n] = np.int32(
                    write_accumulator(total, top, fraction_bits, form, np.int64(ACCUMULATOR_BITS))
                )
            return
        kept = ~((np.int64(1) << (39 if fraction_bits == FRACTION_BITS_8 else 29)) - 1)
        for n in range(np.uint64(width)):
            total = np.float64(parts[n]) + np.float64(parts[STRIP + n])
            sums[place + n] = bits_of(np.float32(double_of(bits64_of(total) & kept)) * unit[n])

    @inner
    def write_again(work, row, start, first, products, fraction_bits, form):
        """D's patterns of those columns that need care, from the accumulators in ``before``."""
        for n in range(width):
            code, product = work.before[n], np.int32(work.top[n])
            if _needs_care(code, product, max(_biased_exponent(code, form), np.int32(product + np.int32(_BIAS)))):
                code = _again(work, row, first + n, code, products, fraction_bits, form)
                work.sums[row * PITCH + start + n] = code

    @apart
    def add_strip(work, start, products, sparse, fraction_bits, form):
        first = start
        for row in range(ROWS):
            if sparse:
                bring_chosen(work, row, start, products)
                first = np.int64(CHOSEN)
            largest_exponents(work, row, first, products)
            care = align(work, row, start, fraction_bits, form)
            if care:
                for n in range(width):
                    work.before[n] = work.sums[row * PITCH + start + n]
            add_products(work, row, first, products)
            write(work, row, start, fraction_bits, form)
            if care:
                write_again(work, row, start, first, products, fraction_bits, form)

    return add_strip


_add_wide, _add_narrow = _strip_of(STRIP), _strip_of(NARROW)


@inner
def add_floats(work, columns, products, sparse, fraction_bits, form):
    """D in ``sums`` in place of C, given as FP32 patterns, from the planes of A and B; ``columns``: a multiple of
    NARROW."""
    start = np.int64(0)
    while start < columns:
        if columns - start >= STRIP:
            _add_wide(work, start, products, sparse, fraction_bits, form)
            start += STRIP
        else:
            _add_narrow(work, start, products, sparse, fraction_bits, form)
            start += NARROW


@inner
def _ones(word):
    """Set bits of a 32-bit pattern."""
    v = np.uint32(word)
    v = np.uint32(v - np.uint32(np.uint32(v >> np.uint32(1)) & np.uint32(0x55555555)))
    v = np.uint32(
        np.uint32(v & np.uint32(0x33333333)) + np.uint32(np.uint32(v >> np.uint32(2)) & np.uint32(0x33333333))
    )
    v = np.uint32(np.uint32(v + np.uint32(v >> np.uint32(4))) & np.uint32(0x0F0F0F0F))
    return np.int32(np.uint32(v * np.uint32(0x01010101)) >> np.uint32(24))


@inner
def add_integers(work, columns, products, sparse, bits, saturates):
    """The same for bytes, or for ``bits`` 1 counts of the ones that words of A and B share: exact, wrapped or saturated
    at the end."""
    raw, chosen, sums, before = work.raw, work.chosen, work.sums, work.before
    for start in range(0, columns, STRIP):
        width = np.uint64(min(np.int64(STRIP), columns - start))
        for row in range(ROWS):
            for n in range(width):
                before[n] = 0
            for j in range(products):
                own = row * products + j
                a = raw[A_PLACE + own]
                b = np.uint64((np.int64(chosen[own]) if sparse else j) * PITCH + start)
                if bits == 1:
                    for n in range(width):
                        before[n] = np.int32(before[n] + _ones(np.int32(a & raw[b + n])))
                else:
                    for n in range(width):
                        before[n] = np.int32(before[n] + np.int32(a * raw[b + n]))
            place = np.uint64(row * PITCH + start)
            for n in range(width):
                total = np.int64(sums[place + n]) + np.int64(before[n])
                if saturates:
                    total = min(max(total, np.int64(-0x80000000)), np.int64(0x7FFFFFFF))
                sums[place + n] = np.int32(total)
