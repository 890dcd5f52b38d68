"""A response comes in from the crossbar: sectors are filled, waiters go on, entries become free.

Mental model: the input port takes ``fill_bytes_per_cycle``, so responses queue there; the data of the last
sector are usable half a hit latency later. Acknowledgements of stores carry no data. An instruction is
done with its last part; then its counter's fall, or its copy group's, gets a known cycle.
"""

from __future__ import annotations

from gpusim.model import cache
from gpusim.model import counters as count
from gpusim.model import messages as message
from gpusim.model import miss_table as table
from gpusim.model.arrivals import TAG_BITS, TAG_MASK
from gpusim.model.coalescer import bits
from gpusim.model.compiled import inlined, inner
from gpusim.model.residency import COPIES_DONE, COPIES_OPEN, LAST_ACK, STORES, wake
from gpusim.model.scheduler import AGE
from gpusim.model.scoreboard import resolve
from gpusim.model.sm_columns import (
    FILL_FREE_TICK,
    FLIGHTS_OUT,
    FREE_FLIGHT,
    FREE_MISS,
    FREE_REQUEST,
    FREE_WAITER,
    READS_OUT,
    WAITERS_OUT,
    WRITES_OUT,
)
from gpusim.model.stall_reasons import LONG_SCOREBOARD
from gpusim.model.timing import FILL_TICKS_PER_SECTOR, HIT_LATENCY, L1_SETS, L1_WAYS
from gpusim.trace.record import NO_BARRIER

TICKS = message.TICKS_PER_CYCLE


@inlined
def receive(
    key, l1, misses, miss_index, waiters, flights, requests, sms, program, warps, slots, board, subs_next,
    counters, timing, sm, now,
):  # fmt: skip
    """Handle the response ``key`` (see ``arrivals``) in cycle ``now``."""
    tag = key & TAG_MASK
    tick = key >> TAG_BITS
    kind, sectors, miss, flight = table.content_parts(requests[sm, tag, table.CONTENT])
    warp, age = table.sender_parts(requests[sm, tag, table.SENDER])
    table.give(requests, sm, sms, FREE_REQUEST, tag)
    if kind == message.WRITE or kind == message.REDUCTION:
        sms[sm, WRITES_OUT] -= 1
        if slots[warp, AGE] == age:
            warps[warp, STORES] -= 1
            warps[warp, LAST_ACK] = now
            if warps[warp, STORES] == 0:
                wake(warps, slots, board, program, subs_next, timing, warp, now)
        return
    start = max(tick, sms[sm, FILL_FREE_TICK])
    amount = bits(sectors)
    sms[sm, FILL_FREE_TICK] = start + amount * timing[FILL_TICKS_PER_SECTOR]
    filled = (sms[sm, FILL_FREE_TICK] + TICKS - 1) // TICKS
    done = filled + timing[HIT_LATENCY] - timing[HIT_LATENCY] // 2
    sms[sm, READS_OUT] -= 1
    counters[count.SECTORS_FROM_L2] += amount
    if miss == 0:
        _part_done(flights, sms, program, warps, slots, board, subs_next, timing, sm, flight, done, now)
        return
    line = misses[sm, miss, table.LINE]
    cache.fill(l1, sm, line, sectors, timing[L1_SETS], timing[L1_WAYS], now)
    state = (misses[sm, miss, table.STATE] | sectors << table.ARRIVED_SHIFT) - table.ONE_OPEN
    misses[sm, miss, table.STATE] = state
    absent = ~(state >> table.ARRIVED_SHIFT) & table.SECTORS
    previous = 0
    waiter = misses[sm, miss, table.WAITERS]
    while waiter:
        following = waiters[sm, waiter, table.NEXT_WAITER]
        wanted = waiters[sm, waiter, table.WANTED]
        if wanted & absent:
            previous = waiter
        else:
            if previous:
                waiters[sm, previous, table.NEXT_WAITER] = following
            else:
                misses[sm, miss, table.WAITERS] = following
            table.give(waiters, sm, sms, FREE_WAITER, waiter)
            sms[sm, WAITERS_OUT] -= 1
            flight = wanted >> table.SECTOR_BITS
            _part_done(flights, sms, program, warps, slots, board, subs_next, timing, sm, flight, done, now)
        waiter = following
    if state >> table.OPEN_SHIFT == 0:
        table.remove_miss(miss_index, misses, sm, line)
        table.give(misses, sm, sms, FREE_MISS, miss)


@inner
def _part_done(flights, sms, program, warps, slots, board, subs_next, timing, sm, flight, done, now):
    """One line of an instruction in flight is there at cycle ``done``."""
    done = max(done, flights[sm, flight, table.DONE])
    flights[sm, flight, table.DONE] = done
    flights[sm, flight, table.LEFT] -= 1
    if flights[sm, flight, table.LEFT]:
        return
    warp, counter, group = table.owner_parts(flights[sm, flight, table.OWNER])
    if slots[warp, AGE] == flights[sm, flight, table.AGE_OF]:
        if group:
            warps[warp, COPIES_OPEN + group - 1] -= 1
            if done > warps[warp, COPIES_DONE + group - 1]:
                warps[warp, COPIES_DONE + group - 1] = done
        if counter != NO_BARRIER:
            resolve(board, warp, counter, done, LONG_SCOREBOARD)
        wake(warps, slots, board, program, subs_next, timing, warp, now)
    table.give(flights, sm, sms, FREE_FLIGHT, flight)
    sms[sm, FLIGHTS_OUT] -= 1
