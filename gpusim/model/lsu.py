"""The LSU's front: memory queues of the sub-cores, and what one instruction costs in tags and data.

Mental model: each sub-core queues its memory instructions and works out the addresses of one each
``address_interval`` cycles, or, where the GPU's description says how long a register takes it, collects their registers
in turn, ahead of the LSU; the LSU, one an SM, takes one instruction each ``accept_interval`` cycles, sub-cores in
turn, ``address_latency`` cycles after it issued or later, and turns it into lines (tag stage, ``tag_banks`` lookups a
cycle) and passes over the banks (data stage). It takes the next one when both stages have room, so a stream of equal
instructions runs at the slower stage's rate. :func:`take_instruction` does this up to the point where the cache or the
crossbar are needed (:mod:`gpusim.model.l1_access`).
"""

from __future__ import annotations

from gpusim.model import program as op
from gpusim.model.coalescer import (
    SECTORS,
    bits,
    coalesce_lanes,
    coalesce_span,
    count_operations,
    lane_addresses,
    tag_wavefronts,
)
from gpusim.model.compiled import inlined, inner
from gpusim.model.lane_patterns import M_CYCLES, M_PATTERN, M_REST, memo_row, pattern_of, rest_of
from gpusim.model.messages import NEVER
from gpusim.model.residency import BLOCK, CLUSTER_BLOCKS, LOCAL_BASE, RANK
from gpusim.model.scheduler import FREE
from gpusim.model.shared_memory import atomic_wavefronts, data_wavefronts, returns_of
from gpusim.model.sm_tables import (
    ADDRESS_FREE,
    BLOCKED,
    DATA_FREE,
    LSU_ACCESS,
    LSU_BUSY,
    LSU_DATA_CYCLES,
    LSU_GROUP,
    LSU_LINES,
    LSU_MASK,
    LSU_PC,
    LSU_REMOTE,
    LSU_REMOTE_SECTORS,
    LSU_RETURNS,
    LSU_SIGNAL,
    LSU_SPACE,
    LSU_TAG_CYCLES,
    LSU_WARP,
    Q_ACCESS,
    Q_GROUP,
    Q_MASK,
    Q_PC,
    Q_READY,
    Q_WARP,
    QUEUE_COUNT,
    QUEUE_FREE,
    QUEUE_HEAD,
    QUEUE_NEXT,
    QUEUE_TURN,
    TAG_FREE,
)
from gpusim.model.timing import (
    ACCEPT_INTERVAL,
    ADDRESS_INTERVAL,
    ADDRESS_LATENCY,
    CLUSTER_SIZE,
    CONFLICT_FREE,
    DATA_BANKS,
    LOCAL_WINDOW,
    ONE_LOOKUP,
    QUEUE_ENTRIES,
    RETURN_CYCLES,
    SHARED_WINDOW,
    SUB_CORES,
    TAG_BANKS,
    TAG_LEAD,
)
from gpusim.model.trace_tables import A_ADDRESS, A_MASK, A_SIGNAL, A_STRIDE, LANES
from gpusim.trace.record import Flag, MemoryKind, Space

LOAD, STORE = int(MemoryKind.LOAD), int(MemoryKind.STORE)
ATOMIC, REDUCTION, ASYNC_COPY = int(MemoryKind.ATOMIC), int(MemoryKind.REDUCTION), int(MemoryKind.ASYNC_COPY)
GLOBAL, SHARED, LOCAL, GENERIC = int(Space.GLOBAL), int(Space.SHARED), int(Space.LOCAL), int(Space.GENERIC)
CLUSTER = int(Space.CLUSTER)
#: What looks at a word, or counts the lanes of one, takes a pass a word; other atomics a pass a lane.
PASS_A_WORD = int(Flag.PHASE_LOOK) | int(Flag.COUNTS_LANES)
FLOATING_ATOMIC = int(Flag.FLOATING_ATOMIC)
WINDOW_SHIFT = 24  # generic windows are 16 MiB
ALL_LANES = 0xFFFFFFFF
RETURNS_SHIFT, PASSES = 16, (1 << 16) - 1


