"""The L1 data cache of an SM: sectored lines, least recently used in their set, written through.

Mental model: a line has a tag and a mask of the 32-byte sectors that it holds. Lines are installed when
data arrive, so a line that is on its way belongs to the miss table, not to the cache. Stores update a
line that is there and never bring one in.

``sets_of`` is int64[sms, sets, 2 * ways]: first the ways' entries, ``(line number + 1) << 4 | sectors held``
(0 = empty), then the cycle of each way's last touch; four ways fill one cache line of the host. The
number of sets in use is the launch's (:func:`sets_in`): shared memory takes the rest of the array.
"""

from __future__ import annotations

from gpusim.gpus.spec import L1Spec
from gpusim.model.compiled import compiled
from gpusim.model.whole_division import quotient, remainder

LINE_SHIFT = 7
#: Local memory of warp slots lies far above every allocation.
LOCAL_MEMORY_BASE = 1 << 47
SECTOR_BITS = 4
SECTORS = (1 << SECTOR_BITS) - 1
#: Two neighbouring lines lie in the same set. With four ways a buffer that outgrows the cache then loses six
#: lines for each two that it has too many, and all of them at 1.5 times the capacity, as the pointer chases of
#: A100 (149 to 223 KiB) and GH200 (213 to 320 KiB) do.
INDEX_SHIFT = LINE_SHIFT + 1
#: Consecutive runs of ``sets`` pairs are rotated against each other by so many sets, so that a large
#: power-of-two stride does not fall on one set; a contiguous buffer still fills all sets evenly.
ROTATION = 1


def sets_in(l1: L1Spec, l1_bytes: int) -> int:
    """Sets of the cache when the shared carve-out leaves ``l1_bytes``: less what the SM keeps for itself, though
    at least half of it."""
    return max(l1_bytes - l1.reserved_bytes, l1_bytes // 2) // l1.line_bytes // l1.ways


@compiled
def set_of(address, sets):
    """Set of the line at byte ``address``."""
    number = address >> INDEX_SHIFT
    return remainder(number + quotient(number, sets) * ROTATION, sets)


@compiled
def look_up(sets_of, sm, address, sets, ways, now):
    """Sectors held of the line at byte ``address`` (0: none), which becomes the set's latest used."""
    if sets == 0:
        return 0
    row = set_of(address, sets)
    tag = (address >> LINE_SHIFT) + 1
    for way in range(ways):
        entry = sets_of[sm, row, way]
        if entry >> SECTOR_BITS == tag:
            sets_of[sm, row, ways + way] = now
            return entry & SECTORS
    return 0


@compiled
def drop(sets_of, sm, address, sectors, sets, ways):
    """Forget ``sectors`` of the line, if it is there: L2 is about to change them."""
    if sets == 0:
        return
    row = set_of(address, sets)
    tag = (address >> LINE_SHIFT) + 1
    for way in range(ways):
        if sets_of[sm, row, way] >> SECTOR_BITS == tag:
            sets_of[sm, row, way] &= ~sectors


@compiled
def empty(sets_of, sm, sets, ways):
    """Forget all lines of the SM but those of local memory, which no other thread writes."""
    for row in range(sets):
        for way in range(ways):
            if sets_of[sm, row, way] >> SECTOR_BITS <= LOCAL_MEMORY_BASE >> LINE_SHIFT:
                sets_of[sm, row, way] = 0


@compiled
def fill(sets_of, sm, address, sectors, sets, ways, now):
    """Install ``sectors`` of the line, in place of the set's least recently used line if it is new."""
    if sets == 0:
        return
    row = set_of(address, sets)
    tag = (address >> LINE_SHIFT) + 1
    victim = 0
    for way in range(ways):
        entry = sets_of[sm, row, way]
        if entry >> SECTOR_BITS == tag:
            sets_of[sm, row, way] = entry | sectors
            sets_of[sm, row, ways + way] = now
            return
        if entry == 0:
            if sets_of[sm, row, victim] != 0:
                victim = way
        elif sets_of[sm, row, victim] != 0 and sets_of[sm, row, ways + way] < sets_of[sm, row, ways + victim]:
            victim = way
    sets_of[sm, row, victim] = tag << SECTOR_BITS | sectors
    sets_of[sm, row, ways + victim] = now
