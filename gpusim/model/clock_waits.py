"""Warps that wait for a time: from which reading of the clock on, and until when.

Mental model: an instruction that reads the clock leaves the cycle in which it was issued with the warp, and in the
slots for which it says when a loop began to wait. Where such a loop decides whether to go on, the trace has for how
long it waits; so the loop goes round until the warp has read the clock late enough, as on silicon, and not as often as
the emulator went.
"""

from __future__ import annotations

from gpusim.model import program as op
from gpusim.model.compiled import inner
from gpusim.model.residency import CLOCK_END, CLOCK_FROM, CLOCK_READ, UNSEEN
from gpusim.model.trace_tables import A_ADDRESS
from gpusim.trace.layout import CLOCK_ADDRESS, CLOCK_SLOTS, MAX_CLOCK_WAIT
from gpusim.trace.record import Flag

CLOCK = int(Flag.CLOCK)


@inner
def look_at_clock(warps, program, tables, warp, pc, access, now):
    """``warp`` issues an instruction with Flag.CLOCK or CLOCK_WAIT, whose access record, if it has one, is ``access``:
    it reads the clock, or goes on waiting (UNSEEN) unless what it has read is late enough."""
    named = program[pc, op.CLOCK]
    if program[pc, op.FLAGS] & CLOCK:
        warps[warp, CLOCK_READ] = now
        for slot in range(CLOCK_SLOTS):
            if (named >> slot) & 1:
                warps[warp, CLOCK_FROM + slot] = now
        return
    ticks = min(max(tables.accesses[access, A_ADDRESS] - CLOCK_ADDRESS, 0), MAX_CLOCK_WAIT)
    if ticks:
        cycles = (ticks * program[pc, op.CLOCK_TICKS]) >> op.SLEEP_SHIFT
        warps[warp, CLOCK_END] = warps[warp, CLOCK_FROM + (named >> 1)] + cycles
        if warps[warp, CLOCK_READ] < warps[warp, CLOCK_END]:
            warps[warp, UNSEEN] = 1
