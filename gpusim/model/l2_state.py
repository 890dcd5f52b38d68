"""What the L2 is made of: its rates, its servers, the nodes and events that travel through it.

Mental model: a *node* is one row of integers that follows a request (or the question that one
partition asks the other) from stage to stage; it is owned by exactly one of: the event heap, the
waiting list of a slot, the list of nodes that a slice blocks, the free list.
:mod:`gpusim.model.l2` moves nodes; this file only holds them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.model.address_hash import Layout, local_slice_of, partition_of, set_of
from gpusim.model.compiled import inner
from gpusim.model.event_heap import make_key, push
from gpusim.model.l2_tags import Tags, drop_sectors
from gpusim.model.prefetch import prefetch

# Columns of a node: one request, or one internal event, on its way through the L2.
(
    LINE,
    SM,
    TAG,
    KIND,
    SECTORS,
    LEFT,  # sectors that a waiter still waits for
    BYTES,
    OPERATIONS,
    SLOT,  # the near slot that a far read fills
    NEAR,  # slice of the line in the requester's partition, counted over all partitions
    HOME,  # slice of the line in its home partition
    SET,
    NEXT,  # next waiter of the same slot, or next free node
    STAGE,
) = range(14)
NODE_COLUMNS = 14

# Stages: where in its life a node is when its event comes up.
ARRIVED, FAR_READ, FAR_WRITE, FAR_ATOMIC, NEAR_FILL, TRANSLATED = range(6)

# Scalars of the state.
FREE_NODE, HEAP_SIZE, BIRTHS, LAST_TICK, RESPONSES, DRAM_REQUESTS, OUTSTANDING, USES = range(8)

# Counters among the scalars, in sectors unless the name says otherwise.
(
    READ_SECTORS,
    WRITE_SECTORS,
    ATOMIC_SECTORS,
    REDUCTION_SECTORS,
    HIT_SECTORS,
    MISS_SECTORS,
    FAR_SECTORS,
    REQUESTS,
    SET_STALLS,
    WRITE_STALLS,
    BUSY_TICKS,
    EVICTED_SECTORS,
    TLB_MISSES,
    TRANSLATIONS,  # warming ones too: the clock of the TLBs
) = range(8, 22)
#: Nodes that have ever been taken: the free list begins empty, so that only nodes in use are ever touched.
NODES_USED = 22
SCALARS = 23

# Columns of a slice's servers: the tick at which each is free, and who waits for what.
(
    TAG_FREE,  # lookups
    PORT_FREE,  # data to and from its SMs
    LANE_FREE,  # data from the other partition into this slice
    UNIT_FREE,  # atomics
    WRITE_ROOM,  # dirty lines that may yet be evicted
    FIRST_BLOCKED,  # nodes that wait for write room, or -1
    LAST_BLOCKED,
) = range(7)
SERVERS = 7

# Rows of the costs: ticks that n sectors take.
READ_COST, WRITE_COST, LANE_COST = range(3)


class L2Rates(NamedTuple):
    """Frozen scalars of the L2: counts, and times in ticks."""

    layout: Layout  # where lines live
    partitions: int
    slices_per_partition: int
    sets: int  # of a slice
    ways: int
    channels: int
    line_bytes: int
    sector_bytes: int
    line_sectors: int
    fetch_sectors: int  # asked of DRAM at a time
    near_sectors: int  # asked of the far partition at a time
    tag: int  # a slice's port, a lookup
    hit: int  # lookup to data
    response: int  # slice to SM
    far: int  # partition to partition, one way
    far_miss: int  # added when the far partition must ask DRAM
    to_dram: int  # slice to channel
    atomic: int  # one operation on one word
    retry: int  # a set whose every way waits is tried again after
    page_shift: int  # log2 of a page's bytes
    tlb_miss: int  # added to a request whose page the SM does not remember; 0 = no TLB


class L2State(NamedTuple):
    """Everything that changes: tags, the slices' servers, nodes and events, outgoing messages."""

    tags: Tags
    pages: np.ndarray  # int64[sms, sets, 2 * ways], see gpusim.model.tlb
    costs: np.ndarray  # int64[3, sectors + 1]
    servers: np.ndarray  # int64[slices, SERVERS]: partition-major
    nodes: np.ndarray  # int64[n, NODE_COLUMNS]
    heap: np.ndarray  # int64[2, n]: keys, nodes
    scalars: np.ndarray  # int64[SCALARS]
    responses: np.ndarray  # RESPONSE[...]
    dram: np.ndarray  # DRAM_REQUEST[...]


@inner
def first_slot(p: L2Rates, slice_index: int, set_index: int) -> int:
    """The first slot of a set of a slice (counted over all partitions)."""
    return (slice_index * p.sets + set_index) * p.ways


@inner
def place(p: L2Rates, s: L2State, node: int, line: int, near: int) -> None:
    """Note in the node where its line lives, seen from partition ``near``."""
    local = local_slice_of(line, p.layout)
    s.nodes[node, LINE] = line
    s.nodes[node, SET] = set_of(line, p.layout, p.sets)
    s.nodes[node, NEAR] = near * p.slices_per_partition + local
    s.nodes[node, HOME] = partition_of(line, p.layout) * p.slices_per_partition + local


@inner
def new_node(s: L2State) -> int:
    """Take a node from the free list (the caller of ``handle_until`` made room)."""
    node = s.scalars[FREE_NODE]
    if node < 0:
        node = s.scalars[NODES_USED]
        s.scalars[NODES_USED] = node + 1
        return node
    following = s.nodes[node, NEXT]
    s.scalars[FREE_NODE] = following
    if following >= 0:
        prefetch(s.nodes, (following, NEXT))
    return node


@inner
def drop_node(s: L2State, node: int) -> None:
    s.nodes[node, NEXT] = s.scalars[FREE_NODE]
    s.scalars[FREE_NODE] = node


@inner
def block(s: L2State, slice_index: int, node: int) -> None:
    """Let the node wait, in order, until the slice may evict a dirty line."""
    s.nodes[node, NEXT] = -1
    if s.servers[slice_index, FIRST_BLOCKED] < 0:
        s.servers[slice_index, FIRST_BLOCKED] = node
    else:
        s.nodes[s.servers[slice_index, LAST_BLOCKED], NEXT] = node
    s.servers[slice_index, LAST_BLOCKED] = node


@inner
def schedule(s: L2State, time: int, node: int) -> None:
    """Let the node's STAGE come up at tick ``time``."""
    s.scalars[BIRTHS] += 1
    key = make_key(time, s.scalars[BIRTHS])
    s.scalars[HEAP_SIZE] = push(s.heap, s.scalars[HEAP_SIZE], key, node)


@inner
def unblock(s: L2State, slice_index: int, time: int) -> None:
    """If a dirty line may be evicted again, let the node that has waited longest try once more; its
    own claim then lets the next one try."""
    node = s.servers[slice_index, FIRST_BLOCKED]
    if node >= 0 and s.servers[slice_index, WRITE_ROOM] > 0:
        s.servers[slice_index, FIRST_BLOCKED] = s.nodes[node, NEXT]
        schedule(s, time, node)


@inner
def spoil_copies(p: L2Rates, s: L2State, home: int, set_index: int, line: int, sectors: int) -> None:
    """Home slice ``home`` has newer data: copies in other partitions are no longer valid."""
    local = home % p.slices_per_partition
    for partition in range(p.partitions):
        mirror = partition * p.slices_per_partition + local
        if mirror != home:
            drop_sectors(s.tags, first_slot(p, mirror, set_index), p.ways, line, sectors)
