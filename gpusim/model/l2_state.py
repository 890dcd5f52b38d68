"""What the L2 is made of: its rates, its servers, the nodes and events that travel through it.

Mental model: a *node* is one row of integers that follows a request (or the question that one
partition asks the other) from stage to stage; it is owned by exactly one of: the event heap, the
waiting list of a slot, the free list. :mod:`gpusim.model.l2` moves nodes; this file only holds them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from gpusim.model.address_hash import set_of, slice_of
from gpusim.model.event_heap import push
from gpusim.model.l2_tags import Tags, drop_sectors

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
    NEXT,  # next waiter of the same slot, or next free node
    STAGE,
) = range(11)
NODE_COLUMNS = 11

# Stages: where in its life a node is when its event comes up.
ARRIVED, FAR_READ, FAR_WRITE, FAR_ATOMIC, NEAR_FILL = range(5)

# Scalars of the state.
FREE_NODE, HEAP_SIZE, BIRTHS, LAST_TICK, RESPONSES, DRAM_REQUESTS, OUTSTANDING = range(7)
SCALARS = 7

# Counters, in sectors unless the name says otherwise.
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
    BUSY_TICKS,
    EVICTED_SECTORS,
) = range(11)
COUNTERS = 11


class L2Rates(NamedTuple):
    """Frozen scalars of the L2: counts, and times in ticks."""

    partitions: int
    slices: int  # of all partitions
    sets: int  # of a slice
    channels: int
    line_bytes: int
    sector_bytes: int
    line_sectors: int
    fetch_sectors: int
    tag: int  # a slice's port, a lookup
    hit: int  # lookup to data
    response: int  # slice to SM
    far: int  # partition to partition, one way
    far_miss: int  # added when the far partition must ask DRAM
    to_dram: int  # slice to channel
    atomic: int  # one operation on one word
    retry: int  # a set whose every way waits is tried again after


class L2State(NamedTuple):
    """Everything that changes: tags, the slices' servers, nodes and events, outgoing messages."""

    tags: Tags
    read_ticks: np.ndarray  # int64[sectors + 1]: port time of n sectors, read
    write_ticks: np.ndarray  # the same, written
    lane_ticks: np.ndarray  # the same, on a slice's lane of the link
    slice_free: np.ndarray  # int64[slices]: partition-major
    lane_free: np.ndarray  # int64[slices]: lane into this slice
    atomic_free: np.ndarray  # int64[slices]
    nodes: np.ndarray  # int64[n, NODE_COLUMNS]
    heap: np.ndarray  # int64[n, 3]
    scalars: np.ndarray  # int64[SCALARS]
    counters: np.ndarray  # int64[COUNTERS]
    responses: np.ndarray  # RESPONSE[...]
    dram: np.ndarray  # DRAM_REQUEST[...]


@njit(cache=True)
def slice_index_of(p: L2Rates, partition: int, line: int) -> int:
    return partition * (p.slices // p.partitions) + slice_of(line, p.slices) // p.partitions


@njit(cache=True)
def row_index(p: L2Rates, slice_index: int, line: int) -> int:
    return slice_index * p.sets + set_of(line, p.slices, p.sets)


@njit(cache=True)
def home_partition(p: L2Rates, line: int) -> int:
    return slice_of(line, p.slices) % p.partitions


@njit(cache=True)
def new_node(s: L2State) -> int:
    """Take a node from the free list (the caller of ``handle_until`` made room)."""
    node = s.scalars[FREE_NODE]
    s.scalars[FREE_NODE] = s.nodes[node, NEXT]
    return node


@njit(cache=True)
def drop_node(s: L2State, node: int) -> None:
    s.nodes[node, NEXT] = s.scalars[FREE_NODE]
    s.scalars[FREE_NODE] = node


@njit(cache=True)
def schedule(s: L2State, time: int, node: int, stage: int) -> None:
    s.nodes[node, STAGE] = stage
    s.scalars[BIRTHS] += 1
    s.scalars[HEAP_SIZE] = push(s.heap, s.scalars[HEAP_SIZE], time, s.scalars[BIRTHS], node)


@njit(cache=True)
def spoil_copies(p: L2Rates, s: L2State, home: int, line: int, sectors: int) -> None:
    """``home`` has newer data: copies in other partitions are no longer valid."""
    for partition in range(p.partitions):
        if partition != home:
            drop_sectors(s.tags, row_index(p, slice_index_of(p, partition, line), line), line, sectors)
