"""Packing pairs of narrow numbers and unpacking them: F2FP and F2IP.

Mental model and shapes as in :mod:`gpusim.isa.bodies.convert`; x is packed above y. Source: PTX ISA,
``cvt`` with two sources (.satfinite, .relu: negatives become +0, NaN stays), and e4m3x2, e5m2x2, tf32,
ue8m0x2: a scale, the power of two ``2 ** (code - 127)``, with 255 for NaN (OCP microscaling formats); a negative
number's scale is its magnitude's (what the CUDA toolkit's cuda_fp8.hpp computes where no instruction does). Floats of
4 and 6 bits (e2m1x2, e2m3x2, e3m2x2) have no NaN: it becomes the largest number.

Stochastic rounding (``.rs``): PTX ISA, ``cvt`` with rbits, says which bits of z belong to which numbers: of half
precision the lower 13 and of bfloat16 all 16 of a half of z. Of four 8-bit or 6-bit numbers the upper half serves the
first pair, of four 4-bit ones the upper byte of each half; that each of the pair has 8 bits of its own is what
TransformerEngine's rounding without the instruction takes (pull request 3281), and which of the two is the upper one a
guess. The result of the first pair goes below z, which then offers its other bits to the second: so the compiler chains
two instructions.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import float_ops as ops
from gpusim.isa.bodies.scalar import double_of, float_of
from gpusim.isa.bodies.small import decode_half, decode_small, encode_small, encode_stochastic
from gpusim.isa.body import warp_body
from gpusim.isa.jit import inner

LANES = 32


@inner
def _scale_of(bits, mode, finite):
    """The scale of the FP32 number ``bits``, rounded up (ROUNDINGS: RP) or towards zero; what is too large, or
    infinite, becomes NaN or, if ``finite``, the largest scale."""
    magnitude = bits & 0x7FFFFFFF
    if magnitude > 0x7F800000:
        return np.int64(255)
    exponent, fraction = magnitude >> 23, magnitude & 0x7FFFFF
    beyond = fraction > 0x400000 if exponent == 0 else fraction != 0  # 2 ** -127 is itself a denormal
    if mode == 2 and beyond and exponent < 255:
        exponent += 1
    return min(exponent, np.int64(254)) if finite else exponent


@inner
def _bfloat16_of_scale(code):
    """A scale's bfloat16 code; 2 ** -127 is a denormal of it."""
    if code == 255:
        return np.int64(0x7FFF)
    return code << 7 if code else np.int64(0x40)


@inner
def _limited(value, how):
    """.RELU: what is not above zero becomes +0."""
    return np.float64(0.0) if how & 2 and value <= 0.0 else value


@inner
def _pack(style, mode, how, form, xi, yi, zi, wi):
    """Two numbers into a pair of a narrow format; ``how`` bit 0 saturates to finite, bit 1 is RELU.
    ``form`` 0: FP32 x above y; 1: the same below z; 2: the halves of x (half precision; 4: bfloat16), below y, which
    stays above them; 3: FP32 y alone, below z's lower half."""
    width = 16 if style == ops.F16 or style == ops.BF16 else 4 if style == ops.E2M1 else 8
    rest = 8 if style == ops.E2M1 else 16  # what was there moves up by a pair: so the compiler makes a word of four
    for l in range(LANES):
        codes = np.int64(0)
        for i in range(1 if form == 3 else 2):
            if form == 2 or form == 4:
                half = np.int64(xi[0, l]) >> 16 * i & 0xFFFF
                value = np.float64(decode_half(half, ops.F16 if form == 2 else ops.BF16))
            else:
                value = np.float64(float_of(np.int64(xi[0, l]) if i else np.int64(yi[0, l])))
            code = encode_small(_limited(value, how), np.float64(0.0), style, mode, how & 1 != 0)
            codes |= code << (width * i)
        if form == 1 or form == 3:
            codes |= np.int64(zi[0, l]) << rest
        elif form == 2 or form == 4:
            codes |= np.int64(yi[0, l]) << rest
        wi[0, l] = np.int32(codes)


@inner
def _small_integer(value, bits, signed, mode):
    """Rounded and saturated to at most 16 bits; NaN becomes 0."""
    if value != value:
        return np.int64(0)
    top = np.float64((np.int64(1) << (bits - signed)) - 1)
    bottom = -top - 1.0 if signed else np.float64(0.0)
    bounded = min(max(value, bottom), top)
    if mode == 0:
        return np.int64(np.rint(bounded))
    if mode == 1:
        return np.int64(np.floor(bounded))
    if mode == 2:
        return np.int64(np.ceil(bounded))
    return np.int64(np.trunc(bounded))


