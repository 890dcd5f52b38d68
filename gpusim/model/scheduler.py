"""Which warp of a sub-core issues: the last one while it can, else of those that can one of the oldest block, there the
youngest.

Mental model: greedy, then the oldest block, then its youngest warp. That warps of a block go youngest first is what
Huerta et al. (MICRO 2025) see of warps that start together. That a block goes behind those that were there before it is
fitted: a convolution that was tuned on an A100 (32 rows of its learning half, docs/validation/external.md) shows hardly
any overlap of a new block's loads with the sums of older ones, as if it waited for them; youngest first throughout
predicts them up to 25 % too fast. A warp is *asleep* while the cycle (``ready``) from which it has all that it depends
on lies ahead (or is not known), and *awake* from then on, among those that wait for the port of their next instruction.
It is a candidate while that port is free. Both are kept as sets, bit i for the sub-core's warp i, so that a look costs
what has changed and not all warps: who falls due is moved over, and of the candidates only the youngest is looked for.
The scheduler looks only in cycles in which something may have become possible, and says when to look next.

What a warp lost while awake is counted for all at once: of each port, how often somebody issued while it was free; of
each sub-core, for how long operand reads held it. A warp notes both when it wakes, and the differences are its own.

``slots`` is int64[warps, columns], ``ports`` int64[sub-cores, ports, columns], ``sets`` int64[sub-cores, columns].
``ready`` is int64[warps]: the cycle from which each has all it depends on; NEVER: unknown, or no warp. A look at all
that sleep reads two cache lines of the host of it.
"""

from __future__ import annotations

from gpusim.model.bit_sets import highest, lowest
from gpusim.model.compiled import inlined, inner
from gpusim.model.messages import NEVER
from gpusim.state_tables import Table

#: Warps of a sub-core at most: a set of them is an integer that is not negative.
MOST_WARPS = 62

SLOT_TABLE = Table(__name__, "slots", "a warp slot", "What a scheduler knows of a warp.", whole_lines=True)
PORT = SLOT_TABLE.column("index", "the port of its next instruction")
AGE = SLOT_TABLE.column("count", "warps started on the SM up to it: larger is younger; 0: no warp")
BEFORE = SLOT_TABLE.column(
    "mask", "warps of its sub-core that are taken before it: of older blocks, and younger ones of its own"
)
PASSES_THEN = SLOT_TABLE.column("count", "PASSES of its port when it woke")
HELD_THEN = SLOT_TABLE.column(
    "cycles", "HELD of its sub-core when it woke, less what of it came while it could have issued"
)

PORT_TABLE = Table(
    __name__, "ports", "a port of a sub-core", "Who waits for it, and from when on it takes an instruction."
)
FREE = PORT_TABLE.column("cycle", "first one at which it takes an instruction")
AWAKE = PORT_TABLE.column("mask", "warps that have all else that their next instruction depends on")
PASSES = PORT_TABLE.column("count", "cycles in which it was free and a warp, of whichever port, was issued")
SPARE = PORT_TABLE.column("count", "nothing: a row is half a cache line of the host's")

SET_TABLE = Table(
    __name__, "sets", "a sub-core", "Which of its warps its scheduler has to look at, and when.", whole_lines=True
)
ASLEEP = SET_TABLE.column("mask", "warps whose ``ready`` is known and was not reached at the last look")
DUE = SET_TABLE.column("cycle", "the earliest ``ready`` of those")
WANTED = SET_TABLE.column("mask", "ports for which warps that are awake wait")
HELD = SET_TABLE.column("cycles", "in which operand reads kept it from issuing")
HELD_START = SET_TABLE.column("cycle", "from which they did so last")
HELD_END = SET_TABLE.column("cycle", "up to which they did")


