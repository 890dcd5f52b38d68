"""DRAM channels: banks with open rows behind one data bus each, served row hits first.

Mental model: channels know nothing of one another. A channel keeps the reads and the writes that have arrived in two
queues in order of arrival. Whenever its bus is free it picks, among the oldest ``WINDOW`` entries of the queue whose
turn it is, the one whose data can start first (an open row now; a closed one after the row change, which the
controller is taken to have begun as soon as the bank was free), the older one on a tie; when the oldest has been
passed over ``PATIENCE`` times it goes. Reads go before writes until ``write_high`` writes wait, or no read waits and a
write is older than ``write_hold``; then writes go until ``write_low`` remain. Where ``turn`` is not 0, and reads wait,
the bus keeps a direction for so many requests: writes then go no further than that, and reads at least as far. Each
change of direction costs the bus its turnaround. Error codes that lie in line share the row of their data: whoever
opens a row has its codes read behind its data, and a write puts them back as well. Banks are refreshed one by one,
each once an interval at a time of its own: who comes meanwhile waits for the end of it, and then for the row. What the
bus loses by it is part of the efficiency that scales the bus.

Times are ticks. A decision at a tick depends only on what had arrived by that tick, so windows cannot
be seen in the result.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.model.address_hash import Layout, bank_of, fold, row_of
from gpusim.model.compiled import compiled, inlined, inner
from gpusim.model.known_widths import known_rows
from gpusim.model.messages import NEVER, READ, WRITE
from gpusim.model.prefetch import prefetch
from gpusim.model.sector_mask import popcount
from gpusim.model.whole_division import quotient, remainder
from gpusim.state_tables import Table

WINDOW = 16
PATIENCE = 32

NODE_TABLE = Table(__name__, "nodes", "a node", "A queued request.", whole_lines=True)
TIME = NODE_TABLE.column("tick", "of its arrival")
BANK = NODE_TABLE.column("index", "of its channel")
ROW = NODE_TABLE.column("index", "of its bank")
SECTORS = NODE_TABLE.column("mask", "wanted or written")
HANDLE = NODE_TABLE.column("index", "comes back in the answer")
SEQUENCE = NODE_TABLE.column("count", "the L2's number of it")
NEXT = NODE_TABLE.column("link", "next of its queue, or next free node; -1: none")
NODE_COLUMNS = NODE_TABLE.width

# The first index of heads and tails is the queue: READ, WRITE.
CHANNEL_TABLE = Table(__name__, "channels", "a channel", "Its two queues, and its bus.")
READ_HEAD = CHANNEL_TABLE.column("link", "oldest waiting read, or -1")
WRITE_HEAD = CHANNEL_TABLE.column("link", "oldest waiting write, or -1")
READ_TAIL = CHANNEL_TABLE.column("link", "youngest waiting read, or -1")
WRITE_TAIL = CHANNEL_TABLE.column("link", "youngest waiting write, or -1")
WRITE_FRONTIER = CHANNEL_TABLE.column("link", "first write that had not arrived at the last decision")
WRITES_ARRIVED = CHANNEL_TABLE.column("count", "writes that had")
BUS_FREE = CHANNEL_TABLE.column("tick", "from which the bus is free")
DIRECTION = CHANNEL_TABLE.column("code", "the queue of the last burst")
IN_TURN = CHANNEL_TABLE.column("count", "requests since the bus changed its direction")
PASSED_OVER = CHANNEL_TABLE.column("count", "times that the oldest request was passed over")
BUSY = CHANNEL_TABLE.column("ticks", "of the bus")
CHANNEL_COLUMNS = CHANNEL_TABLE.width

BANK_TABLE = Table(__name__, "banks", "a bank of a channel", "Its open row.")
OPEN_ROW = BANK_TABLE.column("index", "or -1")
OPEN_SINCE = BANK_TABLE.column("tick", "from which the row is open")
ACTIVATED = BANK_TABLE.column("tick", "of the last activation")
LAST_USE = BANK_TABLE.column("tick", "at which the last burst from it ended")
BANK_COLUMNS = BANK_TABLE.width

_NODE_WIDTH, _CHANNEL_WIDTH, _BANK_WIDTH = NODE_TABLE.row_width, CHANNEL_TABLE.row_width, BANK_TABLE.row_width

SCALAR_TABLE = Table(__name__, "scalars", "", "DRAM's single numbers.")
FREE_NODE = SCALAR_TABLE.column("link", "first free node, or -1")
RESPONSES = SCALAR_TABLE.column("count", "messages in ``responses``")
LAST_TICK = SCALAR_TABLE.column("tick", "of the latest burst's start")
QUEUED = SCALAR_TABLE.column("count", "requests in queues")
NEXT_DECISION = SCALAR_TABLE.column("tick", "as far as is known, or NEVER")
NODES_USED = SCALAR_TABLE.column("count", "nodes that have ever been taken; the free list begins empty")
SCALARS = SCALAR_TABLE.width

COUNTER_TABLE = Table(__name__, "counters", "", "What DRAM counts.")
BYTES_READ = COUNTER_TABLE.column("bytes", "read")
BYTES_WRITTEN = COUNTER_TABLE.column("bytes", "written")
ROW_HITS = COUNTER_TABLE.column("count", "requests to an open row")
ROW_MISSES = COUNTER_TABLE.column("count", "requests that changed the row")
TURNAROUNDS = COUNTER_TABLE.column("count", "changes of a bus's direction")
COUNTERS = COUNTER_TABLE.width


class DramRates(NamedTuple):
    """Frozen scalars of the DRAM: counts, and times in ticks."""

    channels: int
    banks: int
    row_lines: int
    line_bytes: int
    sector_bytes: int
    layout: Layout  # where lines live
    burst: int  # a sector on the bus
    row_change: int  # precharge and activate
    row_cycle: int  # one activation of a bank to its next
    turnaround: int
    write_high: int
    write_low: int
    write_hold: int
    turn: int  # requests of a direction at one go while reads wait; 0: as many as there are
    refresh_interval: int  # a bank's refresh to its next
    refresh: int  # what one keeps the bank; 0: none
    answer: int  # end of the burst to the data's arrival at the slice
    codes: int  # a row's error codes on the bus, one way; 0: none lie in line


class DramState(NamedTuple):
    """Everything that changes."""

    channels: np.ndarray  # int64[channels, CHANNEL_COLUMNS]
    banks: np.ndarray  # int64[channels, banks, BANK_COLUMNS]
    nodes: np.ndarray  # int64[n, NODE_COLUMNS]
    taken: np.ndarray  # int64[n]: numbers of a window's requests, channel by channel
    ends: np.ndarray  # int64[channels]: where each channel's end in ``taken``
    scalars: np.ndarray  # int64[SCALARS]
    counters: np.ndarray  # int64[COUNTERS]
    responses: np.ndarray  # DRAM_RESPONSE[...]


def make_channels(channels: int, banks: int) -> tuple[np.ndarray, np.ndarray]:
    """Idle channels, all rows closed."""
    state = CHANNEL_TABLE.zeros(channels)
    state[:, READ_HEAD : WRITE_FRONTIER + 1] = -1
    bank_state = BANK_TABLE.zeros(channels, banks)
    bank_state[:, :, OPEN_ROW] = -1
    bank_state[:, :, ACTIVATED] = -(2**40)
    return state, bank_state


@inner
def _enqueue(p: DramRates, d: DramState, request: np.void) -> None:
    line = quotient(np.int64(request["line"]), p.line_bytes)
    channel = np.int64(request["channel"])
    row = row_of(line, p.layout, p.channels, p.row_lines)
    count = popcount(np.int64(request["sectors"]))
    node = d.scalars[FREE_NODE]
    if node < 0:
        node = d.scalars[NODES_USED]
        d.scalars[NODES_USED] = node + 1
    else:
        d.scalars[FREE_NODE] = d.nodes[node, NEXT]
    d.scalars[QUEUED] += 1
    d.nodes[node, TIME] = request["time"]
    d.nodes[node, BANK] = bank_of(row, p.banks)
    d.nodes[node, ROW] = row
    d.nodes[node, SECTORS] = np.int64(request["sectors"])
    d.nodes[node, HANDLE] = request["handle"]
    d.nodes[node, SEQUENCE] = request["sequence"]
    d.nodes[node, NEXT] = -1
    queue = 0
    d.counters[BYTES_READ if request["kind"] == READ else BYTES_WRITTEN] += count * p.sector_bytes
    if request["kind"] == WRITE:
        queue = 1
        if d.channels[channel, WRITE_FRONTIER] < 0:
            d.channels[channel, WRITE_FRONTIER] = node
    tail = d.channels[channel, READ_TAIL + queue]
    if tail < 0:
        d.channels[channel, READ_HEAD + queue] = node
    else:
        d.nodes[tail, NEXT] = node
    d.channels[channel, READ_TAIL + queue] = node


@inner
def _after_refresh(p: DramRates, channel: int, bank: int, tick: int) -> int:
    """``tick``, or the end of the refresh that keeps the bank then. Each bank begins at a time of its own."""
    if p.refresh == 0:
        return tick
    begin = (fold(channel * p.banks + bank) * p.refresh_interval) >> 16
    since = remainder(tick + begin, p.refresh_interval)
    return tick + p.refresh - since if since < p.refresh else tick


@inner
def _data_ready(p: DramRates, d: DramState, channel: int, node: int) -> int:
    """The earliest tick at which the node's bank can put its data on the bus."""
    bank = d.nodes[node, BANK]
    arrival = d.nodes[node, TIME]
    if d.banks[channel, bank, OPEN_ROW] == d.nodes[node, ROW]:
        ready = max(arrival, d.banks[channel, bank, OPEN_SINCE])
        free = _after_refresh(p, channel, bank, ready)
        return ready if free == ready else free + p.row_change
    begin = max(arrival, d.banks[channel, bank, LAST_USE])
    begin = max(begin, d.banks[channel, bank, ACTIVATED] + p.row_cycle)
    return _after_refresh(p, channel, bank, begin) + p.row_change


