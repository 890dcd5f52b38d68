"""The L2's state as the compiled loop reads it best: rows of known width, and hints of what the next events will touch.

Mental model: the tags are larger than the host's caches and entered at random, so whoever sees an event some events
ahead asks for the rows that it will read (:mod:`gpusim.model.prefetch`). Nothing here changes a result.
"""

from __future__ import annotations

import numpy as np

from gpusim.model.bit_sets import lowest
from gpusim.model.compiled import inlined
from gpusim.model.event_wheel import marks_of, place_at
from gpusim.model.known_widths import known_rows
from gpusim.model.l2_merging import MERGE_TABLE
from gpusim.model.l2_state import (
    HOME,
    MERGED,
    NEAR_FILL,
    NEXT,
    NODE_TABLE,
    P_HOME,
    P_MERGED,
    P_NEAR,
    P_PAGES,
    P_SET,
    PLACE_TABLE,
    SERVERS,
    SET,
    SLOT,
    STAGE,
    L2Rates,
    L2State,
    field,
    first_slot,
)
from gpusim.model.l2_tags import HELD, STAMP, WAITER
from gpusim.model.messages import READ, WRITE
from gpusim.model.prefetch import prefetch
from gpusim.model.trace_tables import SIGNAL_TABLE
from gpusim.model.whole_division import remainder

_NODE_WIDTH, _PLACE_WIDTH = NODE_TABLE.row_width, PLACE_TABLE.row_width
_MERGE_WIDTH, _SIGNAL_WIDTH = MERGE_TABLE.row_width, SIGNAL_TABLE.row_width
#: How many events ahead the rows that they will read are asked for.
AHEAD = 8
#: The same in ticks, for nodes of the L2's own events, for what these read, and for who waits for that.
_NODES_AHEAD, _SETS_AHEAD, _REQUESTERS_AHEAD = 224, 128, 64
#: So many ticks are looked at at a time, which one word of marks stands for.
_STEP_TICKS = 32
#: Behind a time without events nothing is asked for that has been there for long.
_LONGEST_TICKS = 256


@inlined
def _hint_set(s: L2State, first: int, ways: int) -> None:
    """Ask for the tags of a set, whose host cache lines are eight columns long."""
    for slot in range(first, first + ways, 8):
        prefetch(s.tags.slots, (HELD, slot))
        prefetch(s.tags.slots, (STAMP, slot))
        prefetch(s.tags.slots, (WAITER, slot))
        prefetch(s.tags.masks, (slot, 0))


@inlined
def _hint_copies(p: L2Rates, s: L2State, home: int, row: int) -> None:
    """Ask for the lines of the sets in which copies of what is written at slice ``home`` may be."""
    local = remainder(home, p.slices_per_partition)
    for partition in range(p.partitions):
        mirror = partition * p.slices_per_partition + local
        if mirror != home:
            first = first_slot(p, mirror, row)
            for slot in range(first, first + p.ways, 8):
                prefetch(s.tags.slots, (HELD, slot))


@inlined
def hint_request(p: L2Rates, s: L2State, requests: np.ndarray, request: int) -> None:
    """Ask for the set that a request will look up first, for the row of those that it may be merged with, and for its
    page's."""
    if p.merges:
        prefetch(s.merged, (s.places[request, P_MERGED], 0))
    if p.tlb_miss:
        prefetch(s.pages, (np.int64(requests[request]["sm"]), s.places[request, P_PAGES], 0))
    near, home, row = s.places[request, P_NEAR], s.places[request, P_HOME], s.places[request, P_SET]
    if near == home or requests[request]["kind"] == READ:
        _hint_set(s, first_slot(p, near, row), p.ways)
        if requests[request]["kind"] == WRITE:
            _hint_copies(p, s, home, row)


