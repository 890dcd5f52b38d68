"""The L2 cache: two partitions of address-hashed slices, each caching what its own SMs touch.

Mental model: a request enters the slice of its SM's *near* partition. A line's *home* partition, by
address hash, owns its DRAM channel, its dirty data and its atomics. A read that misses near asks
home: DRAM if near is home, else the mirror slice of the far partition over that slice's lane of the
link, and the near slice keeps a copy. Writes and atomics go through to home; the copy in a partition
that did not write goes stale. Every slice is a server: it looks up one request a ``tag`` interval and
moves sectors at its port's rate, in the order in which events arrive.

Time is in ticks. Events are handled in the order (time; internal events by their birth, then data from
DRAM by sequence, then requests by (sm, sequence)), which knows nothing of windows. ``handle_until`` is
the one entry; :mod:`gpusim.model.l2_warm` installs state with no time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from gpusim.model.address_hash import channel_of
from gpusim.model.crossbar import partition_of_sm
from gpusim.model.event_heap import NODE as HEAP_NODE
from gpusim.model.event_heap import TIME as HEAP_TIME
from gpusim.model.event_heap import pop
from gpusim.model.l2_state import (
    ARRIVED,
    ATOMIC_SECTORS,
    BIRTHS,
    BUSY_TICKS,
    BYTES,
    DRAM_REQUESTS,
    EVICTED_SECTORS,
    FAR_ATOMIC,
    FAR_READ,
    FAR_SECTORS,
    FAR_WRITE,
    HEAP_SIZE,
    HIT_SECTORS,
    KIND,
    LAST_TICK,
    LEFT,
    LINE,
    MISS_SECTORS,
    NEAR_FILL,
    NEXT,
    OPERATIONS,
    OUTSTANDING,
    READ_SECTORS,
    REDUCTION_SECTORS,
    REQUESTS,
    RESPONSES,
    SECTORS,
    SET_STALLS,
    SLOT,
    SM,
    STAGE,
    TAG,
    WRITE_SECTORS,
    L2Rates,
    L2State,
    drop_node,
    home_partition,
    new_node,
    row_index,
    schedule,
    slice_index_of,
    spoil_copies,
)
from gpusim.model.l2_tags import (
    DIRTY,
    NO_SLOT,
    PENDING,
    VALID,
    find,
    install,
    touch,
    victim,
    write_sectors,
)
from gpusim.model.messages import ATOMIC, NEVER, READ, REDUCTION, WRITE
from gpusim.model.sector_mask import popcount, whole_groups

@njit(cache=True)
def _respond(s: L2State, time: int, node: int) -> None:
    """Answer a request at an SM's port; the node stays the caller's."""
    at = s.scalars[RESPONSES]
    s.responses[at]["time"] = time
    s.responses[at]["tag"] = s.nodes[node, TAG]
    s.responses[at]["sm"] = s.nodes[node, SM]
    s.responses[at]["kind"] = s.nodes[node, KIND]
    s.responses[at]["sectors"] = s.nodes[node, SECTORS]
    s.scalars[RESPONSES] = at + 1
    s.scalars[OUTSTANDING] -= 1


@njit(cache=True)
def _ask_dram(
    p: L2Rates, s: L2State, time: int, line: int, handle: int, kind: int, sectors: int
) -> None:
    at = s.scalars[DRAM_REQUESTS]
    s.scalars[BIRTHS] += 1
    s.dram[at]["time"] = time + p.to_dram
    s.dram[at]["line"] = line * p.line_bytes
    s.dram[at]["sequence"] = s.scalars[BIRTHS]
    s.dram[at]["handle"] = handle
    s.dram[at]["channel"] = channel_of(line, p.slices, p.channels)
    s.dram[at]["kind"] = kind
    s.dram[at]["sectors"] = sectors
    s.scalars[DRAM_REQUESTS] = at + 1


@njit(cache=True)
def _serve(s: L2State, slice_index: int, time: int, cost: int) -> int:
    """Occupy a slice's port from ``time`` or as soon as it is free; the end of the service."""
    end = max(time, s.slice_free[slice_index]) + cost
    s.slice_free[slice_index] = end
    s.counters[BUSY_TICKS] += cost
    return end


@njit(cache=True)
def _cross(p: L2Rates, s: L2State, lane: int, time: int, sectors: int) -> int:
    """Send sectors over the lane into slice ``lane`` of the other partition; the arrival."""
    count = popcount(sectors)
    end = max(time, s.lane_free[lane]) + s.lane_ticks[count]
    s.lane_free[lane] = end
    s.counters[FAR_SECTORS] += count
    return end + p.far


