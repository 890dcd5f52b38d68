"""The commonest arithmetic bodies that read or write predicates, for all warps in lockstep in one call.

Mental model: as the bodies of ``wide.py``; a predicate is a lane mask, one a warp, and a comparison of two
warp values gives such a mask at once. Carries are comparisons too: a sum has overflowed where it is below one of
its terms.

Shapes: as in ``wide.py``. ``predicates`` int64: masks as they lie in State.predicates; ``row`` names the slots
read and written, ``slots`` is the first warp's slot 0. Semantics: see ``integer.py`` and ``float.py``.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import integer_ops
from gpusim.isa import warp as at
from gpusim.isa.bodies.wide import WARP_BYTES, put
from gpusim.isa.jit import inlined
from gpusim.isa.warp_value import (
    add,
    below,
    choose,
    differ,
    either,
    equal,
    float_equal,
    float_greater,
    float_less,
    left,
    less,
    load,
    multiply,
    ones,
    right_signs,
    right_zeros,
    splat,
)

#: Numbers of these bodies; they follow those of ``wide.py``.
FIRST_MASKED = 32
(
    ADD3_CARRY,
    MAD_CARRY,
    LEA_CARRY,
    LEA_HIGH,
    COMPARE,
    SELECT,
    MINMAX,
    FLOAT_COMPARE,
    END_MASKED,
) = range(FIRST_MASKED, FIRST_MASKED + 9)


@inlined
def joined(hits, predicate, join):
    """A comparison's mask joined with its predicate input."""
    if join == integer_ops.JOIN_AND:
        return hits & predicate
    if join == integer_ops.JOIN_OR:
        return hits | predicate
    return hits ^ predicate


@inlined
def mark(predicates, place, hits, executing):
    """Write a predicate of one warp, for the executing lanes."""
    predicates[place] = (predicates[place] & ~executing) | (hits & executing)


@inlined
def execute_masked(number, row, predicates, slots, f0, f1, f2, f3, x, y, z, w, sx, sy, sz, executing, lost, count):
    """Execute body ``number`` for ``count`` warps."""
    f0, f1, f2, f3 = np.int64(f0), np.int64(f1), np.int64(f2), np.int64(f3)
    first, flip = slots + row[at.P0] * at.GROUP_WARPS, np.int64(row[at.P0_FLIP])
    second, second_flip = slots + row[at.P1] * at.GROUP_WARPS, np.int64(row[at.P1_FLIP])
    out, other_out = slots + row[at.Q0] * at.GROUP_WARPS, slots + row[at.Q1] * at.GROUP_WARPS
    if number == COMPARE:
        for i in range(count):
            a, b = load(x + i * sx), load(y + i * sy)
            lower = below(a, b) if f1 else less(a, b)
            ties = equal(a, b)
            greater = at.FULL & ~(lower | ties)
            predicate = (predicates[first + i] ^ flip) & at.FULL
            # f3: the words are the high ones; where they are equal the verdict on the low ones decides.
            low = predicates[second + i] ^ second_flip if f3 else -(f0 >> 1 & 1)
            hits = lower & -(f0 & 1) | greater & -(f0 >> 2 & 1) | ties & low
            mark(predicates, out + i, joined(hits, predicate, f2), executing[i])
            mark(predicates, other_out + i, joined(hits ^ at.FULL, predicate, f2), executing[i])
    elif number == ADD3_CARRY:
        for i in range(count):
            a = load(x + i * sx)
            one = add(a, load(y + i * sy))
            two = add(one, load(z + i * sz))
            carries = add(ones(predicates[first + i] ^ flip), ones(predicates[second + i] ^ second_flip))
            total = add(two, add(carries, splat(f0)))
            c0, c1, c2 = below(one, a), below(two, one), below(total, two)
            put(w + i * WARP_BYTES, total, lost, executing[i])
            mark(predicates, out + i, c0 | c1 | c2, executing[i])
            mark(predicates, other_out + i, c0 & c1 | c2 & (c0 | c1), executing[i])
    elif number == MAD_CARRY:
        for i in range(count):
            total = add(multiply(load(x + i * sx), load(y + i * sy)), load(z + i * sz))
            put(w + i * WARP_BYTES, add(total, ones(predicates[first + i] ^ flip)), lost, executing[i])
    elif number == LEA_CARRY:
        shift, inverted, extra = splat(f0), splat(-f1), splat(f2)
        for i in range(count):
            shifted = differ(left(load(x + i * sx), shift), inverted)
            one = add(shifted, load(y + i * sy))
            total = add(one, extra)
            put(w + i * WARP_BYTES, total, lost, executing[i])
            mark(predicates, out + i, below(one, shifted) | below(total, one), executing[i])
    elif number == LEA_HIGH:
        shift, rest, extra = splat(f0), splat(32 - f0), splat(f2)
        for i in range(count):
            low = load(x + i * sx)
            # Upper word of {z:x} << f0, where z is x's sign when f1.
            high = right_signs(low, splat(31)) if f1 else load(z + i * sz)
            upper = either(left(high, shift), right_zeros(low, rest))
            one = add(upper, load(y + i * sy))
            total = add(one, add(ones(predicates[first + i] ^ flip), extra))
            put(w + i * WARP_BYTES, total, lost, executing[i])
            mark(predicates, out + i, below(one, upper) | below(total, one), executing[i])
    elif number == SELECT:
        for i in range(count):
            chosen = choose(predicates[first + i] ^ flip, load(x + i * sx), load(y + i * sy))
            put(w + i * WARP_BYTES, chosen, lost, executing[i])
    elif number == MINMAX:
        for i in range(count):
            a, b = load(x + i * sx), load(y + i * sy)
            # The predicate chooses the minimum.
            takes = (below(a, b) if f0 else less(a, b)) ^ predicates[first + i] ^ flip
            put(w + i * WARP_BYTES, choose(takes, b, a), lost, executing[i])
    elif number == FLOAT_COMPARE:
        for i in range(count):
            a, b = load(x + i * sx), load(y + i * sy)
            lower, ties, greater = float_less(a, b), float_equal(a, b), float_greater(a, b)
            unordered = at.FULL & ~(lower | ties | greater)
            predicate = (predicates[first + i] ^ flip) & at.FULL
            hits = lower & -(f0 & 1) | ties & -(f0 >> 1 & 1) | greater & -(f0 >> 2 & 1) | unordered & -(f0 >> 3 & 1)
            mark(predicates, out + i, joined(hits, predicate, f1), executing[i])
            mark(predicates, other_out + i, joined(hits ^ at.FULL, predicate, f1), executing[i])
