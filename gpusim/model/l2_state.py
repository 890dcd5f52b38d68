"""What the L2 is made of: its rates, its servers, the nodes and events that travel through it.

Mental model: a *node* is one row of integers that follows a request (or the question that one
partition asks the other) from stage to stage; it is owned by exactly one of: the event wheel or heap, the
waiting list of a slot, that of a merged read, the list of nodes that a slice blocks, the free list.
:mod:`gpusim.model.l2` moves nodes; this file only holds them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.model.address_hash import Layout, local_slice_of, partition_of, set_of
from gpusim.model.compiled import inlined, inner
from gpusim.model.crossbar import gpc_of_sm, partition_of_sm
from gpusim.model.event_heap import make_key, pop, push, time_of
from gpusim.model.event_wheel import WHEEL_TICKS, is_marked, mark, next_marked, place_at, unmark
from gpusim.model.l2_tags import Tags, drop_sectors
from gpusim.model.messages import NEVER
from gpusim.model.prefetch import prefetch
from gpusim.model.tlb import set_of_page
from gpusim.model.whole_division import quotient, remainder
from gpusim.state_tables import Table

# A row is one cache line of the host.
NODE_TABLE = Table(
    __name__,
    "nodes",
    "a node",
    "One request, or one internal event, on its way through the L2.",
    np.int32,
    whole_lines=True,
)
NEXT = NODE_TABLE.column("link", "next waiter of the same slot, next event of the same tick, or next free node")
LEFT = NODE_TABLE.column("mask", "sectors that a waiter still waits for")
STAGE = NODE_TABLE.column("code", "what its next event is, see below")
KIND = NODE_TABLE.column("code", "READ, WRITE, ATOMIC or REDUCTION")
SECTORS = NODE_TABLE.column("mask", "that it is about")
NEAR = NODE_TABLE.column("index", "slice of the line in the requester's partition, counted over all partitions")
SM = NODE_TABLE.column("index", "the SM that asked")
TAG = NODE_TABLE.column("index", "of its request")
SIGNAL = NODE_TABLE.column("index", "1 + first row of ``tables.signals`` of its access; 0: none")
LINE = NODE_TABLE.column("packed", "its line, byte address over 128: the lower LINE_BITS bits, and those above", span=2)
SET = NODE_TABLE.column("index", "of the line")
HOME = NODE_TABLE.column("index", "slice of the line in its home partition")
AMOUNT = NODE_TABLE.column("count", "bytes written; of others passes of an atomic, see gpusim.model.coalescer")
SLOT = NODE_TABLE.column("index", "the near slot that a far read fills")
MERGED = NODE_TABLE.column("index", "row of ``merged`` in which its line is followed")
#: Of the lower part of LINE.
LINE_BITS = 31

#: Lines of a group of SMs that are followed at a time as their reads are merged. A guess: more than its SMs ever have
#: under way.
MERGE_ROWS = 4096

# Stages: where in its life a node is when its event comes up.
ARRIVED, FAR_READ, FAR_WRITE, FAR_ATOMIC, NEAR_FILL, TRANSLATED = range(6)

SCALAR_TABLE = Table(__name__, "scalars", "", "The L2's single numbers and counters.")
FREE_NODE = SCALAR_TABLE.column("link", "first free node, or -1")
EVENTS = SCALAR_TABLE.column("count", "events that have not come up")
NEXT_EVENT = SCALAR_TABLE.column("tick", "of the first of them; NEVER: there is none")
DUE = SCALAR_TABLE.column("link", "node of the event that comes up next at the tick of the last one, or -1")
IN_WHEEL = SCALAR_TABLE.column("count", "events in the wheel")
HEAP_SIZE = SCALAR_TABLE.column("count", "events in the heap")
BIRTHS = SCALAR_TABLE.column("count", "events and DRAM requests so far")
LAST_TICK = SCALAR_TABLE.column("tick", "of the latest event")
RESPONSES = SCALAR_TABLE.column("count", "messages in ``responses``")
DRAM_REQUESTS = SCALAR_TABLE.column("count", "messages in ``dram``")
OUTSTANDING = SCALAR_TABLE.column("count", "requests not answered yet")
USES = SCALAR_TABLE.column("count", "of slots: the clock of the tags")
READ_SECTORS = SCALAR_TABLE.column("sectors", "that SMs read")
WRITE_SECTORS = SCALAR_TABLE.column("sectors", "that SMs wrote")
ATOMIC_SECTORS = SCALAR_TABLE.column("sectors", "of atomics")
REDUCTION_SECTORS = SCALAR_TABLE.column("sectors", "of reductions")
HIT_SECTORS = SCALAR_TABLE.column("sectors", "that were there")
MISS_SECTORS = SCALAR_TABLE.column("sectors", "that were not")
MERGED_SECTORS = SCALAR_TABLE.column("sectors", "that came with another SM's read of the line")
FAR_SECTORS = SCALAR_TABLE.column("sectors", "over the link between the partitions")
REQUESTS = SCALAR_TABLE.column("count", "from SMs")
SET_STALLS = SCALAR_TABLE.column("count", "claims put off since the whole set waited")
WRITE_STALLS = SCALAR_TABLE.column("count", "claims put off since no dirty line could be evicted")
BUSY_TICKS = SCALAR_TABLE.column("ticks", "of the slices' data ports")
EVICTED_SECTORS = SCALAR_TABLE.column("sectors", "dirty ones written to DRAM")
TLB_MISSES = SCALAR_TABLE.column("count", "requests whose page was looked up")
TRANSLATIONS = SCALAR_TABLE.column("count", "warming ones too: the clock of the TLBs")
NODES_USED = SCALAR_TABLE.column(
    "count", "nodes that have ever been taken: the free list begins empty, so that only nodes in use are touched"
)
ALONE = SCALAR_TABLE.column("flag", "no other part has work: it may run until an answer to what it sends could come")
RESPONSE_ANSWER = SCALAR_TABLE.column(
    "ticks", "from a response's arrival to that of the first request that it could cause"
)
DRAM_ANSWER = SCALAR_TABLE.column("ticks", "from a DRAM request's arrival to that of its data")
SCALARS = SCALAR_TABLE.width

SERVER_TABLE = Table(
    __name__, "servers", "a slice, partition by partition", "When each of its stages is free, and who waits."
)
TAG_FREE = SERVER_TABLE.column("tick", "from which it can look up")
PORT_FREE = SERVER_TABLE.column("tick", "from which data can move to and from its SMs")
IN_FREE = SERVER_TABLE.column("tick", "the same from the other partition into this slice")
LINK_FREE = SERVER_TABLE.column("tick part", "of row n: from which the link into partition n is free")
UNIT_FREE = SERVER_TABLE.column("tick", "from which its atomic unit is free")
UNIT_LINE = SERVER_TABLE.column("index", "1 + the line whose atomic its unit did last")
WRITE_ROOM = SERVER_TABLE.column("count", "dirty lines that may yet be evicted")
FIRST_BLOCKED = SERVER_TABLE.column("link", "node that has waited longest for write room, or -1")
LAST_BLOCKED = SERVER_TABLE.column("link", "the one that came last")
SERVERS = SERVER_TABLE.width

PLACE_TABLE = Table(__name__, "places", "a request of the window", "Where its line lives.")
P_LINE = PLACE_TABLE.column("index", "the line: byte address over 128")
P_SET = PLACE_TABLE.column("index", "of the line")
P_NEAR = PLACE_TABLE.column("index", "slice of the line in the requester's partition, counted over all partitions")
P_HOME = PLACE_TABLE.column("index", "slice of the line in its home partition")
P_MERGED = PLACE_TABLE.column("index", "row of ``merged`` in which the line is followed")
P_PAGES = PLACE_TABLE.column("index", "row of ``pages`` in which the SM's page is looked for")

COST_TABLE = Table(__name__, "costs", "n sectors, from 0 on", "What moving them takes.", columns_first=True)
READ_COST = COST_TABLE.column("ticks", "out of a slice's port")
WRITE_COST = COST_TABLE.column("ticks", "into it")
LINK_COST = COST_TABLE.column("tick parts", "over the link into a partition")
#: Parts of a tick in which the link counts: a sector takes it less than a tick where it is wide.
LINK_TICK_PARTS = 64


class L2Rates(NamedTuple):
    """Frozen scalars of the L2: counts, and times in ticks."""

    layout: Layout  # where lines live
    partitions: int
    slices_per_partition: int
    sets: int  # of a slice
    ways: int
    dirty_ways: int  # of a set that may hold what is newer than DRAM
    #: Uses in which every slot is used once. By so many a line's use by the far partition counts as older: that keeps a
    #: copy of its own. RRZE l2_read, read by both halves, falls from 0.7 of the L2's size on over half of it (A100,
    #: H200, H100 PCIe); with uses that are all alike it falls at 0.67 (0.5 to 0.75 of each half taken) and is lost at
    #: 0.75. A chase of one SM says nothing of it: each half then sees one kind of use.
    turn: int
    channels: int
    line_bytes: int
    sector_bytes: int
    line_sectors: int
    fetch_sectors: int  # asked of DRAM at a time
    near_sectors: int  # asked of the far partition at a time
    gpcs: int  # groups of SMs; 0: none
    merges: bool  # reads of a line that are under way for SMs of a group
    tag: int  # a slice's port, a lookup
    hit: int  # lookup to data
    response: int  # slice to SM
    far: int  # partition to partition, one way
    far_miss: int  # added when the far partition must ask DRAM
    to_dram: int  # slice to channel
    masked_writes: bool  # DRAM writes a part of a sector without reading the rest
    atomic: int  # a unit: each lane on the most contended word of a lone sector, each lane more of several
    atomic_sector: int  # a unit: each sector of several
    atomic_float: int  # a unit: a floating-point add to the next one on the same word
    retry: int  # a set whose every way waits is tried again after
    page_shift: int  # log2 of a page's bytes
    tlb_miss: int  # added to a request whose page the SM does not remember; 0 = no TLB


class L2State(NamedTuple):
    """Everything that changes: tags, the slices' servers, nodes and events, outgoing messages."""

    tags: Tags
    pages: np.ndarray  # int64[sms, sets, 2 * ways], see gpusim.model.tlb
    costs: np.ndarray  # int64[3, sectors + 1]
    servers: np.ndarray  # int64[slices, SERVERS]: partition-major
    nodes: np.ndarray  # int32[n, columns]
    places: np.ndarray  # int64[n, columns]: of the requests that are handed over
    merged: np.ndarray  # int64[groups * MERGE_ROWS, columns], see gpusim.model.l2_merging
    wheel: np.ndarray  # int32[WHEEL_TICKS], see gpusim.model.event_wheel
    marks: np.ndarray  # uint32[MARK_WORDS]
    heap: np.ndarray  # int64[2, n]: keys, nodes of the events behind the wheel's reach
    scalars: np.ndarray  # int64[SCALARS]
    responses: np.ndarray  # RESPONSE[...]
    dram: np.ndarray  # DRAM_REQUEST[...]
    signals: np.ndarray  # ``tables.signals`` of the launch
    written: np.ndarray  # int64[words]: writes so far of each word that warps poll
    sm_ways: np.ndarray  # int64[SMs + 1]: ticks, see gpusim.model.crossbar
    slice_ways: np.ndarray  # int64[slices]


