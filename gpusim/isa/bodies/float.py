"""FP32 bodies: add, multiply, fused multiply-add, minimum and maximum, comparisons.

Mental model and shapes as in :mod:`gpusim.isa.bodies.integer`; an FP32 number is the bit pattern of its word. Signs
and absolute values were applied by the sources. ``how`` is the rounding mode (0 nearest, 1 down, 2 up, 3 to zero) plus
FLUSH and SATURATE bits; to nearest without SATURATE vector bodies do the work.

Semantics: CUDA C++ Programming Guide, "Floating-Point Standard" (FP32 operations give the NaN
0x7fffffff; FMA rounds once; denormals kept unless .FTZ, which flushes sources and results to a zero of
their sign); PTX ISA for .sat (clamped to [0, 1], NaN to +0) and min/max (a number beats a NaN, -0 < +0).
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import float_ops as ops
from gpusim.isa import integer_ops
from gpusim.isa.bodies import masked, wide
from gpusim.isa.bodies.scalar import DOWN, NAN32, bits_of, float_of, flush32, narrow32, sum_error
from gpusim.isa.body import warp_body
from gpusim.isa.jit import inner

LANES = 32
LOW = 0xFFFFFFFF
SIGN = 0x80000000
#: What :func:`_rounded` computes.
ADD, MULTIPLY, FUSED = range(3)


@inner
def _rounded(op, how, x, y, z):
    """Bits of x op y (op z) with any rounding, flushing and saturation."""
    if how & ops.FLUSH:
        x, y, z = flush32(x), flush32(y), flush32(z)
    a, b = np.float64(float_of(x)), np.float64(float_of(y))
    if op == ADD:
        total = a + b
        lost = sum_error(a, b, total)
        negative = (x | y) & SIGN
    elif op == MULTIPLY:
        total = a * b
        lost = np.float64(0.0)
        negative = np.int64(0)
    else:
        product = a * b
        c = np.float64(float_of(z))
        total = product + c
        lost = sum_error(product, c, total)
        negative = (x ^ y | z) & SIGN
    return finished(total, lost, negative, how)


@inner
def finished(total, lost, negative, how):
    """FP32 bits of the real number total + lost (FP64) as ``how`` says; ``negative``: a zero rounded down is -0."""
    mode = how & 3
    if total != total:
        return np.int64(0) if how & ops.SATURATE else np.int64(NAN32)
    r = narrow32(total, lost, mode)
    bits = np.int64(bits_of(r)) & LOW
    if mode == DOWN and total == 0.0 and negative:
        bits = np.int64(SIGN)
    if how & ops.FLUSH:
        bits = flush32(bits)
    if how & ops.SATURATE:
        if r >= np.float32(1.0):
            return np.int64(0x3F800000)
        return np.int64(0) if bits & SIGN else bits
    return bits


@inner
def _compared(code, join, flush, p0, xi, yi):
    """Lanes where the comparison holds and where its complement does, each joined with p0."""
    less, equal, greater, unordered = code & 1, code >> 1 & 1, code >> 2 & 1, code >> 3 & 1
    hits = np.int64(0)
    for l in range(LANES):
        x, y = np.int64(xi[0, l]), np.int64(yi[0, l])
        if flush:
            x, y = flush32(x), flush32(y)
        a, b = float_of(x), float_of(y)
        below, same, above = np.int64(a < b), np.int64(a == b), np.int64(a > b)
        neither = 1 - (below | same | above)
        hit = below & less | same & equal | above & greater | neither & unordered
        hits |= hit << l
    predicate = np.int64(p0)
    other = hits ^ LOW
    if join == integer_ops.JOIN_AND:
        hits, other = hits & predicate, other & predicate
    elif join == integer_ops.JOIN_OR:
        hits, other = hits | predicate, other | predicate
    else:
        hits, other = hits ^ predicate, other ^ predicate
    return hits, other


@inner
def _minmax(small, how, x, y):
    """Minimum (``small``) or maximum of two FP32 bit patterns (sign-extended); with XOR_SIGN of their magnitudes,
    negative where one of them is (PTX ISA, min.xorsign.abs)."""
    if how & 1:
        x, y = flush32(x), flush32(y)
    x, y = x & LOW, y & LOW
    x_nan = x & 0x7FFFFFFF > 0x7F800000
    y_nan = y & 0x7FFFFFFF > 0x7F800000
    # sign-magnitude patterns in the order of their values
    x_order = x if x < SIGN else SIGN - x - 1
    y_order = y if y < SIGN else SIGN - y - 1
    if how & ops.XOR_SIGN:
        x_order, y_order = x & 0x7FFFFFFF, y & 0x7FFFFFFF
    value = x if (x_order < y_order) == (small != 0) else y
    if x_nan:
        value = y
    if y_nan:
        value = x
    if x_nan and y_nan or how & ops.PROPAGATE_NAN and (x_nan or y_nan):
        return np.int64(NAN32)
    if how & ops.XOR_SIGN:
        return (value & 0x7FFFFFFF) | ((x ^ y) & SIGN)
    return value


@inner
def _needs_slow_division(x, y):
    """Whether x / y by reciprocal and correction could go wrong: a special or denormal operand, a
    reciprocal, quotient or remainder near the ends of the exponent range. The exact ranges that the
    GPU uses are not published; both paths round correctly, so a difference costs no correctness."""
    top, bottom = x >> 23 & 255, y >> 23 & 255
    gap = top - bottom
    return np.int64(top < 25 or top == 255 or bottom == 0 or bottom >= 253 or gap >= 125 or gap <= -125)


def _vector(plain: int, flushed: int):
    """The vector body of arithmetic to nearest, with or without flushing."""
    return lambda flags, words: {0: plain, ops.FLUSH: flushed}.get(flags[0], 0)


@warp_body(unmasked=_vector(wide.FLOAT_ADD, wide.FLUSHED_ADD))
def add_float(f, p, xi, yi, zi, wi, q):
    """x + y; ``f[0]``: how."""
    for l in range(LANES):
        wi[0, l] = np.int32(_rounded(ADD, f[0], np.int64(xi[0, l]), np.int64(yi[0, l]), np.int64(0)))


@warp_body(unmasked=_vector(wide.FLOAT_MULTIPLY, wide.FLUSHED_MULTIPLY))
def multiply_float(f, p, xi, yi, zi, wi, q):
    """x * y; ``f[0]``: how."""
    for l in range(LANES):
        wi[0, l] = np.int32(_rounded(MULTIPLY, f[0], np.int64(xi[0, l]), np.int64(yi[0, l]), np.int64(0)))


@warp_body(unmasked=_vector(wide.FLOAT_FUSED, wide.FLUSHED_FUSED))
def fused_float(f, p, xi, yi, zi, wi, q):
    """x * y + z; ``f[0]``: how."""
    for l in range(LANES):
        wi[0, l] = np.int32(_rounded(FUSED, f[0], np.int64(xi[0, l]), np.int64(yi[0, l]), np.int64(zi[0, l])))


@inner
def _of_pair(words, word, picks, lane):
    """The number that the result's ``word`` takes of an operand: bits 0 and 1 of ``picks`` say for the lower and the
    upper result which word of the operand it reads, bits 2 and 3 whether its sign changes."""
    value = np.int64(words[picks >> word & 1, lane])
    return value ^ 0x80000000 if picks >> (2 + word) & 1 else value


@inner
def _pairs(op, how, picks, xi, yi, zi, wi):
    """Arithmetic on two FP32 numbers a lane; ``picks``: four bits an operand (see :func:`_of_pair`)."""
    for l in range(LANES):
        for word in range(2):
            x, y = _of_pair(xi, word, picks, l), _of_pair(yi, word, picks >> 4, l)
            wi[word, l] = np.int32(_rounded(op, how, x, y, _of_pair(zi, word, picks >> 8, l)))


@warp_body()
def add_float_pairs(f, p, xi, yi, zi, wi, q):
    """x + y of two numbers a lane; ``f``: how, picks."""
    _pairs(ADD, f[0], f[1], xi, yi, zi, wi)


@warp_body()
def multiply_float_pairs(f, p, xi, yi, zi, wi, q):
    """x * y of two numbers a lane; ``f``: how, picks."""
    _pairs(MULTIPLY, f[0], f[1], xi, yi, zi, wi)


@warp_body()
def fused_float_pairs(f, p, xi, yi, zi, wi, q):
    """x * y + z of two numbers a lane; ``f``: how, picks."""
    _pairs(FUSED, f[0], f[1], xi, yi, zi, wi)


@warp_body(masked=lambda flags, words: 0 if flags[2] else masked.FLOAT_COMPARE)
def compare_float(f, p, xi, yi, zi, wi, q):
    """The comparison and its complement; ``f``: comparison, how it joins the predicate input, flush."""
    hits, other = _compared(f[0], f[1], f[2], p[0], xi, yi)
    q[0] = hits
    q[1] = other


@warp_body()
def set_float(f, p, xi, yi, zi, wi, q):
    """All ones, or 1.0 if ``f[3]``, where the comparison holds; the other flags as above."""
    hits, _ = _compared(f[0], f[1], f[2], p[0], xi, yi)
    value = 0x3F800000 if f[3] else LOW
    for l in range(LANES):
        wi[0, l] = np.int32(value * (hits >> l & 1))


@warp_body()
def minmax_float(f, p, xi, yi, zi, wi, q):
    """Minimum where the predicate holds, else maximum; ``f[0]``: FLUSH as 1, PROPAGATE_NAN, XOR_SIGN."""
    least = np.int64(p[0])
    for l in range(LANES):
        x, y = np.int64(xi[0, l]), np.int64(yi[0, l])
        wi[0, l] = np.int32(_minmax((least >> l) & 1, f[0], x, y))


@warp_body()
def minmax3_float(f, p, xi, yi, zi, wi, q):
    """The same of three numbers."""
    least = np.int64(p[0])
    for l in range(LANES):
        small = (least >> l) & 1
        x, y, z = np.int64(xi[0, l]), np.int64(yi[0, l]), np.int64(zi[0, l])
        wi[0, l] = np.int32(_minmax(small, f[0], _minmax(small, f[0], x, y), z))


@warp_body()
def check_division(f, p, xi, yi, zi, wi, q):
    """q[0]: x / y needs the slow path."""
    hits = np.int64(0)
    for l in range(LANES):
        hits |= _needs_slow_division(np.int64(xi[0, l]), np.int64(yi[0, l])) << l
    q[0] = hits


@warp_body()
def select_flushed(f, p, xi, yi, zi, wi, q):
    """x where the predicate holds, else y; denormals become zeros."""
    chosen = np.int64(p[0])
    for l in range(LANES):
        wi[0, l] = np.int32(flush32(np.int64(xi[0, l]) if (chosen >> l) & 1 else np.int64(yi[0, l])))
