"""When the last tile of queries ends, if tiles that differ in work are given out one after the other to places that are
free.

Mental model: kernels that stay on their SMs take the next tile when they have done one (FlashAttention 3's scheduler);
the order is by sequence, within one the tiles of most keys first, of all heads that lie in L2 together
(hopper/tile_scheduler.hpp, VarlenDynamicPersistentTileScheduler). A place's first tile waits for its loads, later ones
were loaded ahead.
"""

from __future__ import annotations

import heapq

import numpy as np

from gpusim.io.jit_cache import kept

#: Tiles a place that are given out one by one at least; whole sequences, then heads, before them are taken to end
#: evenly.
_MOST_WAVES = 16


def busy_cycles(
    steps: np.ndarray, heads: int, batch: int, places: int, start_cycles: float, later_cycles: float, step_cycles: float
) -> float:
    """Cycles until all ``steps`` (of each tile of one head of one sequence, in the order in which queries lie) of
    ``batch`` sequences of ``heads`` are done by ``places``: a place's first tile takes ``start_cycles`` beside its
    steps, a later one ``later_cycles``."""
    even = 0.0
    wanted = _MOST_WAVES * places
    one_head = len(steps) * later_cycles + float(steps.sum()) * step_cycles
    if batch > 1 and batch * heads * len(steps) > wanted:
        kept = max(1, -(-wanted // (heads * len(steps))))
        even += max(0, batch - kept) * heads * one_head / places
        batch = min(batch, kept)
    if batch == 1 and heads > 1 and heads * len(steps) > wanted:
        kept = max(1, -(-wanted // len(steps)))
        even += max(0, heads - kept) * one_head / places
        heads = min(heads, kept)
    return even + _given_out(steps, heads, batch, places, start_cycles, later_cycles, step_cycles)


@kept
def _given_out(steps, heads, batch, places, start_cycles, later_cycles, step_cycles):
    free = [start_cycles - later_cycles for _ in range(min(places, heads * batch * len(steps)))]
    heapq.heapify(free)
    last = 0.0
    for _ in range(batch):
        for tile in range(len(steps) - 1, -1, -1):
            for _ in range(heads):
                end = free[0] + later_cycles + steps[tile] * step_cycles
                heapq.heapreplace(free, end)
                last = max(last, end)
    return last
