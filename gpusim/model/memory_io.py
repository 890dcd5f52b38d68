"""The memory path's front: queues of the sub-cores, and what one request costs in tags and data.

Mental model: each sub-core queues its memory instructions and works out the addresses of one each
``address_interval`` cycles; one back end an SM takes one request each ``accept_interval`` cycles, sub-cores in turn,
``address_latency`` cycles after it issued or later, and turns it into lines (tag stage, ``tag_banks`` lookups a
cycle) and passes over the banks (data stage). It takes the next one when both stages have room, so a
stream of equal requests runs at the slower stage's rate. :func:`take_request` does this up to the point
where the cache or the crossbar are needed (:mod:`gpusim.model.l1_access`).
"""

from __future__ import annotations

from gpusim.model import program as op
from gpusim.model.coalescer import coalesce_lanes, coalesce_span, count_operations, lane_addresses, tag_wavefronts
from gpusim.model.compiled import inlined, inner
from gpusim.model.messages import NEVER
from gpusim.model.residency import LOCAL_BASE
from gpusim.model.shared_memory import atomic_wavefronts, data_wavefronts
from gpusim.model.sm_columns import (
    ADDRESS_FREE,
    BLOCKED,
    BUSY,
    DATA_FREE,
    H_ACCESS,
    H_DATA_CYCLES,
    H_GROUP,
    H_LINES,
    H_MASK,
    H_PC,
    H_SPACE,
    H_TAG_CYCLES,
    H_WARP,
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
    CONFLICT_FREE,
    DATA_BANKS,
    LOCAL_WINDOW,
    ONE_LOOKUP,
    QUEUE_ENTRIES,
    SHARED_WINDOW,
    SUB_CORES,
    TAG_BANKS,
    TAG_LEAD,
)
from gpusim.trace.record import MemoryKind, Space

ATOMIC, REDUCTION, ASYNC_COPY = int(MemoryKind.ATOMIC), int(MemoryKind.REDUCTION), int(MemoryKind.ASYNC_COPY)
GLOBAL, SHARED, LOCAL, GENERIC = int(Space.GLOBAL), int(Space.SHARED), int(Space.LOCAL), int(Space.GENERIC)
WINDOW_SHIFT = 24  # generic windows are 16 MiB
ALL_LANES = 0xFFFFFFFF


@inner
def enqueue(queue, subs, port_free, sms, timing, sm, sub, warp, pc, access, mask, group, now):
    """Put a memory instruction issued in cycle ``now`` into its sub-core's queue; the back end sees it when its
    registers are read and its addresses known. A queue that is full closes the sub-core's queue port."""
    count = subs[sub, QUEUE_COUNT]
    entry = (subs[sub, QUEUE_HEAD] + count) % timing[QUEUE_ENTRIES]
    queue[sub, entry, Q_WARP] = warp
    queue[sub, entry, Q_PC] = pc
    queue[sub, entry, Q_ACCESS] = access
    queue[sub, entry, Q_MASK] = mask
    queue[sub, entry, Q_GROUP] = group
    queue[sub, entry, Q_READY] = now + timing[ADDRESS_LATENCY]
    subs[sub, QUEUE_COUNT] = count + 1
    port_free[sub, op.QUEUE_PORT] = NEVER if count + 1 == timing[QUEUE_ENTRIES] else now + 1
    earliest = max(now + timing[ADDRESS_LATENCY], sms[sm, QUEUE_FREE])
    if not sms[sm, BLOCKED] and earliest < sms[sm, QUEUE_NEXT]:
        sms[sm, QUEUE_NEXT] = earliest


