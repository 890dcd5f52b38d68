"""A response comes in from the crossbar: sectors are filled, targets served, entries become free.

Mental model: the input port takes ``fill_bytes_per_cycle``, so responses queue there; the data of the last
sector are usable half a hit latency later. What becomes a line of the L1 is written into the data banks, which the LSU
reads too: a pass, as soon as sectors for a whole one have come, takes the data stage for a cycle, and the LSU's next
access waits for it, unless bank conflicts of the access under way leave banks idle for it. Data that no line keeps
(copies into shared memory, whose passes the LSU takes when they issue, atomics, uncached loads) take none.
Acknowledgements of stores carry no data. An instruction is done with its last part; then its counter's fall, or its
copy group's, gets a known cycle.
"""

from __future__ import annotations

from gpusim.model import cache
from gpusim.model import counters as count
from gpusim.model import messages as message
from gpusim.model import mshr as table
from gpusim.model.arrivals import TAG_BITS, TAG_MASK
from gpusim.model.coalescer import bits
from gpusim.model.compiled import inlined, inner
from gpusim.model.grid_writes import perform
from gpusim.model.residency import COPIES_DONE, COPIES_OPEN, LAST_ACK, STORES, UNSEEN, wake
from gpusim.model.scheduler import AGE
from gpusim.model.scoreboard import resolve
from gpusim.model.sm_tables import (
    COMMITS_OUT,
    DATA_FREE,
    DATA_SPARE,
    FILL_FREE_TICK,
    FILL_SECTORS,
    FILLED,
    FREE_ENTRY,
    FREE_PENDING,
    FREE_REQUEST,
    FREE_TARGET,
    PENDING_OUT,
    READS_OUT,
    TARGETS_OUT,
    WRITES_OUT,
)
from gpusim.model.stall_reasons import LONG_SCOREBOARD
from gpusim.model.timing import FILL_PASS_SECTORS, FILL_TICKS_PER_SECTOR, HIT_LATENCY, L1_SETS, L1_WAYS
from gpusim.model.tma import answered, end, write_words
from gpusim.trace.record import NO_BARRIER

TICKS = message.TICKS_PER_CYCLE


@inlined
def receive(state, tables, key, sm, now):
    """Handle the response ``key`` (see ``arrivals``) in cycle ``now``. ``state``: SmState."""
    entries, targets, requests = state.mshr.entries, state.mshr.targets, state.mshr.requests
    sms, timing, program = state.sms, state.timing, state.program
    tag = key & TAG_MASK
    tick = key >> TAG_BITS
    kind, sectors, entry, instruction = table.content_parts(requests[sm, tag, table.CONTENT])
    warp, age = table.sender_parts(requests[sm, tag, table.SENDER])
    if requests[sm, tag, table.SENDER] < 0 and state.resident.slots[warp, AGE] == age:
        state.resident.warps[warp, UNSEEN] += 1
    table.give(requests, sm, sms, FREE_REQUEST, tag)
    if kind >= message.BULK_READ:
        if kind == message.BULK_DONE:
            end(state, tables, sm, entry, now)
        elif kind == message.COMMIT_DONE:
            sms[sm, COMMITS_OUT] -= 1
            write_words(state, tables, sm, warp, instruction, now)
        else:
            answered(state, sm, entry, kind, sectors, tick, now)
        return
    if kind == message.WRITE or kind == message.REDUCTION:
        warps = state.resident.warps
        sms[sm, WRITES_OUT] -= bits(sectors)
        if instruction:
            perform(state.grid_writes, state.exits, state.report, timing, sm, instruction - 1, now)
        if state.resident.slots[warp, AGE] == age:
            warps[warp, STORES] -= 1
            warps[warp, LAST_ACK] = max(warps[warp, LAST_ACK], now)
            if warps[warp, STORES] == 0:
                wake(state.resident, program, timing, warp, now)
        return
    start = max(tick, sms[sm, FILL_FREE_TICK])
    amount = bits(sectors)
    sms[sm, FILL_FREE_TICK] = start + amount * timing[FILL_TICKS_PER_SECTOR]
    filled = (sms[sm, FILL_FREE_TICK] + TICKS - 1) // TICKS
    done = filled + timing[HIT_LATENCY] - timing[HIT_LATENCY] // 2
    sms[sm, READS_OUT] -= 1
    state.counters[count.SECTORS_FROM_L2] += amount
    if entry == 0:
        _part_done(state.mshr.pending, sms, state.resident, program, timing, sm, instruction, done, now)
        return
    line = entries[sm, entry, table.LINE]
    sms[sm, FILLED] = 1
    # Booked from now, not from when the port has passed the last sector on: a queue there leaves passes free in
    # between.
    gathered = sms[sm, FILL_SECTORS] + amount
    passes = gathered // timing[FILL_PASS_SECTORS]
    sms[sm, FILL_SECTORS] = gathered - passes * timing[FILL_PASS_SECTORS]
    if sms[sm, DATA_FREE] > now:  # passes that a bank conflict adds leave most banks idle
        hidden = min(passes, sms[sm, DATA_SPARE])
        sms[sm, DATA_SPARE] -= hidden
        passes -= hidden
    if passes:
        sms[sm, DATA_FREE] = max(sms[sm, DATA_FREE], now) + passes
        state.counters[count.FILL_PASSES] += passes
    cache.fill(state.l1, sm, line, sectors, timing[L1_SETS], timing[L1_WAYS], now)
    known = (entries[sm, entry, table.STATE] | sectors << table.ARRIVED_SHIFT) - table.ONE_OPEN
    entries[sm, entry, table.STATE] = known
    absent = ~(known >> table.ARRIVED_SHIFT) & table.SECTORS
    previous = 0
    target = entries[sm, entry, table.TARGETS]
    while target:
        following = targets[sm, target, table.NEXT_TARGET]
        wanted = targets[sm, target, table.WANTED]
        if wanted & absent:
            previous = target
        else:
            if previous:
                targets[sm, previous, table.NEXT_TARGET] = following
            else:
                entries[sm, entry, table.TARGETS] = following
            table.give(targets, sm, sms, FREE_TARGET, target)
            sms[sm, TARGETS_OUT] -= 1
            instruction = wanted >> table.SECTOR_BITS
            _part_done(state.mshr.pending, sms, state.resident, program, timing, sm, instruction, done, now)
        target = following
    if known >> table.OPEN_SHIFT == 0:
        table.remove_entry(state.mshr.lookup, entries, sm, line)
        table.give(entries, sm, sms, FREE_ENTRY, entry)


@inner
def _part_done(pending, sms, resident, program, timing, sm, instruction, done, now):
    """One line that the instruction wants is there at cycle ``done``."""
    done = max(done, pending[sm, instruction, table.DONE])
    pending[sm, instruction, table.DONE] = done
    pending[sm, instruction, table.LINES_LEFT] -= 1
    if pending[sm, instruction, table.LINES_LEFT]:
        return
    warps = resident.warps
    warp, counter, group = table.owner_parts(pending[sm, instruction, table.OWNER])
    if resident.slots[warp, AGE] == pending[sm, instruction, table.OWNER_AGE]:
        if group:
            warps[warp, COPIES_OPEN + group - 1] -= 1
            if done > warps[warp, COPIES_DONE + group - 1]:
                warps[warp, COPIES_DONE + group - 1] = done
        if counter != NO_BARRIER:
            resolve(resident.board, warp, counter, done, LONG_SCOREBOARD)
        wake(resident, program, timing, warp, now)
    table.give(pending, sm, sms, FREE_PENDING, instruction)
    sms[sm, PENDING_OUT] -= 1
