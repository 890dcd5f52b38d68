"""Arithmetic bodies that touch no predicate and are loops over the lanes of several warps.

Mental model: forms that are common enough to be executed for all warps of a team in one call, but not simple enough
for whole warps as values (``alu_wide.py``): the compiler makes of each loop what it can. The result may lie on
scratch or in a row that is no source (column APART of the code matrix).

Shapes: ``xi, yi, zi`` int32[4, ROW] are the source words by lane, ``wi`` the result words; only the first ``lanes``
lanes count. Semantics: see ``alu_integer.py`` and ``alu_double.py``, whose conventions these bodies share.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import double_ops, integer_ops, system_ops
from gpusim.isa.bodies.double import fused_double, product_double, sum_double
from gpusim.isa.bodies.permute import permute_bytes
from gpusim.isa.bodies.scalar import bits64_of, double_of
from gpusim.isa.jit import inlined, inner

LOW = 0xFFFFFFFF

#: Numbers of these bodies; they follow those of ``alu_masked.py``.
FIRST_LOOP = 64
DOUBLE_ADD, DOUBLE_MULTIPLY, DOUBLE_FUSED, FUNNEL, PERMUTE, COPY = range(FIRST_LOOP, FIRST_LOOP + 6)
_DOUBLE = {double_ops.ADD: DOUBLE_ADD, double_ops.MULTIPLY: DOUBLE_MULTIPLY, double_ops.FUSED: DOUBLE_FUSED}
_INTEGER = {integer_ops.FUNNEL: FUNNEL, integer_ops.PERMUTE: PERMUTE, system_ops.COPY: COPY}


def loop_number(op: int, flags: tuple[int, ...]) -> int:
    """The body here of a micro-op that writes no predicate (its number and flags), or 0."""
    if op in _DOUBLE and flags[0] == 0:
        return _DOUBLE[op]
    return _INTEGER.get(op, 0)


@inlined
def execute_loop(number, f0, f1, f2, f3, xi, yi, zi, wi, lanes):
    """Execute body ``number`` for the first ``lanes`` (uint64) lanes."""
    f0, f1, f2, f3 = np.int64(f0), np.int64(f1), np.int64(f2), np.int64(f3)
    if number <= DOUBLE_FUSED:
        _double(number, xi, yi, zi, wi, lanes)
    elif number == FUNNEL:
        _funnel(f0, f1, f2, f3, xi, yi, zi, wi, lanes)
    elif number == PERMUTE:
        permute_bytes(f0, xi, yi, zi, wi, lanes)
    else:
        for word in range(f0):
            for l in range(lanes):
                wi[word, l] = xi[word, l]


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
