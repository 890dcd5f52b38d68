"""The sums of a product on decoded planes: one row of D at a time, all its columns side by side.

Mental model: as in :mod:`gpusim.isa.bodies.tensor`: products are exact; those of a block and the accumulator are
aligned to the largest exponent, cut to a number of fraction bits, added, and the sum is cut to FP32 (or rounded to
nearest half). Here a product is a float32 of at most 22 bits that is brought to units of the last fraction bit by a
power of two, and conversion to an integer cuts it: exactly what the alignment does. 16 such products fit an int32, and
their sums and the accumulator's add exactly in FP64.

Sources: Xie et al., "MMA-Sim", arXiv 2511.10909 and its published model, bitwise equal to B200 for tcgen05.mma: 25
fraction bits, blocks of 32 bytes of a row of A; 8-bit products with scales the same, the scales' exponents added to the
products'; 4-bit ones in groups of 16 whose sum is exact, multiplied by the scales, whose exponents alone decide about
the alignment, and cut at 35 bits. Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores", arXiv 2512.07004,
find the same 25 bits on B200 for half, bfloat16, TF32 and 8-bit floats. Not published, and chosen here: sparse products
make blocks of what is multiplied, not of what is skipped; scale-input-d lowers the accumulator's exponent before the
alignment.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import float_ops
from gpusim.isa.bodies.scalar import bits64_of, bits_of, double_of, float_of
from gpusim.isa.bodies.small import encode_half
from gpusim.isa.bodies.tensor import INFINITE, LOWEST32, NOTHING, UNDEFINED, split
from gpusim.isa.jit import apart, inner

FRACTION_BITS, GROUP_FRACTION_BITS, GROUP = 25, 35, 16
#: Products that are added in 32 bits.
_STRETCH = 16
#: Formats of D as the instruction descriptor has them.
D_F16, D_F32, D_S32 = range(3)
#: Exponents beyond these belong to what is infinite, or no number, even where scales were added.
#: FP64 pattern of FP32's smallest normal number.
_LEAST_NORMAL = (1023 - 126) << 52
_INFINITE, _UNDEFINED = INFINITE - 4096, UNDEFINED - 4096


@inner
def open_floats(code, acc, acc_exp, odd, columns, form, divide):
    """Split the accumulators ``code`` (patterns) into ``acc``, significands with 23 fraction bits, and exponents; a
    zero has the lowest exponent of FP32. ``divide``: by which power of two they are divided."""
    less = np.int32(divide)
    if form == D_F16:
        for n in range(columns):
            significand, exponent = split(np.int64(code[n]) & 0xFFFF, float_ops.F16)
            odd[n] = 0
            if exponent >= INFINITE:
                odd[n], exponent = 1, np.int64(LOWEST32)
            elif exponent == NOTHING:
                exponent = np.int64(LOWEST32)
            else:
                exponent -= divide
            acc[n], acc_exp[n] = np.int32(significand << 13), np.int32(exponent)
        return
    for n in range(columns):
        word = code[n]
        raw, fraction = np.int32(np.int32(word >> 23) & np.int32(255)), np.int32(word & np.int32(0x7FFFFF))
        hidden = np.int32(0) if raw == 0 else np.int32(0x800000)
        magnitude = np.int32(hidden | fraction)
        exponent = np.int32(max(raw, np.int32(1)) - np.int32(127))
        lower = np.int32(exponent - less)
        acc_exp[n] = exponent if magnitude == 0 else lower
        acc[n] = np.int32(-magnitude) if word < 0 else magnitude
        odd[n] = np.int32(1) if raw == 255 else np.int32(0)


@inner
def _highest(top, b_exp, a_exp, pick, first, count, columns):
    """Raise ``top`` to the largest exponent of ``count`` products, a multiple of 4, from ``first`` on."""
    for k in range(first, first + count, 4):
        e0, e1, e2, e3 = a_exp[k], a_exp[k + 1], a_exp[k + 2], a_exp[k + 3]
        r0, r1, r2, r3 = np.uint64(pick[k]), np.uint64(pick[k + 1]), np.uint64(pick[k + 2]), np.uint64(pick[k + 3])
        for n in range(np.uint64(columns)):
            t = top[n]
            t = max(t, np.int32(b_exp[r0, n] + e0))
            t = max(t, np.int32(b_exp[r1, n] + e1))
            t = max(t, np.int32(b_exp[r2, n] + e2))
            top[n] = max(t, np.int32(b_exp[r3, n] + e3))


@inner
def _units(a, b, exponent):
    """A product in units of the last fraction bit, cut; ``exponent``: of it, less the block's, plus what makes a float
    of it."""
    held = np.int32(exponent) if exponent > 0 else np.int32(0)  # one below is far less than a unit
    return np.int32((a * b) * float_of(np.int32(held << np.int32(23))))


@inner
def _add_products(sums, base, b_sig, b_exp, a_sig, a_exp, pick, first, count, columns):
    """Add ``count`` products, a multiple of 4, from ``first`` on, to ``sums``."""
    for k in range(first, first + count, 4):
        e0, e1, e2, e3 = a_exp[k], a_exp[k + 1], a_exp[k + 2], a_exp[k + 3]
        a0, a1, a2, a3 = a_sig[k], a_sig[k + 1], a_sig[k + 2], a_sig[k + 3]
        r0, r1, r2, r3 = np.uint64(pick[k]), np.uint64(pick[k + 1]), np.uint64(pick[k + 2]), np.uint64(pick[k + 3])
        for n in range(np.uint64(columns)):
            x = base[n]
            s = _units(a0, b_sig[r0, n], np.int32(np.int32(b_exp[r0, n] + e0) + x))
            s = np.int32(s + _units(a1, b_sig[r1, n], np.int32(np.int32(b_exp[r1, n] + e1) + x)))
            s = np.int32(s + _units(a2, b_sig[r2, n], np.int32(np.int32(b_exp[r2, n] + e2) + x)))
            s = np.int32(s + _units(a3, b_sig[r3, n], np.int32(np.int32(b_exp[r3, n] + e3) + x)))
            sums[n] = np.int32(sums[n] + s)


@apart
def add_block(work, row, first, count, columns):
    """total, top = the accumulators and ``count`` products of ``row`` from ``first`` on, in units of 2 ** (top -
    25)."""
    a_sig, a_exp, pick = work.a_sig[row], work.a_exp[row], work.pick[row]
    b_sig, b_exp, top, sums, total = work.b_sig, work.b_exp, work.top, work.sum, work.total
    acc, acc_exp = work.acc, work.acc_exp
    for n in range(columns):
        top[n] = acc_exp[n]
    _highest(top, b_exp, a_exp, pick, first, count, columns)
    for n in range(columns):
        down = np.int32(top[n] - acc_exp[n])
        down = down if down < 31 else np.int32(31)
        value = acc[n]
        magnitude = np.int32(np.int32(-value) if value < 0 else value)
        magnitude = np.int32(np.int32(magnitude << (FRACTION_BITS - 23)) >> down)
        acc[n] = np.int32(-magnitude) if value < 0 else magnitude
        acc_exp[n] = np.int32(np.int32(127 + FRACTION_BITS) - top[n])
        sums[n] = 0
    stretch = min(np.int64(_STRETCH), count)
    _add_products(sums, acc_exp, b_sig, b_exp, a_sig, a_exp, pick, first, stretch, columns)
    for n in range(columns):
        total[n] = np.float64(sums[n]) + np.float64(acc[n])
    for start in range(first + _STRETCH, first + count, _STRETCH):
        for n in range(columns):
            sums[n] = 0
        _add_products(sums, acc_exp, b_sig, b_exp, a_sig, a_exp, pick, start, np.int64(_STRETCH), columns)
        for n in range(columns):
            total[n] += np.float64(sums[n])


@apart
def add_groups(work, row, depth, groups_a_scale, columns):
    """The same of 4-bit floats with scales, each of which is of ``groups_a_scale`` groups; in units of 2 ** (top -
    35)."""
    a_exp, pick, b_exp, sums, top, total = work.a_exp[row], work.pick[row], work.b_exp, work.sum, work.top, work.total
    for n in range(columns):
        top[n] = work.acc_exp[n]
    groups = depth // GROUP
    for g in range(groups):
        for n in range(columns):
            sums[n] = 0
        for k in range(g * GROUP, g * GROUP + GROUP):
            a, r = a_exp[k], np.uint64(pick[k])
            for n in range(np.uint64(columns)):
                sums[n] = np.int32(sums[n] + np.int32(a * b_exp[r, n]))
        s = g // groups_a_scale
        scale, power = np.float64(work.a_scale[row, s]), work.a_power[row, s]
        group, group_exp, b_scale, b_power = work.group[g], work.group_exp[g], work.b_scale[s], work.b_power[s]
        for n in range(columns):
            value = np.float64(sums[n]) * 0.25 * scale * np.float64(b_scale[n])
            exponent = np.int32(b_power[n] + power)
            exponent = np.int32(LOWEST32) if value == 0.0 else exponent
            group[n], group_exp[n] = value, exponent
            top[n] = max(top[n], exponent)
    for n in range(columns):
        down = top[n] - work.acc_exp[n]
        total[n] = np.trunc(np.float64(work.acc[n]) * _power(np.int64(GROUP_FRACTION_BITS - 23 - down)))
    for g in range(groups):
        for n in range(columns):
            total[n] += np.trunc(
                work.group[g, n] * _power(np.int64(GROUP_FRACTION_BITS) + work.group_exp[g, n] - top[n])
            )


@inner
def _power(exponent):
    """2 ** exponent as FP64, or 0 far below what counts."""
    return double_of((exponent + 1023) << 52) if exponent > -1000 else np.float64(0.0)


@apart
def close_floats(work, form, fraction_bits, columns):
    """Write total * 2 ** (top - fraction_bits) to ``code``: cut to FP32, or rounded to nearest half."""
    top, total, code = work.top, work.total, work.code
    if form == D_F16:
        for n in range(columns):
            value = total[n] * _power(np.int64(top[n]) - fraction_bits)
            code[n] = np.int32(encode_half(value, np.float64(0.0), float_ops.F16) & 0xFFFF)
        return
    small = np.int64(0)
    for n in range(columns):
        value = total[n] * double_of((np.int64(top[n]) - fraction_bits + 1023) << 52)
        cut = double_of(bits64_of(value) & ~((np.int64(1) << 29) - 1))
        code[n] = bits_of(np.float32(cut))
        below = bits64_of(value) & 0x7FFFFFFFFFFFFFFF
        small |= np.int64(1) if 0 < below < _LEAST_NORMAL else np.int64(0)
    if small == 0:
        return
    for n in range(columns):  # denormals are cut as well, not rounded
        value = total[n] * double_of((np.int64(top[n]) - fraction_bits + 1023) << 52)
        if abs(value) < 1.1754943508222875e-38:
            magnitude = np.int64(np.trunc(abs(value) * 2.0**149))
            code[n] = (
                np.int32(((magnitude | 0x80000000) ^ 0x80000000) - 0x80000000) if value < 0.0 else np.int32(magnitude)
            )


@inner
def odd_element(work, row, n, count, first, form, before):
    """The pattern of an element where something is infinite or no number; ``before``: the accumulator's."""
    above, below = False, False
    if form == D_F16:
        significand, exponent = split(np.int64(before) & 0xFFFF, float_ops.F16)
        if exponent == UNDEFINED:
            return np.int32(0x7FFF)
        if exponent == INFINITE:
            above, below = significand > 0, significand < 0
    elif (before >> 23) & 255 == 255:
        if before & 0x7FFFFF:
            return np.int32(0x7FFFFFFF)
        above, below = before > 0, before < 0
    nothing = np.int32(0x7FFF if form == D_F16 else 0x7FFFFFFF)
    for k in range(first, first + count):
        r = work.pick[row, k]
        a, b = work.a_exp[row, k], work.b_exp[r, n]
        if a >= _UNDEFINED or b >= _UNDEFINED:
            return nothing
        if a >= _INFINITE or b >= _INFINITE:
            sign = work.a_sig[row, k] * work.b_sig[r, n]
            if sign == np.float32(0.0):
                return nothing
            above, below = above or sign > 0, below or sign < 0
    if above and below:
        return nothing
    if form == D_F16:
        return np.int32(0x7C00 if above else 0xFC00)
    return np.int32(0x7F800000) if above else np.int32(-0x800000)


