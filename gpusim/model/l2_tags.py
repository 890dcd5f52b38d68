"""The L2's tag store: which lines each slice holds, which of their sectors, and in what state.

Mental model: ``partitions`` caches of equal build, each ``slices`` x ``sets`` x ``ways`` lines; a *slot* is
one way, numbered through all of them. A slot's sectors are *valid* (readable), *dirty* (newer than
DRAM), *pending* (asked for, not arrived); a sector written only in part is dirty and not yet valid,
and ``written`` counts its bytes until the writes cover it. The least recently used slot without
pending sectors is the victim.

``tags`` int64[sets of all, ways] line number or EMPTY; ``stamps`` int64 the same, time of last use in
lookups; ``masks`` uint8[slots, 3] VALID, DIRTY, PENDING; ``written`` uint8[slots, sectors]; ``waiter``
int64[slots] first waiting node or -1; ``clock`` int64[1] lookups so far.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

EMPTY = -1
NO_SLOT = -1
VALID, DIRTY, PENDING = 0, 1, 2


class Tags(NamedTuple):
    """State of the tag store; see the module's text for shapes."""

    tags: np.ndarray
    stamps: np.ndarray
    masks: np.ndarray
    written: np.ndarray
    waiter: np.ndarray
    clock: np.ndarray


def make_tags(rows: int, ways: int, sectors: int) -> Tags:
    """An empty tag store of ``rows`` sets in all."""
    slots = rows * ways
    return Tags(
        tags=np.full((rows, ways), EMPTY, np.int64),
        stamps=np.zeros((rows, ways), np.int64),
        masks=np.zeros((slots, 3), np.uint8),
        written=np.zeros((slots, sectors), np.uint8),
        waiter=np.full(slots, -1, np.int64),
        clock=np.zeros(1, np.int64),
    )


@njit(cache=True)
def find(t: Tags, row: int, line: int) -> int:
    """The slot that holds ``line`` in this set, or NO_SLOT."""
    ways = t.tags.shape[1]
    for way in range(ways):
        if t.tags[row, way] == line:
            return row * ways + way
    return NO_SLOT


@njit(cache=True)
def touch(t: Tags, slot: int) -> None:
    """Make the slot the most recently used one."""
    ways = t.tags.shape[1]
    t.clock[0] += 1
    t.stamps[slot // ways, slot % ways] = t.clock[0]


@njit(cache=True)
def victim(t: Tags, row: int) -> int:
    """The slot of this set to give up: an empty one, else the least recently used that waits for
    nothing; NO_SLOT when all wait."""
    ways = t.tags.shape[1]
    best = NO_SLOT
    oldest = np.int64(0)
    for way in range(ways):
        slot = row * ways + way
        if t.tags[row, way] == EMPTY:
            return slot
        stamp = t.stamps[row, way]
        if (best == NO_SLOT or stamp < oldest) and t.masks[slot, PENDING] == 0:
            best = slot
            oldest = stamp
    return best


@njit(cache=True)
def install(t: Tags, slot: int, line: int) -> None:
    """Give the slot to ``line``, with no sector valid; what it held is forgotten."""
    ways = t.tags.shape[1]
    t.tags[slot // ways, slot % ways] = line
    t.masks[slot, VALID] = 0
    t.masks[slot, DIRTY] = 0
    t.masks[slot, PENDING] = 0
    for sector in range(t.written.shape[1]):
        t.written[slot, sector] = 0


@njit(cache=True)
def write_sectors(t: Tags, slot: int, sectors: int, payload_bytes: int, sector_bytes: int) -> None:
    """Mark sectors dirty; those that the payload covers become valid. The payload is taken to
    spread evenly over the sectors, and partial writes of one sector not to overlap."""
    count = 0
    for sector in range(t.written.shape[1]):
        count += (sectors >> sector) & 1
    share = payload_bytes // max(count, 1)
    for sector in range(t.written.shape[1]):
        if (sectors >> sector) & 1:
            total = min(sector_bytes, np.int64(t.written[slot, sector]) + share)
            t.written[slot, sector] = total
            if total >= sector_bytes:
                t.masks[slot, VALID] = t.masks[slot, VALID] | (1 << sector)
    t.masks[slot, DIRTY] = t.masks[slot, DIRTY] | sectors


@njit(cache=True)
def drop_sectors(t: Tags, row: int, line: int, sectors: int) -> None:
    """A copy of ``line`` in this set, if any, is out of date: its sectors are no longer valid."""
    slot = find(t, row, line)
    if slot != NO_SLOT:
        t.masks[slot, VALID] = t.masks[slot, VALID] & ~sectors
