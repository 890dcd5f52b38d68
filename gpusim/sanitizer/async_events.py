"""Goes through the events of clusters in their order: each by what it is, with the clocks of the agent that it belongs
to."""

from __future__ import annotations

import numpy as np

from gpusim.isa import event_table as table
from gpusim.isa import tensor_memory_ops as tensor
from gpusim.isa import warp as at
from gpusim.isa.jit import apart, inner
from gpusim.sanitizer.async_clocks import acquire, fence, release, settle, step, tell, turn_over
from gpusim.sanitizer.async_copies import begins_copy, close_copies, forget_copies, uses_copied, wait_copies
from gpusim.sanitizer.async_ends import block_ends
from gpusim.sanitizer.async_jit import compiled
from gpusim.sanitizer.async_objects import complete, count_bytes, initialise, invalidate, operate, used
from gpusim.sanitizer.async_products import group_product, tensor_product
from gpusim.sanitizer.async_races import touch, written
from gpusim.sanitizer.async_shared import copied, fills, generic, note_read, reads_async
from gpusim.sanitizer.async_tables import (
    ADDRESS,
    AGENTS,
    BARRIER_ROWS,
    BLOCKS,
    BYTES_TOO_FEW,
    CAME,
    CLOSE_BULK,
    CLOSE_COPIES,
    CLOSES,
    CLUSTER_LANES,
    CLUSTER_ROW,
    CLUSTER_TURN,
    CLUSTER_X,
    CLUSTER_Y,
    CLUSTER_Z,
    COMMIT,
    COPIES,
    COPY_COPIED,
    COPY_GROUPS,
    COPY_READ,
    COPY_WORDS,
    EXPECT_AGENT,
    EXPECT_CODE,
    FENCE,
    FLAG_ROW,
    FORM,
    GRANULE,
    GRID_X,
    GRID_Y,
    GROUPS,
    INIT,
    INVALIDATE,
    LANE_COPIES,
    LANES,
    LEFT,
    LEVEL,
    LIVE,
    MOST_GROUPS,
    PENDING,
    PHASE,
    PRODUCT_DONE,
    PRODUCT_GROUPS,
    PRODUCTS,
    READ_COPIED,
    READ_OUT,
    READS,
    RELINQUISH,
    RELINQUISHED,
    ROLE,
    SHARED_BASE,
    SIZE,
    STORED,
    TELLS,
    TELLS_NAMED,
    TELLS_PAIRS,
    TENSOR_DONE,
    TENSOR_WORK,
    WAIT_BULK,
    WAIT_PRODUCTS,
    WAIT_STORED,
    WAITING,
    WARPS,
    WRITE_COPIED,
    WRITES,
)  # fmt: skip
from gpusim.sanitizer.async_tensor import product_columns, tensor_memory
from gpusim.trace.layout import RANK_SHIFT

_OFFSET = (1 << RANK_SHIFT) - 1


@inner
def _home(m, block):
    """(cluster, rank) of a block of the grid."""
    f = m.facts
    x, y, z = block % f[GRID_X], block // f[GRID_X] % f[GRID_Y], block // (f[GRID_X] * f[GRID_Y])
    cluster = x // f[CLUSTER_X] + f[GRID_X] // f[CLUSTER_X] * (
        y // f[CLUSTER_Y] + f[GRID_Y] // f[CLUSTER_Y] * (z // f[CLUSTER_Z])
    )
    rank = x % f[CLUSTER_X] + f[CLUSTER_X] * (y % f[CLUSTER_Y] + f[CLUSTER_Y] * (z % f[CLUSTER_Z]))
    return np.int64(cluster), np.int64(rank)


@inner
def _slot(m, cluster):
    """The slot of a cluster, a fresh one where it begins; -1 if there is none left."""
    free = np.int64(-1)
    for s in range(len(m.clusters)):
        if m.clusters[s] == cluster:
            return np.int64(s)
        if m.clusters[s] < 0:
            free = np.int64(s)
    if free >= 0:
        m.clusters[free] = cluster
        m.clock[free, :, :] = 0
        m.turns[free, :] = -1
        m.agents[free, :, :] = 0
        m.objects[free, :, :] = 0
        m.object_count[free] = 0
        m.waits[free, :, :] = 0
        m.shared[free, :, :, :] = 0
        m.touched[free, :, :, :] = 0
        m.copying[free, :, :, :] = 0
        m.tensor[free, :, :, :, :] = 0
        m.blocks[free, :, :] = 0
        for agent in range(m.facts[AGENTS]):
            m.clock[free, agent, agent] = 1
        for rank in range(m.facts[BLOCKS]):
            m.blocks[free, rank, LEFT] = m.facts[WARPS]
    return free


