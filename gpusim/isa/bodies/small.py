"""Floating formats narrower than 32 bits: half, bfloat16, the 8-bit, 6-bit and 4-bit ones.

Mental model: a format is a sign, ``e`` exponent bits and ``m`` mantissa bits with IEEE denormals; FP64
holds every value exactly, so arithmetic happens there and :func:`encode_small` rounds once. The formats
that have no infinity say so in :func:`shape`. Source: PTX ISA (f16, bf16, e4m3, e5m2, e2m3, e3m2, e2m1,
tf32; NaN patterns 0x7fff and 0x7f), OCP 8-bit and microscaling format specifications.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import float_ops as ops
from gpusim.isa.bodies.scalar import DOWN, NEAREST, UP, _odd, bits64_of, bits_of, double_of, float_of
from gpusim.isa.jit import inner


@inner
def shape(style):
    """(mantissa bits, exponent bias, largest finite code, code of infinity or -1, code of NaN or -1)
    of a format; the sign bit stands above these codes."""
    if style == ops.F16:
        return 10, 15, 0x7BFF, 0x7C00, 0x7FFF
    if style == ops.BF16:
        return 7, 127, 0x7F7F, 0x7F80, 0x7FFF
    if style == ops.E4M3:
        return 3, 7, 0x7E, -1, 0x7F
    if style == ops.E5M2:
        return 2, 15, 0x7B, 0x7C, 0x7F
    if style == ops.E2M1:
        return 1, 1, 0x7, -1, -1
    if style == ops.E2M3:
        return 3, 1, 0x1F, -1, -1
    if style == ops.E3M2:
        return 2, 3, 0x1F, -1, -1
    return 10, 127, 0x3FBFF, 0x3FC00, 0x3FFFF  # TF32: the upper 19 bits of FP32


@inner
def sign_bit(style):
    """The sign's place in a code."""
    if style == ops.F16 or style == ops.BF16:
        return np.int64(0x8000)
    if style == ops.E4M3 or style == ops.E5M2:
        return np.int64(0x80)
    if style == ops.E2M1:
        return np.int64(0x8)
    if style == ops.TF32:
        return np.int64(0x40000)
    return np.int64(0x20)


@inner
def decode_half(code, style):
    """The FP32 value of a half precision (or, by ``style``, bfloat16) code: exact, without branches."""
    if style == ops.BF16:
        return float_of(code << 16)
    scaled = float_of((code & 0x7FFF) << 13) * np.float32(2.0**112)
    special = float_of(0x7F800000 | (code & 0x3FF) << 13)
    value = special if code & 0x7C00 == 0x7C00 else scaled
    return -value if code & 0x8000 else value


@inner
def encode_half(value, lost, style):
    """Round the real number value + lost (FP64) to nearest half precision or bfloat16.

    Adding and subtracting a power of two of the right size does the rounding, denormals included."""
    bits = bits64_of(value)
    # something lost behind an even last bit makes it odd, so that no tie is seen where there is none
    lost_above = (lost > 0.0) == (value > 0.0)
    if (lost > 0.0 or lost < 0.0) and bits & 1 == 0:
        bits += 1 if lost_above else -1
    magnitude = bits & 0x7FFFFFFFFFFFFFFF
    lowest = np.int64(1023 - 126) if style == ops.BF16 else np.int64(1023 - 14)
    excess = np.int64(45) if style == ops.BF16 else np.int64(42)
    exponent = min(max(magnitude >> 52, lowest), np.int64(1900))
    anchor = double_of((exponent + excess) << 52)
    rounded = (double_of(magnitude) + anchor) - anchor
    single = np.int64(bits_of(np.float32(rounded)))
    if style == ops.BF16:
        code = single >> 16
        infinity = np.int64(0x7F80)
    else:
        code = (single - (112 << 23)) >> 13
        if rounded < 6.103515625e-05:
            code = bits64_of(rounded * 16777216.0 + 4503599627370496.0) & 0xFFFF
        infinity = np.int64(0x7C00)
        if rounded > 65504.0:
            code = infinity
    if magnitude >= 0x7FF0000000000000:
        code = infinity
    if value != value:
        return np.int64(0x7FFF)
    return code | 0x8000 if bits < 0 else code


