"""A request meets the L1: hits are answered at once, misses go out through the crossbar port.

Mental model: :func:`enter` needs room for all that one request may ask of memory, or the whole memory
path waits (in order, as one back end does). Loads look up each line; missing sectors that nobody has
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
from gpusim.model import miss_table as table
from gpusim.model import program as op
from gpusim.model.coalescer import ADDRESS, LANE_BYTES, LINE_BYTES, OPERATIONS, SECTORS, bits
from gpusim.model.compiled import inlined, inner
from gpusim.model.memory_io import LOCAL, SHARED, occupy_stages
from gpusim.model.messages import NEVER
from gpusim.model.residency import COPIES_DONE, COPIES_OPEN, STORES
from gpusim.model.scheduler import AGE
from gpusim.model.scoreboard import resolve
from gpusim.model.sm_columns import (
    BLOCKED,
    BUSY,
    FLIGHTS_OUT,
    FREE_FLIGHT,
    FREE_MISS,
    FREE_REQUEST,
    FREE_WAITER,
    H_DATA_CYCLES,
    H_GROUP,
    H_LINES,
    H_PC,
    H_SPACE,
    H_TAG_CYCLES,
    H_WARP,
    PORT_FREE_TICK,
    QUEUE_NEXT,
    READS_OUT,
    SEQUENCE,
    USED_FLIGHT,
    USED_MISS,
    USED_REQUEST,
    USED_WAITER,
    WAITERS_OUT,
    WRITES_OUT,
)
from gpusim.model.stall_reasons import LONG_SCOREBOARD, SHORT_SCOREBOARD
from gpusim.model.timing import (
    ADDRESS_LATENCY,
    FIRST_SM,
    HIT_LATENCY,
    L1_SETS,
    L1_WAYS,
    OPERAND_READ,
    READ_LIMIT,
    REQUEST_LATENCY_TICKS,
    SHARED_LATENCY,
    SHUFFLE_LATENCY,
    STORE_TICKS_PER_SECTOR,
    WRITE_BACK_CYCLES,
    WRITE_LIMIT,
)
from gpusim.trace.record import NO_BARRIER, Flag, MemoryKind

TICKS = message.TICKS_PER_CYCLE
STORE, ATOMIC = int(MemoryKind.STORE), int(MemoryKind.ATOMIC)
REDUCTION = int(MemoryKind.REDUCTION)
BYPASS = int(Flag.BYPASS_L1)
#: Instructions in flight and waiters that an SM can hold; far above what the counters allow to overlap.
FLIGHT_LIMIT, WAITER_LIMIT = 2048, 4096
#: A read request's share of the output port, in quarters of a sector's payload (an 8-byte header).
HEADER_SHARE = 4


@inner
def has_room(sms, hand, program, timing, sm):
    """Whether everything that the request in hand may ask for fits now."""
    n = hand[sm, H_LINES]
    if n == 0:
        return True
    kind = program[hand[sm, H_PC], op.KIND]
    if kind == STORE or kind == REDUCTION:
        return sms[sm, WRITES_OUT] == 0 or sms[sm, WRITES_OUT] + n <= timing[WRITE_LIMIT]
    if sms[sm, FLIGHTS_OUT] >= FLIGHT_LIMIT or sms[sm, WAITERS_OUT] + n > WAITER_LIMIT:
        return False
    return sms[sm, READS_OUT] == 0 or sms[sm, READS_OUT] + n <= timing[READ_LIMIT]


@inner
def send(
    out, fill, requests, sms, timing, sm, kind, line, sectors, payload_sectors, bytes_moved, operations,
    miss, flight, warp, age, leave_tick,
):  # fmt: skip
    """Put one request on the output port and remember it under its tag.

    ``out`` is the group's REQUEST array and ``fill`` int64[..]: fill[0] counts the messages written.
    """
    tag = table.take(requests, sm, sms, FREE_REQUEST, USED_REQUEST)
    requests[sm, tag, table.CONTENT] = table.content(kind, sectors, miss, flight)
    requests[sm, tag, table.SENDER] = table.sender(warp, age)
    per_sector = timing[STORE_TICKS_PER_SECTOR]
    start = max(leave_tick, sms[sm, PORT_FREE_TICK])
    sms[sm, PORT_FREE_TICK] = start + max(1, per_sector // HEADER_SHARE) + payload_sectors * per_sector
    i = fill[0]
    fill[0] = i + 1
    record = out[i]
    record["time"] = start + timing[REQUEST_LATENCY_TICKS]
    record["line"] = line
    record["tag"] = tag
    record["sequence"] = sms[sm, SEQUENCE]
    record["sm"] = sm + timing[FIRST_SM]
    record["kind"] = kind
    record["sectors"] = sectors
    record["bytes"] = bytes_moved
    record["operations"] = operations
    sms[sm, SEQUENCE] += 1


@inlined
def enter(
    out, fill, lines, l1, misses, miss_index, waiters, flights, requests, sms, hand, program, warps, slots,
    board, work, timing, sm, now,
):  # fmt: skip
    """Carry out the request in hand, which has room, in cycle ``now``.

    Returns the warp if an event that it may wait for became known, -1 otherwise.
    """
    warp = hand[sm, H_WARP]
    pc = hand[sm, H_PC]
    row = work[pc]
    kind = program[pc, op.KIND]
    space = hand[sm, H_SPACE]
    n = hand[sm, H_LINES]
    hand[sm, BUSY] = 0
    tag_start, data_end = occupy_stages(sms, hand, timing, sm, now)
    counter = program[pc, op.WRITE_BARRIER]
    reader = program[pc, op.READ_BARRIER]
    issued = now - timing[ADDRESS_LATENCY]  # as far as latencies go: what waited in the queue counts from its turn
    if reader != NO_BARRIER:
        resolve(board, warp, reader, max(now, issued + timing[OPERAND_READ]), SHORT_SCOREBOARD)
    row[count.DATA_WAVEFRONTS] += hand[sm, H_DATA_CYCLES]
    row[count.TAG_WAVEFRONTS] += hand[sm, H_TAG_CYCLES]
    reason = LONG_SCOREBOARD
    # The latency of a hit is that of a pointer, two words a lane; each word more is written to its registers behind them.
    beyond = timing[WRITE_BACK_CYCLES] * (max(1, program[pc, op.BYTES] // 4) - 2)
    done = max(data_end - timing[ADDRESS_LATENCY] + min(beyond, 0), tag_start - timing[ADDRESS_LATENCY] + beyond)
    done += timing[HIT_LATENCY]
    if program[pc, op.IS_SHUFFLE]:
        reason = SHORT_SCOREBOARD
        done = data_end - timing[ADDRESS_LATENCY] + timing[SHUFFLE_LATENCY]
        row[count.SHUFFLES] += 1
    elif space == SHARED:
        reason = SHORT_SCOREBOARD
        done = data_end - timing[ADDRESS_LATENCY] + timing[SHARED_LATENCY]
        row[count.SHARED_WAVEFRONTS] += hand[sm, H_DATA_CYCLES]
        row[count.SHARED_CONFLICTS] += max(0, hand[sm, H_DATA_CYCLES] - max(1, program[pc, op.BYTES] // 4))
        if kind == STORE:
            row[count.SHARED_STORES] += 1
        else:
            row[count.SHARED_LOADS] += 1
    elif n and kind != 0:
        leave = (tag_start - timing[ADDRESS_LATENCY] + timing[HIT_LATENCY] // 2) * TICKS
        flight = 0
        if kind == STORE or kind == REDUCTION:
            _write(
                out, fill, lines, l1, requests, sms, warps, slots, row, timing,
                sm, warp, kind, space, n, leave, now,
            )  # fmt: skip
        else:
            flight = _read(
                out, fill, lines, l1, misses, miss_index, waiters, flights, requests, sms, slots, row, timing,
                sm, warp, kind, space, n, program[pc, op.FLAGS] & BYPASS, done, leave, now,
            )  # fmt: skip
        if flight:
            flights[sm, flight, table.OWNER] = table.owner(warp, counter, hand[sm, H_GROUP])
            return warp if reader != NO_BARRIER else -1
    if hand[sm, H_GROUP]:
        group = hand[sm, H_GROUP] - 1
        warps[warp, COPIES_OPEN + group] -= 1
        warps[warp, COPIES_DONE + group] = max(warps[warp, COPIES_DONE + group], done)
        if counter == NO_BARRIER:
            return warp
    if counter != NO_BARRIER:
        resolve(board, warp, counter, done, reason)
        return warp
    return warp if reader != NO_BARRIER else -1


@inlined
def _write(out, fill, lines, l1, requests, sms, warps, slots, row, timing, sm, warp, kind, space, n, leave, now):
    """Send a store or reduction to L2, line by line; a line in L1 is updated (store) or dropped."""
    to = message.WRITE if kind == STORE else message.REDUCTION
    age = slots[warp, AGE]
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
        send(
            out, fill, requests, sms, timing, sm, to, line, sectors, bits(sectors), moved,
            lines[sm, i, OPERATIONS], 0, 0, warp, age, leave,
        )  # fmt: skip
        if space == LOCAL:
            row[count.LOCAL_STORE_SECTORS] += bits(sectors)
        elif kind == STORE:
            row[count.STORE_SECTORS] += bits(sectors)
        else:
            row[count.ATOMIC_SECTORS] += bits(sectors)
        row[count.SECTORS_TO_L2] += bits(sectors)
    sms[sm, WRITES_OUT] += n
    warps[warp, STORES] += n
    if space != LOCAL:
        row[count.STORE_REQUESTS if kind == STORE else count.ATOMIC_REQUESTS] += 1


@inlined
def _read(
    out, fill, lines, l1, misses, miss_index, waiters, flights, requests, sms, slots, row, timing,
    sm, warp, kind, space, n, bypass, done, leave, now,
):  # fmt: skip
    """Look up the lines of a load, atomic or copy; returns its flight record, 0 if all sectors hit."""
    flight = 0
    age = slots[warp, AGE]
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
        miss = 0
        ask = missing
        if cached:
            if missing == 0:
                continue
            miss = table.find_miss(miss_index, misses, sm, line)
            if miss == 0:
                miss = table.take(misses, sm, sms, FREE_MISS, USED_MISS)
                misses[sm, miss, table.LINE] = line
                misses[sm, miss, table.STATE] = 0
                misses[sm, miss, table.WAITERS] = 0
                table.insert_miss(miss_index, sm, line, miss)
            state = misses[sm, miss, table.STATE]
            if missing & ~(state >> table.ARRIVED_SHIFT) == 0:
                continue
            ask = missing & ~state
        if flight == 0:
            flight = table.take(flights, sm, sms, FREE_FLIGHT, USED_FLIGHT)
            sms[sm, FLIGHTS_OUT] += 1
            flights[sm, flight, table.LEFT] = 0
            flights[sm, flight, table.AGE_OF] = age
            flights[sm, flight, table.DONE] = done
        flights[sm, flight, table.LEFT] += 1
        if cached:
            waiter = table.take(waiters, sm, sms, FREE_WAITER, USED_WAITER)
            sms[sm, WAITERS_OUT] += 1
            waiters[sm, waiter, table.NEXT_WAITER] = misses[sm, miss, table.WAITERS]
            waiters[sm, waiter, table.WANTED] = flight << table.SECTOR_BITS | missing
            misses[sm, miss, table.WAITERS] = waiter
        if ask:
            payload = 0
            to = message.READ
            moved = 0
            if kind == ATOMIC:
                payload = wanted
                to = message.ATOMIC
                moved = lines[sm, i, LANE_BYTES]
                row[count.SECTORS_TO_L2] += wanted
            if miss:
                misses[sm, miss, table.STATE] = (misses[sm, miss, table.STATE] | ask) + table.ONE_OPEN
            sms[sm, READS_OUT] += 1
            send(
                out, fill, requests, sms, timing, sm, to, line, ask, payload, min(moved, LINE_BYTES),
                lines[sm, i, OPERATIONS], miss, flight if miss == 0 else 0, warp, age, leave,
            )  # fmt: skip
    return flight


@inner
def close_path(sms, sm):
    """The request in hand does not fit: nothing more is taken until a response frees an entry."""
    sms[sm, BLOCKED] = 1
    sms[sm, QUEUE_NEXT] = NEVER
