"""Conversions between integers and floats of every size, and rounding to integral values.

Mental model: a source lane becomes the FP64 number it denotes (64-bit integers: a sum and what the sum
lost), which is then rounded once into the target. Shapes as in :mod:`gpusim.capture.alu_integer`.

Rules (PTX ISA, ``cvt``): float to integer saturates; a NaN becomes 0, but 1 << (bits - 1) if the source
is FP64 or the target has 64 bits (``.NTZ`` in SASS marks the first kind); narrow integer results are
extended to 32 bits by their own sign; a NaN becomes the canonical NaN of the target.
"""

from __future__ import annotations

import numpy as np

from gpusim.capture.alu_scalar import (
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
from gpusim.capture.alu_small import decode_small, encode_small
from gpusim.capture.jit import inner
from gpusim.sass import float_ops as ops

LANES = 32
LOW = 0xFFFFFFFF
NAN64 = np.int64(0x7FF8000000000000)


@inner
def execute_convert(op, f0, f1, f2, f3, p0, p1, xi, yi, zi, wi, xf, yf, zf, wf, q):
    """Execute the conversion body ``op``."""
    if op == ops.TO_INTEGER:
        for l in range(LANES):
            value = _source(xi, l, f2 & 15, f2 >> 4 & 1, 16 * (f2 >> 5 & 1))
            result = _to_integer(value, f0 >> 1, f0 & 1, f1, f3)
            wi[0, l] = np.int32(result)
            if f0 >> 1 == 64:
                wi[1, l] = np.int32(result >> 32)
    elif op == ops.FROM_INTEGER:
        _from_integer(f0, f1, f2, f3, xi, wi)
    elif op == ops.TO_FLOAT:
        for l in range(LANES):
            value = _source(xi, l, f0 & 15, f3 & 1, 16 * (f0 >> 4 & 1))
            _store(value, np.float64(0.0), f1, f2, f3, wi, l)
    elif op == ops.ROUND:
        for l in range(LANES):
            value = _integral(_source(xi, l, f0 & 15, f2 & 1, 16 * (f0 >> 4 & 1)), f1)
            _store(value, np.float64(0.0), f0 & 15, 0, f2, wi, l)
    elif op == ops.PACK:
        _pack(f0, f1, f2, f3, xi, yi, zi, wi)
    elif op == ops.UNPACK:
        _unpack(f0, f1, f2, xi, wi)
    elif op == ops.PACK_INTEGER:
        for l in range(LANES):
            bits, signed = f0 >> 1, f0 & 1
            upper = _to_integer(np.float64(xf[0, l]), bits, signed, f1, 1)
            lower = _to_integer(np.float64(yf[0, l]), bits, signed, f1, 1)
            mask = (np.int64(1) << bits) - 1
            wi[0, l] = np.int32(np.int64(zi[0, l]) << (2 * bits) | (upper & mask) << bits | lower & mask)


@inner
def _source(xi, lane, style, flush, shift):
    """The FP64 number that a source lane denotes; ``shift`` picks the upper half of a word."""
    word = np.int64(xi[0, lane])
    if style == ops.F64:
        return double_of(np.int64(xi[1, lane]) << 32 | word & LOW)
    if style == ops.F32:
        return np.float64(float_of(flush32(word) if flush else word))
    return decode_small(word >> shift & 0xFFFF, style)


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
def _to_integer(value, bits, signed, mode, nan_to_zero):
    """Saturated integer of ``bits`` bits; narrow results extended by their own sign."""
    if value != value:
        if nan_to_zero:
            return np.int64(0)
        lone = np.int64(1) << (bits - 1)
        return -lone if signed and bits < 64 else lone
    whole = _integral(value, mode)
    if signed:
        limit = 2.0 ** (bits - 1)
        if whole >= limit:
            return ~(np.int64(-1) << (bits - 1))
        if whole < -limit:
            return np.int64(-1) << (bits - 1)
        return np.int64(whole)
    if whole <= 0.0:
        return np.int64(0)
    if whole >= 2.0**bits:
        return np.int64(-1) if bits == 64 else ~(np.int64(-1) << bits)
    if whole >= 9223372036854775808.0:
        return np.int64(whole - 9223372036854775808.0) ^ np.int64(-(2**63))
    return np.int64(whole)


@inner
def _store(value, lost, style, mode, how, wi, lane):
    """Round into ``style`` and write; ``how`` bit 0 flushes FP32 denormals, bit 1 saturates to [0, 1],
    bit 2 puts a narrow result into the upper half."""
    if how & 2:
        if value != value or value <= 0.0:
            value, lost = np.float64(0.0), np.float64(0.0)
        elif value >= 1.0:
            value, lost = np.float64(1.0), np.float64(0.0)
    if style == ops.F64:
        bits = NAN64 if value != value else bits64_of(adjust64(value, lost, mode))
        wi[0, lane] = np.int32(bits)
        wi[1, lane] = np.int32(bits >> 32)
    elif style == ops.F32:
        word = np.int64(NAN32)
        if value == value:
            word = np.int64(bits_of(narrow32(value, lost, mode)))
        wi[0, lane] = np.int32(flush32(word) if how & 1 else word)
    else:
        wi[0, lane] = np.int32(encode_small(value, lost, style, mode, False))


@inner
def _from_integer(kind, mode, style, shift, xi, wi):
    """Integer (``kind`` = 2 * bits + signed, found ``shift`` bits up) to float, rounded once."""
    bits, signed = kind >> 1, kind & 1
    for l in range(LANES):
        low = np.int64(xi[0, l])
        if bits == 64:
            high = np.int64(xi[1, l]) if signed else np.int64(xi[1, l]) & LOW
            big = np.float64(high) * 4294967296.0
            small = np.float64(low & LOW)
            total = big + small
            _store(total, sum_error(big, small, total), style, mode, 0, wi, l)
        else:
            value = low >> shift & ((np.int64(1) << bits) - 1)
            if signed:
                value -= (value >> (bits - 1)) << bits
            _store(np.float64(value), np.float64(0.0), style, mode, 0, wi, l)


@inner
def _pack(style, mode, how, merge, xi, yi, zi, wi):
    """Two FP32 numbers into a pair of a narrow format, x above y; ``how`` bit 0 saturates to finite,
    bit 1 clamps negatives and NaN of the clamp to zero (RELU); ``merge`` 1 keeps z above the pair, 2 puts
    the pair above z's lower half, 3 widens nothing: z ignored."""
    width = 16 if style == ops.F16 or style == ops.BF16 else 8
    for l in range(LANES):
        codes = np.int64(0)
        for i in range(2):
            word = np.int64(yi[0, l]) if i == 0 else np.int64(xi[0, l])
            value = np.float64(float_of(word))
            if how & 2 and value <= 0.0:
                value = np.float64(0.0)
            code = encode_small(value, np.float64(0.0), style, mode, how & 1 != 0)
            codes |= code << (width * i)
        if width == 8:
            kept = np.int64(zi[0, l])
            if merge == 1:
                codes |= kept << 16
            elif merge == 2:
                codes = codes << 16 | kept & 0xFFFF
        wi[0, l] = np.int32(codes)


@inner
def _unpack(style, target, shift, xi, wi):
    """A pair of 8-bit floats, ``shift`` bits up, into a pair of half precision numbers (exact)."""
    for l in range(LANES):
        word = np.int64(xi[0, l]) >> shift
        low = encode_small(decode_small(word & 255, style), np.float64(0.0), target, 0, False)
        high = encode_small(decode_small(word >> 8 & 255, style), np.float64(0.0), target, 0, False)
        wi[0, l] = np.int32(high << 16 | low)