@apart
def sum_integers(work, row, depth, saturate, accumulate, columns):
    """code += the products of ``row``, wrapped around or saturated once at the end."""
    a, pick, b, sums, code = work.a_exp[row], work.pick[row], work.b_exp, work.sum, work.code
    for n in range(columns):
        sums[n] = 0
    for k in range(depth):
        value, r = a[k], np.uint64(pick[k])
        for n in range(np.uint64(columns)):
            sums[n] = np.int32(sums[n] + np.int32(value * b[r, n]))
    for n in range(columns):
        total = np.int64(sums[n])
        if accumulate:
            total += np.int64(code[n])
        if saturate:
            total = min(max(total, np.int64(-0x80000000)), np.int64(0x7FFFFFFF))
        code[n] = np.int32(((total & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000)


@inner
def sum_floats(work, row, depth, block, form, columns, divide):
    """code = the products of ``row`` added to it in blocks one after another."""
    code, odd = work.code, work.odd
    for first in range(0, depth, block):
        open_floats(code, work.acc, work.acc_exp, odd, columns, form, divide if first == 0 else np.int64(0))
        add_block(work, row, first, block, columns)
        row_odd, some = work.a_odd[row], np.int32(0)
        for n in range(columns):
            odd[n] |= row_odd | work.b_odd[n]
            some |= odd[n]
            work.sum[n] = code[n]
        close_floats(work, form, np.int64(FRACTION_BITS), columns)
        if some:
            for n in range(columns):
                if odd[n]:
                    code[n] = odd_element(work, row, n, block, first, form, work.sum[n])


@inner
def sum_groups(work, row, depth, groups_a_scale, columns):
    """code = the products of ``row`` of 4-bit floats with scales added to it."""
    code, odd, some = work.code, work.odd, np.int32(0)
    open_floats(code, work.acc, work.acc_exp, odd, columns, np.int64(D_F32), np.int64(0))
    for n in range(columns):
        odd[n] |= work.a_odd[row] | work.b_odd[n]
        some |= odd[n]
        if odd[n]:
            work.acc[n], work.acc_exp[n] = 0, LOWEST32
    add_groups(work, row, depth, groups_a_scale, columns)
    for n in range(columns):
        work.sum[n] = code[n]
    close_floats(work, np.int64(D_F32), np.int64(GROUP_FRACTION_BITS), columns)
    if some:  # a scale that is no number makes none; an infinite accumulator stays
        for n in range(columns):
            before = work.sum[n]
            infinite = (before & 0x7FFFFFFF) == 0x7F800000 and work.a_odd[row] | work.b_odd[n] == 0
            if odd[n]:
                code[n] = before if infinite else np.int32(0x7FFFFFFF)
