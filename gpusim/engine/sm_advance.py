"""The SM's clock: from event to event until the window ends, one SM after the other.

Mental model: within a window the SMs of a group are independent. Each jumps from one cycle in which
something can happen to the next; in a cycle, first what comes in (responses, block starts), then the
LSU, then the sub-cores in order. Idle SMs cost one comparison, idle cycles nothing.
"""

from __future__ import annotations

from gpusim.engine.issue import enter_code, hint_access, issue, leave_block
from gpusim.engine.step import read_constant
from gpusim.model import cache
from gpusim.model import counters as count
from gpusim.model import program as op
from gpusim.model.arrivals import TAG_BITS, TAG_MASK, pop
from gpusim.model.bit_sets import lowest
from gpusim.model.cluster import join_cluster, leave_cluster, take_messages
from gpusim.model.compiled import compiled, inlined, inner
from gpusim.model.grid_writes import OPEN, OWED
from gpusim.model.l1_access import block_lsu, enter, has_room
from gpusim.model.l1_response import receive
from gpusim.model.lsu import dequeue, next_instruction_cycle, take_instruction
from gpusim.model.messages import ENDED, ENDED_WRITING, NEVER, TICKS_PER_CYCLE
from gpusim.model.mshr import CONTENT, LINE, SECTOR_BITS, SENDER, TARGETS, WANTED, content_parts, sender_parts
from gpusim.model.prefetch import prefetch, prefetch_for_later
from gpusim.model.program import PORTS
from gpusim.model.residency import (
    ACCESS,
    ARRIVED,
    BARRIERS,
    BLOCK,
    BLOCK_NUMBER,
    BLOCK_WARPS,
    FETCHED,
    FIRST_WARP,
    GRID,
    HELD_END,
    LAST_ACK,
    LETS_GO,
    LIVE,
    PC,
    QUEUED,
    STORES,
    STORES_LEFT,
    WAITING,
    earliest_issue,
    start_warp,
    wake,
    warp_index,
)
from gpusim.model.scheduler import ASLEEP, AWAKE, DUE, hold, pick_warp, sleep
from gpusim.model.scheduler import WANTED as WANTED_PORTS
from gpusim.model.sm_tables import (
    AGE_COUNT,
    ARRIVALS,
    BLOCKED,
    E_BLOCK,
    E_CYCLE,
    E_KIND,
    E_SLOT,
    E_SM,
    HELD_FROM,
    HOLD,
    LAST,
    LAST_WARP,
    LSU_BUSY,
    LSU_PC,
    LSU_WARP,
    NEXT,
    PEER_NEXT,
    PIPE_TURN,
    QUEUE_HEAD,
    QUEUE_NEXT,
    R_EXITS,
    R_LAST_CYCLE,
    R_NEXT_CYCLE,
    R_PEERS,
    R_REQUESTS,
    RESIDENT_BLOCKS,
    S_BLOCK,
    S_CYCLE,
    S_FIRST_WARP,
    S_GRID,
    S_HELD,
    S_WARP_ROW,
    S_WARPS,
    SM_TABLE,
    START_NEXT,
    TENSOR_LATE,
    TMA_NEXT,
)
from gpusim.model.sm_widths import known_state, known_tables
from gpusim.model.timing import (
    CHAINED,
    DECODE_CYCLES,
    FIRST_SM,
    L1_SETS,
    L1_WAYS,
    LINES_MAX,
    LOCAL_BYTES_PER_WARP,
    MAX_BLOCKS,
    SUB_CORES,
    WARPS_PER_SUB_CORE,
)
from gpusim.model.tma import feed
from gpusim.model.trace_tables import W_ACCESS, W_NEXT, W_RUN, W_RUN_END
from gpusim.model.write_back import look_again
from gpusim.state_tables import HOST_LINE_BYTES
from gpusim.trace.record import MemoryKind

