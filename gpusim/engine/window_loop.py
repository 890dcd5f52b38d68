"""Windows one after another in compiled code, as long as no part that is Python has anything to do.

Mental model: where one thread runs all parts of a GPU they take turns (:mod:`gpusim.engine.round_windows`): L2, SMs,
DRAM, and the dispatcher. What they send each other is sorted and handed over here; Python is called once for many
windows. It is called earlier when something is to be made larger, when the trace of the blocks that come next is to be
brought in, or, while compiled code cannot serve these, when a block has ended.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.engine.block_dispatcher import BLOCKS, NEXT_BLOCK, DispatchRates, DispatchState, next_decision
from gpusim.engine.inbox import PLACE_BITS, sort_keyed
from gpusim.engine.sm import deliver_peers, deliver_responses
from gpusim.engine.supply import L_END
from gpusim.io.jit_address import call_flag, call_nothing, call_number, call_pair
from gpusim.model import hbm, l2_state
from gpusim.model.compiled import compiled, inlined, inner
from gpusim.model.hbm import DramRates, DramState
from gpusim.model.l2_state import L2Rates, L2State, room_for
from gpusim.model.messages import NEVER, TICKS_PER_CYCLE
from gpusim.model.sm_state import SmState
from gpusim.model.sm_tables import PEERS_OUT, R_EXITS, R_NEXT_CYCLE, R_PEERS, R_REQUESTS
from gpusim.model.trace_tables import Tables
from gpusim.state_tables import Table

LOOP_TABLE = Table(__name__, "loop", "", "Which windows a call runs through, and why it came back.")
WINDOW = LOOP_TABLE.column("index", "the last window that was begun")
STOP = LOOP_TABLE.column("index", "the first window that is not to be begun")
WINDOW_TICKS = LOOP_TABLE.column("ticks", "of a window")
L2_OFFSET = LOOP_TABLE.column("ticks", "by which the windows of the L2 lie behind the machine's")
SM_OFFSET = LOOP_TABLE.column("ticks", "the same of the SMs")
HBM_OFFSET = LOOP_TABLE.column("ticks", "the same of the DRAM")
DISPATCHER_OFFSET = LOOP_TABLE.column("ticks", "the same of the dispatcher")
EXIT_TICKS = LOOP_TABLE.column("ticks", "from a block's end to when the dispatcher knows")
LIVE_ROW = LOOP_TABLE.column("index", "row of ``live`` whose blocks come next; -1: Python dispatches")
LAST_START = LOOP_TABLE.column("tick", "at which the last block starts that was dispatched; -1: none was")
EMPTIED = LOOP_TABLE.column("flag", "a chunk has no block left")
L2_HELD = LOOP_TABLE.column("flag", "the L2 has its next turn in Python")
TURNS = LOOP_TABLE.column("count", "turns of parts")
LEFT = LOOP_TABLE.column("mask", "what is left to do for Python, see below; 0: nothing before the window STOP")

#: Of LEFT: a part cannot have its turn before its tables are larger, or not here; it has had it, and what it sent is
#: yet to be handed over. ENDS: what is left of ``live`` that compiled code may serve; SPLIT: a cluster cannot be
#: served.
L2_ROOM, HBM_ROOM, DRAM_REQUESTS, REQUESTS, PEERS, EXITS, FILLS, ENDS, SPLIT = (1 << bit for bit in range(9))

BOX_TABLE = Table(__name__, "box", "", "Where a box stands.")
COUNT = BOX_TABLE.column("count", "messages in ``waiting``")
EARLIEST = BOX_TABLE.column("tick", "of the first of them; NEVER: there is none")


class Box(NamedTuple):
    """Messages of one kind that wait for a part, as :class:`gpusim.engine.inbox.Inbox` has them."""

    box: np.ndarray
    waiting: np.ndarray  # int64[room, words], in no order
    keys: np.ndarray  # int64[2, room]
    counts: np.ndarray  # int64[256]
    fields: np.ndarray  # int64[k, 3]: what decides between equal times
    ordered: np.ndarray  # int64[room, words]: those that are due
    messages: np.ndarray  # the same as messages


class Calls(NamedTuple):
    """Where the parts' functions lie (:func:`gpusim.io.jit_address.address_of`)."""

    l2: int
    sm: int
    hbm: int
    serve: int
    end_blocks: int
    deliver_starts: int