@inner
def sleep(ready, sets, sub, first, warp, cycle):
    """The warp, which is not awake, has all it depends on from ``cycle`` on; NEVER: that is not known yet. ``first`` is
    the sub-core's first warp."""
    ready[warp] = cycle
    if cycle != NEVER:
        sets[sub, ASLEEP] |= 1 << (warp - first)
        if cycle < sets[sub, DUE]:
            sets[sub, DUE] = cycle


@inner
def note_start(slots, sub_first, count, warp, age, fellows):
    """Note a warp that starts: it goes before ``fellows``, the set of its sub-core's warps of the same block, and
    behind all others."""
    member = 1 << (warp - sub_first)
    everyone = (1 << count) - 1
    for other in range(sub_first, sub_first + count):
        if fellows >> (other - sub_first) & 1:
            slots[other, BEFORE] |= member
        else:
            slots[other, BEFORE] &= ~member
    slots[warp, BEFORE] = everyone & ~(fellows | member)
    slots[warp, AGE] = age


@inner
def _wake_due(ready, slots, ports, sets, sub, first, now):
    """Move the warps whose time has come to those that are awake."""
    asleep = sets[sub, ASLEEP]
    rest = asleep
    earliest = NEVER
    while rest:
        place = lowest(rest)
        rest &= rest - 1
        warp = first + place
        cycle = ready[warp]
        if cycle > now:
            earliest = min(earliest, cycle)
            continue
        asleep ^= 1 << place
        port = slots[warp, PORT]
        ports[sub, port, AWAKE] |= 1 << place
        sets[sub, WANTED] |= 1 << port
        slots[warp, PASSES_THEN] = ports[sub, port, PASSES]
        within = sets[sub, HELD_END] - max(cycle, sets[sub, HELD_START])
        slots[warp, HELD_THEN] = sets[sub, HELD] - max(within, 0)
    sets[sub, ASLEEP] = asleep
    sets[sub, DUE] = earliest


@inner
def hold(sets, sub, start, end):
    """Operand reads have kept the sub-core from issuing from ``start`` up to ``end``."""
    sets[sub, HELD] += end - start
    sets[sub, HELD_START] = start
    sets[sub, HELD_END] = end


@inlined
def pick_warp(ready, slots, ports, sets, sub, first, last, now):
    """The warp to issue in cycle ``now`` among those of ``sub``, from ``first`` on, or -1; it no longer waits for its
    port.

    ``last`` is the warp that issued last unless it yields (-1). Returns (warp, next cycle to look at if the chosen warp
    were not there). Candidates that lose are passed over once.
    """
    if sets[sub, DUE] <= now:
        _wake_due(ready, slots, ports, sets, sub, first, now)
    later = sets[sub, DUE]
    candidates = 0
    wanted = sets[sub, WANTED]
    while wanted:
        port = lowest(wanted)
        wanted &= wanted - 1
        free = ports[sub, port, FREE]
        if free > now:
            later = min(later, free)
        else:
            candidates |= ports[sub, port, AWAKE]
            ports[sub, port, PASSES] += 1
    if candidates == 0:
        return -1, later
    if last >= 0 and candidates >> (last - first) & 1:
        chosen = last
    else:
        chosen = first + highest(candidates)
        rest = candidates & slots[chosen, BEFORE]
        while rest:
            chosen = first + highest(rest)
            rest &= slots[chosen, BEFORE]
    if candidates & (candidates - 1):
        later = now + 1
    port = slots[chosen, PORT]
    waiting = ports[sub, port, AWAKE] ^ 1 << (chosen - first)
    ports[sub, port, AWAKE] = waiting
    if waiting == 0:
        sets[sub, WANTED] ^= 1 << port
    return chosen, later


@inner
def lost(slots, ports, sets, sub, warp):
    """(cycles in which the warp, which has just been picked, could have issued and another was taken; those in which
    operand reads held its sub-core), since it woke."""
    passed = ports[sub, slots[warp, PORT], PASSES] - slots[warp, PASSES_THEN] - 1
    return passed, sets[sub, HELD] - slots[warp, HELD_THEN]
