"""What enters and leaves an L2 slice, and what its stages cost: answers, DRAM requests, lookups, data, the link.

Mental model: each function books one resource in the order in which it is called (a tag stage, a data
port, the link), notes one incoming message or writes one outgoing; it decides nothing. The
decisions are in :mod:`gpusim.model.l2`.
"""

from __future__ import annotations

import numpy as np

from gpusim.model.address_hash import channel_of
from gpusim.model.compiled import inlined, inner
from gpusim.model.l2_state import (
    AMOUNT,
    ATOMIC_SECTORS,
    BIRTHS,
    BUSY_TICKS,
    DRAM_REQUESTS,
    FAR_SECTORS,
    HOME,
    IN_FREE,
    KIND,
    LINK_COST,
    LINK_FREE,
    LINK_TICK_PARTS,
    MERGED,
    NEAR,
    OUTSTANDING,
    P_HOME,
    P_LINE,
    P_MERGED,
    P_NEAR,
    P_PAGES,
    P_SET,
    PORT_FREE,
    READ_COST,
    READ_SECTORS,
    REDUCTION_SECTORS,
    REQUESTS,
    RESPONSES,
    SECTORS,
    SET,
    SIGNAL,
    SM,
    TAG,
    TAG_FREE,
    TLB_MISSES,
    TRANSLATIONS,
    WRITE_SECTORS,
    L2Rates,
    L2State,
    field,
    line_of,
    new_node,
    set_line,
)
from gpusim.model.messages import ATOMIC, READ, WRITE
from gpusim.model.sector_mask import popcount
from gpusim.model.signals import has_seen
from gpusim.model.tlb import use_page

#: Handles of DRAM requests that are no slot: data that nobody waits for, and (downwards, one a
#: slice) the room of a slice's write.
NOBODY = -1
ROOM_OF_SLICE_0 = -2


@inlined
def admit(s: L2State, request: np.void, place: np.ndarray) -> int:
    """Note and count a request that has come in, whose line's place is known; its node."""
    node = new_node(s)
    kind, sectors = np.int64(request["kind"]), np.int64(request["sectors"])
    set_line(s, node, place[P_LINE])
    s.nodes[node, SET] = place[P_SET]
    s.nodes[node, NEAR] = place[P_NEAR]
    s.nodes[node, HOME] = place[P_HOME]
    s.nodes[node, MERGED] = place[P_MERGED]
    s.nodes[node, SM] = request["sm"]
    s.nodes[node, TAG] = request["tag"]
    s.nodes[node, KIND] = kind
    s.nodes[node, SECTORS] = sectors
    s.nodes[node, AMOUNT] = request["bytes"] if kind == WRITE else request["operations"]
    s.nodes[node, SIGNAL] = request["signal"]
    s.scalars[REQUESTS] += 1
    s.scalars[OUTSTANDING] += 1
    count = popcount(sectors)
    if kind == READ:
        s.scalars[READ_SECTORS] += count
    elif kind == WRITE:
        s.scalars[WRITE_SECTORS] += count
    elif kind == ATOMIC:
        s.scalars[ATOMIC_SECTORS] += count
    else:
        s.scalars[REDUCTION_SECTORS] += count
    return node


@inlined
def page_known(p: L2Rates, s: L2State, node: int, place: np.ndarray) -> bool:
    """Whether the SM of the node's request remembers its page; it does from now on."""
    if p.tlb_miss == 0:
        return True
    s.scalars[TRANSLATIONS] += 1
    page = line_of(s, node) * p.line_bytes >> p.page_shift
    if use_page(s.pages, field(s, node, SM), place[P_PAGES], page, s.scalars[TRANSLATIONS]):
        return True
    s.scalars[TLB_MISSES] += 1
    return False


@inlined
def respond(s: L2State, time: int, node: int) -> None:
    """Answer a request at an SM's port, whose way and that of the line's home add to ``time``; the node stays the
    caller's."""
    at = s.scalars[RESPONSES]
    s.responses[at]["time"] = time + s.sm_ways[field(s, node, SM)] + s.slice_ways[field(s, node, HOME)]
    s.responses[at]["tag"] = field(s, node, TAG)
    s.responses[at]["sm"] = field(s, node, SM)
    s.responses[at]["kind"] = field(s, node, KIND)
    s.responses[at]["sectors"] = field(s, node, SECTORS)
    s.responses[at]["seen"] = field(s, node, SIGNAL) == 0 or has_seen(
        s.signals, s.written, field(s, node, SIGNAL), line_of(s, node)
    )
    s.scalars[RESPONSES] = at + 1
    s.scalars[OUTSTANDING] -= 1


@inner
def ask_dram(p: L2Rates, s: L2State, time: int, line: int, handle: int, sectors: int) -> None:
    """Read sectors into slot ``handle`` (NOBODY: only occupy the channel), or write them and get the
    room back (``handle`` at or below ROOM_OF_SLICE_0)."""
    at = s.scalars[DRAM_REQUESTS]
    s.scalars[BIRTHS] += 1
    s.dram[at]["time"] = time + p.to_dram
    s.dram[at]["line"] = line * p.line_bytes
    s.dram[at]["sequence"] = s.scalars[BIRTHS]
    s.dram[at]["handle"] = handle
    s.dram[at]["channel"] = channel_of(line, p.layout, p.channels)
    s.dram[at]["kind"] = WRITE if handle <= ROOM_OF_SLICE_0 else READ
    s.dram[at]["sectors"] = sectors
    s.scalars[DRAM_REQUESTS] = at + 1


@inlined
def look_up(p: L2Rates, s: L2State, slice_index: int, time: int) -> int:
    """Take a slice's tag stage at ``time`` or as soon as it is free; the end of the lookup."""
    end = max(time, s.servers[slice_index, TAG_FREE]) + p.tag
    s.servers[slice_index, TAG_FREE] = end
    return end


@inlined
def move(s: L2State, slice_index: int, time: int, cost: int) -> int:
    """Move sectors through a slice's data port, from ``time`` or as soon as it is free; the end."""
    end = max(time, s.servers[slice_index, PORT_FREE]) + cost
    s.servers[slice_index, PORT_FREE] = end
    s.scalars[BUSY_TICKS] += cost
    return end


@inlined
def look_up_and_move(p: L2Rates, s: L2State, slice_index: int, time: int, cost: int) -> int:
    """A lookup whose data move at once; the end of the later of the two."""
    known = look_up(p, s, slice_index, time)
    return max(known, move(s, slice_index, known - p.tag, cost))


@inlined
def cross(p: L2Rates, s: L2State, to: int, time: int, sectors: int) -> int:
    """Send sectors over the link, which all slices share, into slice ``to`` of the other partition; the arrival."""
    count = popcount(sectors)
    way = to // p.slices_per_partition
    crossed = max(time * LINK_TICK_PARTS, s.servers[way, LINK_FREE]) + s.costs[LINK_COST, count]
    s.servers[way, LINK_FREE] = crossed
    end = max(time, s.servers[to, IN_FREE]) + s.costs[READ_COST, count]
    end = max(end, (crossed + LINK_TICK_PARTS - 1) // LINK_TICK_PARTS)
    s.servers[to, IN_FREE] = end
    s.scalars[FAR_SECTORS] += count
    return end + p.far
