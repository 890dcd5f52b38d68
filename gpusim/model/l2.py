"""The L2 cache: two partitions of address-hashed slices, each caching what its own SMs touch.

Mental model: a request enters the slice of its SM's *near* partition. A line's *home* partition, by
address hash, owns its DRAM channel, its dirty data and its atomics. A read that misses near asks
home: DRAM if near is home, else the mirror slice of the far partition over the link, which all slices
share each way, at most at a slice's rate, and the near slice keeps a copy. Writes and atomics go through to home; the
copy in a partition that did not write goes stale. What only the far partition has read is the first that its home
replaces: of uses that the two make of a line at home, the far ones count as made one turn of the cache
(:data:`L2Rates.turn`) earlier. Every slice looks up one request a ``tag`` interval, and moves sectors to and from its
SMs at its port's rate, each in the order in which events come up; what the partitions exchange moves over the link
instead.

Time is in ticks. Events are handled in the order (time; internal events by their birth, then data from
DRAM by sequence, then requests by (sm, sequence)), which knows nothing of windows. ``handle_until`` is
the one entry; :mod:`gpusim.model.l2_warm` installs state with no time.
"""

from __future__ import annotations

import numpy as np

from gpusim.model.compiled import compiled, inlined, inner
from gpusim.model.l2_atomics import take_turns
from gpusim.model.l2_hints import AHEAD, hint_events, hint_fill, hint_request, known_widths
from gpusim.model.l2_merging import answer_read, join_read
from gpusim.model.l2_state import (
    ALONE,
    AMOUNT,
    ARRIVED,
    DRAM_ANSWER,
    DRAM_REQUESTS,
    EVICTED_SECTORS,
    FAR_ATOMIC,
    FAR_READ,
    FAR_WRITE,
    HIT_SECTORS,
    HOME,
    KIND,
    LAST_TICK,
    LEFT,
    MERGED,
    MISS_SECTORS,
    NEAR,
    NEAR_FILL,
    NEXT,
    NEXT_EVENT,
    READ_COST,
    RESPONSE_ANSWER,
    RESPONSES,
    SECTORS,
    SET,
    SET_STALLS,
    SIGNAL,
    SLOT,
    STAGE,
    TRANSLATED,
    USES,
    WRITE_COST,
    WRITE_ROOM,
    WRITE_STALLS,
    L2Rates,
    L2State,
    block,
    drop_node,
    field,
    find_places,
    first_slot,
    invalidate_copies,
    line_of,
    new_node,
    next_event,
    schedule,
    set_line,
    unblock,
)
from gpusim.model.l2_tags import (
    DIRTY,
    HELD,
    NO_ROOM,
    NO_SLOT,
    PENDING,
    VALID,
    WAITER,
    find,
    install,
    oldest_dirty,
    touch,
    victim,
    write_sectors,
)
from gpusim.model.l2_traffic import (
    NOBODY,
    ROOM_OF_SLICE_0,
    admit,
    ask_dram,
    cross,
    look_up,
    look_up_and_move,
    move,
    page_known,
    respond,
)
from gpusim.model.messages import ATOMIC, READ, REDUCTION, WRITE
from gpusim.model.sector_mask import popcount, whole_groups
from gpusim.model.signals import count_writes


@inlined
def _claim(p: L2Rates, s: L2State, slice_index: int, node: int, now: int, data_at: int, earlier: int) -> int:
    """The slot of the node's line in this slice, made by evicting another line if need be; NO_SLOT
    when the whole set waits, NO_ROOM when the victim's dirty sectors must."""
    line = line_of(s, node)
    first = first_slot(p, slice_index, field(s, node, SET))
    slot = find(s.tags, first, p.ways, line)
    if slot == NO_SLOT:
        slot = victim(s.tags, first, p.ways)
        if slot == NO_SLOT:
            s.scalars[SET_STALLS] += 1
        else:
            dirty = np.int64(s.tags.masks[slot, DIRTY])
            if dirty:
                if s.servers[slice_index, WRITE_ROOM] == 0:
                    s.scalars[WRITE_STALLS] += 1
                    return NO_ROOM
                _evict(p, s, slice_index, slot, dirty, data_at)
            install(s.tags, slot, line)
    if slot != NO_SLOT:
        s.scalars[USES] += 1
        touch(s.tags, slot, s.scalars[USES] - earlier)
    unblock(s, slice_index, now)
    return slot


