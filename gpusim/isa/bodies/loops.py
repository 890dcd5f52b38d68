"""Bodies that touch no predicate and are loops over the lanes of all warps in lockstep.

Mental model: forms that are common enough to be executed in one call, but not simple enough for whole warps as values
(``wide.py``): the compiler makes of each loop what it can. The result may lie on scratch or in a row that is no source
(column APART of the code matrix).

Shapes: ``x, y, z`` int32[4, ROW] are the source words by lane, ``w`` the result words; only the first ``lanes`` lanes
count. Semantics: as in ``integer.py`` and ``double.py``, whose conventions these bodies share.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa.bodies import wide
from gpusim.isa.bodies.permute import permute_bytes
from gpusim.isa.body import lanes_body, vector_body

LOW = 0xFFFFFFFF


@lanes_body
def copy_words(f, x, y, z, w, lanes):
    """W = X, ``f[0]`` words."""
    for word in range(f[0]):
        for l in range(lanes):
            w[word, l] = x[word, l]


@lanes_body
def permute(f, x, y, z, w, lanes):
    """Four of the eight bytes of {z:x}; ``f[0]``: mode (integer_ops.PERMUTE_MODES)."""
    permute_bytes(f[0], x, y, z, w, lanes)


@lanes_body
def funnel(f, x, y, z, w, lanes):
    """{z:x} shifted by y, low or high word. ``f``: right, high, signed, and 32 or 64: amounts saturate there; -32 or
    -64: they wrap."""
    right, high, signed, modulus = f
    for l in range(lanes):
        amount = np.int64(y[0, l]) & LOW
        amount = amount & (-modulus - 1) if modulus < 0 else min(amount, np.int64(modulus))
        near = min(amount, np.int64(63))
        low = np.int64(x[0, l]) & LOW
        value = (np.int64(z[0, l]) << 32) | low
        if right:
            shifted = value >> near
            if not signed:
                # clear the copies of the sign that the arithmetic shift brought in
                shifted &= ~(np.int64(-2) << (63 - near))
            if amount == 64:
                shifted = shifted >> 63 if signed else np.int64(0)
        else:
            shifted = value << near if amount < 64 else np.int64(0)
        w[0, l] = np.int32(shifted >> 32 if high else shifted)


#: A move of any number of words; the flag says how many.
copy = vector_body("copy", lambda flags, words: {1: wide.MOV, 2: wide.COPY_PAIR}.get(words, copy_words))
