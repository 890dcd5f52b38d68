"""The trace's chunks as a running launch needs them: brought in before a warp gets there, dropped behind the last one.

Mental model: a window that slides over the trace. Chunks lie in the arena from when their first block is served, or a
warp of a block that goes on in them is within a window's reach, until their blocks have ended or moved on. A warp's
rows of one chunk after another are linked; at each window's begin every resident warp has as many instructions before
it as it can issue in the window, or all that it has left (looked at every few windows, that many windows ahead). So a
block of any length needs what lies between its first and its last warp.

Whether a warp whose part ends with EXIT goes on (other lanes may) shows only in later chunks: the next one is looked
at, and beyond it :class:`ReadAhead` reads the rest once, keeping one bit a warp.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpusim.engine.arena import Arena, LiveChunk
from gpusim.engine.sm import SmGroup
from gpusim.errors import TraceFormatError
from gpusim.model.compiled import compiled, inner
from gpusim.model.messages import NEVER
from gpusim.model.residency import LEFT, ROW, RUN
from gpusim.model.scheduler import AGE
from gpusim.model.sm_tables import Q_ACCESS, QUEUE_COUNT, QUEUE_HEAD, S_CYCLE, S_WARP_ROW
from gpusim.model.trace_tables import (
    ENDS,
    NOT_HERE,
    RUN_COUNT,
    RUN_POLL,
    UNKNOWN,
    W_NEXT,
    W_PART,
    W_POLLS,
    W_RUN,
    W_RUN_END,
)
from gpusim.state_tables import Table
from gpusim.trace.record import Chunk, Flag, Trace

LIVE_TABLE = Table(__name__, "live", "a chunk in the arena", "The blocks that begin in it.")
L_FIRST = LIVE_TABLE.column("index", "the first one, in the grid")
L_END = LIVE_TABLE.column("index", "behind the last one")
L_ENDED = LIVE_TABLE.column("count", "of them that have ended")
L_WARPS = LIVE_TABLE.column("index", "row of the first one's first warp in ``tables.warps``")


@inner
def _lacks(tables, row, run, left, need):
    """0 if ``need`` instructions lie before a warp that has ``left`` of ``run``, or all it has; else NOT_HERE or
    UNKNOWN."""
    have = left
    while True:
        end = tables.warps[row, W_RUN_END]
        if have + end - run - tables.warps[row, W_POLLS] > need:  # a run is an instruction at least
            return 0
        later = run + 1
        while later < end:
            if tables.runs[later, RUN_POLL]:  # it may not be executed
                later += tables.runs[later, RUN_POLL]
            else:
                have += tables.runs[later, RUN_COUNT]
                later += 1
        if have >= need:
            return 0
        following = tables.warps[row, W_NEXT]
        if following == ENDS:
            return 0
        if following < 0:
            return following
        row = following
        run = tables.warps[row, W_RUN] - 1


@compiled
def resident_lack(state, tables, need):
    """What :func:`_lacks` says of the first resident warp of a group that lacks something; 0 if none does."""
    warps, slots = state.resident.warps, state.resident.slots
    for warp in range(warps.shape[0]):
        if slots[warp, AGE] and tables.warps[warps[warp, ROW], W_NEXT] != ENDS:
            what = _lacks(tables, warps[warp, ROW], warps[warp, RUN], warps[warp, LEFT], need)
            if what:
                return what
    return 0


@compiled
def waiting_lack(tables, first, end, need):
    """The same of warps that have not begun, rows ``first`` to ``end - 1``."""
    for row in range(first, end):
        what = _lacks(tables, row, tables.warps[row, W_RUN] - 1, 0, need)
        if what:
            return what
    return 0


@compiled
def oldest_part(state, tables):
    """The earliest chunk that a warp of a group stands in, or a block that is about to start; NEVER if there is
    none."""
    warps, slots = state.resident.warps, state.resident.slots
    oldest = NEVER
    for warp in range(warps.shape[0]):
        if slots[warp, AGE]:
            oldest = min(oldest, tables.warps[warps[warp, ROW], W_PART])
    for slot in range(state.starts.shape[0]):
        if state.starts[slot, S_CYCLE] != NEVER:
            oldest = min(oldest, tables.warps[state.starts[slot, S_WARP_ROW], W_PART])
    return oldest


@compiled
def is_queued(state, first, end):
    """Whether a memory instruction that waits in a group's queues uses an access from ``first`` to ``end - 1``."""
    entries = state.queue.shape[1]
    for sub in range(state.queue.shape[0]):
        for i in range(state.subs[sub, QUEUE_COUNT]):
            access = state.queue[sub, (state.subs[sub, QUEUE_HEAD] + i) % entries, Q_ACCESS]
            if first <= access < end:
                return True
    return False