@inner
def _evict(p: L2Rates, s: L2State, slice_index: int, slot: int, dirty: int, time: int) -> None:
    """Send a slot's dirty sectors to DRAM."""
    s.servers[slice_index, WRITE_ROOM] -= 1
    line = s.tags.slots[HELD, slot]
    part = dirty & ~np.int64(s.tags.masks[slot, VALID])
    if part and not p.masked_writes:  # the DRAM's error code spans a sector: read what the writes left out
        ask_dram(p, s, time, line, np.int64(NOBODY), part)
    ask_dram(p, s, time, line, ROOM_OF_SLICE_0 - slice_index, dirty)
    s.scalars[EVICTED_SECTORS] += popcount(dirty)


@inner
def _keep_clean(p: L2Rates, s: L2State, slice_index: int, set_index: int, time: int) -> bool:
    """Whether the set may take one dirty line more: where it holds as many as it may, the oldest is sent to DRAM and
    stays, if there is room in DRAM's queue."""
    if p.dirty_ways >= p.ways:
        return True
    slot = oldest_dirty(s.tags, first_slot(p, slice_index, set_index), p.ways, p.dirty_ways - 1)
    if slot == NO_SLOT:
        return True
    if s.servers[slice_index, WRITE_ROOM] == 0:
        s.scalars[WRITE_STALLS] += 1
        return False
    _evict(p, s, slice_index, slot, np.int64(s.tags.masks[slot, DIRTY]), time)
    s.tags.masks[slot, DIRTY] = 0
    return True


@inner
def _hold(p: L2Rates, s: L2State, time: int, slice_index: int, node: int, why: int) -> None:
    """A node that could not claim a slot tries again: later, or when there is room to evict."""
    if why == NO_SLOT:
        schedule(s, time + p.retry, node)
    else:
        block(s, slice_index, node)


@inlined
def _wait_for(p: L2Rates, s: L2State, slot: int, node: int, missing: int, group: int) -> int:
    """Queue the node at the slot until ``missing`` has arrived; the sectors to ask for, in whole
    groups of ``group``."""
    masks = s.tags.masks
    present = np.int64(masks[slot, VALID]) | np.int64(masks[slot, PENDING])
    wanted = whole_groups(missing & ~present, group, p.line_sectors) & ~present
    masks[slot, PENDING] = masks[slot, PENDING] | wanted
    s.nodes[node, LEFT] = missing
    s.nodes[node, NEXT] = s.tags.slots[WAITER, slot]
    s.tags.slots[WAITER, slot] = node
    return wanted


@inlined
def _read(p: L2Rates, s: L2State, time: int, node: int) -> None:
    """An SM's read at its near slice."""
    sectors, here = field(s, node, SECTORS), field(s, node, NEAR)
    slot = _claim(p, s, here, node, time, time + p.hit, 0)
    if slot < 0:
        _hold(p, s, time, here, node, slot)
        return
    masks = s.tags.masks
    missing = sectors & ~np.int64(masks[slot, VALID])
    absent = popcount(missing)
    s.scalars[MISS_SECTORS] += absent
    s.scalars[HIT_SECTORS] += popcount(sectors) - absent
    if missing == 0:
        end = look_up_and_move(p, s, here, time, s.costs[READ_COST, popcount(sectors)])
        answer_read(p, s, end + p.hit, node)
        return
    end = look_up(p, s, here, time)
    if here == field(s, node, HOME):
        wanted = _wait_for(p, s, slot, node, missing, p.fetch_sectors)
        if wanted:
            ask_dram(p, s, end + p.hit, line_of(s, node), slot, wanted)
        return
    wanted = _wait_for(p, s, slot, node, missing, p.near_sectors)
    if wanted:
        child = new_node(s)
        set_line(s, child, line_of(s, node))
        s.nodes[child, SET] = s.nodes[node, SET]
        s.nodes[child, NEAR] = here
        s.nodes[child, HOME] = s.nodes[node, HOME]
        s.nodes[child, SECTORS] = wanted
        s.nodes[child, KIND] = READ
        s.nodes[child, SLOT] = slot
        s.nodes[child, MERGED] = s.nodes[node, MERGED]
        s.nodes[child, STAGE] = FAR_READ
        schedule(s, end + p.hit + p.far, child)


