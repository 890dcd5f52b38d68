"""FP64 bodies: add, multiply, fused multiply-add, comparisons.

Mental model and shapes as in :mod:`gpusim.isa.bodies.integer`; a number lies in words 1:0 of a source.
Semantics: CUDA C++ Programming Guide, "Floating-Point Standard": IEEE-754 with one rounding in FMA,
denormals kept; an operation on a NaN gives that NaN, quieted (of several: the first); an invalid
operation gives 0xfff8000000000000.

Arithmetic to nearest is done for all warps at once, with any other rounding warp by warp.

Directed rounding takes the sign of the rounding error of the nearest result: by error-free sums, and for
products by a second FMA, scaled up where the error itself would be denormal.
"""

from __future__ import annotations

import math

import numpy as np

from gpusim.isa import integer_ops
from gpusim.isa.bodies.scalar import (
    DOWN,
    INVALID64,
    NEAREST,
    QUIET64,
    adjust64,
    bits64_of,
    double_of,
    fma64,
    sum_error,
)
from gpusim.isa.body import lanes_body, warp_body
from gpusim.isa.jit import inner

LANES = 32
LOW = 0xFFFFFFFF
#: What the arithmetic bodies compute.
ADD, MULTIPLY, FUSED = range(3)


@inner
def sum_double(x, y):
    """x + y to nearest, with the GPU's NaN."""
    r = x + y
    return r if r == r else _nan(x, y, x)


@inner
def product_double(x, y):
    """x * y to nearest, with the GPU's NaN."""
    r = x * y
    return r if r == r else _nan(x, y, x)


@inner
def fused_double(x, y, z):
    """x * y + z to nearest, with the GPU's NaN."""
    r = fma64(x, y, z)
    return r if r == r else _nan(x, y, z)


@inner
def _get(words, lane):
    return double_of(np.int64(words[1, lane]) << 32 | np.int64(words[0, lane]) & LOW)


@inner
def _put(words, lane, value):
    bits = bits64_of(value)
    words[0, lane] = np.int32(bits)
    words[1, lane] = np.int32(bits >> 32)


@inner
def _nan(x, y, z):
    """The NaN that an operation on these gives."""
    bits = np.int64(INVALID64)
    if z != z:
        bits = bits64_of(z) | QUIET64
    if y != y:
        bits = bits64_of(y) | QUIET64
    if x != x:
        bits = bits64_of(x) | QUIET64
    return double_of(bits)


@inner
def fused_once(x, y, z, mode):
    """x * y + z rounded once, as DFMA gives it."""
    if mode != NEAREST:
        return _directed(FUSED, x, y, z, mode)
    r = fma64(x, y, z)
    return r if r == r else _nan(x, y, z)


@inner
def _directed(op, x, y, z, mode):
    """x op y (op z) rounded down, up or to zero."""
    if op == ADD:
        r = x + y
        rest = sum_error(x, y, r)
        cancels = r == 0.0 and (bits64_of(x) | bits64_of(y)) < 0
    elif op == MULTIPLY:
        r = x * y
        rest = _product_error(x, y, r)
        cancels = False
    else:
        r = fma64(x, y, z)
        rest = _fused_error(x, y, z, r)
        cancels = r == 0.0 and rest == 0.0 and (bits64_of(x) ^ bits64_of(y) | bits64_of(z)) < 0
    if r != r:
        return _nan(x, y, z if op == FUSED else x)
    if cancels and mode == DOWN:
        return np.float64(-0.0)
    if r - r != 0.0:
        # overflow of finite operands: the exact value is inside; a true infinity stays
        finite = x - x == 0.0 and y - y == 0.0 and (op != FUSED or z - z == 0.0)
        rest = -r if finite else np.float64(0.0)
    return adjust64(r, rest, mode)


@inner
def _product_error(x, y, r):
    """A number of the sign of x * y - r."""
    if x == 0.0 or y == 0.0 or r - r != 0.0:
        return np.float64(0.0)
    if r == 0.0:
        return np.float64(1.0) if (x > 0.0) == (y > 0.0) else np.float64(-1.0)
    if abs(r) > 1e-270:
        return fma64(x, y, -r)
    scale = 2.0**500
    if abs(x) < abs(y):
        return fma64(x * scale, y, -(r * scale))
    return fma64(x, y * scale, -(r * scale))


@inner
def _fused_error(x, y, z, r):
    """A number of the sign of x * y + z - r, where r is that rounded to nearest."""
    if z == 0.0 or x == 0.0 or y == 0.0:
        return _product_error(x, y, r)
    if r - r != 0.0:
        return np.float64(0.0)
    x_part, x_exponent = math.frexp(x)
    y_part, y_exponent = math.frexp(y)
    z_exponent = math.frexp(z)[1]
    exponent = x_exponent + y_exponent
    if exponent < z_exponent - 130:
        # the product is far below half an ulp of z, so r is z
        return x_part * y_part
    if z_exponent < exponent - 230:
        # z is far below the product's last bit and only breaks its ties
        rest = _product_error(x, y, r)
        return rest if rest != 0.0 else z
    return _three_sum_error(x_part, y_part, math.ldexp(z, -exponent), math.ldexp(r, -exponent))


