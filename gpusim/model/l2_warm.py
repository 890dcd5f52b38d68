"""Functional warming: the L2 state that a run of accesses leaves, without their time.

Mental model: the same tag store as the timed L2, walked access by access; data appears at once. Of the
dirty lines that are evicted the latest of each slice are remembered: they are what a busy machine
would still have in DRAM's write queues.
"""

from __future__ import annotations

import numpy as np

from gpusim.model.address_hash import local_slice_of, partition_of, set_of
from gpusim.model.compiled import compiled, inner
from gpusim.model.crossbar import partition_of_sm
from gpusim.model.l2_state import TRANSLATIONS, USES, L2Rates, L2State, first_slot, invalidate_copies
from gpusim.model.l2_tags import DIRTY, HELD, NO_SLOT, VALID, find, install, oldest_dirty, touch, victim
from gpusim.model.tlb import translate


@inner
def _warm_slot(
    p: L2Rates,
    s: L2State,
    slice_index: int,
    set_index: int,
    line: int,
    evicted: np.ndarray,
    evictions: np.ndarray,
    earlier: int,
) -> int:
    first = first_slot(p, slice_index, set_index)
    slot = find(s.tags, first, p.ways, line)
    if slot == NO_SLOT:
        slot = victim(s.tags, first, p.ways)
        if slot != NO_SLOT:
            if s.tags.masks[slot, DIRTY]:
                kept = evicted.shape[1]
                evicted[slice_index, evictions[slice_index] % kept] = s.tags.slots[HELD, slot]
                evictions[slice_index] += 1
            install(s.tags, slot, line)
    if slot != NO_SLOT:
        s.scalars[USES] += 1
        touch(s.tags, slot, s.scalars[USES] - earlier)
    return slot


@compiled
def warm_lines(
    p: L2Rates,
    s: L2State,
    addresses: np.ndarray,
    sectors: np.ndarray,
    is_write: np.ndarray,
    sms: np.ndarray,
    evicted: np.ndarray,
    evictions: np.ndarray,
) -> None:
    """Leave the state that these accesses leave, in order, with no time and no DRAM traffic.

    ``addresses`` uint64[n] of lines, ``sectors`` uint8[n], ``is_write`` uint8[n], ``sms`` int16[n].
    ``evicted`` int64[slices, kept] takes the latest dirty lines that each slice evicts, in a ring,
    ``evictions`` int64[slices] their number.
    """
    masks = s.tags.masks
    for i in range(len(addresses)):
        line = np.int64(addresses[i]) // p.line_bytes
        wanted = np.int64(sectors[i])
        if p.tlb_miss:
            s.scalars[TRANSLATIONS] += 1
            translate(s.pages, np.int64(sms[i]), np.int64(addresses[i]), p.page_shift, s.scalars[TRANSLATIONS])
        local = local_slice_of(line, p.layout)
        home = partition_of(line, p.layout) * p.slices_per_partition + local
        near = partition_of_sm(np.int64(sms[i]), p.partitions, p.gpcs) * p.slices_per_partition + local
        set_index = set_of(line, p.layout, p.sets)
        if not is_write[i]:
            slot = _warm_slot(p, s, near, set_index, line, evicted, evictions, 0)
            if slot == NO_SLOT:
                continue
            missing = wanted & ~np.int64(masks[slot, VALID])
            masks[slot, VALID] = masks[slot, VALID] | wanted
            if missing == 0 or near == home:
                continue
        slot = _warm_slot(p, s, home, set_index, line, evicted, evictions, 0 if is_write[i] else p.turn)
        if slot == NO_SLOT:
            continue
        masks[slot, VALID] = masks[slot, VALID] | wanted
        if is_write[i]:
            if p.dirty_ways < p.ways and masks[slot, DIRTY] == 0:
                cleaned = oldest_dirty(s.tags, first_slot(p, home, set_index), p.ways, p.dirty_ways - 1)
                if cleaned != NO_SLOT:
                    kept = evicted.shape[1]
                    evicted[home, evictions[home] % kept] = s.tags.slots[HELD, cleaned]
                    evictions[home] += 1
                    masks[cleaned, DIRTY] = 0
            masks[slot, DIRTY] = masks[slot, DIRTY] | wanted
            if near == home:
                invalidate_copies(p, s, home, set_index, line, wanted)
