"""Bodies of the tensor cores: products of small floating matrices that lie across the warp.

Mental model: first the fragments are gathered into two small matrices of (significand, exponent) pairs, then each
element of D is a chain of blocks: align the exact products and the accumulator to the largest exponent, cut, add, write
into the accumulator's format. What is cut where differs by generation: :mod:`gpusim.isa.bodies.tensor_rules`.

Fragments (PTX ISA, "Matrix Fragments for mma"): with lane = 4 g + t and E elements a register, register r of A holds
row g + 8 (r mod tiles), elements 4 E (r / tiles) + E t and on; register r of B the same elements of column g; D and C
hold row g (then g + 8), columns 2 t and 2 t + 1.

Shapes: x, y, z, w int32[4, 32] as in :mod:`gpusim.isa.bodies.integer`; ``rules`` int32[4]; ``work`` int32[4352].
Denormals count in full; any NaN, inf - inf or 0 * inf gives 0x7fffffff (FP16: 0x7fff).
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import float_ops
from gpusim.isa import tensor_ops as ops
from gpusim.isa.bodies import tensor_rules as rule
from gpusim.isa.bodies.double import fused_once
from gpusim.isa.bodies.scalar import bits64_of, double_of
from gpusim.isa.bodies.small import encode_half, shape, sign_bit
from gpusim.isa.body import matrix_body
from gpusim.isa.jit import inner

LANES = 32
#: Places in ``work``: significands and exponents of A (16 x 64 at most) and of B (8 x 128, and a column of B behind
#: it).
A_SIG, A_EXP, B_SIG, B_EXP = 0, 1024, 2048, 3200
#: Every significand has this many fraction bits (the most that an input format has), the accumulator 23.
INPUT_BITS, ACCUMULATOR_BITS = 10, 23
#: Fraction bits that no generation exceeds.
MOST_BITS = 25
#: Exponents of what is no finite number, and of zero: below every other, so that it aligns nothing, but not so far
#: that infinity times zero would look finite.
INFINITE, UNDEFINED, NOTHING = 1 << 20, 1 << 21, -(1 << 18)
LOWEST32 = -126


@inner
def split(code, style):
    """(signed significand with INPUT_BITS fraction bits, exponent) of a code of a narrow format."""
    mantissa_bits, bias, largest, infinity, _nan = shape(style)
    sign = sign_bit(style)
    magnitude = code & (sign - 1)
    exponent = magnitude >> mantissa_bits
    fraction = magnitude & ((np.int64(1) << mantissa_bits) - 1)
    negative = code & sign != 0
    if magnitude > largest:
        if magnitude == infinity:
            return np.int64(-1 if negative else 1), np.int64(INFINITE)
        return np.int64(0), np.int64(UNDEFINED)
    if exponent == 0:
        if fraction == 0:
            return np.int64(0), np.int64(NOTHING)
        exponent = np.int64(1)
    else:
        fraction |= np.int64(1) << mantissa_bits
    fraction <<= INPUT_BITS - mantissa_bits
    return -fraction if negative else fraction, exponent - bias


@inner
def split_accumulator(code, form):
    """The same of an accumulator (FP32 or FP16 pattern), with ACCUMULATOR_BITS fraction bits; zero has the
    lowest exponent of FP32."""
    if form == ops.ACCUMULATE_F16:
        significand, exponent = split(code & 0xFFFF, float_ops.F16)
        if exponent == NOTHING:
            exponent = np.int64(LOWEST32)
        elif exponent < INFINITE:
            significand = significand * (1 << (ACCUMULATOR_BITS - INPUT_BITS))
        return significand, exponent
    exponent = code >> 23 & 255
    fraction = code & 0x7FFFFF
    negative = code & 0x80000000 != 0
    if exponent == 255:
        if fraction:
            return np.int64(0), np.int64(UNDEFINED)
        return np.int64(-1 if negative else 1), np.int64(INFINITE)
    if exponent == 0:
        exponent = np.int64(1)
    else:
        fraction |= 0x800000
    return -fraction if negative else fraction, exponent - 127


@inner
def add_block(work, a, b, count, significand, exponent, fraction_bits):
    """The accumulator plus ``count`` products of row ``a`` and column ``b`` of ``work``: (sum in units of
    2 ** (e - fraction_bits), e), or (sign, INFINITE), or (0, UNDEFINED)."""
    top = exponent
    for k in range(count):
        top = max(top, np.int64(work[A_EXP + a + k]) + np.int64(work[B_EXP + b + k]))
    if top >= INFINITE // 2:
        return _not_finite(work, a, b, count, significand, exponent)
    cut = np.int64(MOST_BITS) - fraction_bits
    magnitude = abs(significand) << (MOST_BITS - ACCUMULATOR_BITS) >> min(cut + top - exponent, np.int64(63))
    total = -magnitude if significand < 0 else magnitude
    for k in range(count):
        product = np.int64(work[A_SIG + a + k]) * np.int64(work[B_SIG + b + k])
        down = min(cut + top - work[A_EXP + a + k] - work[B_EXP + b + k], np.int64(63))
        magnitude = abs(product) << (MOST_BITS - 2 * INPUT_BITS) >> down
        total += -magnitude if product < 0 else magnitude
    return total, top


@inner
def _not_finite(work, a, b, count, significand, exponent):
    """The sum where something is infinite or no number."""
    above, below = False, False
    if exponent >= UNDEFINED:
        return np.int64(0), np.int64(UNDEFINED)
    if exponent == INFINITE:
        above, below = significand > 0, significand < 0
    for k in range(count):
        a_exp, b_exp = work[A_EXP + a + k], work[B_EXP + b + k]
        if a_exp == UNDEFINED or b_exp == UNDEFINED:
            return np.int64(0), np.int64(UNDEFINED)
        if a_exp == INFINITE or b_exp == INFINITE:
            sign = np.int64(work[A_SIG + a + k]) * np.int64(work[B_SIG + b + k])
            if sign == 0:
                return np.int64(0), np.int64(UNDEFINED)
            above, below = above or sign > 0, below or sign < 0
    if above and below:
        return np.int64(0), np.int64(UNDEFINED)
    return np.int64(1 if above else -1), np.int64(INFINITE)


@inner
def write_accumulator(total, top, fraction_bits, form, result_bits):
    """The pattern of a sum: cut to FP32 with ``result_bits`` fraction bits, or rounded to nearest FP16."""
    if top == UNDEFINED:
        return np.int64(0x7FFF if form == ops.ACCUMULATE_F16 else 0x7FFFFFFF)
    if top == INFINITE:
        if form == ops.ACCUMULATE_F16:
            return np.int64(0x7C00 if total > 0 else 0xFC00)
        return np.int64(0x7F800000 if total > 0 else 0xFF800000)
    value = np.float64(total) * double_of((top - fraction_bits + 1023) << 52)
    if form == ops.ACCUMULATE_F16:
        return encode_half(value, np.float64(0.0), float_ops.F16)
    if total == 0:
        return np.int64(0)
    bits = bits64_of(value)
    sign = np.int64(0x80000000) if bits < 0 else np.int64(0)
    exponent = (bits >> 52 & 2047) - 1023
    if exponent > 127:
        return sign | 0x7F800000
    fraction = bits >> 29 & 0x7FFFFF
    if exponent >= LOWEST32:
        code = (exponent + 127) << 23 | fraction
    else:
        code = (fraction | 0x800000) >> min(LOWEST32 - exponent, np.int64(63))
    return sign | code & ~((np.int64(1) << (23 - result_bits)) - 1)


@inner
def gather(words, style, tiles, steps, elements, sig, exp, work):
    """Decode the fragments of ``tiles`` x ``steps`` registers into rows of ``work``. In a byte, 4 bits stand in the
    middle and 6 bits at the bottom (what CuTe's fp4_shift_A says of mma .kind::f8f6f4)."""
    bits = 32 // elements
    drop = 13 if style == float_ops.TF32 else 2 if style == float_ops.E2M1 and bits == 8 else 0
    keep = np.int64(0x3F if bits == 8 and (style == float_ops.E2M3 or style == float_ops.E3M2) else -1)
    if style == float_ops.E2M1:
        keep = np.int64(0xF)
    depth = 4 * elements * steps
    for r in range(tiles * steps):
        step = r // tiles
        for lane in range(LANES):
            word = np.int64(words[np.uint64(r), lane]) & 0xFFFFFFFF
            place = ((lane >> 2) + 8 * (r - step * tiles)) * depth + 4 * elements * step + elements * (lane & 3)
            for i in range(elements):
                code = word >> (bits * i) & ((np.int64(1) << bits) - 1)
                significand, exponent = split(code >> drop & keep, style)
                work[sig + place + i] = np.int32(significand)
                work[exp + place + i] = np.int32(exponent)


@inner
def _multiply(a_style, b_style, tiles, steps, form, x, y, z, w, rules, work):
    """D = A x B + C of a whole warp."""
    elements = 2
    if a_style == float_ops.TF32:
        elements = 1
    elif a_style != float_ops.F16 and a_style != float_ops.BF16:
        elements = 4
    gather(x, a_style, tiles, steps, elements, A_SIG, A_EXP, work)
    gather(y, b_style, 1, steps, elements, B_SIG, B_EXP, work)
    depth = 4 * elements * steps
    block = min(rules[rule.BLOCK_BYTES] * elements // 4, depth)
    fraction_bits = np.int64(rules[rule.FRACTION_BITS])
    result_bits = np.int64(23)
    if elements == 4:
        fraction_bits = np.int64(rules[rule.FRACTION_BITS_8])
        result_bits = np.int64(rules[rule.RESULT_BITS_8])
    for lane in range(LANES):
        for j in range(2 * tiles):
            row, column = (lane >> 2) + 8 * (j >> 1), 2 * (lane & 3) + (j & 1)
            if form == ops.ACCUMULATE_F16:
                code = np.int64(z[j >> 1, lane]) >> (16 * (j & 1)) & 0xFFFF
            else:
                code = np.int64(z[j, lane]) & 0xFFFFFFFF
            for start in range(0, depth, block):
                significand, exponent = split_accumulator(code, form)
                total, top = add_block(
                    work, row * depth + start, column * depth + start, block, significand, exponent, fraction_bits
                )
                code = write_accumulator(total, top, fraction_bits, form, result_bits)
            if form == ops.ACCUMULATE_F32:
                w[j, lane] = np.int32(code)
            elif j & 1:
                w[j >> 1, lane] = np.int32(np.int64(w[j >> 1, lane]) & 0xFFFF | code << 16)
            else:
                w[j >> 1, lane] = np.int32(code)


@inner
def _quad_lane(quarter, i):
    """The lane that holds row (or column) ``i`` of a quarter's 8 x 8 x 4 product."""
    return 4 * quarter + (i & 3) + 16 * (i >> 2)


@inner
def _half_of(words, lane, i):
    return np.int64(words[i >> 1, lane]) >> (16 * (i & 1)) & 0xFFFF


@inner
def _multiply_quads(step, order, to, of, x, y, z, w, rules, work):
    """One step of the four 8 x 8 x 4 products of a warp (PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16")."""
    fraction_bits = np.int64(rules[rule.FRACTION_BITS])
    for quarter in range(4):
        for i in range(8):
            for k in range(4):
                if order & ops.A_BY_COLUMNS:
                    code = _half_of(x, _quad_lane(quarter, k + (i & 4)), i & 3)
                else:
                    code = _half_of(x, _quad_lane(quarter, i), k)
                significand, exponent = split(code, float_ops.F16)
                work[A_SIG + 4 * i + k] = np.int32(significand)
                work[A_EXP + 4 * i + k] = np.int32(exponent)
                if order & ops.B_BY_ROWS:
                    code = _half_of(y, _quad_lane(quarter, k + (i & 4)), i & 3)
                else:
                    code = _half_of(y, _quad_lane(quarter, i), k)
                significand, exponent = split(code, float_ops.F16)
                work[B_SIG + 4 * i + k] = np.int32(significand)
                work[B_EXP + 4 * i + k] = np.int32(exponent)
        for own in range(8):
            lane = _quad_lane(quarter, own)
            for j in range(4 if to == ops.ACCUMULATE_F16 else 2):
                if to == ops.ACCUMULATE_F16:
                    row, column = own, 4 * step + j
                    code = _half_of(z, lane, j)
                else:
                    row = (own & 5) + 2 * (step & 1)
                    column = 4 * (step >> 1) + (own & 2) + j
                    if of == ops.ACCUMULATE_F16:
                        code = _half_of(z, _quad_lane(quarter, row), column & 3)
                    else:
                        code = np.int64(z[j, lane]) & 0xFFFFFFFF
                significand, exponent = split_accumulator(code, of)
                total, top = add_block(work, 4 * row, 4 * column, 4, significand, exponent, fraction_bits)
                code = write_accumulator(total, top, fraction_bits, to, np.int64(23))
                if to == ops.ACCUMULATE_F32:
                    w[j, lane] = np.int32(code)
                elif j & 1:
                    w[j >> 1, lane] = np.int32(np.int64(w[j >> 1, lane]) & 0xFFFF | code << 16)
                else:
                    w[j >> 1, lane] = np.int32(code)


@inner
def _multiply_doubles(mode, x, y, z, w):
    """DMMA 8 x 8 x 4: four fused multiply-adds one after another (arXiv 2511.10909), each rounded once."""
    for lane in range(LANES):
        for j in range(2):
            row, column = lane >> 2, 2 * (lane & 3) + j
            total = _double_at(z, lane, 2 * j)
            for k in range(4):
                total = fused_once(_double_at(x, 4 * row + k, 0), _double_at(y, 4 * column + k, 0), total, mode)
            bits = bits64_of(total)
            w[2 * j, lane] = np.int32(bits)
            w[2 * j + 1, lane] = np.int32(bits >> 32)


@inner
def _double_at(words, lane, word):
    return double_of(np.int64(words[np.uint64(word + 1), lane]) << 32 | np.int64(words[word, lane]) & 0xFFFFFFFF)


@inner
def store_result(w, lane, j, code, form):
    """Element ``j`` of a lane's D."""
    if form == ops.ACCUMULATE_F32:
        w[j, lane] = np.int32(code)
    elif j & 1:
        w[j >> 1, lane] = np.int32(np.int64(w[j >> 1, lane]) & 0xFFFF | code << 16)
    else:
        w[j >> 1, lane] = np.int32(code)


@inner
def load_addend(z, lane, j, form):
    """Element ``j`` of a lane's C, as a pattern."""
    if form == ops.ACCUMULATE_F16:
        return np.int64(z[j >> 1, lane]) >> (16 * (j & 1)) & 0xFFFF
    return np.int64(z[j, lane]) & 0xFFFFFFFF


@matrix_body
def multiply_tall_doubles(f, x, y, z, w, rules, work):
    """DMMA 16 x 8 x 4, 8 or 16 (sm_90): ``f``: rounding, depth, C is zero. Element i of A is row g + 8 (i mod 2),
    column t + 4 (i / 2), of B row t + 4 i of column g (PTX ISA); fused multiply-adds one after another, as of 8 x 8 x
    4."""
    for lane in range(LANES):
        for j in range(4):
            row, column = lane >> 2, 2 * (lane & 3) + (j & 1)
            total = np.float64(0.0)
            if f[2] == 0:
                total = _double_at(z, lane, np.uint64(2 * j))
            for k in range(f[1]):
                a = _double_at(x, 4 * row + (k & 3), np.uint64(2 * (2 * (k >> 2) + (j >> 1))))
                b = _double_at(y, 4 * column + (k & 3), np.uint64(2 * (k >> 2)))
                total = fused_once(a, b, total, f[0])
            bits = bits64_of(total)
            w[np.uint64(2 * j), lane] = np.int32(bits)
            w[np.uint64(2 * j + 1), lane] = np.int32(bits >> 32)


@matrix_body
def multiply_floats(f, x, y, z, w, rules, work):
    """``f``: formats of A and of B (float_ops) in bits 0..7 and 8..15; row tiles (1 or 2) of 8 rows in bits 0..3 and
    register steps along k (1 or 2) in bits 4..7; accumulator format (ACCUMULATE_*)."""
    _multiply(f[0] & 255, f[0] >> 8, f[1] & 15, f[1] >> 4, f[2], x, y, z, w, rules, work)


@matrix_body
def multiply_quads(f, x, y, z, w, rules, work):
    """The quarter-warp products of Volta; ``f``: step, A by columns (bit 0) and B by rows (bit 1), format of D, of
    C."""
    _multiply_quads(f[0], f[1], f[2], f[3], x, y, z, w, rules, work)


@matrix_body
def multiply_doubles(f, x, y, z, w, rules, work):
    """``f[0]``: rounding."""
    _multiply_doubles(f[0], x, y, z, w)
