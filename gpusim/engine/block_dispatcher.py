"""The block dispatcher as a part of the engine: which block goes to which slot, and when.

Mental model: free block slots wait for blocks. At the launch all slots of all SMs are free, in the order round-robin
over the SMs; later a slot is free when its block has ended, half the turnaround after the exit. The
dispatcher serves one slot each ``dispatch_interval_cycles``, the first one of an SM in
``first_dispatch_interval_cycles``; the block starts the other half of the turnaround later. The trace comes
from :mod:`gpusim.engine.supply`.
"""

from __future__ import annotations

import numpy as np

from gpusim.engine.arena import Arena
from gpusim.engine.sm import SmGroup
from gpusim.engine.supply import L_END, L_ENDED, L_FIRST, L_WARPS, Supply
from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.model.arrivals import pop, push
from gpusim.model.compiled import compiled
from gpusim.model.messages import NEVER, START, TICKS_PER_CYCLE
from gpusim.model.sm_tables import E_BLOCK, E_CYCLE, E_SLOT, E_SM
from gpusim.model.state_tables import Table
from gpusim.trace.record import Chunk, Trace

#: A free slot is one key: the cycle from which it is free, its SM, its slot.
_SLOT_BITS, _SM_BITS = 8, 12
_PLACE_BITS = _SLOT_BITS + _SM_BITS

DISPATCHER_TABLE = Table(__name__, "dispatcher", "a dispatcher (one)", "Where it stands.")
FREE_SLOTS = DISPATCHER_TABLE.column("count", "slots that are free again, in the heap ``free_slots``")
FIRST_SERVED = DISPATCHER_TABLE.column("count", "slots that have been given their first block")
SLOTS = DISPATCHER_TABLE.column("count", "slots that the launch uses")
DECISION = DISPATCHER_TABLE.column("cycle", "of the next decision at the earliest")
NEXT_BLOCK = DISPATCHER_TABLE.column("index", "in the grid")
BLOCKS = DISPATCHER_TABLE.column("count", "blocks of the launch")
FINISHED = DISPATCHER_TABLE.column("count", "blocks that have ended")

BLOCK_TIME_TABLE = Table(__name__, "block_times", "a block", "When and where it ran; all -1: it was left out.")
T_START = BLOCK_TIME_TABLE.column("cycle", "of its start, from the machine's cycle 0")
T_END = BLOCK_TIME_TABLE.column("cycle", "of its end")
T_SM = BLOCK_TIME_TABLE.column("index", "of the machine")
T_SLOT = BLOCK_TIME_TABLE.column("index", "block slot of the SM")