@inner
def _pick(p: DramRates, d: DramState, channel: int, queue: int, now: int, bus: int) -> tuple[int, int, int, int]:
    """Among the queue's entries that have arrived by ``now``: (the one that starts first, its start,
    the entry before it, the arrival of the first entry that has not arrived)."""
    best = -1
    best_before = -1
    best_start = NEVER
    before = -1
    node = d.channels[channel, READ_HEAD + queue]
    looked_at = 0
    limit = 1 if d.channels[channel, PASSED_OVER] >= PATIENCE else WINDOW
    while node >= 0 and looked_at < limit:
        if d.nodes[node, TIME] > now:
            return best, best_start, best_before, d.nodes[node, TIME]
        following = d.nodes[node, NEXT]
        if following >= 0:
            prefetch(d.nodes, (following, 0))
        start = max(bus, _data_ready(p, d, channel, node))
        if start < best_start:
            best, best_start, best_before = node, start, before
            if start == bus:
                return best, best_start, best_before, NEVER
        before = node
        node = following
        looked_at += 1
    return best, best_start, best_before, NEVER


@inner
def _codes_of_row(p: DramRates, d: DramState, channel: int, queue: int, node: int) -> int:
    """What the bus moves of error codes for a request: those of a row that it opens, once for a read and twice for a
    write, which changes them."""
    if p.codes == 0 or d.banks[channel, d.nodes[node, BANK], OPEN_ROW] == d.nodes[node, ROW]:
        return 0
    return (1 + queue) * p.codes


