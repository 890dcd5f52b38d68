"""What an SM waits for from memory: lines on their way, and the instructions that want them.

Mental model: three pools of small records, each a linked free list, one set an SM.

- An *instruction in flight* counts the lines that it still wants (``LEFT``) and remembers whose counter
  to release, and when its latest part was there.
- A *missing line* knows which sectors were asked for, which have come, and a list of waiters.
- A *waiter* links the two: this instruction wants those sectors of that line.

A second access to a line that is on its way joins its waiters and asks only for sectors nobody asked
for yet. Missing lines are found through an open hash. Index 0 of every pool is never handed out, so
that zeroed memory is an empty pool.

Records are packed, because an SM's outstanding lines are the largest thing that a window touches: fewer
host cache lines, faster simulation. Column 0 of a free record links to the next free one; pool heads
live in the SM's row of ``sms`` (FREE_x: head of the free list, USED_x: records ever used).
"""

from __future__ import annotations

from gpusim.model.compiled import inner
from gpusim.model.prefetch import prefetch

# ``flights`` int64[sms, n, 4], an instruction in flight: lines it wants; owner (below); its warp's age;
# cycle at which its latest part was there
(LEFT, OWNER, AGE_OF, DONE, FLIGHT_COLUMNS) = range(5)
# ``misses`` int64[sms, n, 4], a missing line: byte address; state (below); first waiter
(LINE, STATE, WAITERS, MISS_COLUMNS) = range(4)
# ``waiters`` int64[sms, n, 2]: next waiter; what it wants: flight << SECTOR_BITS | sectors
(NEXT_WAITER, WANTED, WAITER_COLUMNS) = range(3)
# ``requests`` int64[sms, n, 2], an unanswered request, indexed by its tag: content (below); warp and age
(CONTENT, SENDER, REQUEST_COLUMNS) = range(3)

SECTOR_BITS = 4
SECTORS = (1 << SECTOR_BITS) - 1
_WARP_BITS = 24
_WARP = (1 << _WARP_BITS) - 1
_INDEX_BITS = 20
_INDEX = (1 << _INDEX_BITS) - 1
#: STATE: sectors asked for | sectors that came << 4 | unanswered requests << 8
ARRIVED_SHIFT, OPEN_SHIFT = SECTOR_BITS, 2 * SECTOR_BITS
ONE_OPEN = 1 << OPEN_SHIFT


@inner
def owner(warp, counter, group):
    """OWNER of a flight: its warp, the counter that its end releases, 1 + its copy group (0: none)."""
    return warp | counter << _WARP_BITS | group << (_WARP_BITS + 8)


@inner
def owner_parts(packed):
    """(warp, counter, group) of an OWNER."""
    return packed & _WARP, packed >> _WARP_BITS & 0xFF, packed >> (_WARP_BITS + 8)


@inner
def content(kind, sectors, miss, flight):
    """CONTENT of a request: its message kind and sectors, the missing line or else the flight it serves."""
    return kind | sectors << 4 | miss << 8 | flight << (8 + _INDEX_BITS)


@inner
def content_parts(packed):
    """(kind, sectors, miss, flight) of a CONTENT."""
    return packed & 15, packed >> 4 & SECTORS, packed >> 8 & _INDEX, packed >> (8 + _INDEX_BITS)


@inner
def sender(warp, age):
    """SENDER of a request."""
    return warp | age << _WARP_BITS


@inner
def sender_parts(packed):
    """(warp, age) of a SENDER."""
    return packed & _WARP, packed >> _WARP_BITS


@inner
def take(pool, sm, heads, free, used):
    """A free record's index; ``heads[sm, free]`` and ``heads[sm, used]`` are the pool's state."""
    index = heads[sm, free]
    if index:
        following = pool[sm, index, 0]
        heads[sm, free] = following
        prefetch(pool, (sm, following, 0))
        return index
    heads[sm, used] += 1
    return heads[sm, used]


@inner
def give(pool, sm, heads, free, index):
    """Return a record to its pool."""
    pool[sm, index, 0] = heads[sm, free]
    heads[sm, free] = index


@inner
def home_slot(line, size):
    """Where the hash starts to look for a line (``size`` is a power of two)."""
    number = line >> 7
    return (number ^ (number >> 9) ^ (number >> 18)) & (size - 1)


@inner
def find_miss(index, misses, sm, line):
    """Record of the missing line at byte address ``line``, or 0. ``index`` is int32[sms, size]."""
    size = index.shape[1]
    slot = home_slot(line, size)
    while True:
        record = index[sm, slot]
        if record == 0:
            return 0
        if misses[sm, record, LINE] == line:
            return record
        slot = (slot + 1) & (size - 1)


@inner
def insert_miss(index, sm, line, record):
    """Make ``record`` findable; the line must not be there."""
    size = index.shape[1]
    slot = home_slot(line, size)
    while index[sm, slot] != 0:
        slot = (slot + 1) & (size - 1)
    index[sm, slot] = record


@inner
def remove_miss(index, misses, sm, line):
    """Make the line unfindable, moving later entries of its probe run up so that no gap is left."""
    size = index.shape[1]
    slot = home_slot(line, size)
    while misses[sm, index[sm, slot], LINE] != line:
        slot = (slot + 1) & (size - 1)
    hole = slot
    slot = (slot + 1) & (size - 1)
    while index[sm, slot] != 0:
        home = home_slot(misses[sm, index[sm, slot], LINE], size)
        if ((slot - home) & (size - 1)) >= ((slot - hole) & (size - 1)):
            index[sm, hole] = index[sm, slot]
            hole = slot
        slot = (slot + 1) & (size - 1)
    index[sm, hole] = 0
