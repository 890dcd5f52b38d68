"""Conversions between integers and floats of every size, and rounding to integral values.

Mental model: a source lane becomes the FP64 number it denotes (of a 64-bit integer: a sum and what the
sum lost), is perhaps rounded to an integral value, and is then rounded once into the target. The
conversions that kernels are full of have loops of their own that do the same in a few vector steps.
Shapes as in :mod:`gpusim.isa.bodies.integer`; codes of types and options in ``gpusim/isa/float_ops.py``.

Rules (PTX ISA, ``cvt``): float to integer saturates; a NaN becomes 0, but 1 << (bits - 1) if the source
is FP64 or the target has 64 bits (``.NTZ`` in SASS marks the first kind); narrow integer results are
extended to 32 bits by their own sign; a NaN becomes the canonical NaN of the target.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import float_ops as ops
from gpusim.isa.bodies.scalar import (
    NAN32,
    adjust64,
    bits64_of,
    bits_of,
    double_of,
    float_of,
    flush32,
    narrow32,
    sum_error,
)
from gpusim.isa.bodies.small import decode_half, encode_small
from gpusim.isa.body import warp_body
from gpusim.isa.jit import inner

LANES = 32
LOW = 0xFFFFFFFF
NAN64 = np.int64(0x7FF8000000000000)
S32, U32 = ops.INTEGERS["S32"], ops.INTEGERS["U32"]


@inner
def _put(words, lane, bits):
    words[0, lane] = np.int32(bits)
    words[1, lane] = np.int32(bits >> 32)


@inner
def _convert(source, target, mode, options, xi, wi, lane):
    """One lane of any conversion."""
    low = np.int64(xi[0, lane])
    lost = np.float64(0.0)
    style = source & 255
    if style >= ops.INTEGER_KIND:
        bits, signed = (style - ops.INTEGER_KIND) >> 1, style & 1
        if bits == 64:
            high = np.int64(xi[1, lane]) if signed else np.int64(xi[1, lane]) & LOW
            upper, lower = np.float64(high) * 4294967296.0, np.float64(low & LOW)
            value = upper + lower
            lost = sum_error(upper, lower, value)
        else:
            whole = low >> (source >> 8) & ((np.int64(1) << bits) - 1)
            if signed:
                whole -= (whole >> (bits - 1)) << bits
            value = np.float64(whole)
    elif style == ops.F64:
        value = double_of(np.int64(xi[1, lane]) << 32 | low & LOW)
    elif style == ops.F32:
        value = np.float64(float_of(flush32(low) if options & ops.FLUSH_SOURCE else low))
    else:
        value = np.float64(decode_half(low >> (source >> 8) & 0xFFFF, style))
    if target >= ops.INTEGER_KIND:
        _store_integer(_integral(value, mode), target - ops.INTEGER_KIND, options, wi, lane)
    elif options & ops.INTEGRAL:
        _store(_integral(value, mode), lost, target, np.int64(0), options, wi, lane)
    else:
        _store(value, lost, target, mode, options, wi, lane)


@inner
def _integral(value, mode):
    """Round to an integral value: 0 nearest even, 1 down, 2 up, 3 to zero; keeps the sign of zero."""
    if mode == 0:
        return np.rint(value)
    if mode == 1:
        return np.floor(value)
    if mode == 2:
        return np.ceil(value)
    return np.trunc(value)


@inner
def _store_integer(whole, kind, options, wi, lane):
    """Write an integral number saturated; narrow results are extended by their own sign."""
    bits, signed = kind >> 1, kind & 1
    top = double_of((np.int64(1023) + bits - signed) << 52)  # first power of two that does not fit
    if whole != whole:
        result = np.int64(0)
        if options & ops.NAN_TO_ZERO == 0:
            result = np.int64(1) << (bits - 1)
            if signed and bits < 64:
                result = -result
    elif whole >= top:
        result = np.int64(-1) if signed == 0 and bits == 64 else ~(np.int64(-1) << (bits - signed))
    elif signed and whole < -top:
        result = np.int64(-1) << (bits - 1)
    elif signed == 0 and whole <= 0.0:
        result = np.int64(0)
    elif whole >= 9223372036854775808.0:
        result = np.int64(whole - 9223372036854775808.0) ^ np.int64(-(2**63))
    else:
        result = np.int64(whole)
    wi[0, lane] = np.int32(result)
    if bits == 64:
        wi[1, lane] = np.int32(result >> 32)


@inner
def _store(value, lost, style, mode, options, wi, lane):
    """Round value + lost into a floating format and write it."""
    if options & ops.CLAMP:
        if value != value or value <= 0.0:
            value, lost = np.float64(0.0), np.float64(0.0)
        elif value >= 1.0:
            value, lost = np.float64(1.0), np.float64(0.0)
    if style == ops.F64:
        _put(wi, lane, NAN64 if value != value else bits64_of(adjust64(value, lost, mode)))
    elif style == ops.F32:
        word = np.int64(NAN32)
        if value == value:
            word = np.int64(bits_of(narrow32(value, lost, mode)))
        wi[0, lane] = np.int32(flush32(word) if options & ops.FLUSH_RESULT else word)
    else:
        wi[0, lane] = np.int32(encode_small(value, lost, style, mode, False))


@warp_body()
def convert(f, p, xi, yi, zi, wi, q):
    """One number of any type to any other; ``f``: from type, to type, rounding, options."""
    if f[0] == S32 and f[1] == ops.F32 and f[2] == 0:
        for l in range(LANES):
            wi[0, l] = bits_of(np.float32(xi[0, l]))
    elif f[0] == S32 and f[1] == ops.F64:
        for l in range(LANES):
            _put(wi, l, bits64_of(np.float64(xi[0, l])))
    elif f[0] == ops.F32 and f[1] == ops.F64 and f[3] == 0:
        for l in range(LANES):
            value = np.float64(float_of(np.int64(xi[0, l])))
            _put(wi, l, bits64_of(value) if value == value else NAN64)
    elif f[0] == ops.F64 and f[1] == ops.F32 and f[2] == 0 and f[3] == 0:
        for l in range(LANES):
            single = np.float32(double_of(np.int64(xi[1, l]) << 32 | np.int64(xi[0, l]) & LOW))
            wi[0, l] = np.int32(bits_of(single) if single == single else NAN32)
    elif f[0] == ops.F32 and f[1] == S32 and f[2] == 3 and f[3] & ops.NAN_TO_ZERO:
        for l in range(LANES):
            value = np.float64(float_of(np.int64(xi[0, l])))
            bounded = min(max(value if value == value else 0.0, -2147483648.0), 2147483647.0)
            wi[0, l] = np.int32(np.int64(bounded))
    else:
        for l in range(LANES):
            _convert(f[0], f[1], f[2], f[3], xi, wi, l)
