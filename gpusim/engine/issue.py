"""One warp instruction issues: account for the wait, occupy the unit, move the warp's cursor on.

Mental model: everything that an issue changes at once. The cycles since the warp's last issue are split
over the stall reasons, the instruction takes its port or its place in the memory queue, its counters are
raised or given their release, and the warp's next instruction gets its earliest cycle.
"""

from __future__ import annotations

from gpusim.engine.arithmetic import read_operands, take_part, take_pipe
from gpusim.engine.step import ask_for_code, read_constant, step
from gpusim.model import cache
from gpusim.model import counters as count
from gpusim.model import program as op
from gpusim.model import stall_reasons as stall
from gpusim.model.clock_waits import look_at_clock
from gpusim.model.cluster import arrive_at_cluster, await_cluster
from gpusim.model.coalescer import bits
from gpusim.model.compiled import inlined, inner
from gpusim.model.constants import indexed_load
from gpusim.model.dependents import let_dependents_go
from gpusim.model.fetch import fetch
from gpusim.model.lsu import GENERIC, GLOBAL, LOCAL, SHARED, enqueue
from gpusim.model.messages import NEVER, TICKS_PER_CYCLE
from gpusim.model.prefetch import prefetch
from gpusim.model.residency import (
    ACCESS,
    ARRIVED,
    AT_BARRIER,
    BARRIER_PC,
    BARRIERS,
    BLOCK,
    BRANCHED,
    CLOCK_END,
    COPIES_DONE,
    COPIES_OPEN,
    COPY_GROUPS,
    EXPECTED,
    FENCED,
    FETCHED,
    GROUP,
    GROUPS_END,
    ISSUED,
    LAST_ACK,
    LEFT,
    LINE_READY,
    LIVE,
    MASK,
    PC,
    POLL_ACCESS,
    POLL_END,
    POLL_FROM,
    POLL_ONCE,
    POLL_RUN,
    PRODUCT_GROUPS,
    PRODUCT_ROOM,
    PRODUCTS_CLOSED,
    PRODUCTS_END,
    PRODUCTS_ISSUED,
    PRODUCTS_LATE,
    PRODUCTS_LEAVE,
    QUEUED,
    ROW,
    RUN,
    RUN_END,
    SLEEP_END,
    STALL_END,
    STORES,
    UNSEEN,
    WAIT_REASON,
    WAITING,
    earliest_issue,
    load_run,
    release_barrier,
)
from gpusim.model.scheduler import AGE, FREE, PORT, lost, sleep
from gpusim.model.scoreboard import raise_counter, release_at
from gpusim.model.sm_tables import (
    FILLED,
    LAST_WARP,
    PIPE_TURN,
    TENSOR_FREE_TICK,
    TENSOR_LATE,
    TENSOR_PRODUCT_TICKS,
)
from gpusim.model.tensor_unit import take_work
from gpusim.model.timing import (
    BARRIER_LATENCY,
    CHAINED,
    CODE_AHEAD,
    DECODE_CYCLES,
    FENCE_LATENCY,
    L1_SETS,
    L1_WAYS,
    MOST_QUEUED_PRODUCTS,
    OPERAND_READ,
    PRODUCT_QUEUE,
    SUB_CORES,
    WARPS_PER_SUB_CORE,
)
from gpusim.model.tma import take_in
from gpusim.model.trace_tables import (
    A_ADDRESS,
    A_MASK,
    A_STRIDE,
    ACCESS_TABLE,
    LANES,
    RUN_COUNT,
    RUN_FIRST,
    RUN_POLL,
    W_ACCESS,
    W_NEXT,
    W_RUN,
    W_RUN_END,
)
from gpusim.model.write_back import begin_product, write_beside
from gpusim.state_tables import HOST_LINE_BYTES
from gpusim.trace.layout import BARRIER_ADDRESS, BARRIER_THREADS_SHIFT, MAX_SLEEP_NS, SLEEP_ADDRESS
from gpusim.trace.record import NO_BARRIER, SCATTERED, Flag, MemoryKind, PipeClass