#: What one request may cause at most: nodes that it holds, DRAM messages on its way.
_NODES_PER_REQUEST, _DRAM_PER_EVENT = 2, 5


def room_needed(outstanding: int, events: int, requests: int, fills: int) -> tuple[int, int, int]:
    """Rows of ``nodes``, of ``responses`` and of ``dram`` that a window needs at most, in which so many requests and
    fills come, while so many requests are unanswered and so many events in the heap."""
    answers = outstanding + requests
    return (
        _NODES_PER_REQUEST * (answers + requests) + 64, answers, _DRAM_PER_EVENT * (2 * answers + fills + events)
    )  # fmt: skip


room_for = inner(room_needed)


@inner
def first_slot(p: L2Rates, slice_index: int, set_index: int) -> int:
    """The first slot of a set of a slice (counted over all partitions)."""
    return (slice_index * p.sets + set_index) * p.ways


@inlined
def find_places(p: L2Rates, s: L2State, requests: np.ndarray) -> None:
    """Work out for all requests where their lines live: one after another in one loop, so that the host does several at
    once."""
    for i in range(len(requests)):
        line = quotient(np.int64(requests[i]["line"]), p.line_bytes)
        local = local_slice_of(line, p.layout)
        near = partition_of_sm(np.int64(requests[i]["sm"]), p.partitions, p.gpcs)
        s.places[i, P_LINE] = line
        s.places[i, P_SET] = set_of(line, p.layout, p.sets)
        s.places[i, P_NEAR] = near * p.slices_per_partition + local
        s.places[i, P_HOME] = partition_of(line, p.layout) * p.slices_per_partition + local
        s.places[i, P_MERGED] = merge_row(gpc_of_sm(np.int64(requests[i]["sm"]), p.gpcs), line) if p.merges else 0
        s.places[i, P_PAGES] = set_of_page(line * p.line_bytes >> p.page_shift, s.pages.shape[1])