@inner
def _use_bank(p: DramRates, d: DramState, channel: int, node: int, end: int) -> None:
    bank = d.nodes[node, BANK]
    if d.banks[channel, bank, OPEN_ROW] == d.nodes[node, ROW]:
        d.counters[ROW_HITS] += 1
    else:
        d.counters[ROW_MISSES] += 1
        ready = _data_ready(p, d, channel, node)
        d.banks[channel, bank, OPEN_ROW] = d.nodes[node, ROW]
        d.banks[channel, bank, OPEN_SINCE] = ready
        d.banks[channel, bank, ACTIVATED] = ready - p.row_change
    d.banks[channel, bank, LAST_USE] = end


@inner
def _remove(d: DramState, channel: int, queue: int, node: int, before: int) -> None:
    following = d.nodes[node, NEXT]
    if before < 0:
        d.channels[channel, READ_HEAD + queue] = following
    else:
        d.nodes[before, NEXT] = following
    if d.channels[channel, READ_TAIL + queue] == node:
        d.channels[channel, READ_TAIL + queue] = before
    d.nodes[node, NEXT] = d.scalars[FREE_NODE]
    d.scalars[FREE_NODE] = node
    d.scalars[QUEUED] -= 1


@inner
def _advance_channel(p: DramRates, d: DramState, channel: int, until: int) -> int:
    """Make this channel's decisions that fall strictly before ``until``; the tick of the next one,
    as far as is known, or NEVER."""
    own = d.channels[channel]
    now = own[BUS_FREE]
    while own[READ_HEAD] >= 0 or own[WRITE_HEAD] >= 0:
        first_read = first_write = NEVER
        if own[READ_HEAD] >= 0:
            first_read = d.nodes[own[READ_HEAD], TIME]
        if own[WRITE_HEAD] >= 0:
            first_write = d.nodes[own[WRITE_HEAD], TIME]
        now = max(now, min(first_read, first_write))
        if now >= until:
            return now
        frontier, writes = own[WRITE_FRONTIER], own[WRITES_ARRIVED]
        while frontier >= 0 and d.nodes[frontier, TIME] <= now:
            frontier = d.nodes[frontier, NEXT]
            writes += 1
        writing = own[DIRECTION] == 1
        draining = writing and writes > p.write_low
        # While reads wait, writes end with their turn and do not begin within that of reads.
        reads_turn = p.turn > 0 and first_read <= now and writing == (own[IN_TURN] >= p.turn)
        if not reads_turn and (draining or writes >= p.write_high or first_write + p.write_hold <= now < first_read):
            queue = 1
        elif first_read <= now:
            queue = 0
        else:  # only young writes: wait for a read, for more of them, or until they are old
            now = min(first_read, first_write + p.write_hold)
            if frontier >= 0:
                now = min(now, d.nodes[frontier, TIME])
            continue
        bus = now
        if queue != own[DIRECTION]:
            bus = max(now, own[BUS_FREE] + p.turnaround)
        node, start, before, unseen = _pick(p, d, channel, queue, now, bus)
        if start > now:
            # Not yet: whatever arrives before that start may still go first.
            other = min(unseen, first_read if first_read > now else NEVER)
            if first_write > now:
                other = min(other, first_write)
            elif queue == 0 and frontier >= 0:
                other = min(other, d.nodes[frontier, TIME])
            later = min(start, other)
            if later >= until:
                return later
            if other <= start:
                now = other
                continue
        own[WRITE_FRONTIER], own[WRITES_ARRIVED] = frontier, writes
        if queue != own[DIRECTION]:
            d.counters[TURNAROUNDS] += 1
            own[IN_TURN] = 0
        own[IN_TURN] += 1
        own[DIRECTION] = queue
        own[PASSED_OVER] = 0 if before < 0 else own[PASSED_OVER] + 1
        end = start + popcount(d.nodes[node, SECTORS]) * p.burst + _codes_of_row(p, d, channel, queue, node)
        _use_bank(p, d, channel, node, end)
        own[BUS_FREE] = end
        own[BUSY] += end - start
        d.scalars[LAST_TICK] = max(d.scalars[LAST_TICK], start)
        if queue == 1:
            own[WRITES_ARRIVED] -= 1
        at = d.scalars[RESPONSES]
        d.responses[at]["time"] = end + p.answer
        d.responses[at]["sequence"] = d.nodes[node, SEQUENCE]
        d.responses[at]["handle"] = d.nodes[node, HANDLE]
        d.responses[at]["sectors"] = d.nodes[node, SECTORS]
        d.scalars[RESPONSES] = at + 1
        _remove(d, channel, queue, node, before)
        now = end
    return NEVER


