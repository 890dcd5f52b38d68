"""The L1 data cache of an SM: sectored lines, least recently used in their set, written through.

Mental model: a line has a tag and a mask of the 32-byte sectors that it holds. Lines are installed when
data arrive, so a line that is on its way belongs to the miss table, not to the cache. Stores update a
line that is there and never bring one in.

``lines`` is int64[sms, sets * ways, 3]: TAG (line number + 1, 0 = empty), HELD (sector mask), USED (cycle
of the last touch). The number of sets is the launch's: shared memory takes the rest of the array.
"""

from __future__ import annotations

from gpusim.model.compiled import compiled

TAG, HELD, USED, CACHE_COLUMNS = range(4)
LINE_SHIFT = 7
#: Consecutive runs of ``sets`` lines are rotated against each other by so many sets, so that a large
#: power-of-two stride does not fall on one set; a contiguous buffer still fills all sets evenly.
ROTATION = 7


@compiled
def set_of(address, sets):
    """Set of the line at byte ``address``."""
    number = address >> LINE_SHIFT
    return (number + (number // sets) * ROTATION) % sets


@compiled
def find(lines, sm, address, sets, ways):
    """Index of the line at byte ``address`` in ``lines[sm]``, or -1."""
    if sets == 0:
        return -1
    tag = (address >> LINE_SHIFT) + 1
    base = set_of(address, sets) * ways
    for i in range(base, base + ways):
        if lines[sm, i, TAG] == tag:
            return i
    return -1


@compiled
def fill(lines, sm, address, sectors, sets, ways, now):
    """Install ``sectors`` of the line, in place of the set's least recently used line if it is new."""
    if sets == 0:
        return
    tag = (address >> LINE_SHIFT) + 1
    base = set_of(address, sets) * ways
    victim = base
    for i in range(base, base + ways):
        if lines[sm, i, TAG] == tag:
            lines[sm, i, HELD] |= sectors
            lines[sm, i, USED] = now
            return
        if lines[sm, i, TAG] == 0:
            if lines[sm, victim, TAG] != 0:
                victim = i
        elif lines[sm, victim, TAG] != 0 and lines[sm, i, USED] < lines[sm, victim, USED]:
            victim = i
    lines[sm, victim, TAG] = tag
    lines[sm, victim, HELD] = sectors
    lines[sm, victim, USED] = now
