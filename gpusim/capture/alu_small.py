"""Floating formats narrower than 32 bits: half, bfloat16, the 8-bit, 6-bit and 4-bit ones.

Mental model: a format is a sign, ``e`` exponent bits and ``m`` mantissa bits with IEEE denormals; FP64
holds every value exactly, so arithmetic happens there and :func:`encode_small` rounds once. The formats
that have no infinity say so in :func:`shape`. Source: PTX ISA (f16, bf16, e4m3, e5m2, e2m3, e3m2, e2m1,
tf32; NaN patterns 0x7fff and 0x7f), OCP 8-bit and microscaling format specifications.
"""

from __future__ import annotations

import numpy as np

from gpusim.capture.alu_scalar import DOWN, NEAREST, UP, _odd, bits64_of, double_of
from gpusim.capture.jit import inner
from gpusim.sass import float_ops as ops


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
def decode_small(code, style):
    """The FP64 value of a code of a narrow format."""
    mantissa_bits, bias, largest, infinity, nan = shape(style)
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
        stays = exponent < 1024 and (
            mode == 3 or (mode == DOWN and not negative) or (mode == UP and negative)
        )
        if finite or stays:
            code = np.int64(largest)
        elif infinity >= 0:
            code = np.int64(infinity)
        else:
            code = np.int64(nan) if nan >= 0 else np.int64(largest)
    return code | sign if negative else code