@inner
def enqueue(queue, queue_ready, subs, ports, sms, timing, sm, sub, warp, pc, access, mask, group, collect, now):
    """Put a memory instruction issued in cycle ``now`` into its sub-core's queue; the LSU can take it when its
    registers are read and its addresses known. A queue that is full closes the sub-core's queue port."""
    count = subs[sub, QUEUE_COUNT]
    entry = subs[sub, QUEUE_HEAD] + count
    if entry >= timing[QUEUE_ENTRIES]:
        entry -= timing[QUEUE_ENTRIES]
    queue[sub, entry, Q_WARP] = warp
    queue[sub, entry, Q_PC] = pc
    queue[sub, entry, Q_ACCESS] = access
    queue[sub, entry, Q_MASK] = mask
    queue[sub, entry, Q_GROUP] = group
    ready = now + timing[ADDRESS_LATENCY]
    if collect:
        start = max(now, subs[sub, ADDRESS_FREE])
        subs[sub, ADDRESS_FREE] = start + collect
        ready = start + timing[ADDRESS_LATENCY]
    queue[sub, entry, Q_READY] = ready
    if count == 0:
        queue_ready[sub] = ready if collect else max(ready, subs[sub, ADDRESS_FREE])
    subs[sub, QUEUE_COUNT] = count + 1
    ports[sub, op.QUEUE_PORT, FREE] = NEVER if count + 1 == timing[QUEUE_ENTRIES] else now + 1
    earliest = max(now + timing[ADDRESS_LATENCY], sms[sm, QUEUE_FREE])
    if not sms[sm, BLOCKED] and earliest < sms[sm, QUEUE_NEXT]:
        sms[sm, QUEUE_NEXT] = earliest


@inlined
def dequeue(state, sm, now):
    """Let the LSU take the next sub-core's oldest instruction; False if none is ready. ``state``: SmState."""
    queue, queue_ready, subs, ports, sms = state.queue, state.queue_ready, state.subs, state.resident.ports, state.sms
    lsu, timing, subs_next, program = state.lsu, state.timing, state.resident.subs_next, state.program
    n = timing[SUB_CORES]
    for i in range(n):
        turn = sms[sm, QUEUE_TURN] + i
        if turn >= n:
            turn -= n
        sub = sm * n + turn
        if queue_ready[sub] > now:
            continue
        entry = subs[sub, QUEUE_HEAD]
        following = entry + 1 if entry + 1 < timing[QUEUE_ENTRIES] else 0
        address_free = 0  # what collects registers runs ahead; addresses wait until the one before has been taken
        if program[queue[sub, entry, Q_PC], op.COLLECT_CYCLES] == 0:
            address_free = now + timing[ADDRESS_INTERVAL]
            subs[sub, ADDRESS_FREE] = address_free
        lsu[sm, LSU_BUSY] = 1
        lsu[sm, LSU_WARP] = queue[sub, entry, Q_WARP]
        lsu[sm, LSU_PC] = queue[sub, entry, Q_PC]
        lsu[sm, LSU_ACCESS] = queue[sub, entry, Q_ACCESS]
        lsu[sm, LSU_GROUP] = queue[sub, entry, Q_GROUP]
        lsu[sm, LSU_MASK] = queue[sub, entry, Q_MASK]
        left = subs[sub, QUEUE_COUNT] - 1
        subs[sub, QUEUE_HEAD] = following
        subs[sub, QUEUE_COUNT] = left
        queue_ready[sub] = max(queue[sub, following, Q_READY], address_free) if left else NEVER
        if ports[sub, op.QUEUE_PORT, FREE] == NEVER:
            ports[sub, op.QUEUE_PORT, FREE] = now
            if now < subs_next[sub]:
                subs_next[sub] = now
        sms[sm, QUEUE_TURN] = turn + 1 if turn + 1 < n else 0
        return True
    return False