BARRIER_WAIT, FENCE, COPY_GROUP = int(Flag.BARRIER_WAIT), int(Flag.FENCE), int(Flag.COPY_GROUP)
BRANCH, DEVICE_FENCE, INVALIDATE_L1 = int(Flag.BRANCH), int(Flag.DEVICE_FENCE), int(Flag.INVALIDATE_L1)
LAUNCH_DEPENDENTS = int(Flag.LAUNCH_DEPENDENTS)
PRODUCT, PRODUCT_GROUP = int(Flag.PRODUCT), int(Flag.PRODUCT_GROUP)
CLUSTER_ARRIVE, CLUSTER_WAIT = int(Flag.CLUSTER_ARRIVE), int(Flag.CLUSTER_WAIT)
BARRIER_PORT, CONSTANT_PORT = int(PipeClass.BARRIER), int(PipeClass.CONSTANT)
#: Addresses of a scattered access that share a cache line of the host.
HOST_LANES = HOST_LINE_BYTES // 8
#: Access records from one to the next that begins in a later one.
HOST_ACCESSES = -(-HOST_LINE_BYTES // (8 * ACCESS_TABLE.row_width))
CLOCK, CLOCK_WAIT = int(Flag.CLOCK), int(Flag.CLOCK_WAIT)
ASYNC_COPY = int(MemoryKind.ASYNC_COPY)
STORE, REDUCTION = int(MemoryKind.STORE), int(MemoryKind.REDUCTION)


@inlined
def account(state, sub, warp, pc, now):
    """Charge the cycles since the warp's last issue to reasons, at the instruction that waited; those at a barrier at
    the barrier, not at what stands behind it."""
    stalls, warps, slots = state.stalls, state.resident.warps, state.resident.slots
    stall_end = warps[warp, STALL_END]
    ready = state.resident.ready[warp]
    stalls[pc, stall.SELECTED] += 1
    fixed = stall_end - warps[warp, ISSUED] - 1
    if fixed > 0:
        if warps[warp, BRANCHED]:
            stalls[pc, stall.BRANCH_RESOLVING] += fixed
        else:
            stalls[pc, stall.WAIT] += fixed
    if ready > stall_end:
        fetched = min(warps[warp, FETCHED], ready)
        if fetched > stall_end:
            stalls[pc, stall.NO_INSTRUCTION] += fetched - stall_end
            stall_end = fetched
        reason = warps[warp, WAIT_REASON]
        waited_at = warps[warp, BARRIER_PC] if reason == stall.BARRIER else pc
        stalls[waited_at, reason] += ready - stall_end
    rest = now - ready
    if rest > 0:
        passed, held = lost(slots, state.resident.ports, state.resident.sets, sub, warp)
        stalls[pc, stall.NOT_SELECTED] += passed
        if held:
            stalls[pc, stall.DISPATCH_STALL] += held
            passed += held
        if rest > passed:
            if slots[warp, PORT] != op.QUEUE_PORT:
                reason = stall.MATH_PIPE_THROTTLE
            else:
                space = state.program[pc, op.SPACE]
                is_l1tex = space == GLOBAL or space == LOCAL or space == GENERIC
                reason = stall.LG_THROTTLE if is_l1tex else stall.MIO_THROTTLE
            stalls[pc, reason] += rest - passed


@inner
def enter_code(program, warps, code, sms, timing, sm, sub, warp, pc, now):
    """The warp's path jumps to ``pc``: ask for its line, and for the next one if the warp is near the line's end.
    Returns the cycle from which the instruction is in the sub-core's cache."""
    there = max(now, fetch(code, sms, timing, sm, sub, program[pc, op.LINE], now))
    if program[pc, op.LINE_LEFT] < timing[CODE_AHEAD]:
        line = program[pc, op.LINE] + 1
        following = fetch(code, sms, timing, sm, sub, line, now)
        warps[warp, LINE_READY] = following + timing[DECODE_CYCLES]
    return there


@inlined
def hint_access(tables, access):
    """Ask for a warp's access records from ``access`` on, the next one and those of the cache line behind it: each is
    read once, and nothing else brings it near."""
    prefetch(tables.accesses, (access, 0))
    prefetch(tables.accesses, (access + HOST_ACCESSES, 0))


@inlined
def hint_lanes(tables, access):
    """Ask for the lanes' addresses of an access that the LSU is about to work out, where a row of their own holds
    them."""
    stride = tables.accesses[access, A_STRIDE]
    if stride <= SCATTERED:
        for lane in range(0, LANES, HOST_LANES):
            prefetch(tables.scattered, (SCATTERED - stride, lane))


@inlined
def go_on(tables, warps, warp):
    """The warp's part of the trace is used up: point its cursor at the next one. False if that was the last."""
    row = tables.warps[warps[warp, ROW], W_NEXT]
    if row < 0:  # ENDS: the supply has seen to it that nothing else is met here
        return False
    warps[warp, ROW] = row
    warps[warp, RUN] = tables.warps[row, W_RUN]
    warps[warp, RUN_END] = tables.warps[row, W_RUN_END]
    warps[warp, ACCESS] = tables.warps[row, W_ACCESS]
    return True


@inner
def choose_round(state, tables, warp, now):
    """Behind a run of the warp's path: it goes on with the round of polling that stands there if its last poll has not
    seen what it waits for, makes one again that is at its end, or goes on behind it, with the next round if it has not
    seen it yet."""
    warps, runs = state.resident.warps, tables.runs
    run = warps[warp, RUN]
    if warps[warp, POLL_END]:
        if run != warps[warp, POLL_END]:
            return
        if warps[warp, UNSEEN] and warps[warp, POLL_ONCE] == 0:
            warps[warp, UNSEEN] = 0
            warps[warp, RUN], warps[warp, ACCESS] = warps[warp, POLL_RUN], warps[warp, POLL_ACCESS]
            return
        if warps[warp, CLOCK_END] == 0:
            state.counters[count.POLL_CYCLES] += now - warps[warp, POLL_FROM]
        warps[warp, POLL_END] = 0
    while run < warps[warp, RUN_END] and runs[run, RUN_POLL]:
        end = run + runs[run, RUN_POLL]
        if warps[warp, UNSEEN]:
            warps[warp, UNSEEN] = 0
            warps[warp, POLL_RUN], warps[warp, POLL_END] = run, end
            warps[warp, POLL_ACCESS], warps[warp, POLL_FROM] = warps[warp, ACCESS], now
            warps[warp, POLL_ONCE], warps[warp, RUN] = 0, run
            return
        for skipped in range(run, end):
            first = runs[skipped, RUN_FIRST]
            for pc in range(first, first + runs[skipped, RUN_COUNT]):
                warps[warp, ACCESS] += state.program[pc, op.RECORDS]
        run = end
    warps[warp, RUN], warps[warp, CLOCK_END] = run, 0


@inlined
def take_unit(state, tables, sm, sub, warp, pc, now):
    """What an instruction that is not PLAIN takes of its sub-core's units, or hands to the SM's, and when its counters
    fall."""
    program, timing, subs, ports = state.program, state.timing, state.subs, state.resident.ports
    warps, board, port = state.resident.warps, state.resident.board, program[pc, op.PORT]
    writer, reader = program[pc, op.WRITE_BARRIER], program[pc, op.READ_BARRIER]
    interval, latency = program[pc, op.INTERVAL], program[pc, op.LATENCY]
    if port == CONSTANT_PORT:
        addresses, late = indexed_load(
            state.front.constants, program, tables, warps, timing, state.scratch, sub, warp, pc, now
        )
        interval *= addresses
        latency += interval - program[pc, op.INTERVAL] + late
    free = now + interval
    if program[pc, op.TICKS]:
        # The port frees in the cycle in which the core does; the next product enters the core up to a cycle later.
        late = subs[sub, TENSOR_LATE]
        spare = program[pc, op.SPARE_TICKS]
        tick = begin_product(subs, sub, now * TICKS_PER_CYCLE - late, program[pc, op.TICKS], spare)
        subs[sub, TENSOR_FREE_TICK] = tick
        if program[pc, op.FLAGS] & PRODUCT:  # the core has it in its queue
            free = tick // TICKS_PER_CYCLE
            warps[warp, PRODUCTS_LATE] = late // TICKS_PER_CYCLE
            note_product(warps, timing, warp, program[pc, op.FLAGS], free, free + 1 + latency)
            free = now + 1
        else:
            subs[sub, TENSOR_PRODUCT_TICKS] = 0
            free = (tick + late) // TICKS_PER_CYCLE
    elif program[pc, op.WRITE_TICKS]:
        write_beside(subs, sub, program[pc, op.WRITE_TICKS], now)
    if program[pc, op.SHARED_BY_SM]:
        for other in range(sm * timing[SUB_CORES], (sm + 1) * timing[SUB_CORES]):
            ports[other, port, FREE] = free
        state.sms[sm, PIPE_TURN] = (sub + 1) % timing[SUB_CORES]
    elif program[pc, op.TAKES]:
        take_part(ports, sub, program[pc, op.TAKES], port, interval, now)
    else:
        ports[sub, port, FREE] = free
    if program[pc, op.BULK] == op.MULTIPLIES:
        take_work(state, tables, sm, sub, warps[warp, ACCESS], now)
    elif program[pc, op.BULK]:
        if program[pc, op.BULK] == op.CLOSES and writer != NO_BARRIER:
            raise_counter(board, warp, writer, stall.LONG_SCOREBOARD)
            writer = NO_BARRIER
        take_in(state, tables, sm, warp, pc, warps[warp, ACCESS], now)
    if writer != NO_BARRIER:
        release_at(board, warp, writer, now + latency, program[pc, op.REASON])
    if reader != NO_BARRIER:
        release_at(board, warp, reader, now + timing[OPERAND_READ], stall.SHORT_SCOREBOARD)


@inlined
def issue(state, tables, sm, sub, warp, now):
    """Issue the next instruction of ``warp`` in cycle ``now``; True if it was the warp's last one. ``state``:
    SmState."""
    program, timing, sms, subs, ports = state.program, state.timing, state.sms, state.subs, state.resident.ports
    resident, front = state.resident, state.front
    warps, slots, board = resident.warps, resident.slots, resident.board
    pc = warps[warp, PC]
    account(state, sub, warp, pc, now)
    state.work[pc, count.THREAD_INSTRUCTIONS] += bits(warps[warp, MASK])
    port = program[pc, op.PORT]
    if port == op.QUEUE_PORT:
        writer, reader = program[pc, op.WRITE_BARRIER], program[pc, op.READ_BARRIER]
        if writer != NO_BARRIER:
            raise_counter(board, warp, writer, program[pc, op.REASON])
        if reader != NO_BARRIER:
            raise_counter(board, warp, reader, stall.SHORT_SCOREBOARD)
        resident.blocks[warps[warp, BLOCK], QUEUED] += 1
        if program[pc, op.KIND] == STORE or program[pc, op.KIND] == REDUCTION:
            warps[warp, STORES] += 1  # itself, until it has been taken and its lines count
        group = 0
        if program[pc, op.KIND] == ASYNC_COPY:
            group = warps[warp, GROUP] % COPY_GROUPS + 1
            warps[warp, COPIES_OPEN + group - 1] += 1
        access, mask = warps[warp, ACCESS], warps[warp, MASK]
        collect = program[pc, op.COLLECT_CYCLES]
        enqueue(
            state.queue, state.queue_ready, subs, ports, sms, timing, sm, sub, warp, pc, access, mask, group, collect, now
        )  # fmt: skip
    else:
        if program[pc, op.PLAIN]:
            take_pipe(state, sub, pc, now)
        else:
            take_unit(state, tables, sm, sub, warp, pc, now)
        read_operands(state, sub, warp, pc, now)
    recorded = warps[warp, ACCESS]
    if program[pc, op.PLAIN] == 0 and program[pc, op.RECORDS]:
        warps[warp, ACCESS] = recorded + program[pc, op.RECORDS]
        if program[pc, op.SPACE] != SHARED:  # there passes are known by the pattern, more often than not
            hint_lanes(tables, recorded)
        hint_access(tables, recorded + program[pc, op.RECORDS])
    subs[sub, LAST_WARP] = -1 if program[pc, op.YIELD] else warp
    warps[warp, ISSUED] = now
    if program[pc, op.STEP] and warps[warp, LEFT] > 1 and warps[warp, FENCED] == 0 and warps[warp, POLL_END] == 0:
        step(state, sm, sub, warp, pc, now)
        return False
    flags = program[pc, op.FLAGS]
    wait = program[pc, op.STALL]
    left = warps[warp, LEFT] - 1
    if warps[warp, POLL_END] and warps[warp, CLOCK_END] == 0:
        state.counters[count.POLL_INSTRUCTIONS] += 1
    if flags & (CLOCK | CLOCK_WAIT):
        look_at_clock(warps, program, tables, warp, pc, recorded, now)
    warps[warp, BRANCHED] = 0
    jumps = False
    if left:
        warps[warp, LEFT] = left
        warps[warp, PC] = pc + 1
    else:
        warps[warp, RUN] += 1
        if warps[warp, POLL_END] or (
            warps[warp, RUN] < warps[warp, RUN_END] and tables.runs[warps[warp, RUN], RUN_POLL]
        ):
            choose_round(state, tables, warp, now)
        if warps[warp, RUN] == warps[warp, RUN_END] and not go_on(tables, warps, warp):
            resident.ready[warp] = NEVER
            slots[warp, AGE] = 0
            subs[sub, LAST_WARP] = -1
            if port == BARRIER_PORT and not flags & (CLUSTER_ARRIVE | CLUSTER_WAIT):
                arrive(resident, program, tables, timing, sm, warp, pc, recorded, False, now)
            return True
        load_run(warps, tables.runs, warp)
        jumps = warps[warp, PC] != pc + 1
        if jumps and flags & BRANCH:
            warps[warp, BRANCHED] = 1
            wait = max(wait, program[pc, op.LATENCY])
    stall_end = now + wait
    if program[pc, op.SLEEP] > 0:
        warps[warp, SLEEP_END] = now + program[pc, op.SLEEP]
    elif program[pc, op.SLEEP] < 0:
        asked_ns = tables.accesses[recorded, A_ADDRESS] - SLEEP_ADDRESS
        warps[warp, POLL_ONCE] = tables.accesses[recorded, A_STRIDE] == 1
        warps[warp, SLEEP_END] = now - ((min(max(asked_ns, 0), MAX_SLEEP_NS) * program[pc, op.SLEEP]) >> op.SLEEP_SHIFT)
    warps[warp, STALL_END] = stall_end
    following = warps[warp, PC]
    slots[warp, PORT] = program[following, op.PORT]
    code = program[pc, op.FETCH]
    if jumps:
        there = enter_code(program, warps, front.code, sms, timing, sm, sub, warp, following, now)
        if there > now:
            warps[warp, FETCHED] = stall_end + there - now
    elif code:
        ask_for_code(warps, front.code, sms, timing, sm, sub, warp, code, now)
    if program[following, op.CONSTANT_LINE]:
        ready = max(stall_end, warps[warp, FETCHED])
        read_constant(program, warps, front.constants, timing, sub, warp, following, ready)
    if flags & (FENCE | COPY_GROUP):
        if flags & COPY_GROUP:
            close_group(warps, warp)
        warps[warp, FENCED] = 1 if flags & FENCE else 0
        if flags & DEVICE_FENCE:
            warps[warp, LAST_ACK] = max(warps[warp, LAST_ACK], now + timing[FENCE_LATENCY])
    elif warps[warp, FENCED]:
        warps[warp, FENCED] = 0
    if flags & INVALIDATE_L1 and sms[sm, FILLED]:
        sms[sm, FILLED] = 0
        cache.empty(state.l1, sm, timing[L1_SETS], timing[L1_WAYS])
    if flags & LAUNCH_DEPENDENTS and timing[CHAINED]:
        let_dependents_go(resident.blocks, state.exits, state.report, timing, sm, warps[warp, BLOCK], now)
    if flags & CLUSTER_ARRIVE:
        arrive_at_cluster(state.peers_sent, state.report, resident, timing, warp, now)
    elif flags & CLUSTER_WAIT:
        await_cluster(resident, warp, pc)
    elif port == BARRIER_PORT:
        resident.ready[warp] = NEVER
        arrive(resident, program, tables, timing, sm, warp, pc, recorded, flags & BARRIER_WAIT != 0, now)
        if warps[warp, AT_BARRIER]:
            return False
    ready = earliest_issue(warps, board, program, warp)
    sleep(resident.ready, resident.sets, sub, sub * timing[WARPS_PER_SUB_CORE], warp, ready)
    return False


@inner
def note_product(warps, timing, warp, flags, free, end):
    """The core will have done with a product of the warp's group at ``free``, and it will be there at ``end``, and with
    it, perhaps, a group of products. As many as the core keeps of a warp may issue before the oldest of them has left
    it."""
    issued = warps[warp, PRODUCTS_ISSUED] + 1
    warps[warp, PRODUCTS_ISSUED] = issued
    warps[warp, PRODUCTS_LEAVE + issued % MOST_QUEUED_PRODUCTS] = free
    before = issued + 1 - timing[PRODUCT_QUEUE]
    if before > 0:
        warps[warp, PRODUCT_ROOM] = warps[warp, PRODUCTS_LEAVE + before % MOST_QUEUED_PRODUCTS]
    warps[warp, PRODUCTS_END] = max(warps[warp, PRODUCTS_END], end)
    if flags & PRODUCT_GROUP:
        closed = warps[warp, PRODUCTS_CLOSED] + 1
        warps[warp, PRODUCTS_CLOSED] = closed
        warps[warp, GROUPS_END + closed % PRODUCT_GROUPS] = warps[warp, PRODUCTS_END]


@inner
def close_group(warps, warp):
    """Asynchronous copies issued so far become a group; the next ones go to a fresh entry."""
    warps[warp, GROUP] += 1
    entry = warps[warp, GROUP] % COPY_GROUPS
    if warps[warp, COPIES_OPEN + entry] == 0:
        warps[warp, COPIES_DONE + entry] = 0


@inner
def arrive(resident, program, tables, timing, sm, warp, pc, recorded, waits, now):
    """The warp comes to its block's barrier, the last one to come lets all go on. ``recorded``: the access that says
    which barrier it is where a register does, and whether a guard held."""
    warps, blocks = resident.warps, resident.blocks
    block = warps[warp, BLOCK]
    number, meeting = program[pc, op.BARRIER_ID], program[pc, op.BARRIER_WARPS]
    if program[pc, op.RECORDS]:
        if tables.accesses[recorded, A_MASK] == 0:
            return
        named = tables.accesses[recorded, A_ADDRESS] - BARRIER_ADDRESS
        number = named & (BARRIERS - 1)
        meeting = ((named >> BARRIER_THREADS_SHIFT) + LANES - 1) // LANES
    blocks[block, ARRIVED + number] += 1
    blocks[block, EXPECTED + number] = meeting
    if waits:
        warps[warp, AT_BARRIER] = number + 1
        warps[warp, BARRIER_PC] = pc
        blocks[block, WAITING] += 1
    if blocks[block, ARRIVED + number] >= expected_warps(blocks, block, number):
        end = now + timing[BARRIER_LATENCY]
        release_barrier(resident, program, timing, sm, block, number, end, now)


@inner
def expected_warps(blocks, block, number):
    """How many warps open barrier ``number``: as many as its instruction says, else all that live."""
    named = blocks[block, EXPECTED + number]
    return named if named else blocks[block, LIVE]


@inner
def leave_block(resident, program, timing, sm, block, now):
    """A warp of the block is done; barriers that only waited for it open. Returns the warps left."""
    blocks = resident.blocks
    blocks[block, LIVE] -= 1
    live = blocks[block, LIVE]
    if live and blocks[block, WAITING]:
        for number in range(BARRIERS):
            arrived = blocks[block, ARRIVED + number]
            if arrived and arrived >= expected_warps(blocks, block, number):
                end = now + timing[BARRIER_LATENCY]
                release_barrier(resident, program, timing, sm, block, number, end, now)
    return live