SM_COLUMNS = SM_TABLE.width
#: Columns of a table that share a cache line of the host.
HOST_COLUMNS = HOST_LINE_BYTES // 8
#: Columns of a warp, from the first on, that a response touches, but for one of a copy: it wakes the warp if it was the
#: last.
WAKING_COLUMNS = LAST_ACK + 1
STORE, REDUCTION = int(MemoryKind.STORE), int(MemoryKind.REDUCTION)


@inner
def start_blocks(state, tables, sm, now):
    """Make the blocks resident whose start has come, in slot order."""
    timing, starts, sms, front = state.timing, state.starts, state.sms, state.front
    program, resident = state.program, state.resident
    warps, blocks = resident.warps, resident.blocks
    subs = timing[SUB_CORES]
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
        per_block, first = starts[row, S_WARPS], starts[row, S_FIRST_WARP]
        blocks[row, BLOCK_WARPS], blocks[row, FIRST_WARP] = per_block, first
        blocks[row, GRID], blocks[row, LETS_GO] = starts[row, S_GRID], 0
        blocks[row, LIVE] = per_block
        blocks[row, WAITING] = 0
        blocks[row, QUEUED] = 0
        blocks[row, STORES_LEFT] = 0
        for number in range(BARRIERS):
            blocks[row, ARRIVED + number] = 0
        join_cluster(starts, row, blocks)
        state.counters[count.BLOCKS] += 1
        state.counters[count.WARPS] += per_block
        sms[sm, RESIDENT_BLOCKS] += 1
        for i in range(per_block):
            warp = warp_index(timing, sm, first + i)
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
            hardware_warp = (sm + timing[FIRST_SM]) * warps_per_sm + first + i
            local_base = cache.LOCAL_MEMORY_BASE + hardware_warp * timing[LOCAL_BYTES_PER_WARP]
            hint_access(tables, cursor[2])
            sub = warp // timing[WARPS_PER_SUB_CORE]
            place = warp - sub * timing[WARPS_PER_SUB_CORE]
            # The block's warps go round the sub-cores: before it each ``subs``-th has come here.
            fellows = ((1 << i // subs) - 1) << (place - i // subs)
            age = sms[sm, AGE_COUNT]
            start_warp(resident, program, timing, tables.runs, warp, fellows, cursor, row, age, local_base, now)
            warps[warp, HELD_END] = starts[row, S_HELD]
            state.counters[count.WARP_CYCLES] -= now - 1
            pc = warps[warp, PC]
            there = enter_code(program, warps, front.code, sms, timing, sm, sub, warp, pc, now)
            if there > now:
                warps[warp, FETCHED] = there + timing[DECODE_CYCLES]
            read_constant(program, warps, front.constants, timing, sub, warp, pc, max(now, warps[warp, FETCHED]))
            ready = earliest_issue(warps, resident.board, program, warp)
            sleep(resident.ready, resident.sets, sub, sub * timing[WARPS_PER_SUB_CORE], warp, ready)
            resident.subs_next[sub] = min(resident.subs_next[sub], ready)
    sms[sm, START_NEXT] = following


@inner
def end_block(state, sm, block, now):
    """All warps of a block have ended; it leaves the SM with its last store, and the dispatcher is told so."""
    timing, sms, exits, report = state.timing, state.sms, state.exits, state.report
    left = (state.resident.blocks[block, STORES_LEFT] + TICKS_PER_CYCLE - 1) // TICKS_PER_CYCLE
    end = max(now, left)
    sms[sm, RESIDENT_BLOCKS] -= 1
    sms[sm, LAST] = max(now, sms[sm, LAST])  # what leaves later is acknowledged later still
    i = report[R_EXITS]
    exits[i, E_CYCLE] = end
    exits[i, E_SM] = sm + timing[FIRST_SM]
    exits[i, E_SLOT] = block - sm * timing[MAX_BLOCKS]
    exits[i, E_BLOCK] = state.resident.blocks[block, BLOCK_NUMBER]
    exits[i, E_KIND] = ENDED
    if timing[CHAINED]:
        writes = state.grid_writes[sm, state.resident.blocks[block, GRID]]
        if writes[OPEN]:
            writes[OWED], exits[i, E_KIND] = 1, ENDED_WRITING
    report[R_EXITS] = i + 1


@inlined
def hint_arrivals(state, sm, until):
    """Ask the host's memory for what the responses before cycle ``until`` will touch: level by level, so that
    all loads of a level are under way at once."""
    heap, resident, mshr = state.heap, state.resident, state.mshr
    requests, entries, targets, pending = mshr.requests, mshr.entries, mshr.targets, mshr.pending
    sets, ways = state.timing[L1_SETS], state.timing[L1_WAYS]
    limit = (until * TICKS_PER_CYCLE) << TAG_BITS
    size = state.sms[sm, ARRIVALS]
    # None of the responses below one of the heap that is not due is due itself.
    due = state.scratch[0]
    count, at = 0, 0
    if size and heap[sm, 0] < limit:
        due[0] = 0
        count = 1
    while at < count:
        place = due[at]
        child = 2 * place + 1
        if child < size and count < LINES_MAX and heap[sm, child] < limit:
            due[count] = child
            count += 1
        child += 1
        if child < size and count < LINES_MAX and heap[sm, child] < limit:
            due[count] = child
            count += 1
        tag = heap[sm, place] & TAG_MASK
        due[at] = tag
        prefetch(requests, (sm, tag, 0))
        at += 1
    for i in range(count):
        _, _, entry, instruction = content_parts(requests[sm, due[i], CONTENT])
        warp, _ = sender_parts(requests[sm, due[i], SENDER])
        if entry:
            prefetch(entries, (sm, entry, 0))
        if instruction:
            prefetch(pending, (sm, instruction, 0))
        prefetch(resident.slots, (warp, 0))
        prefetch(resident.board, (warp, 0))
        for column in range(0, WAKING_COLUMNS, HOST_COLUMNS):
            prefetch(resident.warps, (warp, column))
    for i in range(count):
        _, _, entry, _ = content_parts(requests[sm, due[i], CONTENT])
        if entry:
            prefetch(targets, (sm, entries[sm, entry, TARGETS], 0))
            if sets:
                line = entries[sm, entry, LINE]
                for way in range(0, 2 * ways, HOST_COLUMNS):
                    prefetch(state.l1, (sm, cache.set_of(line, sets), way))
    for i in range(count):
        _, _, entry, _ = content_parts(requests[sm, due[i], CONTENT])
        if entry:
            prefetch(pending, (sm, targets[sm, entries[sm, entry, TARGETS], WANTED] >> SECTOR_BITS, 0))


@inlined
def hint_sm(state, sm):
    """Ask for what an SM's clock reads and writes first: the SMs before it have used the host's near caches since it
    ran."""
    timing, resident = state.timing, state.resident
    for column in range(0, SM_COLUMNS, HOST_COLUMNS):
        prefetch_for_later(state.sms, (sm, column))
    prefetch_for_later(state.lsu, (sm, 0))
    prefetch_for_later(state.lines, (sm, 0, 0))
    prefetch_for_later(state.heap, (sm, 0))
    prefetch_for_later(state.heap, (sm, HOST_COLUMNS))
    subs, per_sub = timing[SUB_CORES], timing[WARPS_PER_SUB_CORE]
    for sub in range(sm * subs, (sm + 1) * subs):
        for place in range(0, per_sub, HOST_COLUMNS):
            prefetch_for_later(resident.ready, (sub * per_sub + place,))
        prefetch_for_later(resident.sets, (sub, 0))
        prefetch_for_later(state.subs, (sub, 0))
        prefetch_for_later(state.front.registers, (sub, 0))
        for port in range(0, PORTS, 2):
            prefetch_for_later(resident.ports, (sub, port, 0))


@inlined
def hint_warps(state, sm):
    """The same of its warps that have something to do or will have: what others wait for comes with a response, see
    :func:`hint_arrivals`."""
    timing, resident = state.timing, state.resident
    subs, per_sub = timing[SUB_CORES], timing[WARPS_PER_SUB_CORE]
    for sub in range(sm * subs, (sm + 1) * subs):
        prefetch_for_later(state.queue, (sub, state.subs[sub, QUEUE_HEAD], 0))
        active, wanted = resident.sets[sub, ASLEEP], resident.sets[sub, WANTED_PORTS]
        while wanted:
            active |= resident.ports[sub, lowest(wanted), AWAKE]
            wanted &= wanted - 1
        while active:
            warp = sub * per_sub + lowest(active)
            active &= active - 1
            prefetch_for_later(resident.slots, (warp, 0))
            prefetch_for_later(resident.board, (warp, 0))
            prefetch_for_later(resident.warps, (warp, 0))
            prefetch_for_later(resident.warps, (warp, HOST_COLUMNS))
            prefetch_for_later(resident.warps, (warp, 2 * HOST_COLUMNS))


@inlined
def hint_records(state, tables, sm):
    """Ask for the access records and the blocks of those warps that will have something to do: their hints have been
    there long enough to say which these are."""
    timing, resident = state.timing, state.resident
    subs, per_sub = timing[SUB_CORES], timing[WARPS_PER_SUB_CORE]
    for sub in range(sm * subs, (sm + 1) * subs):
        active = resident.sets[sub, ASLEEP]
        while active:
            warp = sub * per_sub + lowest(active)
            active &= active - 1
            prefetch(tables.accesses, (resident.warps[warp, ACCESS], 0))
            prefetch(resident.blocks, (resident.warps[warp, BLOCK], QUEUED))


@inner
def advance_sm(state, tables, sm, until):
    """Run one SM from its next event up to, not including, cycle ``until``."""
    state, tables = known_state(state), known_tables(tables)
    timing, program, sms, lsu, subs = state.timing, state.program, state.sms, state.lsu, state.subs
    heap, counters, resident = state.heap, state.counters, state.resident
    warps, slots, blocks, subs_next = resident.warps, resident.slots, resident.blocks, resident.subs_next
    ports, sets = resident.ports, resident.sets
    n_subs = timing[SUB_CORES]
    per_sub = timing[WARPS_PER_SUB_CORE]
    now = sms[sm, NEXT]
    hint_arrivals(state, sm, until)
    hint_records(state, tables, sm)
    while now < until:
        limit = (now * TICKS_PER_CYCLE + 1) << TAG_BITS
        while sms[sm, ARRIVALS] and heap[sm, 0] < limit:
            key = pop(heap, sm, sms, ARRIVALS)
            sms[sm, LAST] = now
            receive(state, tables, key, sm, now)
            if sms[sm, BLOCKED]:
                sms[sm, BLOCKED] = 0
                sms[sm, QUEUE_NEXT] = now
        if sms[sm, START_NEXT] <= now:
            start_blocks(state, tables, sm, now)
        if sms[sm, PEER_NEXT] <= now:
            take_messages(state.peers, sms, resident, program, timing, tables.signals, state.written, counters, sm, now)
        if sms[sm, QUEUE_NEXT] <= now:
            if not lsu[sm, LSU_BUSY] and dequeue(state, sm, now):
                take_instruction(state, tables, sm)
            if not lsu[sm, LSU_BUSY]:
                sms[sm, QUEUE_NEXT] = next_instruction_cycle(state.queue_ready, sms, timing, sm)
            elif has_room(state.lines, sms, lsu, program, timing, sm):
                warp = enter(state, tables, sm, now)
                taken = lsu[sm, LSU_WARP]
                kind = program[lsu[sm, LSU_PC], op.KIND]
                if kind == STORE or kind == REDUCTION:
                    warps[taken, STORES] -= 1
                    if warps[taken, STORES] == 0:
                        warps[taken, LAST_ACK] = max(warps[taken, LAST_ACK], now)
                        warp = taken
                if warp >= 0:
                    wake(resident, program, timing, warp, now)
                block = warps[taken, BLOCK]
                blocks[block, QUEUED] -= 1
                if blocks[block, LIVE] == 0 and blocks[block, QUEUED] == 0:
                    end_block(state, sm, block, now)
                sms[sm, QUEUE_NEXT] = next_instruction_cycle(state.queue_ready, sms, timing, sm)
            else:
                block_lsu(sms, sm)
        if sms[sm, TMA_NEXT] <= now:
            feed(state, tables, sm, now)
        turn = sms[sm, PIPE_TURN]
        for place in range(turn, turn + n_subs):
            sub = sm * n_subs + (place if place < n_subs else place - n_subs)
            if subs_next[sub] > now:
                continue
            held_up_to = subs[sub, HOLD]
            if held_up_to:
                if held_up_to > now:
                    subs_next[sub] = held_up_to
                    continue
                hold(sets, sub, subs[sub, HELD_FROM], held_up_to)
                subs[sub, HOLD] = 0
            subs_next[sub] = NEVER
            late = subs[sub, TENSOR_LATE]
            if late and sets[sub, DUE] <= now:
                look_again(resident, program, sub, sub * per_sub, late // TICKS_PER_CYCLE, now)
            warp, later = pick_warp(resident.ready, slots, ports, sets, sub, sub * per_sub, subs[sub, LAST_WARP], now)
            if warp >= 0:
                if issue(state, tables, sm, sub, warp, now):
                    block = warps[warp, BLOCK]
                    counters[count.WARP_CYCLES] += now
                    live = leave_block(resident, program, timing, sm, block, now)
                    leave_cluster(state.peers_sent, state.report, resident, timing, warp, block, now)
                    if live == 0 and blocks[block, QUEUED] == 0:
                        end_block(state, sm, block, now)
                elif resident.ready[warp] < later:
                    later = resident.ready[warp]
            if later < subs_next[sub]:
                subs_next[sub] = max(later, now + 1)
        following = min(sms[sm, QUEUE_NEXT], sms[sm, START_NEXT], sms[sm, TMA_NEXT], sms[sm, PEER_NEXT])
        for sub in range(sm * n_subs, (sm + 1) * n_subs):
            following = min(following, subs_next[sub])
        if sms[sm, ARRIVALS]:
            following = min(following, ((heap[sm, 0] >> TAG_BITS) + TICKS_PER_CYCLE - 1) // TICKS_PER_CYCLE)
        now = max(following, now + 1)
    sms[sm, NEXT] = now


@compiled
def advance_group(state, tables, until):
    """Run all SMs of a group up to cycle ``until``; ``state.report`` says what came out."""
    state = known_state(state)
    report, sms = state.report, state.sms
    report[R_REQUESTS] = 0
    report[R_EXITS] = 0
    report[R_PEERS] = 0
    following = NEVER
    last = report[R_LAST_CYCLE]
    for i in range(sms.shape[0]):
        sm = state.order[i]
        if i + 2 < sms.shape[0]:
            later_sm = state.order[i + 2]
            if sms[later_sm, NEXT] < until and sms[later_sm, RESIDENT_BLOCKS]:
                hint_sm(state, later_sm)
        if i + 1 < sms.shape[0]:
            following_sm = state.order[i + 1]
            if sms[following_sm, NEXT] < until and sms[following_sm, RESIDENT_BLOCKS]:
                hint_warps(state, following_sm)
        if sms[sm, NEXT] < until:
            advance_sm(state, tables, sm, until)
            last = max(last, sms[sm, LAST])
        following = min(following, sms[sm, NEXT])
    report[R_NEXT_CYCLE] = following
    report[R_LAST_CYCLE] = last