@inlined
def field(s: L2State, node: int, column: int) -> int:
    """A column of a node but LINE, as a word of the width that everything else has."""
    return np.int64(s.nodes[node, column])


@inlined
def line_of(s: L2State, node: int) -> int:
    """The node's line."""
    return field(s, node, LINE) | field(s, node, LINE + 1) << LINE_BITS


@inlined
def set_line(s: L2State, node: int, line: int) -> None:
    """Make the node one of ``line``."""
    s.nodes[node, LINE] = line & ((1 << LINE_BITS) - 1)
    s.nodes[node, LINE + 1] = line >> LINE_BITS


@inlined
def merge_row(gpc: int, line: int) -> int:
    """The row in which a line that is under way to a group of SMs is followed."""
    return gpc * MERGE_ROWS + ((line ^ line >> 12) & (MERGE_ROWS - 1))


@inner
def new_node(s: L2State) -> int:
    """Take a node from the free list (the caller of ``handle_until`` made room)."""
    node = s.scalars[FREE_NODE]
    if node < 0:
        node = s.scalars[NODES_USED]
        s.scalars[NODES_USED] = node + 1
        return node
    following = field(s, node, NEXT)
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
    """Let the node's STAGE come up at tick ``time``, not before that of the latest event."""
    s.scalars[BIRTHS] += 1
    s.scalars[EVENTS] += 1
    if time - s.scalars[LAST_TICK] < WHEEL_TICKS:
        place = place_at(time)
        if is_marked(s.marks, place):
            s.nodes[node, NEXT] = s.wheel[place]
        else:
            s.nodes[node, NEXT] = -1
            mark(s.marks, place)
        s.wheel[place] = node
        s.scalars[IN_WHEEL] += 1
    else:
        key = make_key(time, s.scalars[BIRTHS])
        s.scalars[HEAP_SIZE] = push(s.heap, s.scalars[HEAP_SIZE], key, node)
    s.scalars[NEXT_EVENT] = min(s.scalars[NEXT_EVENT], time)


