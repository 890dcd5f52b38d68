"""The commonest arithmetic bodies, over all lanes of several warps in one loop.

Mental model: a *wide* body is the whole meaning of an instruction form that neither reads nor writes
predicates. It runs over 32 lanes for one warp and over up to 256 for warps in step, straight from source
rows to the result row, so that the compiler can make one vector loop of it. The commonest forms with
predicates are in ``alu_masked.py``; all others have a body in ``alu_integer.py`` and its like, which is
called once a warp.

Shapes: ``xi, yi, zi`` int32[4, ROW] are the source words by lane, ``wi`` the result words, ``xf, yf, zf``
float32 views of the sources; only the first ``lanes`` lanes count. The result may lie on scratch or in a row
that is no source (column APART of the code matrix). Semantics: see ``alu_integer.py``, ``alu_float.py`` and
``alu_double.py``, whose conventions these bodies share.
"""

from __future__ import annotations

import numpy as np

from gpusim.capture.alu_double import fused_double, product_double, sum_double
from gpusim.capture.alu_integer import table3
from gpusim.capture.alu_permute import permute_bytes
from gpusim.capture.alu_scalar import NAN32, bits64_of, bits_of, double_of, float_of, flush32, fma32
from gpusim.capture.jit import inlined, inner
from gpusim.sass import double_ops, float_ops, integer_ops, system_ops

LOW = 0xFFFFFFFF

#: Numbers of the wide bodies; 0 says that a form has none.
(
    NONE,
    MOV,
    ADD,
    ADD3,
    MAD,
    MAD_WIDE,
    MAD_HIGH,
    LOP3,
    SHIFT_LEFT,
    SHIFT_RIGHT,
    LEA,
    FLOAT_ADD,
    FLOAT_MULTIPLY,
    FLOAT_FUSED,
    FLUSHED_ADD,
    FLUSHED_MULTIPLY,
    FLUSHED_FUSED,
    DOUBLE_ADD,
    DOUBLE_MULTIPLY,
    DOUBLE_FUSED,
    FUNNEL,
    PERMUTE,
    COPY,
) = range(23)

_INTEGER = {
    integer_ops.MOV: MOV,
    integer_ops.ADD: ADD,
    integer_ops.ADD3: ADD3,
    integer_ops.MAD: MAD,
    integer_ops.MAD_WIDE: MAD_WIDE,
    integer_ops.MAD_HIGH: MAD_HIGH,
    integer_ops.LOP3: LOP3,
    integer_ops.SHIFT_LEFT: SHIFT_LEFT,
    integer_ops.SHIFT_RIGHT: SHIFT_RIGHT,
    integer_ops.LEA: LEA,
    integer_ops.FUNNEL: FUNNEL,
    integer_ops.PERMUTE: PERMUTE,
}
#: LOP3's table of ``x & y``, by far the most frequent one.
TABLE_AND = 0xC0
_FLOAT = {float_ops.ADD: FLOAT_ADD, float_ops.MULTIPLY: FLOAT_MULTIPLY, float_ops.FUSED: FLOAT_FUSED}
_FLUSHED = {float_ops.ADD: FLUSHED_ADD, float_ops.MULTIPLY: FLUSHED_MULTIPLY, float_ops.FUSED: FLUSHED_FUSED}
_DOUBLE = {double_ops.ADD: DOUBLE_ADD, double_ops.MULTIPLY: DOUBLE_MULTIPLY, double_ops.FUSED: DOUBLE_FUSED}


def wide_number(op: int, flags: tuple[int, ...], predicates_out: bool) -> int:
    """The wide body of a micro-op (its number, flags, and whether it writes predicates), or NONE."""
    if predicates_out:
        return NONE
    if op == system_ops.COPY:
        return COPY
    how = flags[0] if flags else 0
    if op in _INTEGER:
        return _INTEGER[op]
    if op in _DOUBLE and how == 0:
        return _DOUBLE[op]
    if how == 0:
        return _FLOAT.get(op, NONE)
    return _FLUSHED.get(op, NONE) if how == float_ops.FLUSH else NONE


