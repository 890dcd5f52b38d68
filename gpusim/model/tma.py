"""The tensor memory accelerator of an SM: bulk instructions in, line requests out, mbarriers and groups told when they
are done.

Mental model: a queue of bulk instructions that is served in order. The oldest one that still has something to ask for
makes a request for each part of a row in a 128-byte line; data go past the L1 into shared memory. Answers may come in
any order: an instruction is done with its last one, whenever those before it are. So several are under way at once, as
deep as the queue. Its mbarrier's word is then written, which is what warps poll (:mod:`gpusim.model.signals`); an
instruction that closes a group is done when all older ones of its warp are.

An entry of the queue is a row of ``tma``; HEAD is the oldest, FED counts from there those that have nothing more to ask
for.
"""

from __future__ import annotations

from gpusim.model import counters as count
from gpusim.model import messages as message
from gpusim.model import mshr as table
from gpusim.model import program as op
from gpusim.model.arrivals import TAG_BITS, push
from gpusim.model.cluster import write_to_peers
from gpusim.model.cluster_port import SECTOR_BYTES, through_port
from gpusim.model.coalescer import bits
from gpusim.model.compiled import inlined, inner
from gpusim.model.grid_writes import OPEN, perform
from gpusim.model.messages import NEVER
from gpusim.model.phase_waits import resume
from gpusim.model.residency import BLOCK, CLUSTER_BLOCKS, GRID, wake
from gpusim.model.scheduler import AGE, FREE
from gpusim.model.scoreboard import resolve
from gpusim.model.send import send
from gpusim.model.signals import ANY_LINE, count_writes
from gpusim.model.sm_tables import (
    ARRIVALS,
    FILL_FREE_TICK,
    FREE_REQUEST,
    PEER_OUT_TICK,
    SUSPENDED_WARPS,
    TMA_COUNT,
    TMA_FED,
    TMA_HEAD,
    TMA_NEXT,
    TMA_OUT,
    USED_REQUEST,
)
from gpusim.model.stall_reasons import LONG_SCOREBOARD
from gpusim.model.timing import (
    CHAINED,
    SUB_CORES,
    TMA_COMPLETION,
    TMA_ENTRIES,
    TMA_FILL_TICKS,
    TMA_INTERVAL,
    TMA_MAP,
    TMA_REQUESTS,
    TMA_SETUP,
)
from gpusim.model.trace_tables import (
    A_BULK,
    A_SIGNAL,
    B_ADDRESS,
    B_COUNT,
    B_KIND,
    B_MAPPED,
    B_MORE,
    B_ROW_BYTES,
    B_STRIDE,
)
from gpusim.state_tables import Table
from gpusim.trace.record import NO_BARRIER, MemoryKind, PipeClass

TMA_TABLE = Table(__name__, "tma", "an entry of an SM's queue", "A bulk instruction that its accelerator serves.")
X_WARP = TMA_TABLE.column("index", "that issued it")
X_PC = TMA_TABLE.column("index", "of the instruction")
X_AGE = TMA_TABLE.column("count", "its warp's age")
X_READY = TMA_TABLE.column("cycle", "from which it may make requests")
X_BOX = TMA_TABLE.column("index", "1 + row of ``tables.bulks`` that it moves now; 0: none is left")
X_AT = TMA_TABLE.column("count", "rows done along each of four dimensions", span=4)
X_OFFSET = TMA_TABLE.column("bytes", "done of the row")
X_SIGNAL = TMA_TABLE.column("index", "1 + first row of ``tables.signals`` of its access; 0: none")
X_COUNTER = TMA_TABLE.column("index", "counter that falls when it is done, or NO_BARRIER")
X_CLOSES = TMA_TABLE.column("flag", "it closes a group: it waits for all older ones of its warp")
X_OPEN = TMA_TABLE.column("count", "its unanswered requests")
X_DONE = TMA_TABLE.column("tick", "at which its latest data were there")
X_GRID = TMA_TABLE.column("index", "1 + grid of a chain for which it writes; 0: none")
X_STATE = TMA_TABLE.column("code", "ASKS, WAITS for answers or older ones, ENDS at a known time, ENDED")
ASKS, WAITS, ENDS, ENDED = 0, 1, 2, 3