@inlined
def _far_read(p: L2Rates, s: L2State, time: int, node: int) -> None:
    """The far partition's read of a line at its home slice."""
    sectors, here = field(s, node, SECTORS), field(s, node, HOME)
    s.nodes[node, STAGE] = FAR_READ
    slot = _claim(p, s, here, node, time, time, p.turn)
    if slot < 0:
        _hold(p, s, time, here, node, slot)
        return
    missing = sectors & ~np.int64(s.tags.masks[slot, VALID])
    if missing == 0:
        end = look_up(p, s, here, time)
        s.nodes[node, STAGE] = NEAR_FILL
        schedule(s, cross(p, s, field(s, node, NEAR), end, sectors), node)
        return
    end = look_up(p, s, here, time)
    wanted = _wait_for(p, s, slot, node, missing, p.fetch_sectors)
    if wanted:
        ask_dram(p, s, end + p.far_miss, line_of(s, node), slot, wanted)


@inner
def _way_back(p: L2Rates, s: L2State, node: int) -> int:
    """What an acknowledgement from home takes to reach the requester's partition."""
    return 0 if field(s, node, NEAR) == field(s, node, HOME) else p.far


@inner
def _write(p: L2Rates, s: L2State, time: int, node: int) -> None:
    """A write at its line's home slice; the ack leaves when the slice has taken it."""
    sectors, here = field(s, node, SECTORS), field(s, node, HOME)
    s.nodes[node, STAGE] = FAR_WRITE
    slot = _claim(p, s, here, node, time, time, 0)
    if slot < 0:
        _hold(p, s, time, here, node, slot)
        return
    if s.tags.masks[slot, DIRTY] == 0 and not _keep_clean(p, s, here, field(s, node, SET), time):
        _hold(p, s, time, here, node, NO_ROOM)
        return
    end = look_up_and_move(p, s, here, time, s.costs[WRITE_COST, popcount(sectors)])
    write_sectors(s.tags, slot, sectors, field(s, node, AMOUNT), p.sector_bytes)
    if field(s, node, SIGNAL):
        count_writes(s.signals, s.written, field(s, node, SIGNAL), line_of(s, node))
    if field(s, node, NEAR) == here:
        invalidate_copies(p, s, here, field(s, node, SET), line_of(s, node), sectors)
    respond(s, end + p.hit + _way_back(p, s, node) + p.response, node)
    drop_node(s, node)


@inner
def _atomic(p: L2Rates, s: L2State, time: int, node: int) -> None:
    """An atomic or reduction at its line's home slice: it needs the old data there. A reduction is posted: acknowledged
    when the slice has taken its operations, whether or not the data have come."""
    sectors, here = field(s, node, SECTORS), field(s, node, HOME)
    s.nodes[node, STAGE] = FAR_ATOMIC
    slot = _claim(p, s, here, node, time, time, 0)
    if slot < 0:
        _hold(p, s, time, here, node, slot)
        return
    end = look_up_and_move(p, s, here, time, s.costs[READ_COST, popcount(sectors)]) + p.hit
    invalidate_copies(p, s, here, field(s, node, SET), line_of(s, node), sectors)
    if field(s, node, KIND) == REDUCTION:
        respond(s, take_turns(p, s, end, node) + _way_back(p, s, node) + p.response, node)
    missing = sectors & ~np.int64(s.tags.masks[slot, VALID])
    if missing == 0:
        _operate(p, s, end, node, slot)
        return
    wanted = _wait_for(p, s, slot, node, missing, p.fetch_sectors)
    if wanted:
        ask_dram(p, s, end, line_of(s, node), slot, wanted)


