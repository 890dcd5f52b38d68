"""The SM's clock: from event to event until the window ends, one SM after the other.

Mental model: within a window the SMs of a group are independent. Each jumps from one cycle in which
something can happen to the next; in a cycle, first what comes in (responses, block starts), then the
memory path, then the sub-cores in order. Idle SMs cost one comparison, idle cycles nothing.
"""

from __future__ import annotations

from gpusim.engine.arena import W_ACCESS, W_NEXT, W_RUN, W_RUN_END
from gpusim.engine.issue import enter_code, issue, leave_block, read_constant
from gpusim.model import cache
from gpusim.model import counters as count
from gpusim.model import program as op
from gpusim.model.arrivals import TAG_BITS, TAG_MASK, pop
from gpusim.model.compiled import compiled, inlined, inner
from gpusim.model.l1_access import close_path, enter, has_room
from gpusim.model.l1_response import receive
from gpusim.model.memory_io import dequeue, next_request_cycle, take_request
from gpusim.model.messages import NEVER, TICKS_PER_CYCLE
from gpusim.model.miss_table import CONTENT, LINE, SECTOR_BITS, SENDER, WAITERS, WANTED, content_parts, sender_parts
from gpusim.model.prefetch import prefetch
from gpusim.model.residency import (
    ARRIVED,
    BARRIERS,
    BLOCK,
    BLOCK_NUMBER,
    FETCHED,
    LAST_ACK,
    LIVE,
    PC,
    QUEUED,
    STORES,
    WAITING,
    WARP_COLUMNS,
    charge_held,
    earliest_issue,
    start_warp,
    wake,
    warp_index,
)
from gpusim.model.scheduler import READY, pick_warp
from gpusim.model.sm_columns import (
    AGE_COUNT,
    ARRIVALS,
    BLOCKED,
    BUSY,
    H_PC,
    H_WARP,
    HELD_FROM,
    HOLD,
    LAST,
    LAST_WARP,
    NEXT,
    QUEUE_NEXT,
    RESIDENT_BLOCKS,
    START_NEXT,
)
from gpusim.model.timing import (
    DECODE_CYCLES,
    FIRST_SM,
    L1_SETS,
    L1_WAYS,
    LOCAL_BYTES_PER_WARP,
    MAX_BLOCKS,
    SUB_CORES,
    WARPS_PER_BLOCK,
    WARPS_PER_SUB_CORE,
)
from gpusim.trace.record import MemoryKind

STORE, REDUCTION = int(MemoryKind.STORE), int(MemoryKind.REDUCTION)
# columns of ``starts`` int64[sms * max_blocks, START_COLUMNS]: a block that is to start in a slot
(S_CYCLE, S_BLOCK, S_WARP_ROW, START_COLUMNS) = range(4)
# columns of ``exits`` int64[.., EXIT_COLUMNS]
(E_CYCLE, E_SM, E_SLOT, E_BLOCK, EXIT_COLUMNS) = range(5)
# ``report`` int64[REPORT_SIZE]: what an advance hands back
(R_REQUESTS, R_EXITS, R_NEXT_CYCLE, R_LAST_CYCLE, REPORT_SIZE) = range(5)
#: Local memory of warp slots lies far above every allocation.
LOCAL_MEMORY_BASE = 1 << 47


@inner
def start_blocks(state, tables, sm, now):
    """Make the blocks resident whose start has come, in slot order."""
    timing, starts, sms, blocks = state.timing, state.starts, state.sms, state.blocks
    per_block = timing[WARPS_PER_BLOCK]
    warps_per_sm = timing[SUB_CORES] * timing[WARPS_PER_SUB_CORE]
    following = NEVER
    for slot in range(timing[MAX_BLOCKS]):
        row = sm * timing[MAX_BLOCKS] + slot
        cycle = starts[row, S_CYCLE]
        if cycle > now:
            following = min(following, cycle)
            continue
        starts[row, S_CYCLE] = NEVER
        blocks[row, BLOCK_NUMBER] = starts[row, S_BLOCK]
        blocks[row, LIVE] = per_block
        blocks[row, WAITING] = 0
        blocks[row, QUEUED] = 0
        for number in range(BARRIERS):
            blocks[row, ARRIVED + number] = 0
        state.counters[count.BLOCKS] += 1
        state.counters[count.WARPS] += per_block
        sms[sm, RESIDENT_BLOCKS] += 1
        for i in range(per_block):
            warp = warp_index(timing, sm, slot * per_block + i)
            source = starts[row, S_WARP_ROW] + i
            while tables.warps[source, W_RUN] == tables.warps[source, W_RUN_END]:  # begins in a later part of its block
                source = tables.warps[source, W_NEXT]
            cursor = (
                tables.warps[source, W_RUN],
                tables.warps[source, W_RUN_END],
                tables.warps[source, W_ACCESS],
                source,
            )
            sms[sm, AGE_COUNT] += 1
            hardware_warp = (sm + timing[FIRST_SM]) * warps_per_sm + slot * per_block + i
            local_base = LOCAL_MEMORY_BASE + hardware_warp * timing[LOCAL_BYTES_PER_WARP]
            start_warp(
                state.warps, state.slots, state.board, state.program, tables.runs, warp, cursor, row,
                sms[sm, AGE_COUNT], local_base, now,
            )  # fmt: skip
            state.counters[count.WARP_CYCLES] -= now - 1
            sub = warp // timing[WARPS_PER_SUB_CORE]
            pc = state.warps[warp, PC]
            front = state.front
            there = enter_code(
                state.program, state.warps, front.code_l0, front.code_l1, front.streams, sms, timing, sm, sub, warp,
                pc, now,
            )  # fmt: skip
            if there > now:
                state.warps[warp, FETCHED] = there + timing[DECODE_CYCLES]
            read_constant(
                state.program, state.warps, front.constants, timing, sub, warp, pc,
                max(now, state.warps[warp, FETCHED]),
            )  # fmt: skip
            state.slots[warp, READY] = earliest_issue(state.warps, state.board, state.program, warp)
            state.subs_next[sub] = min(state.subs_next[sub], state.slots[warp, READY])
    sms[sm, START_NEXT] = following


