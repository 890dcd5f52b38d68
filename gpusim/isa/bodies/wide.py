"""The commonest arithmetic bodies that touch no predicate, for all warps in lockstep in one call.

Mental model: a *wide* body is the whole meaning of an instruction form, written once with whole warps as values
(``warp_value.py``). It takes warp after warp, loads the sources, computes, and writes the result for the lanes
that execute. The commonest forms with predicates are in ``masked.py``; all others are functions with an entry point
of their own (:mod:`gpusim.isa.body`), which also says which form takes which of the numbers below.

``x, y, z, w``: host addresses of the first warp's lanes of the operands, further words ROW words apart;
``sx, sy, sz``: bytes from one warp's lanes to the next one's, 0 for rows that hold the same in each lane.
``lost``: not 0 if some lane of the ``count`` warps does not execute; then ``executing`` (int64[GROUP_WARPS] lane
masks) says which do. Semantics: see ``integer.py`` and ``float.py``.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa.jit import inlined
from gpusim.isa.warp import LANES, ROW
from gpusim.isa.warp_value import (
    add,
    below,
    both,
    choose,
    differ,
    either,
    float_add,
    float_fused,
    float_multiply,
    flush,
    high_signed,
    high_unsigned,
    left,
    load,
    multiply,
    ones,
    right_signs,
    right_zeros,
    splat,
    store,
)

WARP_BYTES, ROW_BYTES = 4 * LANES, 4 * ROW

#: Numbers of the wide bodies; 0 says that a form has none.
(
    NONE,
    MOV,
    COPY_PAIR,
    ADD,
    ADD3,
    MAD,
    MAD_WIDE,
    MAD_HIGH,
    AND,
    OR,
    XOR,
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
    END_WIDE,
) = range(22)


@inlined
def put(w, value, lost, executing):
    """Write one warp's result, where some lanes are ``lost`` for the executing ones alone."""
    if lost:
        store(w, choose(executing, value, load(w)))
    else:
        store(w, value)


@inlined
def _mux(chooser, one, zero):
    """Bit by bit: ``one`` where the chooser has a 1, ``zero`` where it has a 0."""
    return differ(both(differ(one, zero), chooser), zero)