@inner
def decode_small(code, style):
    """The FP64 value of a code of a narrow format."""
    mantissa_bits, bias, largest, infinity, _nan = shape(style)
    sign = sign_bit(style)
    magnitude = code & (sign - 1)
    if magnitude > largest:
        value = np.float64(np.inf) if magnitude == infinity else np.float64(np.nan)
    else:
        exponent = magnitude >> mantissa_bits
        fraction = magnitude & ((1 << mantissa_bits) - 1)
        if exponent == 0:
            exponent = np.int64(1)
        else:
            fraction |= 1 << mantissa_bits
        scale = double_of(np.int64(exponent - bias - mantissa_bits + 1023) << 52)
        value = np.float64(fraction) * scale
    return -value if code & sign else value


@inner
def encode_small(value, lost, style, mode, finite):
    """Round the real number value + lost (FP64; lost below half an ulp) to a narrow format's code.

    ``mode`` is a rounding mode of alu_scalar; ``finite`` turns what overflows, and infinity, into the
    largest finite number."""
    mantissa_bits, bias, largest, infinity, nan = shape(style)
    sign = sign_bit(style)
    if value != value:
        return np.int64(nan) if nan >= 0 else np.int64(largest)
    exact = bits64_of(_odd(value, lost))
    negative = exact < 0
    magnitude = exact & 0x7FFFFFFFFFFFFFFF
    exponent = (magnitude >> 52) - 1023
    fraction = magnitude & 0xFFFFFFFFFFFFF
    if exponent == -1023:
        exponent = np.int64(-1022)
    else:
        fraction |= np.int64(1) << 52
    shift = np.int64(52 - mantissa_bits)
    low_exponent = 1 - bias
    base = np.int64(0)
    if exponent < low_exponent:
        shift = min(shift + low_exponent - exponent, np.int64(62))
    else:
        base = np.int64(exponent - low_exponent) << mantissa_bits
    quotient = fraction >> shift
    rest = fraction & ((np.int64(1) << shift) - 1)
    half = np.int64(1) << (shift - 1)
    grow = False
    if mode == NEAREST:
        grow = rest > half or (rest == half and quotient & 1 == 1)
    elif mode == DOWN:
        grow = negative and rest != 0
    elif mode == UP:
        grow = not negative and rest != 0
    code = base + quotient + (1 if grow else 0)
    if code > largest:
        stays = exponent < 1024 and (mode == 3 or (mode == DOWN and not negative) or (mode == UP and negative))
        if finite or stays:
            code = np.int64(largest)
        elif infinity >= 0:
            code = np.int64(infinity)
        else:
            code = np.int64(nan) if nan >= 0 else np.int64(largest)
    return code | sign if negative else code


@inner
def encode_stochastic(value, random, count, style, finite):
    """The code of an FP32 number (as FP64) rounded away from zero where ``count`` random bits, added to the uppermost
    bits that are cut off, carry into those that stay; otherwise towards zero. A denormal result is cut at its last
    bit."""
    if value - value != 0.0:
        return encode_small(value, np.float64(0.0), style, NEAREST, finite)
    mantissa_bits, bias, _largest, _infinity, _nan = shape(style)
    exponent = max((bits64_of(value) >> 52 & 2047) - 1023, np.int64(1 - bias))
    step = double_of((exponent - mantissa_bits + 1023) << 52)
    steps = np.floor(abs(value) / step + np.float64(random) * double_of((1023 - count) << 52))
    return encode_small(np.copysign(steps * step, value), np.float64(0.0), style, NEAREST, finite)