TICKS = message.TICKS_PER_CYCLE
PORT = int(PipeClass.TMA)
STORE, REDUCTION, PREFETCH = int(MemoryKind.BULK_STORE), int(MemoryKind.BULK_REDUCTION), int(MemoryKind.BULK_PREFETCH)
SHARED_COPY = int(MemoryKind.BULK_SHARED_COPY)
LINE_BYTES, SECTOR_SHIFT = 128, 5
#: Entries beyond those that the GPU has: each sub-core may issue one more in the cycle in which the queue fills.
SLACK = 16
#: Requests that are made at one visit: fewer visits, each in its own cycle all the same.
_AT_ONCE = 4


@inner
def take_in(state, tables, sm, warp, pc, access, now):
    """Put the bulk instruction that the warp issues in cycle ``now`` into the queue."""
    program, timing, sms, entries = state.program, state.timing, state.sms, state.tma
    closes = program[pc, op.BULK] == op.CLOSES
    box = 0 if closes else tables.accesses[access, A_BULK]
    if box == 0 and not closes:  # no thread was elected
        return
    place = (sms[sm, TMA_HEAD] + sms[sm, TMA_COUNT]) % entries.shape[1]
    entry = entries[sm, place]
    entry[:] = 0
    entry[X_WARP], entry[X_AGE] = warp, state.resident.slots[warp, AGE]
    entry[X_PC], entry[X_BOX], entry[X_CLOSES] = pc, box, closes
    if box:
        state.work[pc, count.BULK_INSTRUCTIONS] += 1
    if (
        box
        and timing[CHAINED]
        and tables.bulks[box - 1, B_KIND] <= REDUCTION
        and tables.bulks[box - 1, B_KIND] >= STORE
    ):
        entry[X_GRID] = 1 + state.resident.blocks[state.resident.warps[warp, BLOCK], GRID]
        state.grid_writes[sm, entry[X_GRID] - 1, OPEN] += 1
    entry[X_SIGNAL] = 0 if closes else tables.accesses[access, A_SIGNAL]
    entry[X_COUNTER] = program[pc, op.WRITE_BARRIER] if closes else NO_BARRIER
    ready = now + timing[TMA_SETUP]
    if box and tables.bulks[box - 1, B_MAPPED]:
        ready += timing[TMA_MAP]
    entry[X_READY] = now if closes else ready
    sms[sm, TMA_COUNT] += 1
    if sms[sm, TMA_COUNT] >= timing[TMA_ENTRIES]:
        for sub in range(sm * timing[SUB_CORES], (sm + 1) * timing[SUB_CORES]):
            state.resident.ports[sub, PORT, FREE] = NEVER
    if sms[sm, TMA_FED] + 1 == sms[sm, TMA_COUNT]:
        sms[sm, TMA_NEXT] = max(now + 1, entry[X_READY])


@inner
def _next_box(bulks, entry):
    """Go on to the next box of the instruction that has rows, if there is one."""
    while entry[X_BOX]:
        row = bulks[entry[X_BOX] - 1]
        entry[X_OFFSET] = 0
        empty = row[B_ROW_BYTES] == 0
        for axis in range(4):
            entry[X_AT + axis] = 0
            empty |= row[B_COUNT + axis] == 0
        if not empty:
            return
        entry[X_BOX] = entry[X_BOX] + 1 if row[B_MORE] else 0


@inner
def _step(bulks, entry, moved):
    """``moved`` bytes of the row have been asked for."""
    row = bulks[entry[X_BOX] - 1]
    entry[X_OFFSET] += moved
    if entry[X_OFFSET] < row[B_ROW_BYTES]:
        return
    entry[X_OFFSET] = 0
    for axis in range(4):
        entry[X_AT + axis] += 1
        if entry[X_AT + axis] < row[B_COUNT + axis]:
            return
        entry[X_AT + axis] = 0
    entry[X_BOX] = entry[X_BOX] + 1 if row[B_MORE] else 0
    _next_box(bulks, entry)