@inner
def _bulk(m, s, agent, code, place, size, blocks, barrier, told, source):
    """A bulk copy: into shared memory it tells an mbarrier of each block, out of it it belongs to a group."""
    if size == 0 or blocks == 0:
        return
    if barrier < 0:
        m.agents[s, agent, COPIES] += 1
        uses_copied(m, s, agent, code, place, size, READ_COPIED)
        reads_async(m, s, agent, code, place, size, False)
        note_read(m, s, place, size, np.int64(COPY_READ), agent, m.agents[s, agent, COPIES], code)
        return
    if source >= 0:
        reads_async(m, s, agent, code, source | agent // m.facts[WARPS] << RANK_SHIFT, size, False)
    for rank in range(m.facts[BLOCKS]):
        if blocks >> rank & 1:
            written(m, s, place & _OFFSET | np.int64(rank) << RANK_SHIFT, size)
            at_rank, tells = np.int64(rank), m.code[code, TELLS]
            if tells == TELLS_NAMED:
                at_rank = barrier >> RANK_SHIFT & 0xFF
            elif tells == TELLS_PAIRS:
                at_rank = rank & ~1 | barrier >> RANK_SHIFT & 1
            held = used(m, s, agent, code, barrier & _OFFSET | at_rank << RANK_SHIFT)
            if held >= 0:
                if size >= GRANULE:  # stores of less do not fill a granule
                    to, phase = place & _OFFSET | np.int64(rank) << RANK_SHIFT, m.objects[s, held, PHASE]
                    uses_copied(m, s, agent, code, to, size, WRITE_COPIED)
                    forget_copies(m, s, to, size)
                    fills(m, s, agent, code, to, size, held, phase, m.code[code, READS] == 0)
                count_bytes(m, s, held, agent, code, -told)
                complete(m, s, held, agent, code)


@inner
def _step(m, s, agent, code, role, place):
    """Instructions that move nothing."""
    a, clock, f, level = m.agents[s, agent], m.clock[s, agent], m.facts, m.code[code, LEVEL]
    if role == FENCE:
        fence(m, s, agent)
    elif role == CLOSE_BULK:
        m.copy_ends[s, agent, a[COPY_GROUPS] % MOST_GROUPS] = a[COPIES]
        a[COPY_GROUPS] += 1
    elif role == CLOSE_COPIES:
        close_copies(m, s, agent)
    elif role == WAIT_BULK:
        wait_copies(m, s, agent, level)  # one instruction for both
        if level < a[COPY_GROUPS] and level < MOST_GROUPS:
            done = m.copy_ends[s, agent, (a[COPY_GROUPS] - level - 1) % MOST_GROUPS]
            clock[f[READ_OUT] + agent] = max(clock[f[READ_OUT] + agent], done)
    elif role == WAIT_PRODUCTS:
        if level < a[PRODUCT_GROUPS] and level < MOST_GROUPS:
            at_group = f[PRODUCT_DONE] + agent // f[WARPS] * f[GROUPS] + agent % f[WARPS] // at.PRODUCT_WARPS
            done = m.product_ends[s, agent, (a[PRODUCT_GROUPS] - level - 1) % MOST_GROUPS]
            clock[at_group] = max(clock[at_group], done)
    elif role == INVALIDATE:
        invalidate(m, s, place)
    elif role == WAIT_STORED:
        clock[f[STORED] + agent] = clock[agent]
        step(m, s, agent)
    elif role == RELINQUISH:
        m.blocks[s, agent // f[WARPS], RELINQUISHED] = code + 1


@inner
def _ended(m, s, agent, rank):
    """A warp has ended; with its last one the block, and with its last block the cluster."""
    m.blocks[s, rank, LEFT] -= 1
    if m.blocks[s, rank, LEFT]:
        return
    block_ends(m, s, agent, rank)
    left = np.int64(0)
    for other in range(m.facts[BLOCKS]):
        left += m.blocks[s, other, LEFT]
    for held in range(m.object_count[s]):
        o = m.objects[s, held]
        # A phase that expects bytes of which none has come is one that was prepared and not needed: pipelines end so.
        if o[ADDRESS] >> RANK_SHIFT == rank and o[LIVE] and o[PENDING] > 0 and o[CAME] > 0:
            place = (o[ADDRESS] & _OFFSET) - m.facts[SHARED_BASE]
            tell(
                m,
                s,
                BYTES_TOO_FEW,
                o[EXPECT_AGENT] - 1,
                o[EXPECT_CODE],
                np.int64(-1),
                np.int64(-1),
                place,
                o[PENDING],
                o[PHASE],
            )
    if left == 0:
        m.clusters[s] = -1


@apart
def _one(m, s, e, agent, rank):
    code, kind, mask, f = e[table.EVENT_INDEX], e[table.EVENT_KIND], e[table.EVENT_MASK], m.facts
    a, b, c = e[table.EVENT_A], e[table.EVENT_B], e[table.EVENT_C]
    settle(m, s, agent)
    if kind == table.WATCH_SHARED:
        size, reads, writes = m.code[code, SIZE], m.code[code, READS] != 0, m.code[code, WRITES] != 0
        if reads and writes:  # an atomic may be how warps wait for each other
            acquire(m, s, agent, f[FLAG_ROW])
        for lane in range(at.LANES):
            if mask >> lane & 1:
                if f[COPY_WORDS]:
                    uses_copied(m, s, agent, code, a + b * lane, size, WRITE_COPIED if writes else READ_COPIED)
                generic(m, s, agent, code, a + b * lane, size, reads, writes)
                touch(m, s, agent, code, a + b * lane, size, reads, writes, c, e[table.EVENT_D], e[table.EVENT_E])
        if reads and writes:
            release(m, s, agent, f[FLAG_ROW])
    elif kind == table.WATCH_COPY:
        m.agents[s, agent, LANE_COPIES] += 1
        for lane in range(at.LANES):
            if mask >> lane & 1:
                uses_copied(m, s, agent, code, a + b * lane, m.code[code, SIZE], COPY_COPIED)
                copied(m, s, agent, code, a + b * lane, m.code[code, SIZE])
                touch(
                    m,
                    s,
                    agent,
                    code,
                    a + b * lane,
                    m.code[code, SIZE],
                    False,
                    True,
                    np.int64(0),
                    np.int64(0),
                    np.int64(0),
                )
        for lane in range(at.LANES):  # lanes of one instruction do not meet each other
            if mask >> lane & 1:
                begins_copy(m, s, agent, code, a + b * lane, m.code[code, SIZE])
    elif kind == table.WATCH_ORDER:
        acquire(m, s, agent, f[FLAG_ROW])
        release(m, s, agent, f[FLAG_ROW])
    elif kind == table.WATCH_OBJECT:
        if m.code[code, ROLE] == INIT:
            written(m, s, a, np.int64(8))
            initialise(m, s, agent, code, a, c, e[table.EVENT_D])
            return
        if m.code[code, ROLE] == COMMIT:
            place = f[TENSOR_DONE] + agent
            before = m.clock[s, agent, place]  # who commits knows no sooner than others: it has to wait as they do
            m.clock[s, agent, place] = max(before, m.agents[s, agent, TENSOR_WORK])
            operate(m, s, agent, code, a, b, np.int64(1))
            m.clock[s, agent, place] = before
            return
        operate(m, s, agent, code, a, b, c)
    elif kind == table.EVENT_INIT:
        initialise(m, s, agent, code, a, c, e[table.EVENT_D])
    elif kind == table.WATCH_BULK or kind == table.WATCH_STORE:
        source = e[table.EVENT_F] if kind == table.WATCH_BULK else np.int64(-1)
        _bulk(m, s, agent, code, a, b, c, e[table.EVENT_D], e[table.EVENT_E], source)
    elif kind == table.WATCH_PRODUCT:
        group_product(m, s, agent, code, a, b)
        if m.code[code, FORM] & CLOSES:
            held = m.agents[s, agent]
            m.product_ends[s, agent, held[PRODUCT_GROUPS] % MOST_GROUPS] = held[PRODUCTS]
            held[PRODUCT_GROUPS] += 1
    elif kind == table.WATCH_TENSOR:
        d, last, flags = e[table.EVENT_D], e[table.EVENT_E], e[table.EVENT_F]
        if a == tensor.PRODUCT:
            tensor_product(m, s, agent, code, c, d, last, flags)
            product_columns(m, s, agent, code, c, b, last, flags, m.agents[s, agent, TENSOR_WORK])
        else:
            tensor_memory(m, s, agent, code, a, b, c, d, last)
    elif kind == table.WATCH_STEP:
        _step(m, s, agent, code, m.code[code, ROLE], a)
    elif kind == table.EVENT_BARRIER:
        row = f[BARRIER_ROWS] + rank * at.BLOCK_BARRIERS + a
        turn_over(m, s, row, b)
        release(m, s, agent, row)
        if c:
            m.agents[s, agent, WAITING] = row + 1
    elif kind == table.EVENT_CLUSTER_ARRIVE:
        held = m.agents[s, agent]
        if held[CLUSTER_LANES] & mask:
            held[CLUSTER_LANES] = 0
            held[CLUSTER_TURN] += 1
        held[CLUSTER_LANES] |= mask
        if held[CLUSTER_TURN] > m.turns[s, f[CLUSTER_ROW]]:
            turn_over(m, s, f[CLUSTER_ROW], held[CLUSTER_TURN])
        release(m, s, agent, f[CLUSTER_ROW])
    elif kind == table.EVENT_CLUSTER_WAIT:
        m.agents[s, agent, WAITING] = f[CLUSTER_ROW] + 1
    elif kind == table.EVENT_EXIT:
        held = m.agents[s, agent]
        held[LANES] &= ~mask
        if held[LANES] == 0:
            _ended(m, s, agent, rank)


@compiled
def check_events(m, events, exists, first):
    """Go through ``events`` from number ``first`` on; the number of the first one for whose cluster there is no slot,
    or of events. ``exists`` int64[warps]: lanes that the launch gives each warp."""
    for n in range(first, len(events)):
        e = events[n]
        cluster, rank = _home(m, e[table.EVENT_BLOCK])
        s = _slot(m, cluster)
        if s < 0:
            return n
        agent = rank * m.facts[WARPS] + e[table.EVENT_WARP]
        if m.agents[s, agent, LANES] == 0:
            m.agents[s, agent, LANES] = exists[e[table.EVENT_WARP]]
        _one(m, s, e, agent, rank)
    return len(events)
