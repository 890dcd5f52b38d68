"""What an SM waits for from memory: MSHR entries, one a missing line, and the instructions that want them.

Mental model: three pools of small records, each a linked free list, one set an SM.

- An entry of the *pending request table* (``pending``) is an instruction in flight: it counts the lines that the
  instruction still wants and remembers whose counter to release, and when its latest part was there.
- An *MSHR entry* (``entries``) is a missing line: it knows which sectors were asked for, which have come, and a list of
  targets.
- A *target* (``targets``) links the two: this instruction wants those sectors of that line.

A second access to a line that is on its way is merged: it joins the entry's targets and asks only for sectors nobody
asked for yet. Entries are found through an open hash (``lookup``). ``requests`` holds what each request to the L2 was,
under its tag. Index 0 of every pool is never handed out, so that zeroed memory is an empty pool.

Records are packed, because an SM's outstanding lines are the largest thing that a window touches: fewer
host cache lines, faster simulation. Column 0 of a free record links to the next free one; pool heads
live in the SM's row of ``sms`` (FREE_x: head of the free list, USED_x: records ever used).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.model.compiled import inner
from gpusim.model.prefetch import prefetch
from gpusim.state_tables import Table

PENDING_TABLE = Table(__name__, "mshr.pending", "an instruction in flight of an SM", "The pending request table.")
LINES_LEFT = PENDING_TABLE.column("count", "lines that it still wants")
OWNER = PENDING_TABLE.column("packed", "its warp, counter and copy group, see owner()")
OWNER_AGE = PENDING_TABLE.column("count", "its warp's age")
DONE = PENDING_TABLE.column("cycle", "at which its latest part was there")

ENTRY_TABLE = Table(__name__, "mshr.entries", "a missing line of an SM", "The MSHRs.")
LINE = ENTRY_TABLE.column("address", "of the line")
STATE = ENTRY_TABLE.column("packed", "sectors asked for | sectors that came << 4 | unanswered requests << 8")
TARGETS = ENTRY_TABLE.column("link", "first target")

TARGET_TABLE = Table(
    __name__, "mshr.targets", "a line that an instruction wants", "The merged accesses of MSHR entries."
)
NEXT_TARGET = TARGET_TABLE.column("link", "next target of the entry")
WANTED = TARGET_TABLE.column("packed", "entry of ``pending`` << SECTOR_BITS | sectors")

REQUEST_TABLE = Table(
    __name__, "mshr.requests", "an unanswered request of an SM, by its tag", "What was asked of the L2."
)
CONTENT = REQUEST_TABLE.column(
    "packed", "message kind, sectors, entry, pending or 1 + the grid of a write, see content()"
)
SENDER = REQUEST_TABLE.column(
    "packed", "warp and its age, see sender(); ~ that: it polls and has not seen what it waits for"
)

SECTOR_BITS = 4
SECTORS = (1 << SECTOR_BITS) - 1
_WARP_BITS = 24
_WARP = (1 << _WARP_BITS) - 1
_INDEX_BITS = 20
_INDEX = (1 << _INDEX_BITS) - 1
#: Fields of STATE.
ARRIVED_SHIFT, OPEN_SHIFT = SECTOR_BITS, 2 * SECTOR_BITS
ONE_OPEN = 1 << OPEN_SHIFT


class MshrState(NamedTuple):
    """An SM group's MSHRs, pending requests and unanswered requests; the pools are int64[sms, n, columns]."""

    entries: np.ndarray
    lookup: np.ndarray  # int32[sms, a power of two]: open hash of lines
    targets: np.ndarray
    pending: np.ndarray
    requests: np.ndarray


@inner
def owner(warp, counter, group):
    """OWNER of an instruction in flight: its warp, the counter that its end releases, 1 + its copy group (0: none)."""
    return warp | counter << _WARP_BITS | group << (_WARP_BITS + 8)


@inner
def owner_parts(packed):
    """(warp, counter, group) of an OWNER."""
    return packed & _WARP, packed >> _WARP_BITS & 0xFF, packed >> (_WARP_BITS + 8)


@inner
def content(kind, sectors, entry, pending):
    """CONTENT of a request: its message kind and sectors, the MSHR entry or else the pending request that it serves; of
    a write, in a chain of grids, 1 + its grid in place of the latter."""
    return kind | sectors << 4 | entry << 8 | pending << (8 + _INDEX_BITS)


@inner
def content_parts(packed):
    """(kind, sectors, entry, pending) of a CONTENT."""
    return packed & 15, packed >> 4 & SECTORS, packed >> 8 & _INDEX, packed >> (8 + _INDEX_BITS)


@inner
def sender(warp, age):
    """SENDER of a request."""
    return warp | age << _WARP_BITS


@inner
def sender_parts(packed):
    """(warp, age) of a SENDER."""
    packed ^= packed >> 63
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
def find_entry(index, entries, sm, line):
    """MSHR entry of the missing line at byte address ``line``, or 0."""
    size = index.shape[1]
    slot = home_slot(line, size)
    while True:
        entry = index[sm, slot]
        if entry == 0:
            return 0
        if entries[sm, entry, LINE] == line:
            return entry
        slot = (slot + 1) & (size - 1)


@inner
def insert_entry(index, sm, line, entry):
    """Make ``entry`` findable; the line must not be there."""
    size = index.shape[1]
    slot = home_slot(line, size)
    while index[sm, slot] != 0:
        slot = (slot + 1) & (size - 1)
    index[sm, slot] = entry


@inner
def remove_entry(index, entries, sm, line):
    """Make the line unfindable, moving later entries of its probe run up so that no gap is left."""
    size = index.shape[1]
    slot = home_slot(line, size)
    while entries[sm, index[sm, slot], LINE] != line:
        slot = (slot + 1) & (size - 1)
    hole = slot
    slot = (slot + 1) & (size - 1)
    while index[sm, slot] != 0:
        home = home_slot(entries[sm, index[sm, slot], LINE], size)
        if ((slot - home) & (size - 1)) >= ((slot - hole) & (size - 1)):
            index[sm, hole] = index[sm, slot]
            hole = slot
        slot = (slot + 1) & (size - 1)
    index[sm, hole] = 0
