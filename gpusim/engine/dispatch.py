"""The block dispatcher as a part of the engine: which block goes to which slot, and when.

Mental model: slots queue up for blocks. At the launch all slots of all SMs stand in line, round-robin
over the SMs; later a slot joins when its block has ended, half the turnaround after the exit. The
dispatcher serves one slot each ``dispatch_interval_cycles``; the block starts the other half of the
turnaround later. Trace chunks are pulled as their first block is served and dropped with their last.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np

from gpusim.engine.arena import Arena
from gpusim.engine.sm import START
from gpusim.engine.sm_advance import E_BLOCK, E_CYCLE, E_SLOT, E_SM
from gpusim.errors import TraceFormatError
from gpusim.gpus.spec import GpuSpec
from gpusim.model.messages import NEVER, TICKS_PER_CYCLE
from gpusim.trace.record import Chunk, Trace

#: Columns of ``block_times``.
BLOCK_TIMES = ("start_cycle", "end_cycle", "sm", "slot")


def turnaround_halves(spec: GpuSpec) -> tuple[int, int]:
    """Cycles from a block's exit to the dispatcher, and from there to the next block's start; each at
    least 1."""
    first = max(1, spec.launch.block_turnaround_cycles // 2)
    return first, max(1, spec.launch.block_turnaround_cycles - first)


class Dispatcher:
    """Dispatches one launch; see the module's docstring. ``block_times`` int64[blocks, 4]: start and end,
    from the machine's cycle 0, SM and slot."""

    name = "dispatcher"

    def __init__(self, trace: Trace, spec: GpuSpec, blocks_per_sm: int, launch_cycle: int, arena: Arena) -> None:
        self.blocks = trace.launch.blocks
        self.kernel = trace.launch.kernel
        self.next_block = 0
        self.finished = 0
        self.arena = arena
        self.block_times = np.zeros((self.blocks, len(BLOCK_TIMES)), np.int64)
        self._per_block = trace.launch.warps_per_block
        self._to_dispatcher, self._to_sm = turnaround_halves(spec)
        self._interval = max(1, spec.launch.dispatch_interval_cycles)
        self._next_decision = launch_cycle + max(spec.launch.start_cycles, self._to_sm) - self._to_sm
        slots = min(self.blocks, blocks_per_sm * spec.sm_count)
        self._line = [(0, i, i % spec.sm_count, i // spec.sm_count) for i in range(slots)]  # a heap: sorted
        self._chunks: Iterator[Chunk] = trace.chunks()
        self._live = None
        self._live_of: dict[int, object] = {}

    @property
    def done(self) -> bool:
        """All blocks of the launch have ended."""
        return self.finished == self.blocks

    def next_tick(self) -> int:
        """When the next slot is served; NEVER if none is in line or no block is left."""
        if not self._line or self.next_block == self.blocks:
            return NEVER
        return max(self._line[0][0], self._next_decision) * TICKS_PER_CYCLE

    def deliver(self, exits: np.ndarray) -> None:
        """Take notes of block ends (int64[n, EXIT_COLUMNS])."""
        for row in exits.tolist():
            block = row[E_BLOCK]
            self.block_times[block, 1] = row[E_CYCLE]
            self.finished += 1
            self.arena.finish_block(self._live_of.pop(block))
            if self.next_block < self.blocks:
                heapq.heappush(self._line, (row[E_CYCLE] + self._to_dispatcher, row[E_SM], row[E_SM], row[E_SLOT]))

    def advance(self, until_tick: int) -> list[tuple[str, np.ndarray]]:
        """Serve the slots whose turn comes before ``until_tick``; START batches to "starts"."""
        outgoing = []
        until = until_tick // TICKS_PER_CYCLE
        while self._line and self.next_block < self.blocks:
            decision = max(self._line[0][0], self._next_decision)
            if decision >= until:
                break
            _, _, sm, slot = heapq.heappop(self._line)
            self._next_decision = decision + self._interval
            outgoing.append(self._start(decision + self._to_sm, sm, slot))
        return [("starts", np.array(outgoing, dtype=START))] if outgoing else []

    def _start(self, cycle: int, sm: int, slot: int) -> tuple:
        """The START record of the next block."""
        block = self.next_block
        self.next_block += 1
        live = self._live
        if live is None or block >= live.first_block + live.blocks:
            chunk = next(self._chunks, None)
            if chunk is None or chunk.first_block != block:
                raise TraceFormatError(
                    f"{self.kernel}: the trace has no chunk that begins with block {block} of {self.blocks}"
                )
            live = self._live = self.arena.add(chunk)
        self._live_of[block] = live
        self.block_times[block] = cycle, 0, sm, slot
        warp_row = live.warps + (block - live.first_block) * self._per_block
        return (cycle, sm, slot, block, warp_row, live.paths, live.accesses, live.scattered)

    def waiting_for(self) -> str:
        """Blocks that have not ended, empty if all have."""
        if self.done:
            return ""
        return (
            f"{self.kernel}: {self.finished} of {self.blocks} blocks ended, {self.next_block - self.finished} on SMs, "
            f"{self.blocks - self.next_block} not started"
        )