@inlined
def dequeue(queue, subs, subs_next, port_free, sms, hand, timing, sm, now):
    """Take the next sub-core's oldest request in hand; False if none is ready."""
    n = timing[SUB_CORES]
    for i in range(n):
        turn = (sms[sm, QUEUE_TURN] + i) % n
        sub = sm * n + turn
        if subs[sub, QUEUE_COUNT] == 0:
            continue
        entry = subs[sub, QUEUE_HEAD]
        if queue[sub, entry, Q_READY] > now or subs[sub, ADDRESS_FREE] > now:
            continue
        subs[sub, ADDRESS_FREE] = now + timing[ADDRESS_INTERVAL]
        hand[sm, BUSY] = 1
        hand[sm, H_WARP] = queue[sub, entry, Q_WARP]
        hand[sm, H_PC] = queue[sub, entry, Q_PC]
        hand[sm, H_ACCESS] = queue[sub, entry, Q_ACCESS]
        hand[sm, H_GROUP] = queue[sub, entry, Q_GROUP]
        hand[sm, H_MASK] = queue[sub, entry, Q_MASK]
        subs[sub, QUEUE_HEAD] = (entry + 1) % timing[QUEUE_ENTRIES]
        subs[sub, QUEUE_COUNT] -= 1
        if port_free[sub, op.QUEUE_PORT] == NEVER:
            port_free[sub, op.QUEUE_PORT] = now
            if now < subs_next[sub]:
                subs_next[sub] = now
        sms[sm, QUEUE_TURN] = (turn + 1) % n
        return True
    return False


@inner
def resolve_space(space, addresses, mask, timing):
    """The space that a generic access means, by its first active lane's address."""
    if space != GENERIC:
        return space
    for lane in range(32):
        if (mask >> lane) & 1:
            window = addresses[lane] >> WINDOW_SHIFT
            if window == timing[SHARED_WINDOW]:
                return SHARED
            if window == timing[LOCAL_WINDOW]:
                return LOCAL
            break
    return GLOBAL