@inner
def feed(state, tables, sm, now):
    """Let the oldest instruction that still has something to ask for make its next requests; sets the cycle of the next
    visit."""
    timing, sms, entries, bulks = state.timing, state.sms, state.tma, tables.bulks
    sms[sm, TMA_NEXT] = NEVER
    if sms[sm, TMA_FED] == sms[sm, TMA_COUNT] or sms[sm, TMA_OUT] >= timing[TMA_REQUESTS]:
        return
    place = (sms[sm, TMA_HEAD] + sms[sm, TMA_FED]) % entries.shape[1]
    entry = entries[sm, place]
    if entry[X_READY] > now:
        sms[sm, TMA_NEXT] = entry[X_READY]
        return
    if entry[X_OPEN] == 0 and entry[X_OFFSET] == 0:
        _next_box(bulks, entry)
    leave = now
    for _ in range(_AT_ONCE):
        if entry[X_BOX] == 0 or sms[sm, TMA_OUT] >= timing[TMA_REQUESTS]:
            break
        row = bulks[entry[X_BOX] - 1]
        address = row[B_ADDRESS] + entry[X_OFFSET]
        for axis in range(4):
            address += row[B_STRIDE + axis] * entry[X_AT + axis]
        moved = min(row[B_ROW_BYTES] - entry[X_OFFSET], LINE_BYTES - (address & (LINE_BYTES - 1)))
        _ask(state, sm, place, row[B_KIND], address, moved, leave)
        _step(bulks, entry, moved)
        leave += timing[TMA_INTERVAL]
    if entry[X_BOX] == 0:
        entry[X_STATE] = WAITS
        sms[sm, TMA_FED] += 1
        _look(state, sm, place, leave)
    if sms[sm, TMA_OUT] < timing[TMA_REQUESTS] and sms[sm, TMA_FED] < sms[sm, TMA_COUNT]:
        following = entries[sm, (sms[sm, TMA_HEAD] + sms[sm, TMA_FED]) % entries.shape[1], X_READY]
        sms[sm, TMA_NEXT] = max(leave, following, now + 1)


@inner
def _ask(state, sm, place, kind, address, moved, cycle):
    """Request, or write, ``moved`` bytes from ``address`` on, which lie in one line, in ``cycle``."""
    entry, sms = state.tma[sm, place], state.sms
    if kind >= SHARED_COPY:  # between shared memories: as long as the requests take to be made, and to leave the SM
        sectors = (moved + SECTOR_BYTES - 1) // SECTOR_BYTES
        entry[X_DONE] = max(entry[X_DONE], through_port(sms, state.timing, sm, PEER_OUT_TICK, sectors, cycle * TICKS))
        return
    first = (address & (LINE_BYTES - 1)) >> SECTOR_SHIFT
    last = ((address & (LINE_BYTES - 1)) + moved - 1) >> SECTOR_SHIFT
    sectors = (2 << last) - (1 << first)
    writes = kind == STORE or kind == REDUCTION
    to = message.WRITE if kind == STORE else message.REDUCTION if kind == REDUCTION else message.READ
    payload = bits(sectors) if writes else 0
    fields = (to, address & -LINE_BYTES, sectors, payload, moved if writes else 0, 1 if kind == REDUCTION else 0)
    content = table.content(message.BULK_WRITE if writes or kind == PREFETCH else message.BULK_READ, sectors, place, 0)
    sender = table.sender(entry[X_WARP], entry[X_AGE])
    send(state.out, state.report, state.mshr.requests, sms, state.timing, sm, fields, content, sender, 0, cycle * TICKS)
    entry[X_OPEN] += 1
    sms[sm, TMA_OUT] += 1
    state.work[entry[X_PC], count.BULK_REQUESTS] += 1
    state.work[entry[X_PC], count.SECTORS_TO_L2] += payload


@inlined
def answered(state, sm, place, kind, sectors, tick, now):
    """A request of the entry ``place`` has been answered at ``tick``: its data take the input port of the crossbar."""
    timing, sms = state.timing, state.sms
    entry = state.tma[sm, place]
    if kind == message.BULK_READ:
        start = max(tick, sms[sm, FILL_FREE_TICK])
        tick = start + bits(sectors) * timing[TMA_FILL_TICKS]
        sms[sm, FILL_FREE_TICK] = tick
        state.counters[count.SECTORS_FROM_L2] += bits(sectors)
    entry[X_DONE] = max(entry[X_DONE], tick)
    entry[X_OPEN] -= 1
    sms[sm, TMA_OUT] -= 1
    if sms[sm, TMA_NEXT] == NEVER and sms[sm, TMA_FED] < sms[sm, TMA_COUNT]:
        sms[sm, TMA_NEXT] = now
    _look(state, sm, place, now)