@inlined
def hint_fill(p: L2Rates, s: L2State, fills: np.ndarray, taken: int) -> None:
    """Ask for the slot that a fill some events ahead is for, for the waiter of a nearer one, and for the row of those
    that were merged with a yet nearer one."""
    if taken + AHEAD < len(fills):
        slot = np.int64(fills[taken + AHEAD]["handle"])
        if slot >= 0:
            prefetch(s.tags.masks, (slot, 0))
            prefetch(s.tags.slots, (WAITER, slot))
    if taken + AHEAD // 2 < len(fills):
        slot = np.int64(fills[taken + AHEAD // 2]["handle"])
        if slot >= 0 and s.tags.slots[WAITER, slot] >= 0:
            prefetch(s.nodes, (s.tags.slots[WAITER, slot], 0))
    if p.merges and taken + AHEAD // 4 < len(fills):
        slot = np.int64(fills[taken + AHEAD // 4]["handle"])
        if slot >= 0 and s.tags.slots[WAITER, slot] >= 0:
            prefetch(s.merged, (field(s, s.tags.slots[WAITER, slot], MERGED), 0))


@inlined
def _hint_node(p: L2Rates, s: L2State, node: int) -> None:
    """Ask for what the event of a node will read, and for the node behind it at its tick."""
    following = field(s, node, NEXT)
    if following >= 0:
        prefetch(s.nodes, (following, 0))
    if field(s, node, STAGE) == NEAR_FILL:
        slot = field(s, node, SLOT)
        prefetch(s.tags.masks, (slot, 0))
        prefetch(s.tags.slots, (WAITER, slot))
        if p.merges:
            prefetch(s.merged, (field(s, node, MERGED), 0))
    else:
        _hint_set(s, first_slot(p, field(s, node, HOME), field(s, node, SET)), p.ways)


@inlined
def _hint_last(p: L2Rates, s: L2State, node: int) -> None:
    """Ask for the node that waits for what an event brings, and for what the one behind it at its tick will read."""
    following = field(s, node, NEXT)
    if following >= 0:
        _hint_node(p, s, following)
    if field(s, node, STAGE) == NEAR_FILL:
        waiter = s.tags.slots[WAITER, field(s, node, SLOT)]
        if waiter >= 0:
            prefetch(s.nodes, (waiter, 0))


@inlined
def hint_events(p: L2Rates, s: L2State, time: int, hinted: int) -> int:
    """Ask for the nodes of events in the wheel some time behind ``time``, and for what nearer ones read. All those that
    lay so far behind tick ``hinted`` have been asked for; the same for the next call."""
    if time - hinted > _LONGEST_TICKS:
        hinted = time - _LONGEST_TICKS
    while hinted + _STEP_TICKS <= time:
        hinted += _STEP_TICKS
        coming, first = marks_of(s.marks, hinted + _NODES_AHEAD), place_at(hinted + _NODES_AHEAD) & -_STEP_TICKS
        while coming:
            prefetch(s.nodes, (np.int64(s.wheel[first + lowest(coming)]), 0))
            coming &= coming - 1
        coming, first = marks_of(s.marks, hinted + _SETS_AHEAD), place_at(hinted + _SETS_AHEAD) & -_STEP_TICKS
        while coming:
            _hint_node(p, s, np.int64(s.wheel[first + lowest(coming)]))
            coming &= coming - 1
        coming, first = (
            marks_of(s.marks, hinted + _REQUESTERS_AHEAD),
            place_at(hinted + _REQUESTERS_AHEAD) & -_STEP_TICKS,
        )
        while coming:
            _hint_last(p, s, np.int64(s.wheel[first + lowest(coming)]))
            coming &= coming - 1
    return hinted


@inlined
def known_widths(s: L2State) -> L2State:
    """The state as it is, with the widths of its tables' rows known to the compiled code."""
    return L2State(
        s.tags,
        s.pages,
        s.costs,
        known_rows(s.servers, SERVERS),
        known_rows(s.nodes, _NODE_WIDTH),
        known_rows(s.places, _PLACE_WIDTH),
        known_rows(s.merged, _MERGE_WIDTH),
        s.wheel,
        s.marks,
        s.heap,
        s.scalars,
        s.responses,
        s.dram,
        known_rows(s.signals, _SIGNAL_WIDTH),
        s.written,
        s.sm_ways,
        s.slice_ways,
    )