@inlined
def execute_wide(number, f0, f1, f2, f3, xi, yi, zi, wi, xf, yf, zf, lanes):
    """Execute wide body ``number`` for the first ``lanes`` (uint64) lanes."""
    f0, f1, f2, f3 = np.int64(f0), np.int64(f1), np.int64(f2), np.int64(f3)
    if number == FLOAT_FUSED:
        for l in range(lanes):
            r = fma32(xf[0, l], yf[0, l], zf[0, l])
            wi[0, l] = np.int32(NAN32 if r != r else bits_of(r))
    elif number == FLOAT_ADD:
        for l in range(lanes):
            r = xf[0, l] + yf[0, l]
            wi[0, l] = np.int32(NAN32 if r != r else bits_of(r))
    elif number == FLOAT_MULTIPLY:
        for l in range(lanes):
            r = xf[0, l] * yf[0, l]
            wi[0, l] = np.int32(NAN32 if r != r else bits_of(r))
    elif number == MOV:
        for l in range(lanes):
            wi[0, l] = xi[0, l]
    elif number == COPY:
        for word in range(f0):
            for l in range(lanes):
                wi[word, l] = xi[word, l]
    elif number == ADD:
        for l in range(lanes):
            wi[0, l] = np.int32(np.int64(xi[0, l]) + np.int64(yi[0, l]))
    elif number == ADD3:
        for l in range(lanes):
            wi[0, l] = np.int32(np.int64(xi[0, l]) + np.int64(yi[0, l]) + np.int64(zi[0, l]))
    elif number == MAD:
        for l in range(lanes):
            wi[0, l] = np.int32(np.int64(xi[0, l]) * np.int64(yi[0, l]) + np.int64(zi[0, l]))
    elif number == MAD_WIDE or number == MAD_HIGH:
        _multiply_wide(number == MAD_HIGH, f0, xi, yi, zi, wi, lanes)
    elif number == LOP3 and f0 == TABLE_AND:
        for l in range(lanes):
            wi[0, l] = xi[0, l] & yi[0, l]
    elif number == LOP3:
        for l in range(lanes):
            wi[0, l] = np.int32(table3(f0, np.int64(xi[0, l]), np.int64(yi[0, l]), np.int64(zi[0, l])))
    elif number == SHIFT_LEFT:
        for l in range(lanes):
            amount = np.int64(yi[0, l]) & LOW
            if f0:
                amount &= 31
            wi[0, l] = np.int32((np.int64(xi[0, l]) << (amount & 31)) if amount < 32 else np.int64(0))
    elif number == SHIFT_RIGHT:
        for l in range(lanes):
            amount = np.int64(yi[0, l]) & LOW
            amount = amount & 31 if f0 else min(amount, np.int64(32))
            value = np.int64(zi[0, l])
            if not f1:
                value &= LOW
            wi[0, l] = np.int32(value >> amount)
    elif number == LEA:
        for l in range(lanes):
            shifted = (np.int64(xi[0, l]) << f0) ^ -f1
            wi[0, l] = np.int32(shifted + np.int64(yi[0, l]) + f2)
    elif number <= FLUSHED_FUSED:
        _flushed(number, xi, yi, zi, wi, lanes)
    elif number <= DOUBLE_FUSED:
        _double(number, xi, yi, zi, wi, lanes)
    elif number == FUNNEL:
        _funnel(f0, f1, f2, f3, xi, yi, zi, wi, lanes)
    else:
        permute_bytes(f0, xi, yi, zi, wi, lanes)


@inner
def _multiply_wide(high, signed, xi, yi, zi, wi, lanes):
    """x * y + {z1:z0} over 64 bits, or its ``high`` word alone."""
    mask = np.int64(-1) if signed else np.int64(LOW)
    if high:
        for l in range(lanes):
            total = (np.int64(xi[0, l]) & mask) * (np.int64(yi[0, l]) & mask)
            total += (np.int64(zi[1, l]) << 32) | (np.int64(zi[0, l]) & LOW)
            wi[0, l] = np.int32(total >> 32)
    else:
        for l in range(lanes):
            total = (np.int64(xi[0, l]) & mask) * (np.int64(yi[0, l]) & mask)
            total += (np.int64(zi[1, l]) << 32) | (np.int64(zi[0, l]) & LOW)
            wi[0, l] = np.int32(total)
            wi[1, l] = np.int32(total >> 32)


@inner
def _flushed(number, xi, yi, zi, wi, lanes):
    """Add, multiply or fused multiply-add to nearest with denormals flushed on both sides."""
    for l in range(lanes):
        x = float_of(flush32(np.int64(xi[0, l])))
        y = float_of(flush32(np.int64(yi[0, l])))
        z = float_of(flush32(np.int64(zi[0, l])))
        if number == FLUSHED_FUSED:
            r = fma32(x, y, z)
        elif number == FLUSHED_ADD:
            r = x + y
        else:
            r = x * y
        wi[0, l] = np.int32(NAN32 if r != r else flush32(np.int64(bits_of(r))))


@inner
def _double(number, xi, yi, zi, wi, lanes):
    """FP64 arithmetic to nearest."""
    for l in range(lanes):
        x = double_of(np.int64(xi[1, l]) << 32 | np.int64(xi[0, l]) & LOW)
        y = double_of(np.int64(yi[1, l]) << 32 | np.int64(yi[0, l]) & LOW)
        if number == DOUBLE_FUSED:
            r = fused_double(x, y, double_of(np.int64(zi[1, l]) << 32 | np.int64(zi[0, l]) & LOW))
        elif number == DOUBLE_ADD:
            r = sum_double(x, y)
        else:
            r = product_double(x, y)
        bits = bits64_of(r)
        wi[0, l] = np.int32(bits)
        wi[1, l] = np.int32(bits >> 32)


@inner
def _funnel(right, high, signed, modulus, xi, yi, zi, wi, lanes):
    """{z:x} shifted by y, low or ``high`` word. ``modulus`` 32 or 64: amounts saturate there; -32 or
    -64: they wrap."""
    for l in range(lanes):
        amount = np.int64(yi[0, l]) & LOW
        amount = amount & (-modulus - 1) if modulus < 0 else min(amount, np.int64(modulus))
        near = min(amount, np.int64(63))
        low = np.int64(xi[0, l]) & LOW
        value = (np.int64(zi[0, l]) << 32) | low
        if right:
            shifted = value >> near
            if not signed:
                # clear the copies of the sign that the arithmetic shift brought in
                shifted &= ~(np.int64(-2) << (63 - near))
            if amount == 64:
                shifted = shifted >> 63 if signed else np.int64(0)
        else:
            shifted = value << near if amount < 64 else np.int64(0)
        wi[0, l] = np.int32(shifted >> 32 if high else shifted)
