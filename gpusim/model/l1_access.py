"""The LSU's instruction meets the L1: hits are answered at once, misses go out through the crossbar port.

Mental model: :func:`enter` needs room for all that one instruction may ask of memory, or the LSU
waits (it works in order). Loads look up each line; missing sectors that nobody has
asked for are requested; the instruction's counter falls at the hit time or when its last part arrives
(:mod:`gpusim.model.l1_response`). Stores are written through and acknowledged; atomics and reductions
are L2's work.

Times: a request leaves half of the hit latency after it was taken; data are usable the other half after
they came in. So a miss costs the hit latency plus what crossbar, L2 and DRAM add.
"""

from __future__ import annotations

from gpusim.model import cache
from gpusim.model import counters as count
from gpusim.model import messages as message
from gpusim.model import mshr as table
from gpusim.model import program as op
from gpusim.model.cluster import shared_latency, write_to_peers
from gpusim.model.cluster_port import delay
from gpusim.model.coalescer import ADDRESS, LANE_BYTES, LINE_BYTES, OPERATIONS, SECTORS, bits
from gpusim.model.compiled import inlined, inner
from gpusim.model.grid_writes import OPEN
from gpusim.model.lsu import CLUSTER, LOCAL, SHARED, occupy_stages
from gpusim.model.messages import NEVER
from gpusim.model.phase_waits import resume, suspend
from gpusim.model.residency import (
    BLOCK,
    CLUSTER_BLOCKS,
    COPIES_DONE,
    COPIES_OPEN,
    GRID,
    LAST_ACK,
    STORES,
    STORES_LEFT,
    UNSEEN,
)
from gpusim.model.scheduler import AGE
from gpusim.model.scoreboard import resolve
from gpusim.model.send import send
from gpusim.model.signals import ANY_LINE, count_writes, has_seen
from gpusim.model.sm_tables import (
    BLOCKED,
    DATA_SPARE,
    FREE_ENTRY,
    FREE_PENDING,
    FREE_TARGET,
    LSU_BUSY,
    LSU_DATA_CYCLES,
    LSU_GROUP,
    LSU_LINES,
    LSU_PC,
    LSU_REMOTE,
    LSU_REMOTE_SECTORS,
    LSU_SIGNAL,
    LSU_SPACE,
    LSU_TAG_CYCLES,
    LSU_WARP,
    PEER_IN_TICK,
    PEER_OUT_TICK,
    PENDING_OUT,
    PORT_FREE_TICK,
    QUEUE_NEXT,
    READS_OUT,
    SUSPENDED_WARPS,
    TARGETS_OUT,
    USED_ENTRY,
    USED_PENDING,
    USED_TARGET,
    WRITES_OUT,
)
from gpusim.model.stall_reasons import LONG_SCOREBOARD, SHORT_SCOREBOARD
from gpusim.model.tensor_unit import is_commit, put_off
from gpusim.model.timing import (
    ADDRESS_LATENCY,
    CHAINED,
    HIT_LATENCY,
    L1_SETS,
    L1_WAYS,
    OPERAND_READ,
    READ_LIMIT,
    RETURN_CYCLES,
    SHARED_LATENCY,
    SHUFFLE_LATENCY,
    STORE_SLOT_SECTORS,
    WRITE_BACK_CYCLES,
    WRITE_LIMIT,
)
from gpusim.trace.record import NO_BARRIER, Flag, MemoryKind

TICKS = message.TICKS_PER_CYCLE
STORE, ATOMIC = int(MemoryKind.STORE), int(MemoryKind.ATOMIC)
REDUCTION = int(MemoryKind.REDUCTION)
BYPASS, PHASE_WAIT = int(Flag.BYPASS_L1), int(Flag.PHASE_WAIT)
#: Entries of the pending request table and targets of MSHRs that an SM can hold; far above what the counters allow to
#: overlap.
PENDING_LIMIT, TARGET_LIMIT = 2048, 4096


