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

from gpusim.emulator.warpgroup_tiles import A_DEPTH, A_PLACE, COLUMNS, NOTHING, ROWS, STRIP
from gpusim.isa import tensor_ops as ops
from gpusim.isa.bodies.scalar import bits64_of, bits_of, double_of, float_of
from gpusim.isa.bodies.tensor import INFINITE, LOWEST32, UNDEFINED, write_accumulator
from gpusim.isa.jit import apart, inner

FRACTION_BITS, FRACTION_BITS_8 = 25, 13
#: An exponent below this one belongs to a product of which a factor is zero.
_NO_PRODUCT = -(1 << 13)
#: Blocks whose largest exponent lies between have products that FP32 holds as far as they count.
_LOWEST, _HIGHEST = -60, 100
#: The largest exponent of a scale.
_MOST_SCALE = 120


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


@inner
def _largest_exponents(work, row, start, width, products):
    """Fill ``top`` with the largest exponent of each column's products."""
    top, exponents, chosen = work.top, work.exponents, work.chosen
    own = row * A_DEPTH
    for n in range(width):
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
def _align(work, row, start, width, fraction_bits, form):
    """Raise ``top`` to the accumulators' exponents, and fill ``scale``, ``total`` with the accumulators' part, ``exact``."""
    top, scale, total, before, exact, sums = work.top, work.scale, work.total, work.before, work.exact, work.sums
    place = np.uint64(row * COLUMNS + start)
    for n in range(np.uint64(width)):
        code = sums[place + n]
        before[n] = code
        product, own = np.int32(top[n]), _accumulator_exponent(code, form)
        largest = product if product > own else own
        small = product > np.int32(_NO_PRODUCT) and largest < np.int32(_LOWEST)
        exact[n] = np.int32(0) if small or largest > np.int32(1 << 12) else np.int32(1)
        largest = largest if largest < np.int32(127) else np.int32(127)
        top[n] = np.int16(largest)
        power = np.int32(fraction_bits - largest)
        power = power if power < np.int32(_MOST_SCALE) else np.int32(_MOST_SCALE)
        scale[n] = float_of(np.int32(np.int32(power + 127) << 23))
    for n in range(np.uint64(width)):
        part = np.float64(float_of(before[n])) * _power(fraction_bits - np.int64(top[n]))
        total[n] = np.float64(np.int32(part)) if exact[n] else np.float64(0.0)


@inner
def _add_products(work, row, start, width, products):
    """Add the products to ``total``, eight along k at a time: their sum stays below 2 ** 30."""
    values, chosen, scale, total = work.values, work.chosen, work.scale, work.total
    own = row * A_DEPTH
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
        for n in range(np.uint64(width)):
            s = scale[n]
            t0, t1 = np.int32(a0 * values[b0 + n] * s), np.int32(a1 * values[b1 + n] * s)
            t2, t3 = np.int32(a2 * values[b2 + n] * s), np.int32(a3 * values[b3 + n] * s)
            t4, t5 = np.int32(a4 * values[b4 + n] * s), np.int32(a5 * values[b5 + n] * s)
            t6, t7 = np.int32(a6 * values[b6 + n] * s), np.int32(a7 * values[b7 + n] * s)
            low, high = np.int32(np.int32(t0 + t1) + np.int32(t2 + t3)), np.int32(np.int32(t4 + t5) + np.int32(t6 + t7))
            total[n] += np.float64(np.int32(low + high))


@inner
def _write(work, row, start, width, fraction_bits, form):
    """D's patterns from ``total``; returns whether some column has to be computed again."""
    top, total, exact, sums = work.top, work.total, work.exact, work.sums
    place = np.uint64(row * COLUMNS + start)
    if form == ops.ACCUMULATE_F16:
        again = np.int32(0)
        for n in range(np.uint64(width)):
            code = write_accumulator(np.int64(total[n]), np.int64(top[n]), fraction_bits, form, np.int64(23))
            sums[place + n] = np.int32(code)
            again |= exact[n] ^ np.int32(1)
        return again != 0
    kept = ~((np.int64(1) << (39 if fraction_bits == FRACTION_BITS_8 else 29)) - 1)
    again = np.int32(0)
    for n in range(np.uint64(width)):
        value = total[n] * _power(np.int64(top[n]) - fraction_bits)
        size = abs(value)
        denormal = size > np.float64(0.0) and size < np.float64(2.0**-126)
        whole = np.int32(0) if denormal else exact[n]
        exact[n] = whole
        again |= whole ^ np.int32(1)
        sums[place + n] = bits_of(np.float32(double_of(bits64_of(value) & kept)))
    return again != 0


@apart
def _again(work, row, column, code, products, fraction_bits, form):
    """One element of D from its accumulator's pattern, whatever its terms are."""
    values, exponents, own = work.values, work.exponents, row * A_DEPTH
    result_bits = np.int64(13 if fraction_bits == FRACTION_BITS_8 else 23)
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


@inner
def add_floats(work, columns, products, fraction_bits, form, finite):
    """D in ``sums`` in place of C, given as FP32 patterns, from the planes of A and B; ``finite``: the planes have no infinity or NaN
    and no exponents that add up to more than 100."""
    for start in range(0, columns, STRIP):
        width = min(np.int64(STRIP), columns - start)
        for row in range(ROWS):
            _largest_exponents(work, row, start, width, products)
            _align(work, row, start, width, fraction_bits, form)
            if finite:
                _add_products(work, row, start, width, products)
            else:
                for n in range(width):
                    work.exact[n] = 0
            if _write(work, row, start, width, fraction_bits, form):
                for n in range(width):
                    if work.exact[n] == 0:
                        code = _again(work, row, start + n, work.before[n], products, fraction_bits, form)
                        work.sums[row * COLUMNS + start + n] = code


@inner
def _ones(word):
    """Set bits of a 32-bit pattern."""
    v = np.uint32(word)
    v = np.uint32(v - np.uint32(np.uint32(v >> np.uint32(1)) & np.uint32(0x55555555)))
    v = np.uint32(np.uint32(v & np.uint32(0x33333333)) + np.uint32(np.uint32(v >> np.uint32(2)) & np.uint32(0x33333333)))
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
                a = raw[A_PLACE + row * A_DEPTH + j]
                b = np.uint64(np.int64(chosen[row * A_DEPTH + j]) * COLUMNS + start)
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
