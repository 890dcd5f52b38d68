"""The L2's tag store: which lines each slice holds, which of their sectors, and in what state.

Mental model: ``partitions`` caches of equal build, each ``slices`` x ``sets`` x ``ways`` lines; a *slot* is
one way, numbered through all of them. A slot's sectors are *valid* (readable), *dirty* (newer than
DRAM), *pending* (asked for, not arrived); a sector written only in part is dirty and not yet valid,
and ``written`` counts its bytes until the writes cover it. The least recently used slot without
pending sectors is the victim; who uses one may say that the use counts as an earlier one. A set holds a limited number
of dirty slots: before one more becomes dirty, the least recently used of them is written back and stays
(:func:`oldest_dirty`).

A set is the run of ``ways`` slots from its ``first`` one. ``slots`` is int64[columns, slots], ``masks`` uint8[slots,
columns + sectors].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.model.compiled import inner
from gpusim.model.messages import NEVER
from gpusim.state_tables import Table

EMPTY = -1
NO_SLOT = -1
#: No slot yet: its dirty line must wait for room in DRAM's queue.
NO_ROOM = -2
#: Before any use, and the stamp of an empty slot.
NEVER_USED = -(1 << 62)
SLOT_TABLE = Table(__name__, "tags.slots", "an L2 slot", "What it holds.", columns_first=True)
HELD = SLOT_TABLE.column("index", "line number, or EMPTY")
STAMP = SLOT_TABLE.column("count", "clock of the last use")
WAITER = SLOT_TABLE.column("link", "node that came last of those that wait for its sectors, or -1")

MASK_TABLE = Table(__name__, "tags.masks", "an L2 slot", "The state of its sectors.", np.uint8)
VALID = MASK_TABLE.column("mask", "sectors that can be read")
DIRTY = MASK_TABLE.column("mask", "sectors newer than DRAM")
PENDING = MASK_TABLE.column("mask", "sectors asked for that have not come")
WRITTEN = MASK_TABLE.column("bytes", "written of each sector", span=0)


class Tags(NamedTuple):
    """State of the tag store; see the module's text for shapes."""

    slots: np.ndarray
    masks: np.ndarray


def make_tags(slots: int, sectors: int) -> Tags:
    """An empty tag store of ``slots`` slots in all, of ``sectors`` sectors each."""
    state = SLOT_TABLE.zeros(slots)
    state[HELD] = EMPTY
    state[STAMP] = NEVER_USED
    state[WAITER] = -1
    # A slot's masks in whole words, so that a set's fill the host's cache lines.
    more = sectors + -(MASK_TABLE.width + sectors) % 8
    return Tags(state, MASK_TABLE.zeros(slots, more=more))


@inner
def find(t: Tags, first: int, ways: int, line: int) -> int:
    """The slot that holds ``line`` in the set from slot ``first``, or NO_SLOT."""
    found = np.int64(NO_SLOT)
    for slot in range(first, first + ways):  # all, so that the host compares several at once
        found = max(found, slot if t.slots[HELD, slot] == line else NO_SLOT)
    return found


@inner
def touch(t: Tags, slot: int, stamp: int) -> None:
    """Note a use of the slot; ``stamp`` rises from use to use, and one of an earlier time leaves a later use as it
    is."""
    t.slots[STAMP, slot] = max(t.slots[STAMP, slot], stamp)


@inner
def _last_use(t: Tags, slot: int) -> int:
    """When the slot was used last, before all others if it is empty; NEVER while its sectors are waited for, which are
    those that are pending."""
    return t.slots[STAMP, slot] if t.slots[WAITER, slot] < 0 else NEVER


@inner
def victim(t: Tags, first: int, ways: int) -> int:
    """The slot of this set to give up: an empty one, else the least recently used that waits for
    nothing; NO_SLOT when all wait."""
    oldest = np.int64(NEVER)
    for slot in range(first, first + ways):  # twice through all, so that the host compares several at once
        oldest = min(oldest, _last_use(t, slot))
    if oldest == NEVER:
        return NO_SLOT
    best = np.int64(NEVER)
    for slot in range(first, first + ways):
        best = min(best, slot if _last_use(t, slot) == oldest else NEVER)
    return best


@inner
def oldest_dirty(t: Tags, first: int, ways: int, most: int) -> int:
    """The least recently used slot of this set with dirty sectors, NO_SLOT while no more than ``most`` slots have
    any."""
    count, best, oldest = 0, np.int64(NO_SLOT), np.int64(NEVER)
    for slot in range(first, first + ways):
        if t.masks[slot, DIRTY]:
            count += 1
            if t.slots[STAMP, slot] < oldest:
                oldest, best = t.slots[STAMP, slot], np.int64(slot)
    return best if count > most else np.int64(NO_SLOT)


@inner
def install(t: Tags, slot: int, line: int) -> None:
    """Give the slot to ``line``, with no sector valid; what it held is forgotten."""
    t.slots[HELD, slot] = line
    t.slots[STAMP, slot] = NEVER_USED
    t.masks[slot, VALID] = 0
    t.masks[slot, DIRTY] = 0
    t.masks[slot, PENDING] = 0
    for column in range(WRITTEN, t.masks.shape[1]):
        t.masks[slot, column] = 0


@inner
def write_sectors(t: Tags, slot: int, sectors: int, payload_bytes: int, sector_bytes: int) -> None:
    """Mark sectors dirty; those that the payload covers become valid. The payload is taken to
    spread evenly over the sectors, and partial writes of one sector not to overlap."""
    count = 0
    for sector in range(t.masks.shape[1] - WRITTEN):
        count += (sectors >> sector) & 1
    share = payload_bytes // max(count, 1)
    for sector in range(t.masks.shape[1] - WRITTEN):
        if (sectors >> sector) & 1:
            total = min(sector_bytes, np.int64(t.masks[slot, WRITTEN + sector]) + share)
            t.masks[slot, WRITTEN + sector] = total
            if total >= sector_bytes:
                t.masks[slot, VALID] = t.masks[slot, VALID] | (1 << sector)
    t.masks[slot, DIRTY] = t.masks[slot, DIRTY] | sectors


@inner
def drop_sectors(t: Tags, first: int, ways: int, line: int, sectors: int) -> None:
    """A copy of ``line`` in this set, if any, is out of date: its sectors are no longer valid."""
    slot = find(t, first, ways, line)
    if slot != NO_SLOT:
        t.masks[slot, VALID] = t.masks[slot, VALID] & ~sectors