def has_runs(chunk: Chunk) -> np.ndarray:
    """Whether each warp of the chunk executes anything in it, bool[warps]."""
    return (np.diff(chunk.path_start) > 0)[chunk.warps["path"]]


class ReadAhead:
    """A second reading of the trace, ahead of the first: which warps of open blocks go on beyond the next chunk."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._chunks = enumerate(chunks)
        self._seen: dict[int, tuple[int, int, np.ndarray]] = {}  # chunk -> first block, blocks that close, has_runs
        self._next = 0

    def goes_on(self, block: int, warp: int, per_block: int, number: int) -> bool:
        """Whether warp ``warp`` of ``block``, which is open at the end of chunk ``number - 1``, executes anything from
        chunk ``number`` on."""
        for old in [key for key in self._seen if key < number]:
            del self._seen[old]
        while True:
            while self._next <= number:
                self._next, chunk = self._read()
                if self._next > number:
                    closed = chunk.blocks - chunk.open_blocks
                    self._seen[self._next - 1] = chunk.first_block, closed, has_runs(chunk)
            first, closed, busy = self._seen[number]
            if busy[(block - first) * per_block + warp]:
                return True
            if block - first < closed:
                return False
            number += 1

    def _read(self) -> tuple[int, Chunk]:
        for number, chunk in self._chunks:
            return number + 1, chunk
        raise TraceFormatError("the trace ends in the middle of a block")


@dataclass
class Place:
    """A chunk in the arena: its number, whether blocks lead into it or out of it, and its warps' paths (without the
    accesses) for those who count."""

    number: int
    live: LiveChunk
    chained: bool
    outline: Chunk
    idle: np.ndarray | None = None


#: Windows that one look at the resident warps is good for.
_WINDOWS = 32


class Supply:
    """The chunks of one launch that its warps need; ``reach`` is the most instructions that a warp can issue in a
    window."""

    def __init__(self, trace: Trace, arena: Arena, reach: int) -> None:
        self._trace, self._arena = trace, arena
        self._good_for = (_WINDOWS - 1) * reach  # cycles
        self._need = _WINDOWS * reach + 1  # and the one behind them, which an issue looks at
        self._next_look = 0
        self._per_block = trace.launch.warps_per_block
        self._exits = trace.program.instructions["flags"] & Flag.EXIT != 0
        arena.reserve(trace.chunk_list)
        self._source: Iterator[Chunk] = iter(trace.chunk_list)
        self._peeked: Chunk | None = None
        self._read_ahead: ReadAhead | None = None
        self._pulled = 0
        self._block = 0  # of the next chunk's first row
        #: rows of the open blocks' warps that wait for their next part, -1: none comes, or nobody wants it
        self._tails = np.zeros(0, np.int64)
        self.live = LIVE_TABLE.zeros(0)
        self.places: list[Place] = []
        #: Whether a chunk in the arena is one of several of a block.
        self.chained = False

    def serving(self, block: int) -> int:
        """The row of ``live`` in which ``block`` begins; all that its warps can issue in a first window is there."""
        while not len(self.live) or block >= self.live[-1, L_END]:
            self.pull()
        row = int(self.live[:, L_END].searchsorted(block, "right"))
        place = self.places[row]
        if place.outline.open_blocks:
            end = place.live.warps + place.live.blocks * self._per_block
            first = end - min(place.outline.open_blocks, int(self.live[row, L_END]) - block) * self._per_block
            while what := waiting_lack(self._arena.tables, first, end, self._need):
                self._supply(what)
        return row

    def whole_row(self, block: int) -> int:
        """The same of a chunk that is there, all of whose blocks end in it and execute something; -1 if there is none
        such."""
        if not len(self.live) or block >= self.live[-1, L_END]:
            return -1
        row = int(self.live[:, L_END].searchsorted(block, "right"))
        return -1 if self.places[row].outline.open_blocks or len(self.idle(row)) else row

    def idle(self, row: int) -> np.ndarray:
        """Which blocks of a row of ``live`` execute nothing at all (others have taken over their work), bool[blocks];
        empty if none does so."""
        place = self.places[row]
        if place.idle is None:
            chunk = place.outline
            idle = np.logical_not(has_runs(chunk).reshape(chunk.blocks, -1).any(axis=1))
            closed = np.arange(chunk.blocks) < chunk.blocks - chunk.open_blocks
            idle = (idle & closed)[int(self.live[row, L_FIRST]) - chunk.first_block :]
            place.idle = idle if idle.any() else np.zeros(0, bool)
        return place.idle

    @property
    def next_look(self) -> int:
        """The cycle before which :meth:`feed` has nothing to do."""
        return self._next_look if self.chained else NEVER

    def feed(self, groups: list[SmGroup], next_block: int, cycle: int) -> None:
        """At a window's begin: bring in what resident warps will need in it, and drop what they have left behind."""
        if cycle < self._next_look or not self.chained:
            return
        self._next_look = cycle + self._good_for
        for group in groups:
            while what := resident_lack(group.state, self._arena.tables, self._need):
                self._supply(what)
        self._drop_passed(groups, next_block)

    def drop_ended(self) -> None:
        """Free the chunks of whole blocks whose blocks have all ended."""
        self._keep([
            place.chained or self.live[row, L_ENDED] < self.live[row, L_END] - self.live[row, L_FIRST]
            for row, place in enumerate(self.places)
        ])  # fmt: skip

    def _drop_passed(self, groups: list[SmGroup], next_block: int) -> None:
        """Free the parts of blocks that no warp stands in, no memory instruction needs, and no block will begin in."""
        if len(self.places) < 2:
            return
        tables = self._arena.tables
        oldest = min(oldest_part(group.state, tables) for group in groups)
        kept, passing = [], True
        for row, place in enumerate(self.places):
            first = place.live.accesses
            passing = passing and place.number < oldest and place.number + 1 < self._pulled
            gone = passing and place.chained and self.live[row, L_END] <= next_block
            kept.append(not gone or any(is_queued(group.state, first, first + place.live.rows[2]) for group in groups))
        self._keep(kept)

    def _keep(self, kept: list[bool]) -> None:
        if all(kept):
            return
        for place, keep in zip(self.places, kept, strict=True):
            if not keep:
                self._arena.free(place.live)
        self.live = self.live[np.array(kept)]
        self.places = [place for place, keep in zip(self.places, kept, strict=True) if keep]
        self.chained = any(place.chained for place in self.places)

    def _supply(self, what: int) -> None:
        """Do what brings a warp on that lacks ``what``."""
        if what == UNKNOWN:
            self._resolve()
        else:
            self.pull()

    def _next_chunk(self) -> Chunk:
        chunk, self._peeked = self._peeked, None
        if chunk is None:
            chunk = next(self._source, None)
        carried = len(self._tails) // self._per_block
        if chunk is None or chunk.first_block != self._block or chunk.blocks < carried:
            raise TraceFormatError(
                f"{self._trace.launch.kernel}: the trace has no chunk that begins with block {self._block} of "
                f"{self._trace.launch.blocks}" + (f" and holds {carried} open ones" if carried else "")
            )
        return chunk

    def skip(self, first: int, target: int) -> Iterator[Chunk]:
        """Go on to where block ``target`` begins and nobody wants the blocks from ``first`` on before it; yields all
        chunks that may have something of them, without the accesses of those that are in the arena."""
        yield from [place.outline for place in self.places]
        self._forget(first, target)
        while self._block + len(self._tails) // self._per_block < target:
            yield self.pull(target)
            self._forget(first, target)
        for row in self.live:
            row[L_ENDED] += max(0, min(target, row[L_END]) - max(first, row[L_FIRST]))
        self.drop_ended()

    def _forget(self, first: int, end: int) -> None:
        """Nobody waits for what is to come of blocks ``first`` to ``end - 1``."""
        start, stop = (max(0, block - self._block) * self._per_block for block in (first, end))
        self._tails[start:stop] = -1

    def pull(self, skip_to: int = 0) -> Chunk:
        """Bring the next chunk in, or only read it if all that it has is of blocks before ``skip_to`` that nobody
        wants."""
        chunk = self._next_chunk()
        n, per_block = len(self._tails) // self._per_block, self._per_block
        closed = chunk.blocks - chunk.open_blocks
        first, end = chunk.first_block + n, chunk.first_block + chunk.blocks
        number, self._pulled, self._block = self._pulled, self._pulled + 1, chunk.first_block + closed
        if end <= skip_to and (self._tails < 0).all():
            self._tails = np.full(chunk.open_blocks * per_block, -1, np.int64)
            return chunk
        live = self._arena.add(chunk, number)
        outline = replace(chunk, accesses=chunk.accesses[:0], scattered=chunk.scattered[:0])
        self.places.append(Place(number, live, bool(n or chunk.open_blocks), outline))
        self.chained = self.chained or self.places[-1].chained
        row = (first, end, 0, live.warps + n * per_block)
        self.live = np.concatenate((self.live, np.array([row], np.int64)))
        self._link(chunk, live.warps)
        return chunk

    def _link(self, chunk: Chunk, first_row: int) -> None:
        """Link the chunk's rows to those of the parts before, and note what is still open."""
        warps = self._arena.tables.warps
        rows = np.arange(first_row, first_row + len(chunk.warps))
        busy = has_runs(chunk)
        carried, open_from = len(self._tails), (chunk.blocks - chunk.open_blocks) * self._per_block
        tails = rows.copy()
        tails[:carried] = np.where(busy[:carried] & (self._tails >= 0), rows[:carried], self._tails)
        follows = busy[:carried] & (self._tails >= 0)
        warps[self._tails[follows], W_NEXT] = rows[:carried][follows]
        closed = tails[:open_from]
        closing = closed[closed >= 0]
        warps[closing, W_NEXT] = ENDS
        empty = (closed >= 0) & (warps[closed, W_RUN] == warps[closed, W_RUN_END])
        blocks = empty[carried:].reshape(-1, self._per_block)  # all of a block may be: others have taken over its work
        if empty[:carried].any() or (blocks.any(axis=1) & ~blocks.all(axis=1)).any():
            raise TraceFormatError(f"chunk at block {chunk.first_block}: a warp without instructions")
        self._tails = tails[open_from:]
        if len(self._tails):
            # A warp goes on that has not begun, or whose last instruction is not its end.
            path = chunk.warps["path"][open_from:]
            exits = np.zeros(len(path), bool)
            if len(chunk.runs):
                last_run = np.maximum(chunk.path_start[1:] - 1, 0)
                last = chunk.runs["first"][last_run].astype(np.int64) + chunk.runs["count"][last_run] - 1
                exits = self._exits[last][path]
            fresh = busy[open_from:] & (self._tails >= 0)
            warps[self._tails[fresh], W_NEXT] = np.where(exits[fresh], UNKNOWN, NOT_HERE)
            begins = ~busy[open_from:] & (self._tails == rows[open_from:])
            warps[self._tails[begins], W_NEXT] = NOT_HERE

    def _resolve(self) -> None:
        """Find out of all warps that may have ended whether they have."""
        warps = self._arena.tables.warps
        if self._peeked is None:
            self._peeked = self._next_chunk()
        chunk = self._peeked
        busy, closed = has_runs(chunk), chunk.blocks - chunk.open_blocks
        for i in np.flatnonzero(self._tails >= 0):
            row = self._tails[i]
            if warps[row, W_NEXT] != UNKNOWN:
                continue
            block, warp = divmod(int(i), self._per_block)
            goes_on = bool(busy[i])
            if not goes_on and block >= closed:
                if self._read_ahead is None:
                    self._read_ahead = ReadAhead(self._trace.chunk_list)
                goes_on = self._read_ahead.goes_on(chunk.first_block + block, warp, self._per_block, self._pulled + 1)
            warps[row, W_NEXT] = NOT_HERE if goes_on else ENDS
            if not goes_on:
                self._tails[i] = -1
