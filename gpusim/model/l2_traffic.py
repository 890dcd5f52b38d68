"""What leaves an L2 slice, and what its stages cost: answers, DRAM requests, lookups, data, the link.

Mental model: each function books one resource in the order in which it is called (a tag stage, a data
port, a lane of the link) or writes one outgoing message; it decides nothing. The decisions are in
:mod:`gpusim.model.l2`.
"""

from __future__ import annotations

from gpusim.model.address_hash import channel_of
from gpusim.model.compiled import inner
from gpusim.model.l2_state import (
    BIRTHS,
    BUSY_TICKS,
    DRAM_REQUESTS,
    FAR_SECTORS,
    KIND,
    LANE_COST,
    LANE_FREE,
    OUTSTANDING,
    PORT_FREE,
    RESPONSES,
    SECTORS,
    SM,
    TAG,
    TAG_FREE,
    L2Rates,
    L2State,
)
from gpusim.model.messages import READ, WRITE
from gpusim.model.sector_mask import popcount

#: Handles of DRAM requests that are no slot: data that nobody waits for, and (downwards, one a
#: slice) the room of a slice's write.
NOBODY = -1
ROOM_OF_SLICE_0 = -2


@inner
def respond(s: L2State, time: int, node: int) -> None:
    """Answer a request at an SM's port; the node stays the caller's."""
    at = s.scalars[RESPONSES]
    s.responses[at]["time"] = time
    s.responses[at]["tag"] = s.nodes[node, TAG]
    s.responses[at]["sm"] = s.nodes[node, SM]
    s.responses[at]["kind"] = s.nodes[node, KIND]
    s.responses[at]["sectors"] = s.nodes[node, SECTORS]
    s.scalars[RESPONSES] = at + 1
    s.scalars[OUTSTANDING] -= 1


@inner
def ask_dram(
    p: L2Rates, s: L2State, time: int, line: int, handle: int, sectors: int
) -> None:
    """Read sectors into slot ``handle`` (NOBODY: only occupy the channel), or write them and get the
    room back (``handle`` at or below ROOM_OF_SLICE_0)."""
    at = s.scalars[DRAM_REQUESTS]
    s.scalars[BIRTHS] += 1
    s.dram[at]["time"] = time + p.to_dram
    s.dram[at]["line"] = line * p.line_bytes
    s.dram[at]["sequence"] = s.scalars[BIRTHS]
    s.dram[at]["handle"] = handle
    s.dram[at]["channel"] = channel_of(line, p.slices, p.channels)
    s.dram[at]["kind"] = WRITE if handle <= ROOM_OF_SLICE_0 else READ
    s.dram[at]["sectors"] = sectors
    s.scalars[DRAM_REQUESTS] = at + 1


@inner
def look_up(p: L2Rates, s: L2State, slice_index: int, time: int) -> int:
    """Take a slice's tag stage at ``time`` or as soon as it is free; the end of the lookup."""
    end = max(time, s.servers[slice_index, TAG_FREE]) + p.tag
    s.servers[slice_index, TAG_FREE] = end
    return end


@inner
def move(s: L2State, slice_index: int, time: int, cost: int) -> int:
    """Move sectors through a slice's data port, from ``time`` or as soon as it is free; the end."""
    end = max(time, s.servers[slice_index, PORT_FREE]) + cost
    s.servers[slice_index, PORT_FREE] = end
    s.scalars[BUSY_TICKS] += cost
    return end


@inner
def look_up_and_move(p: L2Rates, s: L2State, slice_index: int, time: int, cost: int) -> int:
    """A lookup whose data move at once; the end of the later of the two."""
    known = look_up(p, s, slice_index, time)
    return max(known, move(s, slice_index, known - p.tag, cost))


@inner
def cross(p: L2Rates, s: L2State, lane: int, time: int, sectors: int) -> int:
    """Send sectors over the lane into slice ``lane`` of the other partition; the arrival."""
    count = popcount(sectors)
    end = max(time, s.servers[lane, LANE_FREE]) + s.costs[LANE_COST, count]
    s.servers[lane, LANE_FREE] = end
    s.scalars[FAR_SECTORS] += count
    return end + p.far
