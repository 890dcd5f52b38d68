"""The block dispatcher as a part of the engine: which block goes to which slot, and when.

Mental model: slots queue up for blocks. At the launch all slots of all SMs stand in line, round-robin
over the SMs; later a slot joins when its block has ended, half the turnaround after the exit. The
dispatcher serves one slot each ``dispatch_interval_cycles``; the block starts the other half of the
turnaround later. Trace chunks are pulled as their first block is served and dropped with their last.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpusim.engine.arena import Arena, LiveChunk
from gpusim.engine.sm import START
from gpusim.engine.sm_advance import E_BLOCK, E_CYCLE, E_SLOT, E_SM
from gpusim.errors import SpecError, TraceFormatError
from gpusim.gpus.spec import GpuSpec
from gpusim.model.arrivals import pop, push
from gpusim.model.compiled import compiled
from gpusim.model.messages import NEVER, TICKS_PER_CYCLE
from gpusim.trace.record import Chunk, Trace

#: Columns of ``block_times``.
BLOCK_TIMES = ("start_cycle", "end_cycle", "sm", "slot")
#: A slot in line is one key: the cycle at which it joined, its SM, its slot.
_SLOT_BITS, _SM_BITS = 8, 12
_PLACE_BITS = _SLOT_BITS + _SM_BITS

# columns of ``desk`` int64[1, DESK_COLUMNS]: where the dispatcher stands
(
    IN_LINE,  # slots that have joined the line again
    FRESH,  # slots of the launch's first line that have been served
    SLOTS,  # length of the first line
    DECISION,  # cycle of the next decision at the earliest
    NEXT_BLOCK,
    BLOCKS,
    FINISHED,
    DESK_COLUMNS,
) = range(8)
# columns of ``live`` int64[chunks, LIVE_COLUMNS]: a chunk with blocks that have not ended
(L_FIRST, L_END, L_ENDED, L_WARPS, L_PATHS, L_ACCESSES, L_SCATTERED, LIVE_COLUMNS) = range(8)


def turnaround_halves(spec: GpuSpec) -> tuple[int, int]:
    """Cycles from a block's exit to the dispatcher, and from there to the next block's start; each at
    least 1."""
    first = max(1, spec.launch.block_turnaround_cycles // 2)
    return first, max(1, spec.launch.block_turnaround_cycles - first)


@compiled
def _next_decision(line, desk):
    """Cycle at which the next slot is served; NEVER if none is in line or no block is left."""
    if desk[0, NEXT_BLOCK] == desk[0, BLOCKS]:
        return NEVER
    if desk[0, FRESH] < desk[0, SLOTS]:
        return desk[0, DECISION]
    if desk[0, IN_LINE] == 0:
        return NEVER
    return max(line[0, 0] >> _PLACE_BITS, desk[0, DECISION])


@compiled
def _serve(line, desk, live, times, starts, sm_count, per_block, interval, to_sm, until):
    """Give blocks of the last live chunk to the slots whose turn comes before cycle ``until``; the number of
    rows of ``starts`` (START's columns) written."""
    n = 0
    last = live.shape[0] - 1
    while desk[0, NEXT_BLOCK] < live[last, L_END]:
        decision = _next_decision(line, desk)
        if decision >= until:
            break
        if desk[0, FRESH] < desk[0, SLOTS]:
            sm, slot = desk[0, FRESH] % sm_count, desk[0, FRESH] // sm_count
            desk[0, FRESH] += 1
        else:
            key = pop(line, 0, desk, IN_LINE)
            sm, slot = key >> _SLOT_BITS & ((1 << _SM_BITS) - 1), key & ((1 << _SLOT_BITS) - 1)
        desk[0, DECISION] = decision + interval
        block = desk[0, NEXT_BLOCK]
        desk[0, NEXT_BLOCK] = block + 1
        cycle = decision + to_sm
        times[block, 0] = cycle
        times[block, 2] = sm
        times[block, 3] = slot
        starts[n, 0] = cycle
        starts[n, 1] = sm
        starts[n, 2] = slot
        starts[n, 3] = block
        starts[n, 4] = live[last, L_WARPS] + (block - live[last, L_FIRST]) * per_block
        starts[n, 5] = live[last, L_PATHS]
        starts[n, 6] = live[last, L_ACCESSES]
        starts[n, 7] = live[last, L_SCATTERED]
        n += 1
    return n


@compiled
def _end(line, desk, live, times, exits, to_dispatcher):
    """Note block ends; their slots join the line while blocks are left. True if a chunk has no block left."""
    emptied = False
    for i in range(exits.shape[0]):
        block, cycle = exits[i, E_BLOCK], exits[i, E_CYCLE]
        times[block, 1] = cycle
        desk[0, FINISHED] += 1
        for chunk in range(live.shape[0]):
            if live[chunk, L_FIRST] <= block < live[chunk, L_END]:
                live[chunk, L_ENDED] += 1
                emptied |= live[chunk, L_ENDED] == live[chunk, L_END] - live[chunk, L_FIRST]
                break
        if desk[0, NEXT_BLOCK] < desk[0, BLOCKS]:
            place = exits[i, E_SM] << _SLOT_BITS | exits[i, E_SLOT]
            push(line, 0, desk, IN_LINE, (cycle + to_dispatcher) << _PLACE_BITS | place)
    return emptied


def count_executions(chunk: Chunk, first: int, end: int, executions: np.ndarray) -> None:
    """Add to ``executions`` int64[instructions] how often each issues for the chunk's blocks ``first`` to ``end - 1``."""
    per_block = len(chunk.warps) // chunk.blocks
    paths = np.bincount(chunk.warps["path"][first * per_block : end * per_block], minlength=len(chunk.path_start) - 1)
    times = np.repeat(paths, np.diff(chunk.path_start))
    begin, size = chunk.runs["first"].astype(np.int64), len(executions) + 1
    rises = np.bincount(begin, times, size) - np.bincount(begin + chunk.runs["count"], times, size)
    executions += np.rint(np.cumsum(rises)[:-1]).astype(np.int64)


class Dispatcher:
    """Dispatches one launch; see the module's docstring. ``block_times`` int64[blocks, 4]: start and end,
    from the machine's cycle 0, SM and slot."""

    name = "dispatcher"

    def __init__(self, trace: Trace, spec: GpuSpec, blocks_per_sm: int, launch_cycle: int, arena: Arena) -> None:
        if spec.sm_count >= 1 << _SM_BITS or blocks_per_sm > 1 << _SLOT_BITS:
            raise SpecError(
                f"{spec.name}: sm_count = {spec.sm_count} with {blocks_per_sm} blocks an SM is too many; "
                f"at most {(1 << _SM_BITS) - 1} SMs of {1 << _SLOT_BITS} blocks"
            )
        self.blocks = trace.launch.blocks
        self.kernel = trace.launch.kernel
        self.arena = arena
        self.block_times = np.zeros((self.blocks, len(BLOCK_TIMES)), np.int64)
        self._sm_count = spec.sm_count
        self._per_block = trace.launch.warps_per_block
        self._to_dispatcher, self._to_sm = turnaround_halves(spec)
        self._interval = max(1, spec.launch.dispatch_interval_cycles)
        slots = min(self.blocks, blocks_per_sm * spec.sm_count)
        self._line = np.zeros((1, slots), np.int64)
        self._starts = np.zeros((slots, len(START.names)), np.int64)
        self._desk = np.zeros((1, DESK_COLUMNS), np.int64)
        self._desk[0, SLOTS], self._desk[0, BLOCKS] = slots, self.blocks
        self._desk[0, DECISION] = launch_cycle + max(spec.launch.start_cycles, self._to_sm) - self._to_sm
        self._chunks: Iterator[Chunk] = trace.chunks()
        self._live = np.zeros((0, LIVE_COLUMNS), np.int64)
        self._places: list[LiveChunk] = []  # of the rows of _live
        self._instructions = len(trace.program.instructions)
        self._chunk: Chunk | None = None  # the one that was read last, and whether it lies in the arena
        self._in_arena = False

    @property
    def finished(self) -> int:
        """Blocks that have ended."""
        return int(self._desk[0, FINISHED])

    @property
    def next_block(self) -> int:
        """The block that is served next."""
        return int(self._desk[0, NEXT_BLOCK])

    @property
    def done(self) -> bool:
        """All blocks of the launch have ended."""
        return self.finished == self.blocks

    def next_tick(self) -> int:
        """When the next slot is served; NEVER if none is in line or no block is left."""
        cycle = _next_decision(self._line, self._desk)
        return NEVER if cycle == NEVER else cycle * TICKS_PER_CYCLE

    def deliver(self, exits: np.ndarray) -> None:
        """Take notes of block ends (int64[n, EXIT_COLUMNS])."""
        if not _end(self._line, self._desk, self._live, self.block_times, exits, self._to_dispatcher):
            return
        self._drop_ended()

    def _drop_ended(self) -> None:
        """Free the chunks whose blocks have all ended."""
        kept = []
        for row, place in enumerate(self._places):
            if self._live[row, L_ENDED] == place.blocks:
                self.arena.free(place)
            else:
                kept.append(row)
        self._live = self._live[kept]
        self._places = [self._places[row] for row in kept]

    def advance(self, until_tick: int) -> list[tuple[str, np.ndarray]]:
        """Serve the slots whose turn comes before ``until_tick``; START batches to "starts"."""
        outgoing = []
        until = until_tick // TICKS_PER_CYCLE
        while _next_decision(self._line, self._desk) < until:
            if not len(self._live) or self._desk[0, NEXT_BLOCK] >= self._live[-1, L_END]:
                self._pull()
            count = _serve(
                self._line, self._desk, self._live, self.block_times, self._starts, self._sm_count, self._per_block,
                self._interval, self._to_sm, until,
            )  # fmt: skip
            outgoing.append(("starts", self._starts[:count].copy().view(START)[:, 0]))
        return outgoing

    def skip(self, target: int) -> np.ndarray:
        """Leave out the blocks from the next one to ``target - 1``, as if they had ended (their ``block_times`` are -1);
        how often each instruction would have issued for them, int64[instructions]."""
        block = self.next_block
        executions = np.zeros(self._instructions, np.int64)
        self.block_times[block:target] = -1
        self._desk[0, FINISHED] += target - block
        while block < target:
            if self._chunk is None or block >= self._chunk.first_block + self._chunk.blocks:
                self._chunk = self._next_chunk(block)
                self._in_arena = False
            chunk = self._chunk
            end = chunk.first_block + chunk.blocks
            until = min(target, end)
            count_executions(chunk, block - chunk.first_block, until - chunk.first_block, executions)
            if not self._in_arena and until < end:
                self._place(chunk)
            if self._in_arena:
                self._live[-1, L_ENDED] += until - block
            block = until
        self._desk[0, NEXT_BLOCK] = target
        self._drop_ended()
        return executions

    def _next_chunk(self, block: int) -> Chunk:
        chunk = next(self._chunks, None)
        if chunk is None or chunk.first_block != block:
            raise TraceFormatError(
                f"{self.kernel}: the trace has no chunk that begins with block {block} of {self.blocks}"
            )
        return chunk

    def _pull(self) -> None:
        """Bring the chunk of the next block into the arena."""
        self._chunk = self._next_chunk(self.next_block)
        self._place(self._chunk)

    def _place(self, chunk: Chunk) -> None:
        self._in_arena = True
        place = self.arena.add(chunk)
        end = chunk.first_block + chunk.blocks
        row = (chunk.first_block, end, 0, place.warps, place.paths, place.accesses, place.scattered)
        self._live = np.concatenate((self._live, np.array([row], np.int64)))
        self._places.append(place)

    def waiting_for(self) -> str:
        """Blocks that have not ended, empty if all have."""
        if self.done:
            return ""
        started = int(self._desk[0, NEXT_BLOCK])
        return (
            f"{self.kernel}: {self.finished} of {self.blocks} blocks ended, {started - self.finished} on SMs, "
            f"{self.blocks - started} not started"
        )