@inlined
def execute_wide(number, f0, f1, f2, x, y, z, w, sx, sy, sz, executing, lost, count):
    """Execute wide body ``number`` for ``count`` warps."""
    f0, f1, f2 = np.int64(f0), np.int64(f1), np.int64(f2)
    if number == MOV:
        for i in range(count):
            put(w + i * WARP_BYTES, load(x + i * sx), lost, executing[i])
    elif number == COPY_PAIR:
        for i in range(count):
            low, high = load(x + i * sx), load(x + ROW_BYTES + i * sx)
            put(w + i * WARP_BYTES, low, lost, executing[i])
            put(w + ROW_BYTES + i * WARP_BYTES, high, lost, executing[i])
    elif number == ADD:
        for i in range(count):
            put(w + i * WARP_BYTES, add(load(x + i * sx), load(y + i * sy)), lost, executing[i])
    elif number == ADD3:
        for i in range(count):
            total = add(add(load(x + i * sx), load(y + i * sy)), load(z + i * sz))
            put(w + i * WARP_BYTES, total, lost, executing[i])
    elif number == MAD:
        for i in range(count):
            total = add(multiply(load(x + i * sx), load(y + i * sy)), load(z + i * sz))
            put(w + i * WARP_BYTES, total, lost, executing[i])
    elif number == MAD_WIDE:
        for i in range(count):
            a, b, c = load(x + i * sx), load(y + i * sy), load(z + i * sz)
            low = add(multiply(a, b), c)
            high = add(high_signed(a, b) if f0 else high_unsigned(a, b), load(z + ROW_BYTES + i * sz))
            put(w + i * WARP_BYTES, low, lost, executing[i])
            put(w + ROW_BYTES + i * WARP_BYTES, add(high, ones(below(low, c))), lost, executing[i])
    elif number == MAD_HIGH:
        for i in range(count):
            a, b, c = load(x + i * sx), load(y + i * sy), load(z + i * sz)
            low = add(multiply(a, b), c)
            high = add(high_signed(a, b) if f0 else high_unsigned(a, b), load(z + ROW_BYTES + i * sz))
            put(w + i * WARP_BYTES, add(high, ones(below(low, c))), lost, executing[i])
    elif number == AND:
        for i in range(count):
            put(w + i * WARP_BYTES, both(load(x + i * sx), load(y + i * sy)), lost, executing[i])
    elif number == OR:
        for i in range(count):
            put(w + i * WARP_BYTES, either(load(x + i * sx), load(y + i * sy)), lost, executing[i])
    elif number == XOR:
        for i in range(count):
            put(w + i * WARP_BYTES, differ(load(x + i * sx), load(y + i * sy)), lost, executing[i])
    elif number == LOP3:
        _lookup(f0, x, y, z, w, sx, sy, sz, executing, lost, count)
    elif number == SHIFT_LEFT:
        keep = splat(31 if f0 else -1)
        for i in range(count):
            put(w + i * WARP_BYTES, left(load(x + i * sx), both(load(y + i * sy), keep)), lost, executing[i])
    elif number == SHIFT_RIGHT:
        keep = splat(31 if f0 else -1)
        for i in range(count):
            value, amount = load(z + i * sz), both(load(y + i * sy), keep)
            shifted = right_signs(value, amount) if f1 else right_zeros(value, amount)
            put(w + i * WARP_BYTES, shifted, lost, executing[i])
    elif number == LEA:
        shift, flip, extra = splat(f0), splat(-f1), splat(f2)
        for i in range(count):
            shifted = differ(left(load(x + i * sx), shift), flip)
            put(w + i * WARP_BYTES, add(add(shifted, load(y + i * sy)), extra), lost, executing[i])
    elif number == FLOAT_ADD:
        for i in range(count):
            put(w + i * WARP_BYTES, float_add(load(x + i * sx), load(y + i * sy)), lost, executing[i])
    elif number == FLOAT_MULTIPLY:
        for i in range(count):
            put(w + i * WARP_BYTES, float_multiply(load(x + i * sx), load(y + i * sy)), lost, executing[i])
    elif number == FLOAT_FUSED:
        for i in range(count):
            total = float_fused(load(x + i * sx), load(y + i * sy), load(z + i * sz))
            put(w + i * WARP_BYTES, total, lost, executing[i])
    elif number == FLUSHED_ADD:
        for i in range(count):
            total = flush(float_add(flush(load(x + i * sx)), flush(load(y + i * sy))))
            put(w + i * WARP_BYTES, total, lost, executing[i])
    elif number == FLUSHED_MULTIPLY:
        for i in range(count):
            product = flush(float_multiply(flush(load(x + i * sx)), flush(load(y + i * sy))))
            put(w + i * WARP_BYTES, product, lost, executing[i])
    elif number == FLUSHED_FUSED:
        for i in range(count):
            total = float_fused(flush(load(x + i * sx)), flush(load(y + i * sy)), flush(load(z + i * sz)))
            put(w + i * WARP_BYTES, flush(total), lost, executing[i])


@inlined
def _lookup(table, x, y, z, w, sx, sy, sz, executing, lost, count):
    """LOP3: bit ``4 a + 2 b + c`` of ``table`` for the bits a, b, c of x, y, z."""
    t0, t1, t2, t3 = splat(-(table & 1)), splat(-(table >> 1 & 1)), splat(-(table >> 2 & 1)), splat(-(table >> 3 & 1))
    t4, t5, t6 = splat(-(table >> 4 & 1)), splat(-(table >> 5 & 1)), splat(-(table >> 6 & 1))
    t7 = splat(-(table >> 7 & 1))
    for i in range(count):
        a, b, c = load(x + i * sx), load(y + i * sy), load(z + i * sz)
        on = _mux(b, _mux(c, t7, t6), _mux(c, t5, t4))
        off = _mux(b, _mux(c, t3, t2), _mux(c, t1, t0))
        put(w + i * WARP_BYTES, _mux(a, on, off), lost, executing[i])