@inner
def _operate(p: L2Rates, s: L2State, time: int, node: int, slot: int) -> None:
    """The old data of an atomic or reduction are at its slice; an atomic's turn comes and takes them back."""
    sectors, here = field(s, node, SECTORS), field(s, node, HOME)
    if s.tags.masks[slot, DIRTY] == 0:
        _keep_clean(p, s, here, field(s, node, SET), time)
    s.tags.masks[slot, DIRTY] = s.tags.masks[slot, DIRTY] | sectors
    if field(s, node, KIND) == ATOMIC:
        end = take_turns(p, s, time, node)
        if field(s, node, NEAR) != here:
            end = cross(p, s, field(s, node, NEAR), end, sectors)
        respond(s, end + p.response, node)
    if field(s, node, SIGNAL):
        count_writes(s.signals, s.written, field(s, node, SIGNAL), line_of(s, node))
    drop_node(s, node)


@inlined
def _to_home(p: L2Rates, s: L2State, time: int, node: int) -> None:
    """A write or atomic at its near slice: on to home, over the link where home is far."""
    sectors, home = field(s, node, SECTORS), field(s, node, HOME)
    is_write = field(s, node, KIND) == WRITE
    s.scalars[HIT_SECTORS] += popcount(sectors)
    if field(s, node, NEAR) == home:
        if is_write:
            _write(p, s, time, node)
        else:
            _atomic(p, s, time, node)
        return
    end = look_up(p, s, field(s, node, NEAR), time)
    arrival = cross(p, s, home, end, sectors)
    s.nodes[node, STAGE] = FAR_WRITE if is_write else FAR_ATOMIC
    schedule(s, arrival, node)


@inner
def fill(p: L2Rates, s: L2State, time: int, slot: int, sectors: int) -> None:
    """Sectors have come to a slot: whoever waited for the last of them goes on."""
    masks = s.tags.masks
    masks[slot, VALID] = masks[slot, VALID] | sectors
    masks[slot, PENDING] = masks[slot, PENDING] & ~sectors
    # The list is youngest first; the oldest waiter is served first, so turn it round.
    node = s.tags.slots[WAITER, slot]
    s.tags.slots[WAITER, slot] = -1
    turned = -1
    while node >= 0:
        following = field(s, node, NEXT)
        s.nodes[node, NEXT] = turned
        turned = node
        node = following
    node = turned
    while node >= 0:
        following = field(s, node, NEXT)
        left = field(s, node, LEFT) & ~sectors
        s.nodes[node, LEFT] = left
        if left:
            s.nodes[node, NEXT] = s.tags.slots[WAITER, slot]
            s.tags.slots[WAITER, slot] = node
        elif field(s, node, STAGE) == FAR_ATOMIC:
            _operate(p, s, time, node, slot)
        else:
            asked = field(s, node, SECTORS)
            from_far = field(s, node, STAGE) == FAR_READ
            if from_far:
                s.nodes[node, STAGE] = NEAR_FILL
                schedule(s, cross(p, s, field(s, node, NEAR), time, asked), node)
            else:
                here = field(s, node, NEAR)
                end = move(s, here, time, s.costs[READ_COST, popcount(asked)])
                answer_read(p, s, end, node)
        node = following


@inlined
def _accept(p: L2Rates, s: L2State, time: int, request: np.void, place: np.ndarray) -> int:
    """A request from an SM at its near slice's input: its node if it may begin, -1 if its page is looked up first."""
    node = admit(s, request, place)
    if page_known(p, s, node, place):
        return node
    s.nodes[node, STAGE] = TRANSLATED
    schedule(s, time + p.tlb_miss, node)
    return -1


