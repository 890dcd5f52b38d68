"""Functional warming: the L2 state that a run of accesses leaves, without their time.

Mental model: the same tag store as the timed L2, walked access by access; data appears at once, and what
is evicted is forgotten instead of written to DRAM.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from gpusim.model.crossbar import partition_of_sm
from gpusim.model.l2_state import (
    L2Rates,
    L2State,
    home_partition,
    row_index,
    slice_index_of,
    spoil_copies,
)
from gpusim.model.l2_tags import DIRTY, NO_SLOT, VALID, find, install, touch, victim


@njit(cache=True)
def _warm_slot(p: L2Rates, s: L2State, row: int, line: int) -> int:
    slot = find(s.tags, row, line)
    if slot == NO_SLOT:
        slot = victim(s.tags, row)
        if slot != NO_SLOT:
            install(s.tags, slot, line)
    if slot != NO_SLOT:
        touch(s.tags, slot)
    return slot


@njit(cache=True)
def warm_lines(
    p: L2Rates,
    s: L2State,
    addresses: np.ndarray,
    sectors: np.ndarray,
    is_write: np.ndarray,
    sms: np.ndarray,
) -> None:
    """Leave the state that these accesses leave, in order, with no time and no DRAM traffic.

    ``addresses`` uint64[n] of lines, ``sectors`` uint8[n], ``is_write`` uint8[n], ``sms`` int16[n].
    """
    masks = s.tags.masks
    for i in range(len(addresses)):
        line = np.int64(addresses[i]) // p.line_bytes
        wanted = np.int64(sectors[i])
        near = partition_of_sm(np.int64(sms[i]), p.partitions)
        home = home_partition(p, line)
        if not is_write[i]:
            slot = _warm_slot(p, s, row_index(p, slice_index_of(p, near, line), line), line)
            if slot == NO_SLOT:
                continue
            missing = wanted & ~np.int64(masks[slot, VALID])
            masks[slot, VALID] = masks[slot, VALID] | wanted
            if missing == 0 or near == home:
                continue
        slot = _warm_slot(p, s, row_index(p, slice_index_of(p, home, line), line), line)
        if slot == NO_SLOT:
            continue
        masks[slot, VALID] = masks[slot, VALID] | wanted
        if is_write[i]:
            masks[slot, DIRTY] = masks[slot, DIRTY] | wanted
            if near == home:
                spoil_copies(p, s, home, line, wanted)