class Dispatch(NamedTuple):
    """The dispatcher, as :mod:`gpusim.engine.block_dispatcher` has it, and room for the block ends of a turn."""

    rates: DispatchRates
    state: DispatchState
    live: np.ndarray
    idle: np.ndarray  # bool[0]: all blocks execute something
    exits: np.ndarray  # EXIT[...]
    exit_words: np.ndarray  # the same in words


class Sent(NamedTuple):
    """What the parts send, in words: int64[n, words]."""

    requests: np.ndarray
    dram_requests: np.ndarray
    fills: np.ndarray


@inner
def _put(box, rows, count):
    """Add the first ``count`` rows; False, and nothing added, if there is no room."""
    first = box.box[COUNT]
    if first + count > box.waiting.shape[0]:
        return False
    earliest = box.box[EARLIEST]
    for i in range(count):
        earliest = min(earliest, rows[i, 0])
        for word in range(rows.shape[1]):
            box.waiting[first + i, word] = rows[i, word]
    box.box[COUNT] = first + count
    box.box[EARLIEST] = earliest
    return True


@inner
def _find_due(box, until):
    """Note the keys of the messages before tick ``until``; how many these are."""
    due = 0
    if box.box[EARLIEST] < until:
        for i in range(box.box[COUNT]):
            time = box.waiting[i, 0]
            if time < until:
                box.keys[0, due] = time << PLACE_BITS | i
                due += 1
    return due


@inner
def _take_due(box, due, until):
    """Move the ``due`` messages before ``until``, whose keys are noted, into ``ordered``, in order."""
    if due == 0:
        return
    sort_keyed(box.waiting, due, box.ordered, box.fields, box.keys, box.counts)
    count = box.box[COUNT]
    kept = 0
    earliest = NEVER
    if due < count:
        for i in range(count):
            time = box.waiting[i, 0]
            if time >= until:
                earliest = min(earliest, time)
                if kept < i:
                    for word in range(box.waiting.shape[1]):
                        box.waiting[kept, word] = box.waiting[i, word]
                kept += 1
    box.box[COUNT] = kept
    box.box[EARLIEST] = earliest


@inlined
def _l2_turn(calls, sms, p, s, requests, fills, dram, sent, until):
    """The turn of the L2 up to tick ``until``; what is left to do."""
    due, due_fills = _find_due(requests, until), _find_due(fills, until)
    nodes, answers, asked = room_for(s.scalars[l2_state.OUTSTANDING], s.scalars[l2_state.EVENTS], due, due_fills)
    if len(s.nodes) < nodes or len(s.places) < due or len(s.responses) < answers or len(s.dram) < asked:
        return L2_ROOM
    _take_due(requests, due, until)
    _take_due(fills, due_fills, until)
    call_pair(calls.l2, (p, s, requests.messages[:due], fills.messages[:due_fills], until))
    if s.scalars[l2_state.RESPONSES]:
        deliver_responses(sms, s.responses[: s.scalars[l2_state.RESPONSES]])
    return 0 if _put(dram, sent.dram_requests, s.scalars[l2_state.DRAM_REQUESTS]) else DRAM_REQUESTS