@inner
def end_block(state, sm, block, now):
    """A block has left the SM: tell the dispatcher."""
    timing, sms, exits, report = state.timing, state.sms, state.exits, state.report
    sms[sm, RESIDENT_BLOCKS] -= 1
    sms[sm, LAST] = now
    i = report[R_EXITS]
    exits[i, E_CYCLE] = now
    exits[i, E_SM] = sm + timing[FIRST_SM]
    exits[i, E_SLOT] = block - sm * timing[MAX_BLOCKS]
    exits[i, E_BLOCK] = state.blocks[block, BLOCK_NUMBER]
    report[R_EXITS] = i + 1


@inlined
def hint_arrivals(state, sm, until):
    """Ask the host's memory for what the responses before cycle ``until`` will touch: level by level, so that
    all loads of a level are under way at once."""
    heap, requests, misses, waiters = state.heap, state.requests, state.misses, state.waiters
    sets, ways = state.timing[L1_SETS], state.timing[L1_WAYS]
    limit = (until * TICKS_PER_CYCLE) << TAG_BITS
    size = state.sms[sm, ARRIVALS]
    for i in range(size):
        if heap[sm, i] < limit:
            prefetch(requests, (sm, heap[sm, i] & TAG_MASK, 0))
    for i in range(size):
        if heap[sm, i] < limit:
            tag = heap[sm, i] & TAG_MASK
            _, _, miss, flight = content_parts(requests[sm, tag, CONTENT])
            warp, _ = sender_parts(requests[sm, tag, SENDER])
            prefetch(misses, (sm, miss, 0))
            prefetch(state.flights, (sm, flight, 0))
            prefetch(state.slots, (warp, 0))
            prefetch(state.board, (warp, 0))
            for column in range(0, WARP_COLUMNS, 8):
                prefetch(state.warps, (warp, column))
    for i in range(size):
        if heap[sm, i] < limit:
            _, _, miss, _ = content_parts(requests[sm, heap[sm, i] & TAG_MASK, CONTENT])
            if miss:
                prefetch(waiters, (sm, misses[sm, miss, WAITERS], 0))
                if sets:
                    line = misses[sm, miss, LINE]
                    for way in range(0, 2 * ways, 8):
                        prefetch(state.l1, (sm, cache.set_of(line, sets), way))
    for i in range(size):
        if heap[sm, i] < limit:
            _, _, miss, _ = content_parts(requests[sm, heap[sm, i] & TAG_MASK, CONTENT])
            if miss:
                prefetch(state.flights, (sm, waiters[sm, misses[sm, miss, WAITERS], WANTED] >> SECTOR_BITS, 0))


