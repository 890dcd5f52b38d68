"""FP32 bodies: add, multiply, fused multiply-add, minimum and maximum, comparisons.

Mental model and shapes as in :mod:`gpusim.isa.bodies.integer`; ``xf..wf`` float32[4, 32] are views of
the same memory as ``xi..wi``. Signs and absolute values were applied by the sources. ``how`` is the
rounding mode (0 nearest, 1 down, 2 up, 3 to zero) plus FLUSH and SATURATE bits.

Semantics: CUDA C++ Programming Guide, "Floating-Point Standard" (FP32 operations give the NaN
0x7fffffff; FMA rounds once; denormals kept unless .FTZ, which flushes sources and results to a zero of
their sign); PTX ISA for .sat (clamped to [0, 1], NaN to +0) and min/max (a number beats a NaN, -0 < +0).
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import float_ops as ops
from gpusim.isa import integer_ops
from gpusim.isa.bodies.convert import execute_convert
from gpusim.isa.bodies.mufu import execute_mufu
from gpusim.isa.bodies.scalar import DOWN, NAN32, bits_of, float_of, flush32, narrow32, sum_error
from gpusim.isa.jit import inlined, inner

LANES = 32
LOW = 0xFFFFFFFF
SIGN = 0x80000000


@inlined
def execute_float(op, f0, f1, f2, f3, p0, p1, xi, yi, zi, wi, xf, yf, zf, wf, q):
    """Execute the FP32, MUFU or conversion body ``op``; see the module docstring for shapes."""
    op, f0, f1 = np.int64(op), np.int64(f0), np.int64(f1)
    f2, f3 = np.int64(f2), np.int64(f3)
    if op >= ops.CONVERT_BASE:
        execute_convert(op, f0, f1, f2, f3, p0, p1, xi, yi, zi, wi, xf, yf, zf, wf, q)
    elif op >= ops.MUFU_BASE:
        execute_mufu(op, f0, f1, f2, f3, p0, p1, xi, yi, zi, wi, xf, yf, zf, wf, q)
    elif op <= ops.FUSED:
        for l in range(LANES):
            wi[0, l] = np.int32(_rounded(op, f0, np.int64(xi[0, l]), np.int64(yi[0, l]), np.int64(zi[0, l])))
    elif op == ops.COMPARE or op == ops.SET:
        _compare(op, f0, f1, f2, f3, p0, xi, yi, wi, q)
    elif op == ops.MINMAX:
        least = np.int64(p0)
        for l in range(LANES):
            x, y = np.int64(xi[0, l]), np.int64(yi[0, l])
            wi[0, l] = np.int32(_minmax((least >> l) & 1, f0, x, y))
    elif op == ops.MINMAX3:
        least = np.int64(p0)
        for l in range(LANES):
            small = (least >> l) & 1
            x, y, z = np.int64(xi[0, l]), np.int64(yi[0, l]), np.int64(zi[0, l])
            wi[0, l] = np.int32(_minmax(small, f0, _minmax(small, f0, x, y), z))
    elif op == ops.CHECK_DIVISION:
        hits = np.int64(0)
        for l in range(LANES):
            hits |= _needs_slow_division(np.int64(xi[0, l]), np.int64(yi[0, l])) << l
        q[0] = hits
    elif op == ops.SELECT_FLUSHED:
        chosen = np.int64(p0)
        for l in range(LANES):
            wi[0, l] = np.int32(flush32(np.int64(xi[0, l]) if (chosen >> l) & 1 else np.int64(yi[0, l])))
    elif op <= ops.FUSED_PAIR:
        for w in range(2):
            for l in range(LANES):
                x, y, z = np.int64(xi[w, l]), np.int64(yi[w, l]), np.int64(zi[w, l])
                wi[w, l] = np.int32(_rounded(op - ops.ADD_PAIR + ops.ADD, f0, x, y, z))


@inner
def _rounded(op, how, x, y, z):
    """Bits of x op y (op z) with any rounding, flushing and saturation."""
    mode = how & 3
    if how & ops.FLUSH:
        x, y, z = flush32(x), flush32(y), flush32(z)
    a, b = np.float64(float_of(x)), np.float64(float_of(y))
    if op == ops.ADD:
        total = a + b
        lost = sum_error(a, b, total)
        negative = (x | y) & SIGN
    elif op == ops.MULTIPLY:
        total = a * b
        lost = np.float64(0.0)
        negative = np.int64(0)
    else:
        product = a * b
        c = np.float64(float_of(z))
        total = product + c
        lost = sum_error(product, c, total)
        negative = (x ^ y | z) & SIGN
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
def _compare(op, code, join, flush, numeric, p0, xi, yi, wi, q):
    """FSETP: the comparison and its complement, each joined with p0. FSET: all ones, or 1.0 if
    ``numeric``, where the joined comparison holds."""
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
    if op == ops.SET:
        value = 0x3F800000 if numeric else LOW
        for l in range(LANES):
            wi[0, l] = np.int32(value * (hits >> l & 1))
    else:
        q[0] = hits
        q[1] = other


@inner
def _minmax(small, how, x, y):
    """Minimum (``small``) or maximum of two FP32 bit patterns (sign-extended)."""
    if how & 1:
        x, y = flush32(x), flush32(y)
    x, y = x & LOW, y & LOW
    x_nan = x & 0x7FFFFFFF > 0x7F800000
    y_nan = y & 0x7FFFFFFF > 0x7F800000
    # sign-magnitude patterns in the order of their values
    x_order = x if x < SIGN else SIGN - x - 1
    y_order = y if y < SIGN else SIGN - y - 1
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
