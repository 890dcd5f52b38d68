"""What an SM waits for from memory: lines on their way, and the instructions that want them.

Mental model: three pools of small records, each a linked free list, one set an SM.

- An *instruction in flight* counts the lines that it still wants (``LEFT``) and remembers whose counter
  to release, and when its latest part was there.
- A *missing line* knows which sectors were asked for, which have come, and a list of waiters.
- A *waiter* links the two: this instruction wants those sectors of that line.

A second access to a line that is on its way joins its waiters and asks only for sectors nobody asked
for yet. Missing lines are found through an open hash. Index 0 of every pool is never handed out, so
that zeroed memory is an empty pool.

``pool`` heads live in the SM's row of ``sms`` (FREE_x: head of the free list, USED_x: records ever used).
"""

from __future__ import annotations

from gpusim.model.compiled import inner

# columns of ``flights`` int64[sms, n, ..]: an instruction in flight
(F_NEXT, F_WARP, F_AGE, F_COUNTER, F_REASON, F_LEFT, F_DONE, F_GROUP, FLIGHT_COLUMNS) = range(9)
# columns of ``misses`` int64[sms, n, ..]: a missing line
(M_NEXT, M_LINE, M_ASKED, M_ARRIVED, M_OPEN, M_WAITERS, MISS_COLUMNS) = range(7)
# columns of ``waiters`` int64[sms, n, ..]
(W_NEXT, W_FLIGHT, W_SECTORS, WAITER_COLUMNS) = range(4)
# columns of ``requests`` int64[sms, n, ..]: an unanswered request, indexed by its tag
(R_NEXT, R_KIND, R_SECTORS, R_MISS, R_FLIGHT, R_WARP, R_AGE, REQUEST_COLUMNS) = range(8)


@inner
def take(pool, sm, heads, free, used):
    """A free record's index; ``heads[sm, free]`` and ``heads[sm, used]`` are the pool's state."""
    index = heads[sm, free]
    if index:
        heads[sm, free] = pool[sm, index, 0]
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
        if misses[sm, record, M_LINE] == line:
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
    while misses[sm, index[sm, slot], M_LINE] != line:
        slot = (slot + 1) & (size - 1)
    hole = slot
    slot = (slot + 1) & (size - 1)
    while index[sm, slot] != 0:
        home = home_slot(misses[sm, index[sm, slot], M_LINE], size)
        if ((slot - home) & (size - 1)) >= ((slot - hole) & (size - 1)):
            index[sm, hole] = index[sm, slot]
            hole = slot
        slot = (slot + 1) & (size - 1)
    index[sm, hole] = 0
