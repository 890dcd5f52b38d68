"""Sums of a warp group's products: one row of D at a time, all its columns side by side.

Mental model: the rule is that of :mod:`gpusim.isa.bodies.tensor`: the exact products of a block and the accumulator are aligned to the
largest exponent, cut to a number of fraction bits and added exactly; the sum is cut (FP32) or rounded (FP16). Here the largest exponent
of each column is found first, then each product is scaled by its power of two and cut by the conversion to an integer, which for
numbers of 11 bits is exact in FP32. Columns where that is not so (an infinity, a NaN, a block of numbers all below 2 ** -60, a
denormal result) are computed again one by one.

A block is all that one instruction multiplies along k: 32 bytes of a dense row of A. Fraction bits: 25, of 8-bit floats 13, and 13 of the
FP32 result then. Source: Xie et al., "MMA-Sim", arXiv 2511.10909, equal to an H100 in every bit; Khattak and Mikaitis, arXiv
2512.07004, and DeepSeek-V3's report (arXiv 2412.19437) say the same of FP8 in other words. That a sparse block has as many products as a
dense one's is a guess.
"""

from __future__ import annotations

import math

import numpy as np

from gpusim.emulator.warpgroup_tiles import A_PLACE, COLUMNS, NARROW, NOTHING, ROWS, STRIP
from gpusim.isa import tensor_ops as ops
from gpusim.isa.bodies.scalar import bits64_of, bits_of, double_of, float_of
from gpusim.isa.bodies.tensor import ACCUMULATOR_BITS, INFINITE, LOWEST32, UNDEFINED, write_accumulator
from gpusim.isa.jit import apart, inner

FRACTION_BITS, FRACTION_BITS_8 = 25, 13
#: An exponent below this one belongs to a product of which a factor is zero.
_NO_PRODUCT = -(1 << 12)
#: Blocks whose largest exponent lies between have products that FP32 holds as far as they count.
_LOWEST, _HIGHEST = -60, 100
#: No sum in units of 2 ** (this - 25) is a denormal.
_LOWEST_SUM = -100
#: Above all exponents; the largest exponent of a scale.
_FINITE, _MOST_SCALE = 1 << 12, 126


@inner
def _power(exponent):
    """2 ** exponent as FP64."""
    return double_of((np.int64(exponent) + 1023) << 52)


@inner
def _accumulator_exponent(code, form):
    """Exponent of an accumulator given as FP32 pattern, above all that are finite if it is not."""
    biased = np.int32(np.int32(code >> 23) & np.int32(255))
    if form == ops.ACCUMULATE_F16:
        low = np.int32(LOWEST32 if np.int32(code & np.int32(0x7FFFFFFF)) == 0 else -14)
        exponent = np.int32(biased - 127)
        exponent = exponent if exponent > low else low
    else:
        exponent = np.int32((biased if biased > 1 else np.int32(1)) - 127)
    return np.int32(1 << 13) if biased == 255 else exponent


@apart
def _again(work, row, column, code, products, fraction_bits, form):
    """One element of D from its accumulator's pattern, whatever its terms are."""
    values, exponents, own = work.values, work.exponents, row * products
    result_bits = np.int64(FRACTION_BITS_8 if fraction_bits == FRACTION_BITS_8 else ACCUMULATOR_BITS)
    c = np.float64(float_of(code))
    top = np.int64(_accumulator_exponent(code, form))
    undefined, above, below = math.isnan(c), c == math.inf, c == -math.inf
    for j in range(products):
        b = np.int64(work.chosen[own + j]) * COLUMNS + column
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
        b = np.int64(work.chosen[own + j]) * COLUMNS + column
        total += np.int64(np.float64(values[A_PLACE + own + j]) * np.float64(values[b]) * power)
    return np.int32(write_accumulator(total, top, fraction_bits, form, result_bits))