@inner
def _look(state, sm, place, now):
    """If the entry has all its answers, and those that it waits for have ended, its end gets a known time."""
    sms, entries, requests = state.sms, state.tma, state.mshr.requests
    entry = entries[sm, place]
    if entry[X_STATE] != WAITS or entry[X_OPEN]:
        return
    if entry[X_CLOSES]:
        older = sms[sm, TMA_HEAD]
        while older != place:
            other = entries[sm, older]
            if other[X_STATE] != ENDED and other[X_WARP] == entry[X_WARP] and other[X_AGE] == entry[X_AGE]:
                return
            older = (older + 1) % entries.shape[1]
    entry[X_STATE] = ENDS
    after = 0 if entry[X_CLOSES] else state.timing[TMA_COMPLETION] * TICKS
    tick = max(entry[X_DONE], now * TICKS) + after
    tag = table.take(requests, sm, sms, FREE_REQUEST, USED_REQUEST)
    requests[sm, tag, table.CONTENT] = table.content(message.BULK_DONE, 0, place, 0)
    requests[sm, tag, table.SENDER] = 0
    push(state.heap, sm, sms, ARRIVALS, tick << TAG_BITS | tag)


@inner
def write_words(state, tables, sm, warp, signal, now):
    """Make the writes of an asynchronous access that ``warp`` issued: those into shared memory of other blocks of the
    cluster come there later."""
    resident = state.resident
    block = resident.warps[warp, BLOCK]
    if resident.blocks[block, CLUSTER_BLOCKS]:
        write_to_peers(
            state.peers_sent, state.report, resident.blocks, tables.signals, state.written, state.timing, block, signal, now
        )  # fmt: skip
    else:
        count_writes(tables.signals, state.written, signal, ANY_LINE)
    if state.sms[sm, SUSPENDED_WARPS]:
        resume(
            resident, state.program, state.timing, state.sms, tables.signals, state.written, state.counters, sm, block, now
        )  # fmt: skip


@inner
def end(state, tables, sm, place, now):
    """The entry is done in cycle ``now``: tell its mbarrier or its warp, make room, and look at those that waited for
    it."""
    timing, sms, entries, resident = state.timing, state.sms, state.tma, state.resident
    entry = entries[sm, place]
    entry[X_STATE] = ENDED
    if entry[X_GRID]:
        perform(state.grid_writes, state.exits, state.report, timing, sm, entry[X_GRID] - 1, now)
    warp = entry[X_WARP]
    if entry[X_SIGNAL]:
        write_words(state, tables, sm, warp, entry[X_SIGNAL], now)
    if entry[X_COUNTER] != NO_BARRIER and resident.slots[warp, AGE] == entry[X_AGE]:
        resolve(resident.board, warp, entry[X_COUNTER], now, LONG_SCOREBOARD)
        wake(resident, state.program, timing, warp, now)
    was_full = sms[sm, TMA_COUNT] >= timing[TMA_ENTRIES]
    while sms[sm, TMA_COUNT] and entries[sm, sms[sm, TMA_HEAD], X_STATE] == ENDED:
        sms[sm, TMA_HEAD] = (sms[sm, TMA_HEAD] + 1) % entries.shape[1]
        sms[sm, TMA_COUNT] -= 1
        sms[sm, TMA_FED] -= 1
    if was_full and sms[sm, TMA_COUNT] < timing[TMA_ENTRIES]:
        for sub in range(sm * timing[SUB_CORES], (sm + 1) * timing[SUB_CORES]):
            resident.ports[sub, PORT, FREE] = now
            resident.subs_next[sub] = min(resident.subs_next[sub], now)
    for i in range(sms[sm, TMA_FED]):
        waiting = (sms[sm, TMA_HEAD] + i) % entries.shape[1]
        if entries[sm, waiting, X_CLOSES]:
            _look(state, sm, waiting, now)
