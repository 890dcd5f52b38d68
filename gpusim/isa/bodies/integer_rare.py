"""Integer bodies that are seldom executed: bit tricks, 64-bit forms of sm_120, packed halves, dot
products.

Mental model and shapes as in :mod:`gpusim.isa.bodies.integer`. Source of the semantics: PTX ISA 8 (popc, bfind, brev,
bmsk, szext, dp4a, dp2a, sad, cvt.pack, vmin2) and CUDA Binary Utilities for the instruction names.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import integer_ops as ops
from gpusim.isa.body import warp_body
from gpusim.isa.jit import inner

LANES = 32
LOW = 0xFFFFFFFF
_OF_TWO, _OF_THREE, _OF_SUM = range(3)


@inner
def _ordered(word, unsigned):
    return np.int64(word) & LOW if unsigned else np.int64(word)


@inner
def _pair(words, lane):
    return (np.int64(words[1, lane]) << 32) | (np.int64(words[0, lane]) & LOW)


@inner
def _amount(value, wrap):
    return value & 31 if wrap else min(value, np.int64(32))


@inner
def _ones(word):
    word = word - ((word >> 1) & 0x55555555)
    word = (word & 0x33333333) + ((word >> 2) & 0x33333333)
    word = (word + (word >> 4)) & 0x0F0F0F0F
    return ((word * 0x01010101) & LOW) >> 24


@inner
def _reverse(word):
    word = ((word >> 1) & 0x55555555) | ((word & 0x55555555) << 1)
    word = ((word >> 2) & 0x33333333) | ((word & 0x33333333) << 2)
    word = ((word >> 4) & 0x0F0F0F0F) | ((word & 0x0F0F0F0F) << 4)
    word = ((word >> 8) & 0x00FF00FF) | ((word & 0x00FF00FF) << 8)
    return (word >> 16) | ((word & 0xFFFF) << 16)


@warp_body()
def find_leading(f, p, xi, yi, zi, wi, q):
    """Index of the highest bit that is set (signed: that differs from the sign), -1 if none; with
    ``shift`` the left shift that brings it to bit 31. q[0]: lanes that found one. ``f``: shift,
    signed."""
    shift, signed = f[0], f[1]
    found = np.int64(0)
    for l in range(LANES):
        word = np.int64(xi[0, l])
        if signed and word < 0:
            word = ~word
        word &= LOW
        for step in (1, 2, 4, 8, 16):
            word |= word >> step
        index = _ones(word) - 1
        hit = index >= 0
        found |= np.int64(hit) << l
        wi[0, l] = np.int32(31 - index if shift and hit else index)
    q[0] = found


@inner
def _half_order(value, unsigned):
    value &= 0xFFFF
    return value if unsigned else (value ^ 0x8000) - 0x8000


@inner
def _minmax_halves(kind, unsigned, relu, p0, xi, yi, zi, wi, q):
    """The two 16-bit halves of a word on their own; the predicate chooses minimum for both. q[0] (low half) and q[1]
    (high half): the result is the first source, equal ones included."""
    least = np.int64(p0)
    low, high = np.int64(0), np.int64(0)
    for l in range(LANES):
        result = np.int64(0)
        for shift in (0, 16):
            x, y = np.int64(xi[0, l]) >> shift, np.int64(yi[0, l]) >> shift
            z = _half_order(np.int64(zi[0, l]) >> shift, unsigned)
            if kind == _OF_SUM:
                a, b = _half_order(x + y, unsigned), z
            else:
                a, b = _half_order(x, unsigned), _half_order(y, unsigned)
            small, large = min(a, b), max(a, b)
            if kind == _OF_THREE:
                small, large = min(small, z), max(large, z)
            value = small if (least >> l) & 1 else large
            if shift:
                high |= np.int64(value == a) << l
            else:
                low |= np.int64(value == a) << l
            if relu:
                value = max(value, np.int64(0))
            result |= (value & 0xFFFF) << shift
        wi[0, l] = np.int32(result)
    q[0] = np.uint32(low)
    q[1] = np.uint32(high)


@warp_body()
def add64(f, p, xi, yi, zi, wi, q):
    """x + y + z over 64 bits with carry-in and carry-out; bits 0..2 of ``negated`` say which addends
    are complemented and ``extra`` how many ones complete them. ``f``: extra, negated."""
    extra, negated = f[0], f[1]
    carry = np.int64(p[0])
    once = np.int64(0)
    twice = np.int64(0)
    for l in range(LANES):
        x = _pair(xi, l) ^ -(negated & 1)
        y = _pair(yi, l) ^ -(negated >> 1 & 1)
        z = _pair(zi, l) ^ -(negated >> 2 & 1)
        low = (x & LOW) + (y & LOW) + (z & LOW) + extra + ((carry >> l) & 1)
        high = (low >> 32) + ((x >> 32) & LOW) + ((y >> 32) & LOW) + ((z >> 32) & LOW)
        wi[0, l] = np.int32(low)
        wi[1, l] = np.int32(high)
        once |= np.int64(high >> 32 > 0) << l
        twice |= np.int64(high >> 32 > 1) << l
    q[0] = once
    q[1] = twice


@warp_body()
def compare64(f, p, xi, yi, zi, wi, q):
    """``f``: comparison, unsigned, how it joins the predicate input."""
    code, unsigned, join = f[0], f[1], f[2]
    bias = np.int64(-(2**63)) if unsigned else np.int64(0)
    hits = np.int64(0)
    for l in range(LANES):
        x, y = _pair(xi, l) ^ bias, _pair(yi, l) ^ bias
        relation = 1 if x < y else (2 if x == y else 4)
        hits |= np.int64(code & relation != 0) << l
    predicate = np.int64(p[0])
    other = hits ^ LOW
    if join == ops.JOIN_AND:
        q[0] = hits & predicate
        q[1] = other & predicate
    elif join == ops.JOIN_OR:
        q[0] = hits | predicate
        q[1] = other | predicate
    else:
        q[0] = hits ^ predicate
        q[1] = other ^ predicate


@inner
def _cut(word, bits, signed):
    value = np.int64(word) & ((np.int64(1) << bits) - 1)
    if signed:
        value -= (value >> (bits - 1)) << bits
    return value


@inner
def _saturate(value, bits, signed):
    top = (np.int64(1) << (bits - signed)) - 1
    return min(max(value, -(top + 1) if signed else np.int64(0)), top)


@warp_body()
def dot(f, p, xi, yi, zi, wi, q):
    """Four byte products (form 0), or two of halves by the lower (1) or upper (2) bytes, plus z; ``f``: x and y signed,
    form."""
    x_signed, y_signed, form = f[0], f[1], f[2]
    for l in range(LANES):
        x, y = np.int64(xi[0, l]), np.int64(yi[0, l])
        total = np.int64(zi[0, l])
        if form == 0:
            for i in range(4):
                total += _cut(x >> (8 * i), 8, x_signed) * _cut(y >> (8 * i), 8, y_signed)
        else:
            y >>= 16 * (form - 1)
            for i in range(2):
                total += _cut(x >> (16 * i), 16, x_signed) * _cut(y >> (8 * i), 8, y_signed)
        wi[0, l] = np.int32(total)


@warp_body()
def absolute_difference4(f, p, xi, yi, zi, wi, q):
    """|x - y| byte by byte; summed into z, or packed again as four bytes; ``f``: signed, accumulate."""
    signed, accumulate = f[0], f[1]
    for l in range(LANES):
        x, y = np.int64(xi[0, l]), np.int64(yi[0, l])
        total = np.int64(0)
        for i in range(4):
            gap = abs(_cut(x >> (8 * i), 8, signed) - _cut(y >> (8 * i), 8, signed))
            total += gap if accumulate else gap << (8 * i)
        wi[0, l] = np.int32(total + np.int64(zi[0, l]) if accumulate else total)


@warp_body()
def minmax_halves(f, p, xi, yi, zi, wi, q):
    """Minimum or maximum of x and y in each half; ``f``: unsigned, relu."""
    _minmax_halves(_OF_TWO, f[0], f[1], p[0], xi, yi, zi, wi, q)


@warp_body()
def minmax3_halves(f, p, xi, yi, zi, wi, q):
    """The same of x, y and z."""
    _minmax_halves(_OF_THREE, f[0], f[1], p[0], xi, yi, zi, wi, q)


@warp_body()
def add_minmax_halves(f, p, xi, yi, zi, wi, q):
    """The same of x + y and z."""
    _minmax_halves(_OF_SUM, f[0], f[1], p[0], xi, yi, zi, wi, q)


@warp_body()
def popcount(f, p, xi, yi, zi, wi, q):
    """How many bits are set."""
    for l in range(LANES):
        wi[0, l] = np.int32(_ones(np.int64(xi[0, l]) & LOW))


@warp_body()
def bit_reverse(f, p, xi, yi, zi, wi, q):
    """Bits in reverse order."""
    for l in range(LANES):
        wi[0, l] = np.int32(_reverse(np.int64(xi[0, l]) & LOW))


@warp_body()
def absolute(f, p, xi, yi, zi, wi, q):
    """|x|."""
    for l in range(LANES):
        wi[0, l] = np.int32(abs(np.int64(xi[0, l])))


@warp_body()
def bit_mask(f, p, xi, yi, zi, wi, q):
    """y ones from bit x on; ``f[0]``: amounts wrap."""
    for l in range(LANES):
        start = _amount(np.int64(xi[0, l]) & LOW, f[0])
        width = _amount(np.int64(yi[0, l]) & LOW, f[0])
        wi[0, l] = np.int32(((np.int64(1) << width) - 1) << start)


@warp_body()
def sign_extend(f, p, xi, yi, zi, wi, q):
    """The lowest y bits of x; ``f``: amounts wrap, zeros above."""
    for l in range(LANES):
        width = _amount(np.int64(yi[0, l]) & LOW, f[0])
        value = np.int64(xi[0, l]) & ((np.int64(1) << width) - 1)
        if f[1] == 0 and width > 0:
            value -= (value >> (width - 1)) << width
        wi[0, l] = np.int32(value)


@warp_body()
def minmax3(f, p, xi, yi, zi, wi, q):
    """Minimum or maximum of three; ``f``: unsigned, relu."""
    least = np.int64(p[0])
    for l in range(LANES):
        a, b, c = _ordered(xi[0, l], f[0]), _ordered(yi[0, l], f[0]), _ordered(zi[0, l], f[0])
        value = min(a, b, c) if (least >> l) & 1 else max(a, b, c)
        wi[0, l] = np.int32(max(value, np.int64(0)) if f[1] else value)


@warp_body()
def add_halves(f, p, xi, yi, zi, wi, q):
    """x + y in each 16-bit half."""
    for l in range(LANES):
        x, y = np.int64(xi[0, l]), np.int64(yi[0, l])
        high = (x >> 16) + (y >> 16)
        wi[0, l] = np.int32((high << 16) | ((x + y) & 0xFFFF))


@warp_body()
def add_saturate(f, p, xi, yi, zi, wi, q):
    """x + y, saturated; ``f``: which are negated."""
    for l in range(LANES):
        total = np.int64(xi[0, l]) * (1 - 2 * f[0]) + np.int64(yi[0, l]) * (1 - 2 * f[1])
        wi[0, l] = np.int32(min(max(total, np.int64(-0x80000000)), np.int64(0x7FFFFFFF)))


@warp_body()
def add_bytes(f, p, xi, yi, zi, wi, q):
    """x + y in each byte; ``f``: which are negated."""
    for l in range(LANES):
        x, y = np.int64(xi[0, l]), np.int64(yi[0, l])
        result = np.int64(0)
        for shift in (0, 8, 16, 24):
            total = (x >> shift) * (1 - 2 * f[0]) + (y >> shift) * (1 - 2 * f[1])
            result |= (total & 0xFF) << shift
        wi[0, l] = np.int32(result)


@warp_body()
def minmax_bytes(f, p, xi, yi, zi, wi, q):
    """Minimum or maximum in each byte; ``f``: unsigned, relu."""
    least = np.int64(p[0])
    for l in range(LANES):
        result = np.int64(0)
        for shift in (0, 8, 16, 24):
            x = _cut(np.int64(xi[0, l]) >> shift, 8, 1 - f[0])
            y = _cut(np.int64(yi[0, l]) >> shift, 8, 1 - f[0])
            value = min(x, y) if (least >> l) & 1 else max(x, y)
            result |= ((max(value, np.int64(0)) if f[1] else value) & 0xFF) << shift
        wi[0, l] = np.int32(result)


@warp_body()
def sign_logic(f, p, xi, yi, zi, wi, q):
    """Two functions of the signs of three words by their truth tables ``f[0]`` and ``f[1]``."""
    first, second = np.int64(0), np.int64(0)
    for l in range(LANES):
        x, y, z = xi[0, l] < 0, yi[0, l] < 0, zi[0, l] < 0
        index = 4 * np.int64(x) + 2 * np.int64(y) + np.int64(z)
        first |= (f[0] >> index & 1) << l
        second |= (f[1] >> index & 1) << l
    q[0] = first
    q[1] = second


@warp_body()
def select64(f, p, xi, yi, zi, wi, q):
    """x where the predicate holds, else y, 64 bits."""
    chosen = np.int64(p[0])
    for w in range(2):
        for l in range(LANES):
            wi[w, l] = np.int32(xi[w, l] if (chosen >> l) & 1 else yi[w, l])


@warp_body()
def minmax64(f, p, xi, yi, zi, wi, q):
    """Minimum or maximum of 64-bit integers; ``f[0]``: unsigned."""
    least = np.int64(p[0])
    for l in range(LANES):
        x, y = _pair(xi, l), _pair(yi, l)
        bias = np.int64(-(2**63)) if f[0] else np.int64(0)
        smaller = (x ^ bias) < (y ^ bias)
        value = x if smaller == ((least >> l) & 1 == 1) else y
        wi[0, l] = np.int32(value)
        wi[1, l] = np.int32(value >> 32)


@warp_body()
def absolute_difference(f, p, xi, yi, zi, wi, q):
    """|x - y| + z; ``f[0]``: unsigned."""
    for l in range(LANES):
        gap = abs(_ordered(xi[0, l], f[0]) - _ordered(yi[0, l], f[0]))
        wi[0, l] = np.int32(gap + np.int64(zi[0, l]))


@warp_body()
def narrow_integer(f, p, xi, yi, zi, wi, q):
    """x cut or saturated to fewer bits; ``f``: bits, signed, source unsigned, saturate."""
    for l in range(LANES):
        wi[0, l] = np.int32(
            _saturate(_ordered(xi[0, l], f[2]), f[0], f[1]) if f[3] else _cut(np.int64(xi[0, l]), f[0], f[1])
        )


@warp_body()
def pack_integers(f, p, xi, yi, zi, wi, q):
    """x and y saturated and packed below z; ``f``: bits, signed."""
    for l in range(LANES):
        upper = _saturate(np.int64(xi[0, l]), f[0], f[1]) & ((1 << f[0]) - 1)
        lower = _saturate(np.int64(yi[0, l]), f[0], f[1]) & ((1 << f[0]) - 1)
        wi[0, l] = np.int32((np.int64(zi[0, l]) << (2 * f[0])) | (upper << f[0]) | lower)