def _strip_of(width):
    """The function that computes ``width`` columns of all rows, from ``start`` on."""

    @inner
    def largest_exponents(work, row, start, products):
        """Fill ``top`` with the largest exponent of each column's products."""
        top, exponents, chosen = work.top, work.exponents, work.chosen
        own = row * products
        for n in range(np.uint64(width)):
            top[n] = np.int16(2 * NOTHING)
        for j in range(0, products, 4):
            a0, a1 = exponents[A_PLACE + own + j], exponents[A_PLACE + own + j + 1]
            a2, a3 = exponents[A_PLACE + own + j + 2], exponents[A_PLACE + own + j + 3]
            b0 = np.uint64(np.int64(chosen[own + j]) * COLUMNS + start)
            b1 = np.uint64(np.int64(chosen[own + j + 1]) * COLUMNS + start)
            b2 = np.uint64(np.int64(chosen[own + j + 2]) * COLUMNS + start)
            b3 = np.uint64(np.int64(chosen[own + j + 3]) * COLUMNS + start)
            for n in range(np.uint64(width)):
                e0, e1 = np.int16(a0 + exponents[b0 + n]), np.int16(a1 + exponents[b1 + n])
                e2, e3 = np.int16(a2 + exponents[b2 + n]), np.int16(a3 + exponents[b3 + n])
                e0 = e0 if e0 > e1 else e1
                e2 = e2 if e2 > e3 else e3
                e0 = e0 if e0 > e2 else e2
                top[n] = e0 if e0 > top[n] else top[n]

    @inner
    def align(work, row, start, fraction_bits, form):
        """Raise ``top`` to the accumulators' exponents, fill ``scale`` and ``exact``, begin ``parts`` with the accumulators' part; returns
        whether some column has to be computed again."""
        top, scale, parts, before, exact, sums = work.top, work.scale, work.parts, work.before, work.exact, work.sums
        place = np.uint64(row * COLUMNS + start)
        bits = np.int32(fraction_bits)
        again = np.int32(0)
        for n in range(np.uint64(width)):
            code = sums[place + n]
            before[n] = code
            product, own = np.int32(top[n]), _accumulator_exponent(code, form)
            largest = product if product > own else own
            small = product > np.int32(_NO_PRODUCT) and largest < np.int32(_LOWEST)
            large = product > np.int32(_HIGHEST) or own > np.int32(_FINITE)
            denormal = largest < np.int32(_LOWEST_SUM) and np.int32(code & np.int32(0x7FFFFFFF)) != 0
            whole = np.int32(0) if small or large or denormal else np.int32(1)
            exact[n] = whole
            again |= np.int32(whole ^ np.int32(1))
            largest = largest if largest < np.int32(127) else np.int32(127)
            top[n] = np.int16(largest)
            power = np.int32(bits - largest)
            power = power if power < np.int32(_MOST_SCALE) else np.int32(_MOST_SCALE)
            factor = float_of(np.int32(np.int32(power + np.int32(127)) << np.int32(23)))
            scale[n] = factor
            parts[n] = np.int32(float_of(code) * factor) if whole else np.int32(0)
            parts[STRIP + n] = np.int32(0)
        return again != 0

    @inner
    def add_products(work, row, start, products):
        """Add the products to ``parts``, eight along k to the one, the next eight to the other: each stays below 2 ** 31."""
        values, chosen, scale, parts = work.values, work.chosen, work.scale, work.parts
        own = row * products
        for j in range(0, products, 8):
            a = A_PLACE + own + j
            a0, a1, a2, a3 = values[a], values[a + 1], values[a + 2], values[a + 3]
            a4, a5, a6, a7 = values[a + 4], values[a + 5], values[a + 6], values[a + 7]
            b0 = np.uint64(np.int64(chosen[own + j]) * COLUMNS + start)
            b1 = np.uint64(np.int64(chosen[own + j + 1]) * COLUMNS + start)
            b2 = np.uint64(np.int64(chosen[own + j + 2]) * COLUMNS + start)
            b3 = np.uint64(np.int64(chosen[own + j + 3]) * COLUMNS + start)
            b4 = np.uint64(np.int64(chosen[own + j + 4]) * COLUMNS + start)
            b5 = np.uint64(np.int64(chosen[own + j + 5]) * COLUMNS + start)
            b6 = np.uint64(np.int64(chosen[own + j + 6]) * COLUMNS + start)
            b7 = np.uint64(np.int64(chosen[own + j + 7]) * COLUMNS + start)
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
        top, parts, sums = work.top, work.parts, work.sums
        place = np.uint64(row * COLUMNS + start)
        if form == ops.ACCUMULATE_F16:
            for n in range(np.uint64(width)):
                total = np.int64(parts[n]) + np.int64(parts[STRIP + n])
                sums[place + n] = np.int32(
                    write_accumulator(total, np.int64(top[n]), fraction_bits, form, np.int64(ACCUMULATOR_BITS))
                )
            return
        kept = ~((np.int64(1) << (39 if fraction_bits == FRACTION_BITS_8 else 29)) - 1)
        for n in range(np.uint64(width)):
            total = np.float64(parts[n]) + np.float64(parts[STRIP + n])
            value = total * _power(np.int64(top[n]) - fraction_bits)
            sums[place + n] = bits_of(np.float32(double_of(bits64_of(value) & kept)))

    @apart
    def add_strip(work, start, products, fraction_bits, form):
        for row in range(ROWS):
            largest_exponents(work, row, start, products)
            again = align(work, row, start, fraction_bits, form)
            add_products(work, row, start, products)
            write(work, row, start, fraction_bits, form)
            if again:
                for n in range(width):
                    if work.exact[n] == 0:
                        code = _again(work, row, start + n, work.before[n], products, fraction_bits, form)
                        work.sums[row * COLUMNS + start + n] = code

    return add_strip


_add_wide, _add_narrow = _strip_of(STRIP), _strip_of(NARROW)


@inner
def add_floats(work, columns, products, fraction_bits, form):
    """D in ``sums`` in place of C, given as FP32 patterns, from the planes of A and B; ``columns``: a multiple of NARROW."""
    start = np.int64(0)
    while start < columns:
        if columns - start >= STRIP:
            _add_wide(work, start, products, fraction_bits, form)
            start += STRIP
        else:
            _add_narrow(work, start, products, fraction_bits, form)
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
def add_integers(work, columns, products, bits, saturates):
    """The same for bytes, or for ``bits`` 1 counts of the ones that words of A and B share: exact, wrapped or saturated at the end."""
    raw, chosen, sums, before = work.raw, work.chosen, work.sums, work.before
    for start in range(0, columns, STRIP):
        width = np.uint64(min(np.int64(STRIP), columns - start))
        for row in range(ROWS):
            for n in range(width):
                before[n] = 0
            for j in range(products):
                a = raw[A_PLACE + row * products + j]
                b = np.uint64(np.int64(chosen[row * products + j]) * COLUMNS + start)
                if bits == 1:
                    for n in range(width):
                        before[n] = np.int32(before[n] + _ones(np.int32(a & raw[b + n])))
                else:
                    for n in range(width):
                        before[n] = np.int32(before[n] + np.int32(a * raw[b + n]))
            place = np.uint64(row * COLUMNS + start)
            for n in range(width):
                total = np.int64(sums[place + n]) + np.int64(before[n])
                if saturates:
                    total = min(max(total, np.int64(-0x80000000)), np.int64(0x7FFFFFFF))
                sums[place + n] = np.int32(total)
