"""Blocks that end while somebody, or something, still uses their shared memory.

Mental model: a block's shared memory is another's from its last warp's exit on. What a warp of the block has learnt by
then is over; bulk loads, products and accesses of other blocks of the cluster of which none has learnt may still be
under way on a GPU. A bulk store that still reads is no finding: the PTX ISA asks for cp.async.bulk.wait_group.read
before the memory is written again and says nothing of the exit, and CUTLASS's epilogues for sm_100 end without it
(``store_tail`` of sm100_epilogue_tma_warpspecialized.hpp waits only where C's stages are reused), one block behind the
other, with right results.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa.jit import apart, inner
from gpusim.sanitizer.async_clocks import code_in, tell
from gpusim.sanitizer.async_tables import (
    CODE_BITS,
    ENDS_ACCESSED,
    ENDS_LOADING,
    ENDS_MULTIPLYING,
    FAR_READ,
    FAR_WRITE,
    GRANULE_BITS,
    GRANULES,
    GROUPS,
    LOAD_AGENT,
    LOAD_CODE,
    LOAD_OBJECT,
    LOAD_PHASE,
    PHASES,
    PRODUCT_DONE,
    PRODUCT_READ,
    READ_COLUMNS,
    READ_SLOTS,
    SHARED_BASE,
    TENSOR_DONE,
    TENSOR_READ,
    WARPS,
)  # fmt: skip


@inner
def _known(m, s, rank, column):
    """The most that any warp of the block ``rank`` knows of what clocks count at ``column``."""
    most = np.int64(0)
    for warp in range(m.facts[WARPS]):
        most = max(most, np.int64(m.clock[s, rank * m.facts[WARPS] + warp, column]))
    return most


@apart
def block_ends(m, s, agent, rank):
    """The block ``rank`` ends with ``agent``'s exit: tell of each use of its shared memory that may not be over."""
    f, none = m.facts, np.int64(0)
    first = f[SHARED_BASE] >> GRANULE_BITS
    for granule in range(f[GRANULES]):
        g = m.shared[s, rank, granule]
        place = (granule + first << GRANULE_BITS) - f[SHARED_BASE]
        if g[LOAD_OBJECT] and _known(m, s, rank, f[PHASES] + g[LOAD_OBJECT] - 1) <= g[LOAD_PHASE]:
            tell(m, s, ENDS_LOADING, g[LOAD_AGENT], g[LOAD_CODE], agent, np.int64(-1), place, none, none)
        for i in range(READ_SLOTS):
            at = TENSOR_READ + READ_COLUMNS * i
            if g[at] and _known(m, s, rank, f[TENSOR_DONE] + g[at] - 1) < g[at + 1]:
                tell(m, s, ENDS_MULTIPLYING, g[at] - 1, g[at + 2], agent, np.int64(-1), place, none, none)
        for group in range(f[GROUPS]):
            held = g[PRODUCT_READ + group]
            if held and _known(m, s, rank, f[PRODUCT_DONE] + rank * f[GROUPS] + group) < held >> CODE_BITS:
                reader = rank * f[WARPS] + 4 * group
                tell(m, s, ENDS_MULTIPLYING, reader, code_in(held), agent, np.int64(-1), place, none, none)
        for at in (FAR_READ, FAR_WRITE):
            if g[at] and _known(m, s, rank, g[at] - 1) < g[at + 1] >> CODE_BITS:
                tell(m, s, ENDS_ACCESSED, g[at] - 1, code_in(g[at + 1]), agent, np.int64(-1), place, none, none)