@inner
def advance_sm(state, tables, sm, until):
    """Run one SM from its next event up to, not including, cycle ``until``."""
    timing, sms, hand, subs, subs_next = state.timing, state.sms, state.hand, state.subs, state.subs_next
    program, warps, slots, board, blocks = state.program, state.warps, state.slots, state.board, state.blocks
    port_free, queue, heap, counters, stalls = state.port_free, state.queue, state.heap, state.counters, state.stalls
    work, front = state.work, state.front
    report = state.report
    n_subs = timing[SUB_CORES]
    per_sub = timing[WARPS_PER_SUB_CORE]
    now = sms[sm, NEXT]
    hint_arrivals(state, sm, until)
    while now < until:
        limit = (now * TICKS_PER_CYCLE + 1) << TAG_BITS
        while sms[sm, ARRIVALS] and heap[sm, 0] < limit:
            key = pop(heap, sm, sms, ARRIVALS)
            sms[sm, LAST] = now
            receive(
                key, state.l1, state.misses, state.miss_index, state.waiters, state.flights, state.requests, sms,
                program, warps, slots, board, subs_next, counters, timing, sm, now,
            )  # fmt: skip
            if sms[sm, BLOCKED]:
                sms[sm, BLOCKED] = 0
                sms[sm, QUEUE_NEXT] = now
        if sms[sm, START_NEXT] <= now:
            start_blocks(state, tables, sm, now)
        if sms[sm, QUEUE_NEXT] <= now:
            if not hand[sm, BUSY] and dequeue(queue, subs, subs_next, port_free, sms, hand, timing, sm, now):
                take_request(
                    hand, state.lines, program, warps, tables.accesses, tables.scattered, timing, state.scratch, sm
                )
            if not hand[sm, BUSY]:
                sms[sm, QUEUE_NEXT] = next_request_cycle(queue, subs, sms, timing, sm)
            elif has_room(sms, hand, program, timing, sm):
                warp = enter(
                    state.out, report, state.lines, state.l1, state.misses, state.miss_index, state.waiters,
                    state.flights, state.requests, sms, hand, program, warps, slots, board, work, timing, sm, now,
                )  # fmt: skip
                taken = hand[sm, H_WARP]
                kind = program[hand[sm, H_PC], op.KIND]
                if kind == STORE or kind == REDUCTION:
                    warps[taken, STORES] -= 1
                    if warps[taken, STORES] == 0:
                        warps[taken, LAST_ACK] = max(warps[taken, LAST_ACK], now)
                        warp = taken
                if warp >= 0:
                    wake(warps, slots, board, program, subs_next, timing, warp, now)
                block = warps[taken, BLOCK]
                blocks[block, QUEUED] -= 1
                if blocks[block, LIVE] == 0 and blocks[block, QUEUED] == 0:
                    end_block(state, sm, block, now)
                sms[sm, QUEUE_NEXT] = next_request_cycle(queue, subs, sms, timing, sm)
            else:
                close_path(sms, sm)
        for sub in range(sm * n_subs, (sm + 1) * n_subs):
            if subs_next[sub] > now:
                continue
            hold = subs[sub, HOLD]
            if hold:
                if hold > now:
                    subs_next[sub] = hold
                    continue
                charge_held(warps, slots, sub * per_sub, per_sub, subs[sub, HELD_FROM], hold)
                subs[sub, HOLD] = 0
            subs_next[sub] = NEVER
            warp, later = pick_warp(slots, port_free, sub, sub * per_sub, per_sub, subs[sub, LAST_WARP], now)
            if warp >= 0:
                block = warps[warp, BLOCK]
                finished = issue(
                    program, tables, warps, slots, board, blocks, port_free, subs, subs_next, queue, sms,
                    stalls, work, timing, front, state.scratch, sm, sub, warp, now,
                )  # fmt: skip
                if finished:
                    counters[count.WARP_CYCLES] += now
                    live = leave_block(warps, slots, board, blocks, program, subs_next, timing, sm, block, now)
                    if live == 0 and blocks[block, QUEUED] == 0:
                        end_block(state, sm, block, now)
                elif slots[warp, READY] < later:
                    later = slots[warp, READY]
            if later < subs_next[sub]:
                subs_next[sub] = max(later, now + 1)
        following = min(sms[sm, QUEUE_NEXT], sms[sm, START_NEXT])
        for sub in range(sm * n_subs, (sm + 1) * n_subs):
            following = min(following, subs_next[sub])
        if sms[sm, ARRIVALS]:
            following = min(following, ((heap[sm, 0] >> TAG_BITS) + TICKS_PER_CYCLE - 1) // TICKS_PER_CYCLE)
        now = max(following, now + 1)
    sms[sm, NEXT] = now


@compiled
def advance_group(state, tables, until):
    """Run all SMs of a group up to cycle ``until``; ``state.report`` says what came out."""
    report, sms = state.report, state.sms
    report[R_REQUESTS] = 0
    report[R_EXITS] = 0
    following = NEVER
    last = report[R_LAST_CYCLE]
    for i in range(sms.shape[0]):
        sm = state.order[i]
        if sms[sm, NEXT] < until:
            advance_sm(state, tables, sm, until)
            last = max(last, sms[sm, LAST])
        following = min(following, sms[sm, NEXT])
    report[R_NEXT_CYCLE] = following
    report[R_LAST_CYCLE] = last