@inner
def resolve_space(space, addresses, mask, timing):
    """The space that a generic access means, by its first active lane's address."""
    if space == CLUSTER:
        return SHARED
    if space != GENERIC:
        return space
    for lane in range(LANES):
        if (mask >> lane) & 1:
            window = addresses[lane] >> WINDOW_SHIFT
            if 0 <= window - timing[SHARED_WINDOW] < timing[CLUSTER_SIZE]:
                return SHARED
            if window == timing[LOCAL_WINDOW]:
                return LOCAL
            break
    return GLOBAL


@inner
def _known_passes(memo, accesses, access, scattered, mask, width, merges):
    """What ``_passes`` gave for an access whose pattern the LSU has met not long ago, else 0."""
    pattern, rest = pattern_of(accesses, access, scattered), rest_of(accesses, access, mask, width, merges)
    row = memo_row(memo, pattern, rest)
    known = memo[row, M_PATTERN] == pattern and memo[row, M_REST] == rest
    return memo[row, M_CYCLES] if known else 0


@inner
def _passes(memo, tables, access, mask, width, merges, banks, scratch):
    """Passes over the banks of an access whose lanes' addresses stand in ``scratch[0]``, and above ``RETURNS_SHIFT``
    those that it would take without conflicts."""
    accesses, scattered = tables.accesses, tables.scattered
    cycles = _known_passes(memo, accesses, access, scattered, mask, width, merges)
    if cycles == 0:
        cycles = data_wavefronts(scratch[0], mask, width, merges, banks, scratch[1], scratch[3], scratch[2])
        cycles |= returns_of(scratch[0], mask, width, merges) << RETURNS_SHIFT
        pattern, rest = pattern_of(accesses, access, scattered), rest_of(accesses, access, mask, width, merges)
        row = memo_row(memo, pattern, rest)
        memo[row, M_PATTERN] = pattern
        memo[row, M_REST] = rest
        memo[row, M_CYCLES] = cycles
    return cycles


@inner
def reaches_others(addresses, mask, space, rank):
    """1 + rank of the first block other than that of ``rank`` that a lane's address, of the space CLUSTER or a generic
    one of shared memory, lies in; 0: there is none."""
    if space == CLUSTER or space == GENERIC:
        for lane in range(LANES):
            other = (addresses[lane] >> WINDOW_SHIFT) & 0xFF
            if (mask >> lane) & 1 and other != rank:
                return other + 1
    return 0


@inner
def _sectors(addresses, mask, width, lines, sm):
    """Distinct sectors that the lanes touch; ``lines`` is scratch."""
    found = 0
    for i in range(coalesce_lanes(addresses, mask, width, lines, sm, 0)):
        found += bits(lines[sm, i, SECTORS])
    return found