#: How many requests ahead, in the order of their channels, the next one is asked for.
_AHEAD = 4


@inlined
def _sort_by_channel(d: DramState, requests: np.ndarray, count: int) -> None:
    """Note the numbers of the first ``count`` requests channel by channel, in a channel as they stand."""
    ends = d.ends
    for channel in range(len(ends)):
        ends[channel] = 0
    for i in range(count):
        ends[np.int64(requests[i]["channel"])] += 1
    total = 0
    for channel in range(len(ends)):
        begin = total
        total += ends[channel]
        ends[channel] = begin
    for i in range(count):
        channel = np.int64(requests[i]["channel"])
        d.taken[ends[channel]] = i
        ends[channel] += 1


@inlined
def _hint_oldest(d: DramState, channel: int) -> None:
    """Ask for the oldest entries of a channel's queues."""
    for head in range(READ_HEAD, WRITE_HEAD + 1):
        if d.channels[channel, head] >= 0:
            prefetch(d.nodes, (d.channels[channel, head], 0))


@inlined
def _hint_others(d: DramState, channel: int) -> None:
    """Ask for those behind the oldest, which are there by now, and for those behind which requests will queue."""
    for head in range(READ_HEAD, WRITE_HEAD + 1):
        oldest, youngest = d.channels[channel, head], d.channels[channel, READ_TAIL + head]
        if oldest >= 0:
            if d.nodes[oldest, NEXT] >= 0:
                prefetch(d.nodes, (d.nodes[oldest, NEXT], 0))
            prefetch(d.nodes, (youngest, 0))