def turnaround_halves(spec: GpuSpec) -> tuple[int, int]:
    """Cycles from a block's exit to the dispatcher, and from there to the next block's start; each at
    least 1."""
    first = max(1, spec.launch.block_turnaround_cycles // 2)
    return first, max(1, spec.launch.block_turnaround_cycles - first)


@compiled
def _next_decision(free_slots, dispatcher):
    """Cycle at which the next slot is served; NEVER if none is free or no block is left."""
    if dispatcher[0, NEXT_BLOCK] == dispatcher[0, BLOCKS]:
        return NEVER
    if dispatcher[0, FIRST_SERVED] < dispatcher[0, SLOTS]:
        return dispatcher[0, DECISION]
    if dispatcher[0, FREE_SLOTS] == 0:
        return NEVER
    return max(free_slots[0, 0] >> _PLACE_BITS, dispatcher[0, DECISION])


@compiled
def _serve(free_slots, dispatcher, live, row, times, starts, sm_count, per_block, intervals, to_sm, until):
    """Give blocks of live chunk ``row`` to the slots whose turn comes before cycle ``until``; the number of
    messages of ``starts`` (START) written."""
    n = 0
    while dispatcher[0, NEXT_BLOCK] < live[row, L_END]:
        decision = _next_decision(free_slots, dispatcher)
        if decision >= until:
            break
        interval = intervals[1]
        if dispatcher[0, FIRST_SERVED] < dispatcher[0, SLOTS]:
            if dispatcher[0, FIRST_SERVED] < sm_count:
                interval = intervals[0]
            sm, slot = dispatcher[0, FIRST_SERVED] % sm_count, dispatcher[0, FIRST_SERVED] // sm_count
            dispatcher[0, FIRST_SERVED] += 1
        else:
            key = pop(free_slots, 0, dispatcher, FREE_SLOTS)
            sm, slot = key >> _SLOT_BITS & ((1 << _SM_BITS) - 1), key & ((1 << _SLOT_BITS) - 1)
        dispatcher[0, DECISION] = decision + interval
        block = dispatcher[0, NEXT_BLOCK]
        dispatcher[0, NEXT_BLOCK] = block + 1
        cycle = decision + to_sm
        times[block, T_START] = cycle
        times[block, T_SM] = sm
        times[block, T_SLOT] = slot
        start = starts[n]
        start["cycle"] = cycle
        start["sm"] = sm
        start["slot"] = slot
        start["block"] = block
        start["warp_row"] = live[row, L_WARPS] + (block - live[row, L_FIRST]) * per_block
        n += 1
    return n


@compiled
def _end(free_slots, dispatcher, live, times, exits, to_dispatcher):
    """Note block ends; their slots are free again while blocks are left. True if a chunk has no block left."""
    emptied = False
    for i in range(exits.shape[0]):
        block, cycle = exits[i, E_BLOCK], exits[i, E_CYCLE]
        times[block, T_END] = cycle
        dispatcher[0, FINISHED] += 1
        for chunk in range(live.shape[0]):
            if live[chunk, L_FIRST] <= block < live[chunk, L_END]:
                live[chunk, L_ENDED] += 1
                emptied |= live[chunk, L_ENDED] == live[chunk, L_END] - live[chunk, L_FIRST]
                break
        if dispatcher[0, NEXT_BLOCK] < dispatcher[0, BLOCKS]:
            place = exits[i, E_SM] << _SLOT_BITS | exits[i, E_SLOT]
            push(free_slots, 0, dispatcher, FREE_SLOTS, (cycle + to_dispatcher) << _PLACE_BITS | place)
    return emptied


def count_executions(chunk: Chunk, first: int, end: int, executions: np.ndarray) -> None:
    """Add to ``executions`` int64[instructions] how often each issues in the chunk for blocks ``first`` to ``end - 1``."""
    per_block = len(chunk.warps) // chunk.blocks
    first, end = (min(max(block - chunk.first_block, 0), chunk.blocks) * per_block for block in (first, end))
    if first == end:
        return
    paths = np.bincount(chunk.warps["path"][first:end], minlength=len(chunk.path_start) - 1)
    times = np.repeat(paths, np.diff(chunk.path_start))
    begin, size = chunk.runs["first"].astype(np.int64), len(executions) + 1
    rises = np.bincount(begin, times, size) - np.bincount(begin + chunk.runs["count"], times, size)
    executions += np.rint(np.cumsum(rises)[:-1]).astype(np.int64)


class Dispatcher:
    """Dispatches one launch; see the module's docstring. ``block_times`` int64[blocks, columns]."""

    name = "dispatcher"

    def __init__(
        self, trace: Trace, spec: GpuSpec, blocks_per_sm: int, launch_cycle: int, arena: Arena, reach: int
    ) -> None:
        if spec.sm_count >= 1 << _SM_BITS or blocks_per_sm > 1 << _SLOT_BITS:
            raise SpecError(
                f"{spec.name}: sm_count = {spec.sm_count} with {blocks_per_sm} blocks an SM is too many; "
                f"at most {(1 << _SM_BITS) - 1} SMs of {1 << _SLOT_BITS} blocks"
            )
        self.blocks = trace.launch.blocks
        self.kernel = trace.launch.kernel
        self.block_times = BLOCK_TIME_TABLE.zeros(self.blocks)
        self._sm_count = spec.sm_count
        self._per_block = trace.launch.warps_per_block
        self._to_dispatcher, self._to_sm = turnaround_halves(spec)
        interval = max(1, spec.launch.dispatch_interval_cycles)
        self._intervals = max(interval, spec.launch.first_dispatch_interval_cycles), interval
        slots = min(self.blocks, blocks_per_sm * spec.sm_count)
        self._free_slots = np.zeros((1, slots), np.int64)
        self._starts = np.zeros(slots, START)
        self._state = DISPATCHER_TABLE.zeros(1)
        self._state[0, SLOTS], self._state[0, BLOCKS] = slots, self.blocks
        self._state[0, DECISION] = launch_cycle + max(spec.launch.start_cycles, self._to_sm) - self._to_sm
        self._supply = Supply(trace, arena, reach)
        self._instructions = len(trace.program.instructions)

    @property
    def finished(self) -> int:
        """Blocks that have ended."""
        return int(self._state[0, FINISHED])

    @property
    def next_block(self) -> int:
        """The block that is served next."""
        return int(self._state[0, NEXT_BLOCK])

    @property
    def done(self) -> bool:
        """All blocks of the launch have ended."""
        return self.finished == self.blocks

    def next_tick(self) -> int:
        """When the next slot is served; NEVER if none is free or no block is left."""
        cycle = _next_decision(self._free_slots, self._state)
        return NEVER if cycle == NEVER else cycle * TICKS_PER_CYCLE

    def deliver(self, exits: np.ndarray) -> None:
        """Take block ends (rows of ``exits``)."""
        if _end(self._free_slots, self._state, self._supply.live, self.block_times, exits, self._to_dispatcher):
            self._supply.drop_ended()

    def feed(self, groups: list[SmGroup], cycle: int) -> None:
        """At the begin of a window, ``cycle``: see that the warps on ``groups`` have all that they can issue in it."""
        self._supply.feed(groups, self.next_block, cycle)

    def advance(self, until_tick: int) -> list[tuple[str, np.ndarray]]:
        """Serve the slots whose turn comes before ``until_tick``; START batches to "starts"."""
        outgoing = []
        until = until_tick // TICKS_PER_CYCLE
        while _next_decision(self._free_slots, self._state) < until:
            row = self._supply.serving(self.next_block)
            count = _serve(
                self._free_slots, self._state, self._supply.live, row, self.block_times, self._starts, self._sm_count,
                self._per_block, self._intervals, self._to_sm, until,
            )  # fmt: skip
            outgoing.append(("starts", self._starts[:count].copy()))
        return outgoing

    def skip(self, target: int) -> np.ndarray:
        """Leave out the blocks from the next one to ``target - 1``, as if they had ended (their ``block_times`` are -1);
        how often each instruction would have issued for them, int64[instructions]."""
        first = self.next_block
        executions = np.zeros(self._instructions, np.int64)
        self.block_times[first:target] = -1
        self._state[0, FINISHED] += target - first
        for chunk in self._supply.skip(first, target):
            count_executions(chunk, first, target, executions)
        self._state[0, NEXT_BLOCK] = target
        return executions

    def waiting_for(self) -> str:
        """Blocks that have not ended, empty if all have."""
        if self.done:
            return ""
        started = int(self._state[0, NEXT_BLOCK])
        return (
            f"{self.kernel}: {self.finished} of {self.blocks} blocks ended, {started - self.finished} on SMs, "
            f"{self.blocks - started} not started"
        )