@inlined
def _sm_turn(calls, sms, tables, requests, sent, until):
    """The turn of the SMs, whatever has been written behind ``until``; what is left to do."""
    report = sms.report
    call_nothing(calls.sm, (sms, tables, until // TICKS_PER_CYCLE))
    left = EXITS if report[R_EXITS] else 0
    if not _put(requests, sent.requests, report[R_REQUESTS]):
        left |= REQUESTS
    count = report[R_PEERS]
    if count:
        most = 0
        for sm in range(sms.sms.shape[0]):
            most = max(most, sms.sms[sm, PEERS_OUT])
        if most + count <= sms.peers.shape[1]:
            deliver_peers(sms, sms.peers_sent[:count])
        else:
            left |= PEERS
    return left


@inlined
def _hbm_turn(calls, p, d, dram, fills, sent, until):
    """The turn of the DRAM; what is left to do."""
    due = _find_due(dram, until)
    queued = d.scalars[hbm.QUEUED] + due
    if len(d.nodes) < queued + 1 or len(d.responses) < queued:
        return HBM_ROOM
    _take_due(dram, due, until)
    call_number(calls.hbm, (p, d, dram.messages[:due], until))
    return 0 if _put(fills, sent.fills, d.scalars[hbm.RESPONSES]) else FILLS


@inlined
def _note_exits(calls, sms, dispatch, loop):
    """Hand the block ends of the SMs' turn to the dispatcher."""
    count = sms.report[R_EXITS]
    for i in range(count):
        for word in range(
            dispatch.exit_words.shape[1]
        ):  # the table's columns stand in the order of the message's fields
            dispatch.exit_words[i, word] = sms.exits[i, word]
        dispatch.exit_words[i, 0] = sms.exits[i, 0] * TICKS_PER_CYCLE + loop[EXIT_TICKS]
    if call_flag(calls.end_blocks, (dispatch.rates, dispatch.state, dispatch.live, dispatch.exits[:count])):
        loop[EMPTIED] = 1


@inlined
def _dispatcher_turn(calls, sms, dispatch, loop, until):
    """The turn of the dispatcher; what is left to do."""
    row = loop[LIVE_ROW]
    count = call_number(
        calls.serve, (dispatch.rates, dispatch.state, dispatch.live, row, until // TICKS_PER_CYCLE, dispatch.idle)
    )
    if count < 0:
        return SPLIT
    if count:
        starts = dispatch.state.starts[:count]
        loop[LAST_START] = starts[count - 1]["time"]
        call_nothing(calls.deliver_starts, (sms, starts))
    following = dispatch.state.dispatcher[0, NEXT_BLOCK]
    return ENDS if dispatch.live[row, L_END] <= following < dispatch.state.dispatcher[0, BLOCKS] else 0


@compiled
def run_windows(
    calls: Calls, sms: SmState, tables: Tables, l2_rates: L2Rates, l2: L2State, dram_rates: DramRates, dram: DramState,
    requests: Box, fills: Box, dram_requests: Box, sent: Sent, dispatch: Dispatch, loop: np.ndarray,
) -> None:  # fmt: skip
    """Run through windows in which L2, SMs, DRAM or the dispatcher have work, in this order, until the window STOP or
    until something is LEFT to do for Python. All that is on its way to L2 and DRAM lies in the boxes."""
    ticks, left = loop[WINDOW_TICKS], 0
    while left == 0:
        l2_tick = min(requests.box[EARLIEST], fills.box[EARLIEST], l2.scalars[l2_state.NEXT_EVENT])
        sm_tick = NEVER
        if sms.report[R_NEXT_CYCLE] != NEVER:
            sm_tick = sms.report[R_NEXT_CYCLE] * TICKS_PER_CYCLE
        hbm_tick = min(dram.scalars[hbm.NEXT_DECISION], dram_requests.box[EARLIEST])
        first = min(l2_tick - loop[L2_OFFSET], sm_tick - loop[SM_OFFSET], hbm_tick - loop[HBM_OFFSET])
        if loop[LIVE_ROW] >= 0:
            decision = next_decision(dispatch.state)
            if decision != NEVER:
                first = min(first, decision * TICKS_PER_CYCLE - loop[DISPATCHER_OFFSET])
        window = first // ticks
        if window >= loop[STOP]:
            break
        loop[WINDOW] = window
        until = (window + 1) * ticks
        if l2_tick < until + loop[L2_OFFSET]:
            if loop[L2_HELD]:
                left = L2_ROOM
                break
            l2_until = until + loop[L2_OFFSET]
            left = _l2_turn(calls, sms, l2_rates, l2, requests, fills, dram_requests, sent, l2_until)
            if left & L2_ROOM == 0:
                loop[TURNS] += 1
            if left:
                break
        sm_until = until + loop[SM_OFFSET]
        if sms.report[R_NEXT_CYCLE] != NEVER and sms.report[R_NEXT_CYCLE] * TICKS_PER_CYCLE < sm_until:
            left = _sm_turn(calls, sms, tables, requests, sent, sm_until)
            loop[TURNS] += 1
            if left & EXITS and loop[LIVE_ROW] >= 0:
                _note_exits(calls, sms, dispatch, loop)
                left &= ~EXITS
            if left & ~EXITS:
                break
        hbm_until = until + loop[HBM_OFFSET]
        if min(dram.scalars[hbm.NEXT_DECISION], dram_requests.box[EARLIEST]) < hbm_until:
            more = _hbm_turn(calls, dram_rates, dram, dram_requests, fills, sent, hbm_until)
            if more & HBM_ROOM == 0:
                loop[TURNS] += 1
            left |= more
        if loop[LIVE_ROW] >= 0:
            decision, dispatcher_until = next_decision(dispatch.state), until + loop[DISPATCHER_OFFSET]
            if decision != NEVER and decision * TICKS_PER_CYCLE < dispatcher_until:
                left |= _dispatcher_turn(calls, sms, dispatch, loop, dispatcher_until)
                loop[TURNS] += 1
    loop[LEFT] = left
