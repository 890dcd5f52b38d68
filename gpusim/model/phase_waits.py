"""Warps that wait for a phase of an mbarrier (SYNCS.PHASECHK.TRYWAIT): asked once, answered when the phase is over.

Mental model: PTX calls ``mbarrier.try_wait`` potentially blocking: the thread is suspended until the phase is over. So
the instruction that finds the word not written as often as it asks for keeps its counter, and the write that it waits
for gives the answer, a way back from shared memory later. The time limit after which silicon answers in any case is
long; nobody has measured it, and it is not simulated.
"""

from __future__ import annotations

from gpusim.model import counters as count
from gpusim.model.compiled import inner
from gpusim.model.residency import (
    BLOCK,
    BLOCK_WARPS,
    FIRST_WARP,
    SUSPENDED,
    SUSPENDED_COUNTER,
    SUSPENDED_FROM,
    wake,
    warp_index,
)
from gpusim.model.scoreboard import resolve
from gpusim.model.signals import ANY_LINE, has_seen
from gpusim.model.sm_tables import SUSPENDED_WARPS
from gpusim.model.stall_reasons import LONG_SCOREBOARD
from gpusim.model.timing import ADDRESS_LATENCY, SHARED_LATENCY


@inner
def suspend(warps, sms, sm, warp, signal, counter, now):
    """The warp, whose look has the signals from row ``signal - 1`` on, waits for them with its counter."""
    warps[warp, SUSPENDED], warps[warp, SUSPENDED_COUNTER], warps[warp, SUSPENDED_FROM] = signal, counter, now
    sms[sm, SUSPENDED_WARPS] += 1


@inner
def resume(resident, program, timing, sms, signals, written, totals, sm, block, now):
    """Words of the block's shared memory have been written in cycle ``now``: answer the warps that have waited for
    that."""
    warps = resident.warps
    first = resident.blocks[block, FIRST_WARP]
    answer = now + timing[SHARED_LATENCY] - timing[ADDRESS_LATENCY]
    for i in range(resident.blocks[block, BLOCK_WARPS]):
        warp = warp_index(timing, sm, first + i)
        if warps[warp, SUSPENDED] == 0 or warps[warp, BLOCK] != block:
            continue
        if has_seen(signals, written, warps[warp, SUSPENDED], ANY_LINE):
            warps[warp, SUSPENDED] = 0
            sms[sm, SUSPENDED_WARPS] -= 1
            totals[count.POLL_CYCLES] += answer - warps[warp, SUSPENDED_FROM]
            resolve(resident.board, warp, warps[warp, SUSPENDED_COUNTER], answer, LONG_SCOREBOARD)
            wake(resident, program, timing, warp, now)
