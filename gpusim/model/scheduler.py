"""Which warp of a sub-core issues: the last one while it can, else the youngest that can.

Mental model: greedy then youngest. A warp is a candidate from cycle ``READY`` on (stall count elapsed,
counters zero) and while the port of its next instruction is free. The scheduler looks at the
sub-core's warps only in cycles in which something may have become possible, and says when to look next.

``slots`` is int64[warps, columns].
"""

from __future__ import annotations

from gpusim.model.compiled import inlined
from gpusim.model.messages import NEVER
from gpusim.state_tables import Table

SLOT_TABLE = Table(__name__, "slots", "a warp slot", "What a scheduler knows of a warp.")
READY = SLOT_TABLE.column("cycle", "from which it has all it depends on; NEVER: unknown, or no warp")
PORT = SLOT_TABLE.column("index", "the port of its next instruction")
AGE = SLOT_TABLE.column("count", "warps started on the SM up to it: larger is younger; 0: no warp")
PASSED = SLOT_TABLE.column("cycles", "in which it could have issued and another was taken (Nsight's ``not_selected``)")


@inlined
def pick_warp(slots, port_free, sub, first, count, last, now):
    """The warp to issue in cycle ``now`` among ``first .. first + count - 1``, or -1.

    ``port_free`` is int64[sub-cores, ports]: first cycle at which the port takes an instruction;
    ``last`` is the warp that issued last unless it yields (-1). Returns (warp, next cycle to look at if
    the chosen warp were not there). Candidates that lose are charged one PASSED cycle.
    """
    chosen = -1
    chosen_age = -1
    candidates = 0
    later = NEVER
    for warp in range(first, first + count):
        ready = slots[warp, READY]
        if ready > now:
            if ready < later:
                later = ready
            continue
        free = port_free[sub, slots[warp, PORT]]
        if free > now:
            if free < later:
                later = free
            continue
        candidates += 1
        age = slots[warp, AGE]
        if chosen < 0 or warp == last or (age > chosen_age and chosen != last):
            chosen = warp
            chosen_age = age
    if candidates > 1:
        for warp in range(first, first + count):
            if warp != chosen and slots[warp, READY] <= now and port_free[sub, slots[warp, PORT]] <= now:
                slots[warp, PASSED] += 1
        later = now + 1
    return chosen, later
