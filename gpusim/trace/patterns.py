"""Scattered lane addresses as a base and one of a few patterns.

Mental model: the lanes of a warp that covers two rows of a tile touch addresses that no stride describes, but
they do so in the same way at every access: relative to the first lane, the 32 offsets repeat. So a row of
``Chunk.scattered`` is stored as its first address and the number of its pattern; each distinct pattern is
stored once. A lane that holds 0 (it is off) is 0 in its pattern too, whatever the base.

Shapes: rows uint64[s, 32]; base int64[s]; pattern int64[s]; patterns int64[p, 32], offsets from the base, with
:data:`OFF` for lanes that hold 0.
"""

from __future__ import annotations

import numpy as np

from gpusim.trace.compiled import compiled
from gpusim.trace.layout import WARP_LANES

#: Offset of a lane that holds 0; no real offset, since addresses are below 2**63.
OFF = -(2**63)


@compiled
def _split(rows, base, pattern, offsets, table):
    """Fill ``base`` and ``pattern``; ``offsets`` int64[s, 32] takes the distinct patterns in its first rows.

    ``table`` int64[2**k] is all -1, at least twice as long as ``rows``. Returns the number of patterns."""
    found = 0
    last = table.shape[0] - 1
    for i in range(rows.shape[0]):
        start = np.int64(0)
        known = False
        digest = np.int64(0)
        # The candidate is written behind the known patterns and kept there if it is new.
        for lane in range(WARP_LANES):
            value = rows[i, lane]
            offset = np.int64(OFF)
            if value != 0:
                if not known:
                    start = value
                    known = True
                offset = value - start
            offsets[found, lane] = offset
            # 31 bits times 31 bits: no overflow, so that interpreted runs need no wrap-around
            digest = ((digest ^ offset ^ (offset >> 31)) & 0x7FFFFFFF) * 0x5BD1E995
            digest ^= digest >> 29
        base[i] = start
        slot = digest & last
        number = np.int64(-1)
        while table[slot] >= 0:
            same = True
            for lane in range(WARP_LANES):
                if offsets[table[slot], lane] != offsets[found, lane]:
                    same = False
                    break
            if same:
                number = table[slot]
                break
            slot = (slot + 1) & last
        if number < 0:
            number = found
            table[slot] = found
            found += 1
        pattern[i] = number
    return found


@compiled
def _fill(base, pattern, patterns, rows):
    """Write ``rows`` int64[s, 32] from their bases and patterns (all in range)."""
    for i in range(base.shape[0]):
        for lane in range(WARP_LANES):
            offset = patterns[pattern[i], lane]
            rows[i, lane] = 0 if offset == OFF else base[i] + offset


def split_rows(scattered: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(base int64[s], pattern int64[s], patterns int64[p, 32]) of ``scattered`` uint64[s, 32]."""
    rows = np.ascontiguousarray(scattered).view(np.int64)
    n = len(rows)
    base, pattern = np.empty(n, np.int64), np.empty(n, np.int64)
    offsets = np.empty((n + 1, WARP_LANES), np.int64)
    table = np.full(1 << (2 * n).bit_length(), -1, np.int64)
    found = _split(rows, base, pattern, offsets, table)
    return base, pattern, offsets[:found].copy()


def join_rows(base: np.ndarray, pattern: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """uint64[s, 32]: the inverse of :func:`split_rows`; ``pattern`` must be within ``patterns``."""
    rows = np.empty((len(base), WARP_LANES), np.int64)
    _fill(base, pattern, patterns, rows)
    return rows.view(np.uint64)