@njit(cache=True)
def _claim(p: L2Rates, s: L2State, row: int, line: int, time: int) -> int:
    """The line's slot in this set, made by evicting another if need be; NO_SLOT when all wait."""
    slot = find(s.tags, row, line)
    if slot == NO_SLOT:
        slot = victim(s.tags, row)
        if slot == NO_SLOT:
            s.counters[SET_STALLS] += 1
            return NO_SLOT
        dirty = np.int64(s.tags.masks[slot, DIRTY])
        if dirty:
            ways = s.tags.tags.shape[1]
            old = s.tags.tags[slot // ways, slot % ways]
            part = dirty & ~np.int64(s.tags.masks[slot, VALID])
            if part:  # the DRAM's error code spans a sector: read what the writes left out
                _ask_dram(p, s, time, old, -1, READ, part)
            _ask_dram(p, s, time, old, -1, WRITE, dirty)
            s.counters[EVICTED_SECTORS] += popcount(dirty)
        install(s.tags, slot, line)
    touch(s.tags, slot)
    return slot


@njit(cache=True)
def _wait_for(p: L2Rates, s: L2State, slot: int, node: int, missing: int) -> int:
    """Queue the node at the slot until ``missing`` has arrived; the sectors to ask DRAM for."""
    masks = s.tags.masks
    present = np.int64(masks[slot, VALID]) | np.int64(masks[slot, PENDING])
    wanted = whole_groups(missing & ~present, p.fetch_sectors, p.line_sectors) & ~present
    masks[slot, PENDING] = masks[slot, PENDING] | wanted
    s.nodes[node, LEFT] = missing
    s.nodes[node, NEXT] = s.tags.waiter[slot]
    s.tags.waiter[slot] = node
    return wanted


@njit(cache=True)
def _read(p: L2Rates, s: L2State, time: int, node: int) -> None:
    """An SM's read at its near slice."""
    line, sectors = s.nodes[node, LINE], s.nodes[node, SECTORS]
    near = partition_of_sm(s.nodes[node, SM], p.partitions)
    here = slice_index_of(p, near, line)
    slot = _claim(p, s, row_index(p, here, line), line, time + p.hit)
    if slot == NO_SLOT:
        schedule(s, time + p.retry, node, ARRIVED)
        return
    masks = s.tags.masks
    missing = sectors & ~np.int64(masks[slot, VALID])
    absent = popcount(missing)
    s.counters[MISS_SECTORS] += absent
    s.counters[HIT_SECTORS] += popcount(sectors) - absent
    if missing == 0:
        end = _serve(s, here, time, max(p.tag, s.read_ticks[popcount(sectors)]))
        _respond(s, end + p.hit + p.response, node)
        drop_node(s, node)
        return
    end = _serve(s, here, time, p.tag)
    if near == home_partition(p, line):
        wanted = _wait_for(p, s, slot, node, missing)
        if wanted:
            _ask_dram(p, s, end + p.hit, line, slot, READ, wanted)
        return
    wanted = missing & ~np.int64(masks[slot, PENDING])
    masks[slot, PENDING] = masks[slot, PENDING] | wanted
    s.nodes[node, LEFT] = missing
    s.nodes[node, NEXT] = s.tags.waiter[slot]
    s.tags.waiter[slot] = node
    if wanted:
        child = new_node(s)
        s.nodes[child, LINE] = line
        s.nodes[child, SECTORS] = wanted
        s.nodes[child, KIND] = READ
        s.nodes[child, SLOT] = slot
        schedule(s, end + p.hit + p.far, child, FAR_READ)


@njit(cache=True)
def _far_read(p: L2Rates, s: L2State, time: int, node: int) -> None:
    """The far partition's read of a line at its home slice."""
    line, sectors = s.nodes[node, LINE], s.nodes[node, SECTORS]
    here = slice_index_of(p, home_partition(p, line), line)
    slot = _claim(p, s, row_index(p, here, line), line, time)
    if slot == NO_SLOT:
        schedule(s, time + p.retry, node, FAR_READ)
        return
    missing = sectors & ~np.int64(s.tags.masks[slot, VALID])
    if missing == 0:
        end = _serve(s, here, time, max(p.tag, s.read_ticks[popcount(sectors)]))
        _send_near(p, s, end, node)
        return
    end = _serve(s, here, time, p.tag)
    s.nodes[node, STAGE] = FAR_READ
    wanted = _wait_for(p, s, slot, node, missing)
    if wanted:
        _ask_dram(p, s, end + p.far_miss, line, slot, READ, wanted)


@njit(cache=True)
def _send_near(p: L2Rates, s: L2State, time: int, node: int) -> None:
    """Data from home to the near slot that asked for it."""
    per_slice = p.sets * s.tags.tags.shape[1]
    arrival = _cross(p, s, s.nodes[node, SLOT] // per_slice, time, s.nodes[node, SECTORS])
    schedule(s, arrival, node, NEAR_FILL)


@njit(cache=True)
def _write(p: L2Rates, s: L2State, time: int, node: int) -> None:
    """A write at its line's home slice; the ack leaves when the slice has taken it."""
    line, sectors, sm = s.nodes[node, LINE], s.nodes[node, SECTORS], s.nodes[node, SM]
    home = home_partition(p, line)
    here = slice_index_of(p, home, line)
    slot = _claim(p, s, row_index(p, here, line), line, time)
    if slot == NO_SLOT:
        schedule(s, time + p.retry, node, FAR_WRITE)
        return
    end = _serve(s, here, time, max(p.tag, s.write_ticks[popcount(sectors)]))
    write_sectors(s.tags, slot, sectors, s.nodes[node, BYTES], p.sector_bytes)
    back = 0
    if partition_of_sm(sm, p.partitions) != home:
        back = p.far
    else:
        spoil_copies(p, s, home, line, sectors)
    _respond(s, end + p.hit + back + p.response, node)
    drop_node(s, node)


@njit(cache=True)
def _atomic(p: L2Rates, s: L2State, time: int, node: int) -> None:
    """An atomic or reduction at its line's home slice: it needs the old data there."""
    line, sectors = s.nodes[node, LINE], s.nodes[node, SECTORS]
    home = home_partition(p, line)
    here = slice_index_of(p, home, line)
    slot = _claim(p, s, row_index(p, here, line), line, time)
    if slot == NO_SLOT:
        schedule(s, time + p.retry, node, FAR_ATOMIC)
        return
    end = _serve(s, here, time, max(p.tag, s.read_ticks[popcount(sectors)])) + p.hit
    spoil_copies(p, s, home, line, sectors)
    if s.nodes[node, KIND] == REDUCTION:
        back = 0
        if partition_of_sm(s.nodes[node, SM], p.partitions) != home:
            back = p.far
        _respond(s, end + back + p.response, node)
    missing = sectors & ~np.int64(s.tags.masks[slot, VALID])
    if missing == 0:
        _operate(p, s, end, node, slot)
        return
    s.nodes[node, STAGE] = FAR_ATOMIC
    wanted = _wait_for(p, s, slot, node, missing)
    if wanted:
        _ask_dram(p, s, end, line, slot, READ, wanted)


@njit(cache=True)
def _operate(p: L2Rates, s: L2State, time: int, node: int, slot: int) -> None:
    """The arithmetic of an atomic at its slice: one word, or one sector, after the other."""
    sectors = s.nodes[node, SECTORS]
    here = slot // (p.sets * s.tags.tags.shape[1])
    turns = max(s.nodes[node, OPERATIONS], popcount(sectors))
    end = max(time, s.atomic_free[here]) + turns * p.atomic
    s.atomic_free[here] = end
    s.tags.masks[slot, DIRTY] = s.tags.masks[slot, DIRTY] | sectors
    if s.nodes[node, KIND] == ATOMIC:
        home = here // (p.slices // p.partitions)
        near = partition_of_sm(s.nodes[node, SM], p.partitions)
        if near != home:
            end = _cross(p, s, slice_index_of(p, near, s.nodes[node, LINE]), end, sectors)
        _respond(s, end + p.response, node)
    drop_node(s, node)


@njit(cache=True)
def _tohome_partition(p: L2Rates, s: L2State, time: int, node: int) -> None:
    """A write or atomic at its near slice: on to home, over the link where home is far."""
    line, sectors = s.nodes[node, LINE], s.nodes[node, SECTORS]
    near = partition_of_sm(s.nodes[node, SM], p.partitions)
    home = home_partition(p, line)
    is_write = s.nodes[node, KIND] == WRITE
    s.counters[HIT_SECTORS] += popcount(sectors)
    if near == home:
        if is_write:
            _write(p, s, time, node)
        else:
            _atomic(p, s, time, node)
        return
    end = _serve(s, slice_index_of(p, near, line), time, p.tag)
    arrival = _cross(p, s, slice_index_of(p, home, line), end, sectors)
    schedule(s, arrival, node, FAR_WRITE if is_write else FAR_ATOMIC)


@njit(cache=True)
def fill(p: L2Rates, s: L2State, time: int, slot: int, sectors: int) -> None:
    """Sectors have come to a slot: whoever waited for the last of them goes on."""
    masks = s.tags.masks
    masks[slot, VALID] = masks[slot, VALID] | sectors
    masks[slot, PENDING] = masks[slot, PENDING] & ~sectors
    # The list is youngest first; the oldest waiter is served first, so turn it round.
    node = s.tags.waiter[slot]
    s.tags.waiter[slot] = -1
    turned = -1
    while node >= 0:
        following = s.nodes[node, NEXT]
        s.nodes[node, NEXT] = turned
        turned = node
        node = following
    here = slot // (p.sets * s.tags.tags.shape[1])
    node = turned
    while node >= 0:
        following = s.nodes[node, NEXT]
        left = s.nodes[node, LEFT] & ~sectors
        s.nodes[node, LEFT] = left
        if left:
            s.nodes[node, NEXT] = s.tags.waiter[slot]
            s.tags.waiter[slot] = node
        elif s.nodes[node, STAGE] == FAR_ATOMIC:
            _operate(p, s, time, node, slot)
        else:
            end = _serve(s, here, time, s.read_ticks[popcount(s.nodes[node, SECTORS])])
            if s.nodes[node, STAGE] == FAR_READ:
                _send_near(p, s, end, node)
            else:
                _respond(s, end + p.response, node)
                drop_node(s, node)
        node = following


@njit(cache=True)
def _accept(p: L2Rates, s: L2State, time: int, request: np.void) -> None:
    """A request from an SM at its near slice's input."""
    node = new_node(s)
    kind, sectors = np.int64(request["kind"]), np.int64(request["sectors"])
    s.nodes[node, LINE] = np.int64(request["line"]) // p.line_bytes
    s.nodes[node, SM] = request["sm"]
    s.nodes[node, TAG] = request["tag"]
    s.nodes[node, KIND] = kind
    s.nodes[node, SECTORS] = sectors
    s.nodes[node, BYTES] = request["bytes"]
    s.nodes[node, OPERATIONS] = request["operations"]
    s.nodes[node, STAGE] = ARRIVED
    s.counters[REQUESTS] += 1
    s.scalars[OUTSTANDING] += 1
    count = popcount(sectors)
    if kind == READ:
        s.counters[READ_SECTORS] += count
        _read(p, s, time, node)
        return
    if kind == WRITE:
        s.counters[WRITE_SECTORS] += count
    elif kind == ATOMIC:
        s.counters[ATOMIC_SECTORS] += count
    else:
        s.counters[REDUCTION_SECTORS] += count
    _tohome_partition(p, s, time, node)


@njit(cache=True)
def _resume(p: L2Rates, s: L2State, time: int, node: int) -> None:
    """An internal event comes up."""
    stage = s.nodes[node, STAGE]
    if stage == ARRIVED:
        _read(p, s, time, node)
    elif stage == FAR_READ:
        _far_read(p, s, time, node)
    elif stage == FAR_WRITE:
        _write(p, s, time, node)
    elif stage == FAR_ATOMIC:
        _atomic(p, s, time, node)
    else:
        slot, sectors = s.nodes[node, SLOT], s.nodes[node, SECTORS]
        drop_node(s, node)
        fill(p, s, time, slot, sectors)


@njit(cache=True, nogil=True)
def handle_until(
    p: L2Rates, s: L2State, requests: np.ndarray, fills: np.ndarray, until: int
) -> tuple[int, int]:
    """Handle all events strictly before tick ``until``.

    ``requests`` REQUEST[...] sorted by (time, sm, sequence); ``fills`` DRAM_RESPONSE[...] sorted by
    (time, sequence). Returns how many of each were taken; what goes out lies in
    ``s.responses[: scalars[RESPONSES]]`` and ``s.dram[: scalars[DRAM_REQUESTS]]``. The caller has made
    room for nodes, heap rows and outgoing messages.
    """
    s.scalars[RESPONSES] = 0
    s.scalars[DRAM_REQUESTS] = 0
    taken_requests = 0
    taken_fills = 0
    while True:
        time = NEVER
        source = 0
        if s.scalars[HEAP_SIZE] > 0:
            time = s.heap[0, HEAP_TIME]
        if taken_fills < len(fills) and fills[taken_fills]["time"] < time:
            time = fills[taken_fills]["time"]
            source = 1
        if taken_requests < len(requests) and requests[taken_requests]["time"] < time:
            time = requests[taken_requests]["time"]
            source = 2
        if time >= until:
            return taken_requests, taken_fills
        s.scalars[LAST_TICK] = time
        if source == 0:
            node = s.heap[0, HEAP_NODE]
            s.scalars[HEAP_SIZE] = pop(s.heap, s.scalars[HEAP_SIZE])
            _resume(p, s, time, node)
        elif source == 1:
            handle = fills[taken_fills]["handle"]
            sectors = np.int64(fills[taken_fills]["sectors"])
            taken_fills += 1
            if handle >= 0:
                fill(p, s, time, handle, sectors)
        else:
            taken_requests += 1
            _accept(p, s, time, requests[taken_requests - 1])