@inlined
def take_request(hand, lines, program, warps, accesses, scattered, timing, scratch, sm):
    """Work out space, lines, tag cycles and data cycles of the request in hand (see ``_work_out``)."""
    _work_out(hand, lines, program, warps, accesses, scattered, timing, scratch, sm)
    if timing[CONFLICT_FREE]:
        least = max(1, program[hand[sm, H_PC], op.BYTES] // 4)
        hand[sm, H_DATA_CYCLES] = min(hand[sm, H_DATA_CYCLES], least)
    if timing[ONE_LOOKUP]:
        hand[sm, H_TAG_CYCLES] = min(hand[sm, H_TAG_CYCLES], 1)


@inlined
def _work_out(hand, lines, program, warps, accesses, scattered, timing, scratch, sm):
    """Space, lines, tag cycles and data cycles of the request in hand, bank conflicts included.

    ``lines`` int64[sms, LINES_MAX, 4]; ``scratch`` int64[5, LINES_MAX]: addresses, words, links, bank heads,
    tag banks.
    """
    warp = hand[sm, H_WARP]
    pc = hand[sm, H_PC]
    access = hand[sm, H_ACCESS]
    hand[sm, H_LINES] = 0
    hand[sm, H_TAG_CYCLES] = 0
    hand[sm, H_DATA_CYCLES] = 0
    space = program[pc, op.SPACE]
    hand[sm, H_SPACE] = space
    records = program[pc, op.RECORDS]
    if records == 0:
        if program[pc, op.IS_SHUFFLE]:
            hand[sm, H_DATA_CYCLES] = 1
        return
    kind = program[pc, op.KIND]
    width = program[pc, op.BYTES]
    addresses = scratch[0]
    stride = accesses[access, 1]
    mask = accesses[access, 2] & hand[sm, H_MASK]
    hand[sm, H_MASK] = mask
    if mask == 0:
        return
    if stride == width and mask == ALL_LANES and space == GLOBAL and kind < ATOMIC:
        start = accesses[access, 0]
        n = coalesce_span(start, start + 32 * width, lines, sm)
        hand[sm, H_LINES] = n
        hand[sm, H_DATA_CYCLES] = max(1, width // 4)
        hand[sm, H_TAG_CYCLES] = tag_wavefronts(lines, sm, n, timing[TAG_BANKS], scratch[4])
        return
    lane_addresses(accesses, access, scattered, ALL_LANES, addresses)
    space = resolve_space(space, addresses, mask, timing)
    hand[sm, H_SPACE] = space
    banks = timing[DATA_BANKS]
    if space == SHARED:
        if kind == ATOMIC or kind == REDUCTION:
            hand[sm, H_DATA_CYCLES] = atomic_wavefronts(addresses, mask, width, banks, scratch[3])
        else:
            hand[sm, H_DATA_CYCLES] = data_wavefronts(addresses, mask, width, banks, scratch[1], scratch[3], scratch[2])
        return
    n = 0
    if space == LOCAL:
        n = _local_lines(addresses, mask, width, warps[warp, LOCAL_BASE], lines, hand, sm, banks, scratch)
    else:
        n = coalesce_lanes(addresses, mask, width, lines, sm, 0)
        hand[sm, H_DATA_CYCLES] = data_wavefronts(addresses, mask, width, banks, scratch[1], scratch[3], scratch[2])
        if kind == ATOMIC or kind == REDUCTION:
            count_operations(addresses, mask, lines, sm, n)
    hand[sm, H_LINES] = n
    hand[sm, H_TAG_CYCLES] = tag_wavefronts(lines, sm, n, timing[TAG_BANKS], scratch[4])
    if kind == ASYNC_COPY and records > 1:
        mask = accesses[access + 1, 2] & mask
        lane_addresses(accesses, access + 1, scattered, ALL_LANES, addresses)
        hand[sm, H_DATA_CYCLES] = data_wavefronts(addresses, mask, width, banks, scratch[1], scratch[3], scratch[2])


@inner
def _local_lines(addresses, mask, width, base, lines, hand, sm, banks, scratch):
    """Lines of a local access: word w of lane l lies at ``base + w * 128 + l * 4``, so that lanes that use
    the same offset share lines. Returns the count and sets the data cycles."""
    words = max(1, width // 4)
    part = min(width, 4)
    for lane in range(32):
        offset = addresses[lane] & ((1 << WINDOW_SHIFT) - 1)
        addresses[lane] = base + (offset >> 2) * 128 + lane * 4 + (offset & 3)
    n = 0
    cycles = 0
    for _ in range(words):
        n = coalesce_lanes(addresses, mask, part, lines, sm, n)
        cycles += data_wavefronts(addresses, mask, part, banks, scratch[1], scratch[3], scratch[2])
        for lane in range(32):
            addresses[lane] += 128
    hand[sm, H_DATA_CYCLES] = cycles
    return n


@inner
def occupy_stages(sms, hand, timing, sm, now):
    """Book tag and data stage for the request in hand, taken in cycle ``now``.

    Returns (cycle of the first tag lookup, cycle in which the last pass is read).
    """
    tag_start = max(now, sms[sm, TAG_FREE])
    tag_cycles = hand[sm, H_TAG_CYCLES]
    if tag_cycles:
        sms[sm, TAG_FREE] = tag_start + tag_cycles
    else:
        tag_start = now
    data_end = tag_start
    data_cycles = hand[sm, H_DATA_CYCLES]
    if data_cycles:
        data_start = max(tag_start, sms[sm, DATA_FREE])
        sms[sm, DATA_FREE] = data_start + data_cycles
        data_end = data_start + data_cycles - 1
    sms[sm, QUEUE_FREE] = max(
        now + timing[ACCEPT_INTERVAL], max(sms[sm, TAG_FREE], sms[sm, DATA_FREE] - timing[TAG_LEAD])
    )
    return tag_start, data_end


@inner
def next_request_cycle(queue, subs, sms, timing, sm):
    """When the back end can take the next waiting request; NEVER if none waits."""
    first = NEVER
    for sub in range(sm * timing[SUB_CORES], (sm + 1) * timing[SUB_CORES]):
        if subs[sub, QUEUE_COUNT]:
            first = min(first, max(queue[sub, subs[sub, QUEUE_HEAD], Q_READY], subs[sub, ADDRESS_FREE]))
    return first if first == NEVER else max(first, sms[sm, QUEUE_FREE])
