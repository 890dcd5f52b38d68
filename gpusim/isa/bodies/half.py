"""Bodies of the packed 16-bit floats: half precision and bfloat16, two to a word.

Mental model and shapes as in :mod:`gpusim.isa.bodies.integer`. Every 16-bit float is an FP64 number;
products are exact there and sums leave their exact rounding error behind, so one rounding into the narrow
format is the right one. ``how`` names format and options (``gpusim/isa/half_ops.py``), ``swizzles`` says
with two bits a source which half the low (bit 0) and the high (bit 1) result read.

Source: PTX ISA (fma.f16x2, add.bf16x2, min/max, set, .relu, .sat; canonical NaN 0x7fff; .ftz flushes half
precision denormals).
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import float_ops, integer_ops
from gpusim.isa import half_ops as ops
from gpusim.isa.bodies.scalar import DOWN, NAN32, bits_of, float_of, narrow32, sum_error
from gpusim.isa.bodies.small import decode_half, encode_half, encode_small
from gpusim.isa.body import warp_body
from gpusim.isa.jit import inner

LANES = 32
LOW = 0xFFFFFFFF
#: What the arithmetic computes.
ADD, MULTIPLY, FUSED = range(3)


@inner
def _plain_halves(op, half, x_shift, y_shift, z_shift, xi, yi, zi, wi):
    """One half of a half-precision sum, product or both without options, all lanes in vector steps: a sum
    is x * 1 + y, a product x * y - 0."""
    style = float_ops.F16
    for l in range(LANES):
        a = np.float64(decode_half(np.int64(xi[0, l]) >> x_shift & 0xFFFF, style))
        b = np.float64(decode_half(np.int64(yi[0, l]) >> y_shift & 0xFFFF, style))
        c = np.float64(decode_half(np.int64(zi[0, l]) >> z_shift & 0xFFFF, style))
        if op == ADD:
            c = b
            b = np.float64(1.0)
        if op == MULTIPLY:
            c = np.float64(-0.0)
        product = a * b
        total = product + c
        code = encode_half(total, sum_error(product, c, total), style) << 16 * half
        wi[0, l] = np.int32(code | np.int64(wi[0, l]) & 0xFFFF if half else code)


@inner
def _pick(words, lane, swizzle, half):
    return np.int64(words[0, lane]) >> (16 * (swizzle >> half & 1)) & 0xFFFF


@inner
def _flushed(code, how):
    """A code with a half-precision denormal replaced by its zero, if ``how`` says so."""
    if how & ops.FLUSH and code & 0x7C00 == 0 and how & 15 == float_ops.F16:
        return code & 0x8000
    return code


@inner
def _real(op, how, x, y, z):
    """x op y (op z) as an FP64 number and what that lost."""
    style = how & 15
    a = np.float64(decode_half(_flushed(x, how), style))
    b = np.float64(decode_half(_flushed(y, how), style))
    if op == ADD:
        total = a + b
        return total, sum_error(a, b, total)
    product = a * b
    if op == MULTIPLY:
        return product, np.float64(0.0)
    c = np.float64(decode_half(_flushed(z, how), style))
    total = product + c
    return total, sum_error(product, c, total)


@inner
def _outside(x, y, z):
    """Whether an operand stands for an element outside its tensor (PTX ISA, fma: .oob)."""
    return x & 0x7FFF == ops.OUTSIDE or y & 0x7FFF == ops.OUTSIDE or z & 0x7FFF == ops.OUTSIDE


@inner
def _arithmetic(op, how, x, y, z):
    if how & ops.ZERO_OUTSIDE and _outside(x, y, z):
        return np.int64(0)
    total, lost = _real(op, how, x, y, z)
    if how & ops.SATURATE:
        if total != total or total <= 0.0:
            total, lost = np.float64(0.0), np.float64(0.0)
        elif total >= 1.0:
            total, lost = np.float64(1.0), np.float64(0.0)
    if how & ops.RELU and total <= 0.0:
        total, lost = np.float64(0.0), np.float64(0.0)
    if total - total != 0.0:
        lost = np.float64(0.0)
    return _flushed(encode_half(total, lost, how & 15), how)


@inner
def _wide(op, how, x, y, z):
    """The low result in FP32."""
    total, lost = _real(op, how, x, y, z)
    if total != total:
        return np.int64(NAN32)
    return np.int64(bits_of(narrow32(total, lost, 0)))


@inner
def _mixed(fused, style, mode, x, y, y_word, z_word):
    """FHADD: half x plus FP32 y; FHFMA: halves x * y plus FP32 z; into FP32."""
    a = np.float64(decode_half(x, style))
    if not fused:
        b = np.float64(float_of(y_word))
        total = a + b
        lost = sum_error(a, b, total)
        negative = (x >> 15 | y_word >> 31) & 1
    else:
        product = a * np.float64(decode_half(y, style))
        c = np.float64(float_of(z_word))
        total = product + c
        lost = sum_error(product, c, total)
        negative = ((x ^ y) >> 15 | z_word >> 31) & 1
    if total != total:
        return np.int64(NAN32)
    if total == 0.0 and mode == DOWN and negative:
        return np.int64(-0x80000000)
    return np.int64(bits_of(narrow32(total, lost, mode)))


@warp_body()
def add_narrowed(f, p, xi, yi, zi, wi, q):
    """HADD2 with FP32 sources (bit 0 of ``wide``: x, bit 1: y), which are first cut to half precision: the
    compiler rounds to zero with it. The sum stands in both halves. ``f``: how, swizzles, wide."""
    how, swizzles, wide = f[0], f[1], f[2]
    style = how & 15
    for l in range(LANES):
        x, y = _pick(xi, l, swizzles, 0), _pick(yi, l, swizzles >> 2, 0)
        if wide & 1:
            x = _cut_short(np.int64(xi[0, l]), style)
        if wide & 2:
            y = _cut_short(np.int64(yi[0, l]), style)
        wi[0, l] = np.int32(_arithmetic(ADD, how, x, y, x) * 0x10001)


@inner
def _cut_short(word, style):
    """The code of an FP32 number rounded to zero."""
    return encode_small(np.float64(float_of(word)), np.float64(0.0), style, 3, False)


@inner
def _compared(how, swizzles, code, join, p0, xi, yi):
    """Lanes where the low and where the high comparison holds (BOTH: their conjunction and its complement)."""
    style = how & 15
    less, equal, greater, unordered = code & 1, code >> 1 & 1, code >> 2 & 1, code >> 3 & 1
    low, high = np.int64(0), np.int64(0)
    for half in range(2):
        hits = np.int64(0)
        for l in range(LANES):
            a = decode_half(_flushed(_pick(xi, l, swizzles, half), how), style)
            b = decode_half(_flushed(_pick(yi, l, swizzles >> 2, half), how), style)
            below, same, above = np.int64(a < b), np.int64(a == b), np.int64(a > b)
            neither = 1 - (below | same | above)
            hits |= (below & less | same & equal | above & greater | neither & unordered) << l
        if half == 0:
            low = hits
        else:
            high = hits
    if how & ops.BOTH:
        low = low & high
        high = low ^ LOW
    predicate = np.int64(p0)
    if join == integer_ops.JOIN_AND:
        low, high = low & predicate, high & predicate
    elif join == integer_ops.JOIN_OR:
        low, high = low | predicate, high | predicate
    else:
        low, high = low ^ predicate, high ^ predicate
    return low, high


@inner
def _minmax(small, how, x, y):
    """Minimum (``small``) or maximum of two codes: a number beats a NaN, -0 lies below +0; with XOR_SIGN of their
    magnitudes, negative where one of them is."""
    style = how & 15
    x, y = _flushed(x, how), _flushed(y, how)
    infinity = 0x7C00 if style == float_ops.F16 else 0x7F80
    sign = np.int64(0x8000)
    x_nan = x & 0x7FFF > infinity
    y_nan = y & 0x7FFF > infinity
    x_order = x if x < sign else sign - x - 1
    y_order = y if y < sign else sign - y - 1
    if how & ops.XOR_SIGN:
        x_order, y_order = x & 0x7FFF, y & 0x7FFF
    value = x if (x_order < y_order) == (small != 0) else y
    if x_nan:
        value = y
    if y_nan:
        value = x
    if x_nan and y_nan or how & ops.PROPAGATE_NAN and (x_nan or y_nan):
        return np.int64(0x7FFF)
    if how & ops.RELU and value >= sign:
        return np.int64(0)
    if how & ops.XOR_SIGN:
        return value & 0x7FFF | (x ^ y) & sign
    return value


@inner
def _halves(op, how, swizzles, xi, yi, zi, wi):
    """Arithmetic on both halves of a word."""
    if how == float_ops.F16:
        for half in range(2):
            shifts = 16 * (swizzles >> half & 1), 16 * (swizzles >> 2 + half & 1), 16 * (swizzles >> 4 + half & 1)
            _plain_halves(op, half, shifts[0], shifts[1], shifts[2], xi, yi, zi, wi)
    else:
        for half in range(2):
            for l in range(LANES):
                x, y = _pick(xi, l, swizzles, half), _pick(yi, l, swizzles >> 2, half)
                code = _arithmetic(op, how, x, y, _pick(zi, l, swizzles >> 4, half)) << (16 * half)
                wi[0, l] = np.int32(code | np.int64(wi[0, l]) & 0xFFFF if half else code)


@inner
def _singles(op, how, swizzles, xi, yi, zi, wi):
    """The low result in FP32."""
    for l in range(LANES):
        x, y, z = _pick(xi, l, swizzles, 0), _pick(yi, l, swizzles >> 2, 0), _pick(zi, l, swizzles >> 4, 0)
        wi[0, l] = np.int32(_wide(op, how, x, y, z))


@inner
def _mixtures(fused, how, swizzles, xi, yi, zi, wi):
    """Halves into an FP32 sum; ``how``: format, and rounding above it."""
    for l in range(LANES):
        x, y = _pick(xi, l, swizzles, 0), _pick(yi, l, swizzles >> 2, 0)
        wi[0, l] = np.int32(_mixed(fused, how & 15, how >> 4, x, y, np.int64(yi[0, l]), np.int64(zi[0, l])))


# The flags of these: how, swizzles.


@warp_body()
def add_halves_float(f, p, xi, yi, zi, wi, q):
    """x + y in each half."""
    _halves(ADD, f[0], f[1], xi, yi, zi, wi)


@warp_body()
def multiply_halves(f, p, xi, yi, zi, wi, q):
    """x * y in each half."""
    _halves(MULTIPLY, f[0], f[1], xi, yi, zi, wi)


@warp_body()
def fused_halves(f, p, xi, yi, zi, wi, q):
    """x * y + z in each half."""
    _halves(FUSED, f[0], f[1], xi, yi, zi, wi)


@warp_body()
def add_to_single(f, p, xi, yi, zi, wi, q):
    """x + y of the low halves in FP32."""
    _singles(ADD, f[0], f[1], xi, yi, zi, wi)


@warp_body()
def multiply_to_single(f, p, xi, yi, zi, wi, q):
    """x * y of the low halves in FP32."""
    _singles(MULTIPLY, f[0], f[1], xi, yi, zi, wi)


@warp_body()
def fused_to_single(f, p, xi, yi, zi, wi, q):
    """x * y + z of the low halves in FP32."""
    _singles(FUSED, f[0], f[1], xi, yi, zi, wi)


@warp_body()
def add_mixed(f, p, xi, yi, zi, wi, q):
    """Half x plus FP32 y."""
    _mixtures(False, f[0], f[1], xi, yi, zi, wi)


@warp_body()
def fused_mixed(f, p, xi, yi, zi, wi, q):
    """Halves x * y plus FP32 z."""
    _mixtures(True, f[0], f[1], xi, yi, zi, wi)


@inner
def _minmaxes(three, how, swizzles, p0, xi, yi, zi, wi):
    """Minimum where the predicate holds, else maximum, of two or ``three`` sources, in each half."""
    least = np.int64(p0)
    for l in range(LANES):
        result = np.int64(0)
        for half in range(2):
            small = least >> l & 1
            value = _minmax(small, how, _pick(xi, l, swizzles, half), _pick(yi, l, swizzles >> 2, half))
            if three:
                value = _minmax(small, how, value, _pick(zi, l, swizzles >> 4, half))
            result |= value << (16 * half)
        wi[0, l] = np.int32(result)


@warp_body()
def minmax_halves_float(f, p, xi, yi, zi, wi, q):
    """Minimum or maximum of x and y in each half."""
    _minmaxes(False, f[0], f[1], p[0], xi, yi, zi, wi)


@warp_body()
def minmax3_halves_float(f, p, xi, yi, zi, wi, q):
    """Minimum or maximum of x, y and z in each half."""
    _minmaxes(True, f[0], f[1], p[0], xi, yi, zi, wi)


@warp_body()
def compare_halves(f, p, xi, yi, zi, wi, q):
    """q[0]: the low comparison, q[1]: the high one; ``f``: how, swizzles, comparison and (from bit 4 on) join."""
    low, high = _compared(f[0], f[1], f[2] & 15, f[2] >> 4, p[0], xi, yi)
    q[0] = low
    q[1] = high


@warp_body()
def set_halves(f, p, xi, yi, zi, wi, q):
    """All ones, or 1.0 if ``f[3]``, in each half where the comparison holds; the other flags as above."""
    low, high = _compared(f[0], f[1], f[2] & 15, f[2] >> 4, p[0], xi, yi)
    one = 0xFFFF
    if f[3]:
        one = 0x3C00 if f[0] & 15 == float_ops.F16 else 0x3F80
    for l in range(LANES):
        wi[0, l] = np.int32(one * (low >> l & 1) | one * (high >> l & 1) << 16)