@inlined
def _known_widths(d: DramState) -> DramState:
    """The state as it is, with the widths of its tables' rows known to the compiled code."""
    return DramState(
        known_rows(d.channels, _CHANNEL_WIDTH),
        known_rows(d.banks, _BANK_WIDTH),
        known_rows(d.nodes, _NODE_WIDTH),
        d.taken,
        d.ends,
        d.scalars,
        d.counters,
        d.responses,
    )


@compiled
def handle_until(p: DramRates, d: DramState, requests: np.ndarray, until: int) -> int:
    """Take the requests that arrive before ``until`` and make all decisions strictly before it.

    ``requests`` DRAM_REQUEST[...] sorted by (time, sequence). Returns how many were taken; answers lie in
    ``d.responses[: scalars[RESPONSES]]``, channel by channel. The caller has made room.

    Where requests are many, each channel takes its own when it has its turn, not all in order of arrival before the
    first one's turn: nodes that a channel has freed are then still in the host's nearest cache when the next one takes
    them. Where they are few, sorting them costs more.
    """
    d = _known_widths(d)
    d.scalars[RESPONSES] = 0
    taken = 0
    while taken < len(requests) and requests[taken]["time"] < until:
        taken += 1
    following = NEVER
    if d.scalars[QUEUED] or taken:
        at = 0
        by_channel = taken >= p.channels
        if by_channel:
            _sort_by_channel(d, requests, taken)
        else:
            for i in range(taken):
                _enqueue(p, d, requests[i])
        for channel in range(p.channels):
            if channel + 2 < p.channels:
                _hint_oldest(d, channel + 2)
            if channel + 1 < p.channels:
                _hint_others(d, channel + 1)
            while by_channel and at < d.ends[channel]:
                if at + _AHEAD < taken:
                    prefetch(requests, (d.taken[at + _AHEAD],))
                _enqueue(p, d, requests[d.taken[at]])
                at += 1
            if d.channels[channel, READ_HEAD] >= 0 or d.channels[channel, WRITE_HEAD] >= 0:
                following = min(following, _advance_channel(p, d, channel, until))
    d.scalars[NEXT_DECISION] = following
    return taken
