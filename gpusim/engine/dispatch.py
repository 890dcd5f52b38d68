"""The block dispatcher as a part of the engine: which block goes to which slot, and when.

Mental model: slots queue up for blocks. At the launch all slots of all SMs stand in line, round-robin
over the SMs; later a slot joins when its block has ended, half the turnaround after the exit. The
dispatcher serves one slot each ``dispatch_interval_cycles``, the first one of an SM in
``first_dispatch_interval_cycles``; the block starts the other half of the turnaround later. The trace comes
from :mod:`gpusim.engine.supply`.
"""

from __future__ import annotations

import numpy as np

from gpusim.engine.arena import Arena
from gpusim.engine.graph import part_name
from gpusim.engine.latencies import turnaround_halves
from gpusim.engine.part import Outgoing
from gpusim.engine.sm import SmGroup
from gpusim.engine.supply import L_END, L_ENDED, L_FIRST, L_WARPS, Supply
from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.model.arrivals import pop, push
from gpusim.model.compiled import compiled
from gpusim.model.messages import NEVER, START, TICKS_PER_CYCLE
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
def _serve(line, desk, live, row, times, starts, sm_count, per_block, intervals, to_sm, until):
    """Give blocks of live chunk ``row`` to the slots whose turn comes before cycle ``until``; the number of
    rows of ``starts`` (START's columns) written."""
    n = 0
    while desk[0, NEXT_BLOCK] < live[row, L_END]:
        decision = _next_decision(line, desk)
        if decision >= until:
            break
        interval = intervals[1]
        if desk[0, FRESH] < desk[0, SLOTS]:
            if desk[0, FRESH] < sm_count:
                interval = intervals[0]
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
        starts[n, 0] = cycle * TICKS_PER_CYCLE
        starts[n, 1] = sm
        starts[n, 2] = slot
        starts[n, 3] = block
        starts[n, 4] = live[row, L_WARPS] + (block - live[row, L_FIRST]) * per_block
        n += 1
    return n


@compiled
def _end(line, desk, live, times, exits, to_dispatcher):
    """Note block ends; their slots join the line while blocks are left. True if a chunk has no block left."""
    emptied = False
    for i in range(exits.shape[0]):
        block, cycle = exits[i]["block"], exits[i]["time"] // TICKS_PER_CYCLE
        times[block, 1] = cycle - to_dispatcher
        desk[0, FINISHED] += 1
        for chunk in range(live.shape[0]):
            if live[chunk, L_FIRST] <= block < live[chunk, L_END]:
                live[chunk, L_ENDED] += 1
                emptied |= live[chunk, L_ENDED] == live[chunk, L_END] - live[chunk, L_FIRST]
                break
        if desk[0, NEXT_BLOCK] < desk[0, BLOCKS]:
            place = exits[i]["sm"] << _SLOT_BITS | exits[i]["slot"]
            push(line, 0, desk, IN_LINE, cycle << _PLACE_BITS | place)
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
    """Dispatches one launch after another; see the module's docstring. Takes EXIT, sends START. ``block_times``
    int64[blocks, 4]: start and end, from the machine's cycle 0, SM and slot."""

    def __init__(self, spec: GpuSpec, device: int = 0) -> None:
        self.name, self.device, self._spec = part_name(device, "dispatcher"), device, spec
        self._sm_count = spec.sm_count
        self._to_dispatcher, self._to_sm = turnaround_halves(spec)
        interval = max(1, spec.launch.dispatch_interval_cycles)
        self._intervals = max(interval, spec.launch.first_dispatch_interval_cycles), interval
        self.last_tick = 0
        self.end_launch()

    def end_launch(self) -> None:
        """Let go of the launch's trace: idle."""
        self.blocks, self.kernel = 0, ""
        self.block_times = np.zeros((0, len(BLOCK_TIMES)), np.int64)
        self._line = np.zeros((1, 0), np.int64)
        self._desk = np.zeros((1, DESK_COLUMNS), np.int64)
        self._supply: Supply | None = None

    def begin_launch(self, trace: Trace, blocks_per_sm: int, launch_cycle: int, arena: Arena, reach: int) -> None:
        """Take up a launch that begins at the machine's cycle ``launch_cycle``; ``reach`` as in :class:`Supply`."""
        spec = self._spec
        if spec.sm_count >= 1 << _SM_BITS or blocks_per_sm > 1 << _SLOT_BITS:
            raise SpecError(
                f"{spec.name}: sm_count = {spec.sm_count} with {blocks_per_sm} blocks an SM is too many; "
                f"at most {(1 << _SM_BITS) - 1} SMs of {1 << _SLOT_BITS} blocks"
            )
        self.blocks = trace.launch.blocks
        self.kernel = trace.launch.kernel
        self.block_times = np.zeros((self.blocks, len(BLOCK_TIMES)), np.int64)
        self._per_block = trace.launch.warps_per_block
        slots = min(self.blocks, blocks_per_sm * spec.sm_count)
        self._line = np.zeros((1, slots), np.int64)
        self._starts = np.zeros((slots, len(START.names)), np.int64)
        self._desk = np.zeros((1, DESK_COLUMNS), np.int64)
        self._desk[0, SLOTS], self._desk[0, BLOCKS] = slots, self.blocks
        self._desk[0, DECISION] = launch_cycle + max(spec.launch.start_cycles, self._to_sm) - self._to_sm
        self._supply = Supply(trace, arena, reach)
        self._instructions = len(trace.program.instructions)

    @property
    def minimum_latency_ticks(self) -> int:
        """Least latency of any message that this part sends."""
        return self._to_sm * TICKS_PER_CYCLE

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

    def deliver(self, batch: np.ndarray) -> None:
        """Take notes of block ends."""
        if _end(self._line, self._desk, self._supply.live, self.block_times, batch, self._to_dispatcher):
            self._supply.drop_ended()

    def feed(self, groups: list[SmGroup], cycle: int) -> None:
        """At the begin of a window, ``cycle``: see that the warps on ``groups`` have all that they can issue in it."""
        self._supply.feed(groups, self.next_block, cycle)

    def advance(self, until_tick: int) -> Outgoing:
        """Serve the slots whose turn comes before ``until_tick``."""
        outgoing: Outgoing = []
        until = until_tick // TICKS_PER_CYCLE
        while _next_decision(self._line, self._desk) < until:
            row = self._supply.serving(self.next_block)
            count = _serve(
                self._line, self._desk, self._supply.live, row, self.block_times, self._starts, self._sm_count,
                self._per_block, self._intervals, self._to_sm, until,
            )  # fmt: skip
            starts = self._starts[:count].copy().view(START)[:, 0]
            self.last_tick = int(starts["time"][-1]) - self.minimum_latency_ticks
            outgoing.append(starts)
        return outgoing

    def skip(self, target: int) -> np.ndarray:
        """Leave out the blocks from the next one to ``target - 1``, as if they had ended (their ``block_times`` are -1);
        how often each instruction would have issued for them, int64[instructions]."""
        first = self.next_block
        executions = np.zeros(self._instructions, np.int64)
        self.block_times[first:target] = -1
        self._desk[0, FINISHED] += target - first
        for chunk in self._supply.skip(first, target):
            count_executions(chunk, first, target, executions)
        self._desk[0, NEXT_BLOCK] = target
        return executions

    def waiting_for(self) -> str:
        """Blocks that have not ended, empty if all have."""
        if self.done:
            return ""
        started = int(self._desk[0, NEXT_BLOCK])
        return (
            f"{self.name}: {self.finished} of {self.blocks} blocks ended, {started - self.finished} on SMs, "
            f"{self.blocks - started} not started"
        )