@inlined
def _begin(p: L2Rates, s: L2State, time: int, node: int) -> None:
    """A request whose address is known comes to its near slice."""
    s.nodes[node, STAGE] = ARRIVED
    if field(s, node, KIND) == READ:
        if not p.merges or not join_read(p, s, time, node):
            _read(p, s, time, node)
    else:
        _to_home(p, s, time, node)


@inlined
def _resume(p: L2Rates, s: L2State, time: int, node: int) -> int:
    """An internal event comes up; the node if it is one that begins at its near slice, else -1."""
    stage = field(s, node, STAGE)
    if stage == ARRIVED or stage == TRANSLATED:
        return node
    if stage == FAR_READ:
        _far_read(p, s, time, node)
    elif stage == FAR_WRITE:
        _write(p, s, time, node)
    elif stage == FAR_ATOMIC:
        _atomic(p, s, time, node)
    else:
        slot, sectors = field(s, node, SLOT), field(s, node, SECTORS)
        drop_node(s, node)
        fill(p, s, time, slot, sectors)
    return -1


@compiled
def handle_until(p: L2Rates, s: L2State, requests: np.ndarray, fills: np.ndarray, until: int) -> tuple[int, int]:
    """Handle all events strictly before tick ``until``; if it is ALONE, up to where an answer to what it sends could
    come.

    ``requests`` REQUEST[...] sorted by (time, sm, sequence); ``fills`` DRAM_RESPONSE[...] sorted by
    (time, sequence). Returns how many of each were taken; what goes out lies in
    ``s.responses[: scalars[RESPONSES]]`` and ``s.dram[: scalars[DRAM_REQUESTS]]``. The caller has made
    room for nodes, heap rows and outgoing messages.
    """
    s = known_widths(s)
    s.scalars[RESPONSES] = 0
    s.scalars[DRAM_REQUESTS] = 0
    find_places(p, s, requests)
    hinted = s.scalars[LAST_TICK]
    taken_requests = 0
    taken_fills = 0
    seen_responses = 0
    seen_dram = 0
    while True:
        time = s.scalars[NEXT_EVENT]
        source = 0
        if taken_fills < len(fills) and fills[taken_fills]["time"] < time:
            time = fills[taken_fills]["time"]
            source = 1
        if taken_requests < len(requests) and requests[taken_requests]["time"] < time:
            time = requests[taken_requests]["time"]
            source = 2
        if time >= until:
            return taken_requests, taken_fills
        s.scalars[LAST_TICK] = time
        beginning = -1
        if source == 0:
            node = next_event(s)
            hinted = hint_events(p, s, time, hinted)
            beginning = _resume(p, s, time, node)
        elif source == 1:
            handle = np.int64(fills[taken_fills]["handle"])
            sectors = np.int64(fills[taken_fills]["sectors"])
            hint_fill(p, s, fills, taken_fills)
            taken_fills += 1
            if handle >= 0:
                fill(p, s, time, handle, sectors)
            elif handle <= ROOM_OF_SLICE_0:
                s.servers[ROOM_OF_SLICE_0 - handle, WRITE_ROOM] += 1
                unblock(s, ROOM_OF_SLICE_0 - handle, time)
        else:
            if taken_requests + AHEAD < len(requests):
                hint_request(p, s, requests, taken_requests + AHEAD)
            taken_requests += 1
            at = taken_requests - 1
            beginning = _accept(p, s, time, requests[at], s.places[at])
        if beginning >= 0:
            _begin(p, s, time, beginning)
        if s.scalars[ALONE]:
            while seen_responses < s.scalars[RESPONSES]:
                until = min(until, s.responses[seen_responses]["time"] + s.scalars[RESPONSE_ANSWER])
                seen_responses += 1
            while seen_dram < s.scalars[DRAM_REQUESTS]:
                until = min(until, s.dram[seen_dram]["time"] + s.scalars[DRAM_ANSWER])
                seen_dram += 1