@inlined
def take_instruction(state, tables, sm):
    """Work out space, lines, tag cycles and data cycles of the LSU's instruction (see ``_work_out``)."""
    program, lsu, timing = state.program, state.lsu, state.timing
    lsu[sm, LSU_RETURNS] = 0
    _work_out(state, tables, sm)
    if lsu[sm, LSU_RETURNS] == 0:  # each pass over lines of global or local memory returns data
        lsu[sm, LSU_RETURNS] = lsu[sm, LSU_DATA_CYCLES]
    kind = program[lsu[sm, LSU_PC], op.KIND]
    # Lanes of one word of shared memory take turns, not its bank.
    turns = lsu[sm, LSU_SPACE] == SHARED and (kind == ATOMIC or kind == REDUCTION)
    if timing[CONFLICT_FREE] and not turns:
        least = max(1, program[lsu[sm, LSU_PC], op.BYTES] // 4)
        lsu[sm, LSU_DATA_CYCLES] = min(lsu[sm, LSU_DATA_CYCLES], least)
        lsu[sm, LSU_RETURNS] = min(lsu[sm, LSU_RETURNS], least)
    lsu[sm, LSU_DATA_CYCLES] = max(lsu[sm, LSU_DATA_CYCLES], lsu[sm, LSU_RETURNS] * timing[RETURN_CYCLES])
    if timing[ONE_LOOKUP]:
        lsu[sm, LSU_TAG_CYCLES] = min(lsu[sm, LSU_TAG_CYCLES], 1)


@inlined
def _work_out(state, tables, sm):
    """Space, lines, tag cycles and data cycles of the LSU's instruction, bank conflicts included.

    ``state.scratch`` int64[5, LINES_MAX]: addresses, words, links, bank heads, tag banks.
    """
    program, lsu, lines, timing, scratch = state.program, state.lsu, state.lines, state.timing, state.scratch
    accesses, scattered = tables.accesses, tables.scattered
    warp = lsu[sm, LSU_WARP]
    pc = lsu[sm, LSU_PC]
    access = lsu[sm, LSU_ACCESS]
    lsu[sm, LSU_LINES] = 0
    lsu[sm, LSU_TAG_CYCLES] = 0
    lsu[sm, LSU_DATA_CYCLES] = 0
    lsu[sm, LSU_REMOTE] = 0
    space = program[pc, op.SPACE]
    lsu[sm, LSU_SPACE] = space
    records = program[pc, op.RECORDS]
    lsu[sm, LSU_SIGNAL] = accesses[access, A_SIGNAL] if records else 0
    if records == 0:
        if program[pc, op.IS_SHUFFLE]:
            lsu[sm, LSU_DATA_CYCLES] = 1
        return
    kind = program[pc, op.KIND]
    width = program[pc, op.BYTES]
    addresses = scratch[0]
    stride = accesses[access, A_STRIDE]
    mask = accesses[access, A_MASK] & lsu[sm, LSU_MASK]
    lsu[sm, LSU_MASK] = mask
    if mask == 0:
        return
    if stride == width and mask == ALL_LANES and space == GLOBAL and kind < ATOMIC:
        start = accesses[access, A_ADDRESS]
        n = coalesce_span(start, start + LANES * width, lines, sm)
        lsu[sm, LSU_LINES] = n
        lsu[sm, LSU_DATA_CYCLES] = max(1, width // 4)
        lsu[sm, LSU_TAG_CYCLES] = tag_wavefronts(lines, sm, n, timing[TAG_BANKS], scratch[4])
        return
    if space == SHARED and (kind == LOAD or kind == STORE):
        known = _known_passes(state.memo, accesses, access, scattered, mask, width, int(kind == LOAD))
        if known:
            lsu[sm, LSU_DATA_CYCLES] = known & PASSES
            lsu[sm, LSU_RETURNS] = known >> RETURNS_SHIFT
            return
    lane_addresses(accesses, access, scattered, ALL_LANES, addresses)
    named = space
    space = resolve_space(space, addresses, mask, timing)
    lsu[sm, LSU_SPACE] = space
    banks = timing[DATA_BANKS]
    if space == SHARED:
        blocks = state.resident.blocks
        block = state.resident.warps[warp, BLOCK]
        if blocks[block, CLUSTER_BLOCKS] > 1:
            lsu[sm, LSU_REMOTE] = reaches_others(addresses, mask, named, blocks[block, RANK])
            if lsu[sm, LSU_REMOTE]:
                lsu[sm, LSU_REMOTE_SECTORS] = _sectors(addresses, mask, width, lines, sm)
        if (kind == ATOMIC or kind == REDUCTION) and not program[pc, op.FLAGS] & PASS_A_WORD:
            lsu[sm, LSU_DATA_CYCLES] = atomic_wavefronts(addresses, mask, width, banks, scratch[3])
            lsu[sm, LSU_RETURNS] = max(1, width // 4)
        else:
            merges = int(kind == LOAD)
            passes = _passes(state.memo, tables, access, mask, width, merges, banks, scratch)
            lsu[sm, LSU_DATA_CYCLES] = passes & PASSES
            lsu[sm, LSU_RETURNS] = passes >> RETURNS_SHIFT
        return
    n = 0
    if space == LOCAL:
        n = _local_lines(addresses, mask, width, state.resident.warps[warp, LOCAL_BASE], lines, lsu, sm, banks, scratch)
    else:
        n = coalesce_lanes(addresses, mask, width, lines, sm, 0)
        lsu[sm, LSU_DATA_CYCLES] = _passes(state.memo, tables, access, mask, width, 0, banks, scratch) & PASSES
        if kind == ATOMIC or kind == REDUCTION:
            floating = int(program[pc, op.FLAGS] & FLOATING_ATOMIC != 0)
            count_operations(addresses, mask, lines, sm, n, floating)
    lsu[sm, LSU_LINES] = n
    lsu[sm, LSU_TAG_CYCLES] = tag_wavefronts(lines, sm, n, timing[TAG_BANKS], scratch[4])
    if kind == ASYNC_COPY and records > 1:
        mask = accesses[access + 1, A_MASK] & mask
        lane_addresses(accesses, access + 1, scattered, ALL_LANES, addresses)
        lsu[sm, LSU_DATA_CYCLES] = _passes(state.memo, tables, access + 1, mask, width, 0, banks, scratch) & PASSES


@inner
def _local_lines(addresses, mask, width, base, lines, lsu, sm, banks, scratch):
    """Lines of a local access: word w of lane l lies at ``base + w * 128 + l * 4``, so that lanes that use
    the same offset share lines. Returns the count and sets the data cycles."""
    words = max(1, width // 4)
    part = min(width, 4)
    for lane in range(LANES):
        offset = addresses[lane] & ((1 << WINDOW_SHIFT) - 1)
        addresses[lane] = base + (offset >> 2) * 128 + lane * 4 + (offset & 3)
    n = 0
    cycles = 0
    for _ in range(words):
        n = coalesce_lanes(addresses, mask, part, lines, sm, n)
        cycles += data_wavefronts(addresses, mask, part, 0, banks, scratch[1], scratch[3], scratch[2])
        for lane in range(LANES):
            addresses[lane] += 128
    lsu[sm, LSU_DATA_CYCLES] = cycles
    return n


@inner
def occupy_stages(sms, lsu, timing, sm, now):
    """Book tag and data stage for the LSU's instruction, taken in cycle ``now``.

    Returns (cycle of the first tag lookup, cycle in which the last pass is read).
    """
    tag_start = max(now, sms[sm, TAG_FREE])
    tag_cycles = lsu[sm, LSU_TAG_CYCLES]
    if tag_cycles:
        sms[sm, TAG_FREE] = tag_start + tag_cycles
    else:
        tag_start = now
    data_end = tag_start
    data_cycles = lsu[sm, LSU_DATA_CYCLES]
    if data_cycles:
        data_start = max(tag_start, sms[sm, DATA_FREE])
        sms[sm, DATA_FREE] = data_start + data_cycles
        data_end = data_start + data_cycles - timing[RETURN_CYCLES]  # latencies hold the first pass
    sms[sm, QUEUE_FREE] = max(
        now + timing[ACCEPT_INTERVAL], max(sms[sm, TAG_FREE], sms[sm, DATA_FREE] - timing[TAG_LEAD])
    )
    return tag_start, data_end


@inner
def next_instruction_cycle(queue_ready, sms, timing, sm):
    """When the LSU can take the next waiting instruction; NEVER if none waits."""
    first = NEVER
    for sub in range(sm * timing[SUB_CORES], (sm + 1) * timing[SUB_CORES]):
        first = min(first, queue_ready[sub])
    return first if first == NEVER else max(first, sms[sm, QUEUE_FREE])