@inner
def _three_sum_error(x, y, z, r):
    """x * y + z - r, exact in sign, with the product split exactly into two parts (Boldo and Muller's
    error of an FMA); the arguments are scaled so that nothing underflows."""
    product = x * y
    tail = fma64(x, y, -product)
    first = z + tail
    first_lost = sum_error(z, tail, first)
    second = product + first
    second_lost = sum_error(product, first, second)
    return ((second - r) + second_lost) + first_lost


@warp_body()
def compare_double(f, p, x, y, z, w, q):
    """``f``: comparison, how it joins the predicate input."""
    code, join = f[0], f[1]
    less, equal, greater, unordered = code & 1, code >> 1 & 1, code >> 2 & 1, code >> 3 & 1
    hits = np.int64(0)
    for l in range(LANES):
        a, b = _get(x, l), _get(y, l)
        below, same, above = np.int64(a < b), np.int64(a == b), np.int64(a > b)
        neither = 1 - (below | same | above)
        hits |= (below & less | same & equal | above & greater | neither & unordered) << l
    predicate = np.int64(p[0])
    other = hits ^ LOW
    if join == integer_ops.JOIN_AND:
        hits, other = hits & predicate, other & predicate
    elif join == integer_ops.JOIN_OR:
        hits, other = hits | predicate, other | predicate
    else:
        hits, other = hits ^ predicate, other ^ predicate
    q[0] = hits
    q[1] = other


@inner
def _takes_first(small, x, y):
    """Whether a minimum (``small``) or maximum is x: a number beats a NaN, -0 lies below +0."""
    if x != x or y != y:
        return y != y and x == x
    if x == y:
        return (bits64_of(x) <= bits64_of(y)) if small else (bits64_of(x) >= bits64_of(y))
    return (x < y) == (small != 0)


@warp_body()
def order_double(f, p, x, y, z, w, q):
    """Which operand a minimum (``f[0]``) or maximum takes: q[0]: x. q[1]: both are NaN, so the result is y, quieted."""
    small = f[0]
    first = np.int64(0)
    invalid = np.int64(0)
    for l in range(LANES):
        a, b = _get(x, l), _get(y, l)
        first |= np.int64(_takes_first(small, a, b)) << l
        invalid |= np.int64(a != a and b != b) << l
    predicate = np.int64(p[0])
    q[0] = first & predicate
    q[1] = invalid & predicate


@inner
def _minmax(small, x, y):
    if x != x and y != y:
        return double_of(np.int64(INVALID64))  # the canonical one (PTX ISA, min and max)
    return x if _takes_first(small, x, y) else y


@warp_body()
def minmax_double(f, p, x, y, z, w, q):
    """Minimum where the predicate holds, else maximum."""
    least = np.int64(p[0])
    for l in range(LANES):
        _put(w, l, _minmax(least >> l & 1, _get(x, l), _get(y, l)))


@inner
def _to_nearest(op, xi, yi, zi, wi, lanes):
    """Arithmetic to nearest on the first ``lanes`` lanes."""
    for l in range(lanes):
        x = double_of(np.int64(xi[1, l]) << 32 | np.int64(xi[0, l]) & LOW)
        y = double_of(np.int64(yi[1, l]) << 32 | np.int64(yi[0, l]) & LOW)
        if op == FUSED:
            r = fused_double(x, y, double_of(np.int64(zi[1, l]) << 32 | np.int64(zi[0, l]) & LOW))
        elif op == ADD:
            r = sum_double(x, y)
        else:
            r = product_double(x, y)
        bits = bits64_of(r)
        wi[0, l] = np.int32(bits)
        wi[1, l] = np.int32(bits >> 32)


@lanes_body
def add_double_nearest(f, x, y, z, w, lanes):
    """x + y."""
    _to_nearest(ADD, x, y, z, w, lanes)


@lanes_body
def multiply_double_nearest(f, x, y, z, w, lanes):
    """x * y."""
    _to_nearest(MULTIPLY, x, y, z, w, lanes)


@lanes_body
def fused_double_nearest(f, x, y, z, w, lanes):
    """x * y + z."""
    _to_nearest(FUSED, x, y, z, w, lanes)


@warp_body(unmasked=lambda flags, words: add_double_nearest if flags[0] == NEAREST else 0)
def add_double(f, p, x, y, z, w, q):
    """x + y with rounding ``f[0]``."""
    for l in range(LANES):
        _put(w, l, _directed(ADD, _get(x, l), _get(y, l), _get(z, l), f[0]))


@warp_body(unmasked=lambda flags, words: multiply_double_nearest if flags[0] == NEAREST else 0)
def multiply_double(f, p, x, y, z, w, q):
    """x * y with rounding ``f[0]``."""
    for l in range(LANES):
        _put(w, l, _directed(MULTIPLY, _get(x, l), _get(y, l), _get(z, l), f[0]))


@warp_body(unmasked=lambda flags, words: fused_double_nearest if flags[0] == NEAREST else 0)
def multiply_add_double(f, p, x, y, z, w, q):
    """x * y + z with rounding ``f[0]``."""
    for l in range(LANES):
        _put(w, l, _directed(FUSED, _get(x, l), _get(y, l), _get(z, l), f[0]))
