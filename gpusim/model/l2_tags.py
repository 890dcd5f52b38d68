"""The L2's tag store: which lines each slice holds, which of their sectors, and in what state.

Mental model: ``partitions`` caches of equal build, each ``slices`` x ``sets`` x ``ways`` lines; a *slot* is
one way, numbered through all of them. A slot's sectors are *valid* (readable), *dirty* (newer than
DRAM), *pending* (asked for, not arrived); a sector written only in part is dirty and not yet valid,
and ``written`` counts its bytes until the writes cover it. The least recently used slot without
pending sectors is the victim.

All arrays are flat over slots; a set is the run of ``ways`` slots from its ``first`` one. ``tags`` int64
line number or EMPTY; ``stamps`` int64 time of last use in lookups; ``masks`` uint8[slots, 3] VALID, DIRTY,
PENDING; ``written`` uint8[slots, sectors]; ``waiter`` int64 first waiting node or -1; ``clock`` int64[1]
lookups so far.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.model.compiled import inner

EMPTY = -1
NO_SLOT = -1
#: No slot yet: its dirty line must wait for room in DRAM's queue.
NO_ROOM = -2
VALID, DIRTY, PENDING = 0, 1, 2


class Tags(NamedTuple):
    """State of the tag store; see the module's text for shapes."""

    tags: np.ndarray
    stamps: np.ndarray
    masks: np.ndarray
    written: np.ndarray
    waiter: np.ndarray
    clock: np.ndarray


def make_tags(slots: int, sectors: int) -> Tags:
    """An empty tag store of ``slots`` slots in all, of ``sectors`` sectors each."""
    return Tags(
        tags=np.full(slots, EMPTY, np.int64),
        stamps=np.zeros(slots, np.int64),
        masks=np.zeros((slots, 3), np.uint8),
        written=np.zeros((slots, sectors), np.uint8),
        waiter=np.full(slots, -1, np.int64),
        clock=np.zeros(1, np.int64),
    )


@inner
def find(t: Tags, first: int, ways: int, line: int) -> int:
    """The slot that holds ``line`` in the set from slot ``first``, or NO_SLOT."""
    for slot in range(first, first + ways):
        if t.tags[slot] == line:
            return slot
    return NO_SLOT


@inner
def touch(t: Tags, slot: int) -> None:
    """Make the slot the most recently used one."""
    t.clock[0] += 1
    t.stamps[slot] = t.clock[0]


@inner
def victim(t: Tags, first: int, ways: int) -> int:
    """The slot of this set to give up: an empty one, else the least recently used that waits for
    nothing; NO_SLOT when all wait."""
    best = NO_SLOT
    oldest = np.int64(0)
    for slot in range(first, first + ways):
        if t.tags[slot] == EMPTY:
            return slot
        if (best == NO_SLOT or t.stamps[slot] < oldest) and t.masks[slot, PENDING] == 0:
            best = slot
            oldest = t.stamps[slot]
    return best


@inner
def install(t: Tags, slot: int, line: int) -> None:
    """Give the slot to ``line``, with no sector valid; what it held is forgotten."""
    t.tags[slot] = line
    t.masks[slot, VALID] = 0
    t.masks[slot, DIRTY] = 0
    t.masks[slot, PENDING] = 0
    for sector in range(t.written.shape[1]):
        t.written[slot, sector] = 0


@inner
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


@inner
def drop_sectors(t: Tags, first: int, ways: int, line: int, sectors: int) -> None:
    """A copy of ``line`` in this set, if any, is out of date: its sectors are no longer valid."""
    slot = find(t, first, ways, line)
    if slot != NO_SLOT:
        t.masks[slot, VALID] = t.masks[slot, VALID] & ~sectors