@inlined
def next_event(s: L2State) -> int:
    """Take the node of the event that comes up at NEXT_EVENT, which is the latest one from now on."""
    tick = s.scalars[NEXT_EVENT]
    node = s.scalars[DUE]
    s.scalars[EVENTS] -= 1
    following = np.int64(-1)
    if node < 0 and s.scalars[HEAP_SIZE] > 0 and time_of(s.heap[0, 0]) == tick:
        node = s.heap[1, 0]
        s.scalars[HEAP_SIZE] = pop(s.heap, s.scalars[HEAP_SIZE])
    else:
        if node < 0:
            place = place_at(tick)
            node = np.int64(s.wheel[place])
            unmark(s.marks, place)
            before = np.int64(-1)
            older = field(s, node, NEXT)
            while older >= 0:  # the youngest stands first: turn the list round
                s.nodes[node, NEXT] = before
                before, node = node, older
                older = field(s, node, NEXT)
            s.nodes[node, NEXT] = before
        s.scalars[IN_WHEEL] -= 1
        following = field(s, node, NEXT)
        s.scalars[DUE] = following
    if following < 0:
        first = np.int64(NEVER)
        if s.scalars[IN_WHEEL] > 0:
            first = next_marked(s.marks, tick)
        if s.scalars[HEAP_SIZE] > 0:
            first = min(first, time_of(s.heap[0, 0]))
        s.scalars[NEXT_EVENT] = first
    return node


@inner
def unblock(s: L2State, slice_index: int, time: int) -> None:
    """If a dirty line may be evicted again, let the node that has waited longest try once more; its
    own claim then lets the next one try."""
    node = s.servers[slice_index, FIRST_BLOCKED]
    if node >= 0 and s.servers[slice_index, WRITE_ROOM] > 0:
        s.servers[slice_index, FIRST_BLOCKED] = field(s, node, NEXT)
        schedule(s, time, node)


@inner
def invalidate_copies(p: L2Rates, s: L2State, home: int, set_index: int, line: int, sectors: int) -> None:
    """Home slice ``home`` has newer data: copies in other partitions are no longer valid."""
    local = remainder(home, p.slices_per_partition)
    for partition in range(p.partitions):
        mirror = partition * p.slices_per_partition + local
        if mirror != home:
            drop_sectors(s.tags, first_slot(p, mirror, set_index), p.ways, line, sectors)