@warp_body()
def pack_floats(f, p, xi, yi, zi, wi, q):
    """``f``: format, rounding, how, form (see :func:`_pack`)."""
    if f[0] == ops.E8M0:
        for l in range(LANES):
            high, low, rest = np.int64(xi[0, l]), np.int64(yi[0, l]), np.int64(zi[0, l])
            if f[3] == 2:  # two bfloat16 numbers in x, above y
                high, low, rest = high & 0xFFFF0000, high << 16, low
            wi[0, l] = np.int32(rest << 16 | _scale_of(high, f[1], f[2]) << 8 | _scale_of(low, f[1], f[2]))
    else:
        _pack(f[0], f[1], f[2], f[3], xi, yi, zi, wi)


@warp_body()
def pack_stochastic(f, p, xi, yi, zi, wi, q):
    """x above y, rounded by the random bits in z, and narrow pairs below what is left of z; ``f``: format, how."""
    style, how, finite = f[0], f[1], f[1] & 1 != 0
    for l in range(LANES):
        random = np.int64(zi[0, l]) & 0xFFFFFFFF
        count, width = np.int64(8), np.int64(8)
        if style == ops.F16 or style == ops.BF16:
            width = np.int64(16)
            count = np.int64(13 if style == ops.F16 else 16)
            upper, lower = random >> 16, random
        elif style == ops.E2M1:
            width = np.int64(4)
            upper, lower = random >> 24, random >> 8
        else:
            upper, lower = random >> 24, random >> 16
        mask = (np.int64(1) << count) - 1
        high = _limited(np.float64(float_of(np.int64(xi[0, l]))), how)
        low = _limited(np.float64(float_of(np.int64(yi[0, l]))), how)
        codes = encode_stochastic(high, upper & mask, count, style, finite) << width
        codes |= encode_stochastic(low, lower & mask, count, style, finite)
        wi[0, l] = np.int32(codes if width == 16 else random << 2 * width | codes)


@warp_body()
def unpack_floats(f, p, xi, yi, zi, wi, q):
    """Two narrow floats to 16-bit ones; ``f``: from format, to format, place, how."""
    if f[0] == ops.E8M0:
        for l in range(LANES):
            word = np.int64(xi[0, l]) >> f[2]
            wi[0, l] = np.int32(_bfloat16_of_scale(word >> 8 & 255) << 16 | _bfloat16_of_scale(word & 255))
    else:
        for l in range(LANES):
            word = np.int64(xi[0, l]) >> f[2]
            bits = 4 if f[0] == ops.E2M1 else 8
            low = _limited(decode_small(word & (1 << bits) - 1, f[0]), f[3])
            high = _limited(decode_small(word >> bits & (1 << bits) - 1, f[0]), f[3])
            codes = encode_small(high, np.float64(0.0), f[1], 0, False) << 16
            wi[0, l] = np.int32(codes | encode_small(low, np.float64(0.0), f[1], 0, False))


@warp_body()
def unpack_scaled(f, p, xi, yi, zi, wi, q):
    """Two narrow floats to bfloat16, each times the scale (ue8m0) at its place in y; ``f``: from format, place of the
    numbers, place of the scales, how. The product is exact before it is rounded."""
    bits = np.int64(4 if f[0] == ops.E2M1 else 8)
    for l in range(LANES):
        word, scales, codes = np.int64(xi[0, l]) >> f[1], np.int64(yi[0, l]) >> f[2], np.int64(0)
        for i in range(2):
            value = _limited(decode_small(word >> bits * i & (1 << bits) - 1, f[0]), f[3])
            scale = scales >> 8 * i & 255
            factor = np.float64(np.nan) if scale == 255 else double_of((scale - 127 + 1023) << 52)
            codes |= encode_small(value * factor, np.float64(0.0), ops.BF16, 0, False) << 16 * i
        wi[0, l] = np.int32(codes)


@warp_body()
def to_tf32(f, p, xi, yi, zi, wi, q):
    """``f``: rounding, how (bit 0 saturates to finite, bit 1 is RELU)."""
    for l in range(LANES):
        value = _limited(np.float64(float_of(np.int64(xi[0, l]))), f[1])
        wi[0, l] = np.int32(encode_small(value, np.float64(0.0), ops.TF32, f[0], f[1] & 1 != 0) << 13)


@warp_body()
def floats_to_bytes(f, p, xi, yi, zi, wi, q):
    """Two FP32 numbers as saturated integers below z; ``f``: 2 * bits + signed, rounding."""
    bits, signed = f[0] >> 1, f[0] & 1
    for l in range(LANES):
        mask = (np.int64(1) << bits) - 1
        upper = _small_integer(np.float64(float_of(np.int64(xi[0, l]))), bits, signed, f[1])
        lower = _small_integer(np.float64(float_of(np.int64(yi[0, l]))), bits, signed, f[1])
        wi[0, l] = np.int32(np.int64(zi[0, l]) << (2 * bits) | (upper & mask) << bits | lower & mask)