@inner
def has_room(lines, sms, lsu, program, timing, sm):
    """Whether everything that the LSU's instruction may ask for fits now."""
    n = lsu[sm, LSU_LINES]
    if n == 0:
        return True
    kind = program[lsu[sm, LSU_PC], op.KIND]
    if kind == STORE or kind == REDUCTION:
        if sms[sm, WRITES_OUT] == 0:
            return True
        sectors = 0
        for i in range(n):
            sectors += bits(lines[sm, i, SECTORS])
        return sms[sm, WRITES_OUT] + sectors <= timing[WRITE_LIMIT]
    if sms[sm, PENDING_OUT] >= PENDING_LIMIT or sms[sm, TARGETS_OUT] + n > TARGET_LIMIT:
        return False
    return sms[sm, READS_OUT] == 0 or sms[sm, READS_OUT] + n <= timing[READ_LIMIT]


@inlined
def enter(state, tables, sm, now):
    """Carry out the LSU's instruction, for which there is room, in cycle ``now``. ``state``: SmState.

    Returns the warp if an event that it may wait for became known, -1 otherwise.
    """
    program, sms, lsu, timing = state.program, state.sms, state.lsu, state.timing
    warps, board, pending = state.resident.warps, state.resident.board, state.mshr.pending
    warp = lsu[sm, LSU_WARP]
    pc = lsu[sm, LSU_PC]
    row = state.work[pc]
    kind = program[pc, op.KIND]
    space = lsu[sm, LSU_SPACE]
    n = lsu[sm, LSU_LINES]
    lsu[sm, LSU_BUSY] = 0
    tag_start, data_end = occupy_stages(sms, lsu, timing, sm, now)
    counter = program[pc, op.WRITE_BARRIER]
    reader = program[pc, op.READ_BARRIER]
    issued = now - timing[ADDRESS_LATENCY]  # as far as latencies go: what waited in the queue counts from its turn
    if reader != NO_BARRIER:
        resolve(board, warp, reader, max(now, issued + timing[OPERAND_READ]), SHORT_SCOREBOARD)
    least = max(1, program[pc, op.BYTES] // 4)
    sms[sm, DATA_SPARE] = max(0, lsu[sm, LSU_DATA_CYCLES] - least * timing[RETURN_CYCLES])
    row[count.DATA_WAVEFRONTS] += lsu[sm, LSU_DATA_CYCLES]
    row[count.TAG_WAVEFRONTS] += lsu[sm, LSU_TAG_CYCLES]
    reason = LONG_SCOREBOARD
    # The latency of a hit is that of a pointer, two words a lane; each word more is written to its registers behind
    # them.
    beyond = timing[WRITE_BACK_CYCLES] * (least - 2)
    done = max(data_end - timing[ADDRESS_LATENCY] + min(beyond, 0), tag_start - timing[ADDRESS_LATENCY] + beyond)
    done += timing[HIT_LATENCY]
    if program[pc, op.IS_SHUFFLE]:
        reason = SHORT_SCOREBOARD
        done = data_end - timing[ADDRESS_LATENCY] + timing[SHUFFLE_LATENCY]
        row[count.SHUFFLES] += 1
    elif space == SHARED:
        reason = SHORT_SCOREBOARD
        done = data_end - timing[ADDRESS_LATENCY]
        other, waited = lsu[sm, LSU_REMOTE], 0
        if other:
            sends = kind == STORE or kind == REDUCTION
            way = PEER_OUT_TICK if sends else PEER_IN_TICK
            waited = delay(sms, timing, sm, way, lsu[sm, LSU_REMOTE_SECTORS], data_end)
            done += waited + shared_latency(state.resident.blocks, timing, warps[warp, BLOCK], other - 1)
            if sends:  # a fence waits until it is there
                warps[warp, LAST_ACK] = max(warps[warp, LAST_ACK], done)
        else:
            done += timing[SHARED_LATENCY]
        row[count.SHARED_WAVEFRONTS] += lsu[sm, LSU_DATA_CYCLES]
        row[count.SHARED_CONFLICTS] += sms[sm, DATA_SPARE]
        if kind == STORE:
            row[count.SHARED_STORES] += 1
        else:
            row[count.SHARED_LOADS] += 1
        signal = lsu[sm, LSU_SIGNAL]
        commit = signal and is_commit(program, pc)
        # A commit names its own block's mbarrier and may tell those of its cluster at the same place; so may the answer
        # to a try_cancel, which one lane asks for. Which blocks hear of it stands in the signals, not in the lanes that
        # are on.
        multicasts = commit or (signal and program[pc, op.SPACE] == CLUSTER and (kind == STORE or kind == REDUCTION))
        if commit and put_off(state, sm, warp, signal, now):
            pass
        elif signal and (
            lsu[sm, LSU_REMOTE] or (multicasts and state.resident.blocks[warps[warp, BLOCK], CLUSTER_BLOCKS])
        ):
            # What a poll of another SM's memory waits for is not followed.
            write_to_peers(
                state.peers_sent, state.report, state.resident.blocks, tables.signals, state.written, timing,
                warps[warp, BLOCK], signal, now + waited,
            )  # fmt: skip
        elif signal:
            if not has_seen(tables.signals, state.written, signal, ANY_LINE):
                if program[pc, op.FLAGS] & PHASE_WAIT and counter != NO_BARRIER:
                    suspend(warps, sms, sm, warp, signal, counter, now)
                    return warp if reader != NO_BARRIER else -1
                warps[warp, UNSEEN] += 1
            count_writes(tables.signals, state.written, signal, ANY_LINE)
        if signal and sms[sm, SUSPENDED_WARPS]:
            resume(
                state.resident, program, timing, sms, tables.signals, state.written, state.counters, sm,
                warps[warp, BLOCK], now,
            )  # fmt: skip
    elif n and kind != 0:
        leave = (tag_start - timing[ADDRESS_LATENCY] + timing[HIT_LATENCY] // 2) * TICKS
        entry = 0
        if kind == STORE or kind == REDUCTION:
            _write(state, row, sm, warp, kind, space, n, lsu[sm, LSU_SIGNAL], leave, now)
        else:
            signal = lsu[sm, LSU_SIGNAL]
            bypass = program[pc, op.FLAGS] & BYPASS or signal  # what polls would not see others' writes in the L1
            entry = _read(state, row, sm, warp, kind, space, n, bypass, signal, done, leave, now)
        if entry:
            pending[sm, entry, table.OWNER] = table.owner(warp, counter, lsu[sm, LSU_GROUP])
            return warp if reader != NO_BARRIER else -1
    if lsu[sm, LSU_GROUP]:
        group = lsu[sm, LSU_GROUP] - 1
        warps[warp, COPIES_OPEN + group] -= 1
        warps[warp, COPIES_DONE + group] = max(warps[warp, COPIES_DONE + group], done)
        if counter == NO_BARRIER:
            return warp
    if counter != NO_BARRIER:
        resolve(board, warp, counter, done, reason)
        return warp
    return warp if reader != NO_BARRIER else -1


@inlined
def _write(state, row, sm, warp, kind, space, n, signal, leave, now):
    """Send a store or reduction to L2, line by line; a line in L1 is updated (store) or dropped. A line of a store has
    its slot of the output port, whatever of it is written; what reductions take there is their sectors, as nothing says
    more."""
    lines, l1, sms, timing = state.lines, state.l1, state.sms, state.timing
    to = message.WRITE if kind == STORE else message.REDUCTION
    sender = table.sender(warp, state.resident.slots[warp, AGE])
    of_grid = 0
    if timing[CHAINED]:
        of_grid = 1 + state.resident.blocks[state.resident.warps[warp, BLOCK], GRID]
        state.grid_writes[sm, of_grid - 1, OPEN] += n
    for i in range(n):
        line = lines[sm, i, ADDRESS]
        sectors = lines[sm, i, SECTORS]
        moved = lines[sm, i, LANE_BYTES]
        if kind == REDUCTION:
            cache.drop(l1, sm, line, sectors, timing[L1_SETS], timing[L1_WAYS])
        elif space == LOCAL and moved == 32 * bits(sectors):
            cache.fill(l1, sm, line, sectors, timing[L1_SETS], timing[L1_WAYS], now)
        else:
            cache.look_up(l1, sm, line, timing[L1_SETS], timing[L1_WAYS], now)
        written = bits(sectors)
        slots = max(written, timing[STORE_SLOT_SECTORS]) if kind == STORE else written
        state.counters[count.STORE_PADDING] += slots - written
        fields = (to, line, sectors, slots, moved, lines[sm, i, OPERATIONS])
        content = table.content(to, sectors, 0, of_grid)
        sms[sm, WRITES_OUT] += written
        send(state.out, state.report, state.mshr.requests, sms, timing, sm, fields, content, sender, signal, leave)
        if space == LOCAL:
            row[count.LOCAL_STORE_SECTORS] += written
        elif kind == STORE:
            row[count.STORE_SECTORS] += written
        else:
            row[count.ATOMIC_SECTORS] += written
        row[count.SECTORS_TO_L2] += written
    state.resident.warps[warp, STORES] += n
    state.resident.blocks[state.resident.warps[warp, BLOCK], STORES_LEFT] = sms[sm, PORT_FREE_TICK]
    if space != LOCAL:
        row[count.STORE_REQUESTS if kind == STORE else count.ATOMIC_REQUESTS] += 1


@inlined
def _read(state, row, sm, warp, kind, space, n, bypass, signal, done, leave, now):
    """Look up the lines of a load, atomic or copy; returns its pending request, 0 if all sectors hit."""
    lines, l1, sms, timing = state.lines, state.l1, state.sms, state.timing
    entries, targets, pending = state.mshr.entries, state.mshr.targets, state.mshr.pending
    instruction = 0
    age = state.resident.slots[warp, AGE]
    if space != LOCAL:
        row[count.ATOMIC_REQUESTS if kind == ATOMIC else count.LOAD_REQUESTS] += 1
    for i in range(n):
        line = lines[sm, i, ADDRESS]
        sectors = lines[sm, i, SECTORS]
        wanted = bits(sectors)
        cached = kind != ATOMIC and not bypass
        missing = sectors
        if cached:
            missing = sectors & ~cache.look_up(l1, sm, line, timing[L1_SETS], timing[L1_WAYS], now)
        if kind == ATOMIC:
            cache.drop(l1, sm, line, sectors, timing[L1_SETS], timing[L1_WAYS])
            row[count.ATOMIC_SECTORS] += wanted
        elif space == LOCAL:
            row[count.LOCAL_LOAD_SECTORS] += wanted
            row[count.LOCAL_LOAD_SECTOR_HITS] += wanted - bits(missing)
        else:
            row[count.LOAD_SECTORS] += wanted
            row[count.LOAD_SECTOR_HITS] += wanted - bits(missing)
        entry = 0
        ask = missing
        if cached:
            if missing == 0:
                continue
            entry = table.find_entry(state.mshr.lookup, entries, sm, line)
            if entry == 0:
                entry = table.take(entries, sm, sms, FREE_ENTRY, USED_ENTRY)
                entries[sm, entry, table.LINE] = line
                entries[sm, entry, table.STATE] = 0
                entries[sm, entry, table.TARGETS] = 0
                table.insert_entry(state.mshr.lookup, sm, line, entry)
            known = entries[sm, entry, table.STATE]
            if missing & ~(known >> table.ARRIVED_SHIFT) == 0:
                continue
            ask = missing & ~known
        if instruction == 0:
            instruction = table.take(pending, sm, sms, FREE_PENDING, USED_PENDING)
            sms[sm, PENDING_OUT] += 1
            pending[sm, instruction, table.LINES_LEFT] = 0
            pending[sm, instruction, table.OWNER_AGE] = age
            pending[sm, instruction, table.DONE] = done
        pending[sm, instruction, table.LINES_LEFT] += 1
        if cached:
            target = table.take(targets, sm, sms, FREE_TARGET, USED_TARGET)
            sms[sm, TARGETS_OUT] += 1
            targets[sm, target, table.NEXT_TARGET] = entries[sm, entry, table.TARGETS]
            targets[sm, target, table.WANTED] = instruction << table.SECTOR_BITS | missing
            entries[sm, entry, table.TARGETS] = target
        if ask:
            payload = 0
            to = message.READ
            moved = 0
            if kind == ATOMIC:
                payload = wanted
                to = message.ATOMIC
                moved = lines[sm, i, LANE_BYTES]
                row[count.SECTORS_TO_L2] += wanted
            if entry:
                entries[sm, entry, table.STATE] = (entries[sm, entry, table.STATE] | ask) + table.ONE_OPEN
            sms[sm, READS_OUT] += 1
            fields = (to, line, ask, payload, min(moved, LINE_BYTES), lines[sm, i, OPERATIONS])
            content = table.content(to, ask, entry, instruction if entry == 0 else 0)
            sender = table.sender(warp, age)
            send(state.out, state.report, state.mshr.requests, sms, timing, sm, fields, content, sender, signal, leave)
    return instruction


@inner
def block_lsu(sms, sm):
    """The LSU's instruction does not fit: nothing more is taken until a response frees an entry."""
    sms[sm, BLOCKED] = 1
    sms[sm, QUEUE_NEXT] = NEVER
