"""The block dispatcher as a part of the engine: which block goes to which slot, and when.

Mental model: free block slots wait for blocks. At the launch all slots of all SMs are free, in the order round-robin
over the SMs, from one group of them (GPC) to the next; later a slot is free when its block has ended, half the
turnaround after the exit. The dispatcher serves one slot each ``dispatch_interval_cycles``, the first one of an SM in
``first_dispatch_interval_cycles``; the block starts the other half of the turnaround later. The blocks of a cluster
start together, when the last of them has a slot; the first ones lie in one group of SMs each, and SMs that are too few
for one more get none. Later clusters take the slots that are free first, most often those of one that has ended. The
trace comes from :mod:`gpusim.engine.supply`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from gpusim.engine.arena import Arena
from gpusim.engine.chain_supply import ChainSupply
from gpusim.engine.cluster_order import block_at
from gpusim.engine.graph import part_name
from gpusim.engine.latencies import turnaround_halves
from gpusim.engine.part import Outgoing
from gpusim.engine.sm import SmGroup
from gpusim.engine.supply import L_END, L_ENDED, L_FIRST, L_WARPS, Supply
from gpusim.engine.tables import copied
from gpusim.errors import LaunchError, SpecError, TraceFormatError
from gpusim.gpus.spec import GpuSpec
from gpusim.io.jit_direct import direct
from gpusim.model.arrivals import pop, push
from gpusim.model.compiled import compiled
from gpusim.model.crossbar import service_order
from gpusim.model.messages import MOST_PEERS, NEVER, PLACE_SHIFT, START, TICKS_PER_CYCLE
from gpusim.model.occupancy import Occupancy
from gpusim.state_tables import Table
from gpusim.trace.record import Chunk, Launch, Trace

Sides = tuple[int, int, int]
#: A free slot is one key: the cycle from which it is free, its SM, its slot.
_SLOT_BITS, _SM_BITS = PLACE_SHIFT, 12
_PLACE_BITS = _SLOT_BITS + _SM_BITS

DISPATCHER_TABLE = Table(__name__, "dispatcher", "a dispatcher (one)", "Where it stands.")
FREE_SLOTS = DISPATCHER_TABLE.column("count", "slots that are free again, in the heap ``free_slots``")
FIRST_SERVED = DISPATCHER_TABLE.column("count", "slots that have been given their first block")
SLOTS = DISPATCHER_TABLE.column("count", "slots that the launch uses")
DECISION = DISPATCHER_TABLE.column("cycle", "of the next decision at the earliest")
NEXT_BLOCK = DISPATCHER_TABLE.column("index", "in the order of dispatch: in the grid, of clusters one after another")
STAGED = DISPATCHER_TABLE.column("count", "blocks from it on, of one cluster, that have slots and wait for the others'")
BLOCKS = DISPATCHER_TABLE.column("count", "blocks of the launch")
FINISHED = DISPATCHER_TABLE.column("count", "blocks that have ended")

BLOCK_TIME_TABLE = Table(__name__, "block_times", "a block", "When and where it ran; all -1: it was left out.")
T_START = BLOCK_TIME_TABLE.column("cycle", "of its start, from the machine's cycle 0")
T_END = BLOCK_TIME_TABLE.column("cycle", "of its end")
T_SM = BLOCK_TIME_TABLE.column("index", "of the machine")
T_SLOT = BLOCK_TIME_TABLE.column("index", "block slot of the SM")


class DispatchRates(NamedTuple):
    """Frozen scalars of one launch's dispatch: counts, and times in cycles."""

    sm_count: int  # of those that are given blocks
    warps_per_block: int
    first_interval: int  # from one slot served to the next, the first one of each SM
    interval: int
    to_dispatcher: int  # a block's end to its slot's being free
    to_sm: int  # a decision to the block's start
    cluster: int  # blocks of a cluster
    shape: tuple[int, int, int]  # the same along x, y, z
    grid: tuple[int, int, int]  # blocks along x, y, z


class DispatchState(NamedTuple):
    """Everything that changes."""

    dispatcher: np.ndarray
    free_slots: np.ndarray  # int64[1, slots]: a heap of free slots, earliest first, see ``arrivals``
    order: np.ndarray  # int64[SMs]: in which they get their first blocks
    times: np.ndarray  # ``block_times``
    starts: np.ndarray  # START[slots]: what goes out
    places: np.ndarray  # int64[MOST_PEERS]: where the blocks of the cluster that is under way go


@compiled
def next_decision(s):
    """Cycle at which the next slot is served; NEVER if none is free or no block is left."""
    dispatcher = s.dispatcher
    if dispatcher[0, NEXT_BLOCK] == dispatcher[0, BLOCKS]:
        return NEVER
    if dispatcher[0, FIRST_SERVED] < dispatcher[0, SLOTS]:
        return dispatcher[0, DECISION]
    if dispatcher[0, FREE_SLOTS] == 0:
        return NEVER
    return max(s.free_slots[0, 0] >> _PLACE_BITS, dispatcher[0, DECISION])


@compiled
def _pass_idle(p, s, live, row, idle):
    """Leave the clusters out that are next and execute nothing, since others have taken over their work; ``idle``
    bool[blocks of the chunk]. False if the next one has blocks that do and blocks that do not."""
    dispatcher = s.dispatcher
    while dispatcher[0, NEXT_BLOCK] < live[row, L_END] and dispatcher[0, STAGED] == 0:
        count = 0
        for rank in range(p.cluster):
            place = block_at(p.cluster, p.shape, p.grid, dispatcher[0, NEXT_BLOCK] + rank) - live[row, L_FIRST]
            if place < 0 or place >= idle.shape[0]:
                return False
            count += idle[place]
        if count < p.cluster:
            return count == 0
        for _ in range(p.cluster):
            block = block_at(p.cluster, p.shape, p.grid, dispatcher[0, NEXT_BLOCK])
            for column in range(s.times.shape[1]):
                s.times[block, column] = -1
            dispatcher[0, NEXT_BLOCK] += 1
            dispatcher[0, FINISHED] += 1
            live[row, L_ENDED] += 1
    return True


@compiled
def serve(p, s, live, row, until, idle):
    """Give blocks of live chunk ``row`` to the slots whose turn comes before cycle ``until``; the number of
    messages of ``starts`` written, -1 for a cluster of which only some blocks execute something or lie in the chunk.
    ``idle`` as in :func:`_pass_idle`, empty where all blocks do."""
    dispatcher, times = s.dispatcher, s.times
    n = 0
    while dispatcher[0, NEXT_BLOCK] < live[row, L_END]:
        if idle.shape[0]:
            if not _pass_idle(p, s, live, row, idle):
                return -1
            if dispatcher[0, NEXT_BLOCK] == live[row, L_END]:
                break
        decision = next_decision(s)
        if decision >= until:
            break
        interval = p.interval
        if dispatcher[0, FIRST_SERVED] < dispatcher[0, SLOTS]:
            if dispatcher[0, FIRST_SERVED] < p.sm_count:
                interval = p.first_interval
            sm, slot = s.order[dispatcher[0, FIRST_SERVED] % p.sm_count], dispatcher[0, FIRST_SERVED] // p.sm_count
            dispatcher[0, FIRST_SERVED] += 1
        else:
            key = pop(s.free_slots, 0, dispatcher, FREE_SLOTS)
            sm, slot = key >> _SLOT_BITS & ((1 << _SM_BITS) - 1), key & ((1 << _SLOT_BITS) - 1)
        dispatcher[0, DECISION] = decision + interval
        s.places[dispatcher[0, STAGED]] = sm << PLACE_SHIFT | slot
        dispatcher[0, STAGED] += 1
        if dispatcher[0, STAGED] < p.cluster:
            continue
        dispatcher[0, STAGED] = 0
        for rank in range(p.cluster):
            block = block_at(p.cluster, p.shape, p.grid, dispatcher[0, NEXT_BLOCK] + rank)
            if not live[row, L_FIRST] <= block < live[row, L_END]:
                return -1
        cycle = decision + p.to_sm
        for rank in range(p.cluster):
            place = dispatcher[0, NEXT_BLOCK]
            dispatcher[0, NEXT_BLOCK] = place + 1
            block = block_at(p.cluster, p.shape, p.grid, place)
            times[block, T_START] = cycle
            times[block, T_SM] = s.places[rank] >> PLACE_SHIFT
            times[block, T_SLOT] = s.places[rank] & ((1 << PLACE_SHIFT) - 1)
            start = s.starts[n]
            start["time"] = cycle * TICKS_PER_CYCLE
            start["sm"] = times[block, T_SM]
            start["slot"] = times[block, T_SLOT]
            start["block"] = block
            start["warp_row"] = live[row, L_WARPS] + (block - live[row, L_FIRST]) * p.warps_per_block
            start["cluster"] = place // p.cluster
            start["cluster_blocks"] = p.cluster
            start["rank"] = rank
            for other in range(p.cluster):
                start["peers"][other] = s.places[other]
            n += 1
    return n


@compiled
def end_blocks(p, s, live, exits):
    """Note block ends; their slots are free again while blocks are left. True if a chunk has no block left."""
    dispatcher = s.dispatcher
    emptied = False
    for i in range(exits.shape[0]):
        block, cycle = exits[i]["block"], exits[i]["time"] // TICKS_PER_CYCLE
        s.times[block, T_END] = cycle - p.to_dispatcher
        dispatcher[0, FINISHED] += 1
        for chunk in range(live.shape[0]):
            if live[chunk, L_FIRST] <= block < live[chunk, L_END]:
                live[chunk, L_ENDED] += 1
                emptied |= live[chunk, L_ENDED] == live[chunk, L_END] - live[chunk, L_FIRST]
                break
        if dispatcher[0, NEXT_BLOCK] < dispatcher[0, BLOCKS]:
            place = exits[i]["sm"] << _SLOT_BITS | exits[i]["slot"]
            push(s.free_slots, 0, dispatcher, FREE_SLOTS, cycle << _PLACE_BITS | place)
    return emptied


_decision_after, _note_ends, _serve_until = direct(next_decision), direct(end_blocks), direct(serve)


def count_executions(chunk: Chunk, first: int, end: int, executions: np.ndarray) -> None:
    """Add to ``executions`` int64[instructions] how often each issues in the chunk for blocks ``first`` to ``end -
    1``."""
    per_block = len(chunk.warps) // chunk.blocks
    first, end = (min(max(block - chunk.first_block, 0), chunk.blocks) * per_block for block in (first, end))
    if first == end:
        return
    paths = np.bincount(chunk.warps["path"][first:end], minlength=len(chunk.path_start) - 1)
    times = np.repeat(paths, np.diff(chunk.path_start))
    begin, size = chunk.runs["first"].astype(np.int64), len(executions) + 1
    rises = np.bincount(begin, times, size) - np.bincount(begin + chunk.runs["count"], times, size)
    executions += np.rint(np.cumsum(rises)[:-1]).astype(np.int64)


def _slots(launch: Launch, blocks_per_sm: int, spec: GpuSpec) -> int:
    """Block slots that the launch uses: as many as it has blocks, in whole clusters. Raises LaunchError if not even one
    cluster is resident at once."""
    size = launch.cluster_blocks
    slots = min(launch.blocks, blocks_per_sm * len(service_order(spec, size))) // size * size
    if not slots:
        most = min(spec.sm_count, spec.crossbar.sms_per_gpc or spec.sm_count) * blocks_per_sm
        raise LaunchError(f"{launch.kernel}: a cluster of {size} blocks, but {spec.name} holds only {most} at once")
    return slots


class Dispatcher:
    """Dispatches one launch after another; see the module's docstring. Takes EXIT, sends START. ``block_times``
    int64[blocks, columns]."""

    def __init__(self, spec: GpuSpec, device: int = 0) -> None:
        self.name, self.device, self._spec = part_name(device, "dispatcher"), device, spec
        self.last_tick = 0
        self.end_launch()

    def end_launch(self) -> None:
        """Let go of the launch's trace: idle."""
        self.kernel = ""
        self._chain: ChainSupply | None = None
        self._hold(blocks=0, slots=0, warps_per_block=0, decision=0)
        self._supply: Supply | None = None

    def begin_launch(self, trace: Trace, blocks_per_sm: int, launch_cycle: int, arena: Arena, reach: int) -> None:
        """Take up a launch that begins at the machine's cycle ``launch_cycle``; ``reach`` as in :class:`Supply`."""
        spec = self._spec
        if spec.sm_count >= 1 << _SM_BITS or blocks_per_sm > 1 << _SLOT_BITS:
            raise SpecError(
                f"{spec.name}: sm_count = {spec.sm_count} with {blocks_per_sm} blocks an SM is too many; "
                f"at most {(1 << _SM_BITS) - 1} SMs of {1 << _SLOT_BITS} blocks"
            )
        self.kernel = trace.launch.kernel
        to_sm = turnaround_halves(spec)[1]
        self._hold(
            blocks=trace.launch.blocks,
            slots=_slots(trace.launch, blocks_per_sm, spec),
            warps_per_block=trace.launch.warps_per_block,
            decision=launch_cycle + max(spec.launch.start_cycles, to_sm) - to_sm,
            cluster=trace.launch.cluster,
            grid=trace.launch.grid,
        )
        self._supply = Supply(trace, arena, reach)
        self._instructions = len(trace.program.instructions)

    def begin_chain(
        self, traces: Sequence[Trace], fits: Sequence[Occupancy], launch_cycle: int, arena: Arena, reach: int
    ) -> ChainSupply:
        """Take up a chain of grids in place of a launch; what serves it."""
        for trace, fit in zip(traces, fits, strict=True):
            _slots(trace.launch, fit.blocks_per_sm, self._spec)  # refuses clusters that are never resident
        self.kernel = traces[0].launch.kernel
        self._chain = ChainSupply(traces, fits, self._spec, launch_cycle, arena, reach)
        self.blocks, self.block_times = self._chain.blocks, self._chain.times
        return self._chain

    def _hold(
        self, blocks: int, slots: int, warps_per_block: int, decision: int, cluster: Sides = (1, 1, 1),
        grid: Sides = (1, 1, 1),
    ) -> None:  # fmt: skip
        """Forget what was dispatched; make room for so many blocks in so many slots."""
        spec = self._spec
        to_dispatcher, to_sm = turnaround_halves(spec)
        interval = max(1, spec.launch.dispatch_interval_cycles)
        order = service_order(spec, cluster[0] * cluster[1] * cluster[2])
        self._rates = DispatchRates(
            sm_count=len(order),
            warps_per_block=warps_per_block,
            first_interval=max(interval, spec.launch.first_dispatch_interval_cycles),
            interval=interval,
            to_dispatcher=to_dispatcher,
            to_sm=to_sm,
            cluster=cluster[0] * cluster[1] * cluster[2],
            shape=cluster,
            grid=grid,
        )
        self.blocks = blocks
        self.block_times = BLOCK_TIME_TABLE.zeros(blocks)
        dispatcher = DISPATCHER_TABLE.zeros(1)
        dispatcher[0, SLOTS], dispatcher[0, BLOCKS], dispatcher[0, DECISION] = slots, blocks, decision
        self._state = DispatchState(
            dispatcher=dispatcher,
            free_slots=np.zeros((1, slots), np.int64),
            order=order,
            times=self.block_times,
            starts=np.zeros(slots, START),
            places=np.zeros(MOST_PEERS, np.int64),
        )

    @property
    def _chunks(self) -> Supply:
        """The chunks of the launch that runs; raises LaunchError between launches."""
        if self._supply is None:
            raise LaunchError(f"{self.name}: no launch runs; begin one first")
        return self._supply

    @property
    def minimum_latency_ticks(self) -> int:
        """Least latency of any message that this part sends."""
        return self._rates.to_sm * TICKS_PER_CYCLE

    @property
    def finished(self) -> int:
        """Blocks that have ended."""
        if self._chain is not None:
            return self._chain.finished
        return int(self._state.dispatcher[0, FINISHED])

    @property
    def next_block(self) -> int:
        """The block that is served next."""
        if self._chain is not None:
            return self._chain.next_block
        return int(self._state.dispatcher[0, NEXT_BLOCK])

    @property
    def done(self) -> bool:
        """All blocks of the launch have ended."""
        return self.finished == self.blocks

    def next_tick(self) -> int:
        """When the next slot is served; NEVER if none is free or no block is left."""
        if self._chain is not None:
            return self._chain.next_tick()
        cycle = _decision_after(self._state)
        return NEVER if cycle == NEVER else cycle * TICKS_PER_CYCLE

    def deliver(self, batch: np.ndarray) -> None:
        """Take block ends."""
        if self._chain is not None:
            self._chain.deliver(batch)
            return
        if _note_ends(self._rates, self._state, self._chunks.live, batch):
            self._chunks.drop_ended()

    @property
    def compiled_row(self) -> int:
        """The row of ``live`` whose blocks come next, if compiled code may serve them, 0 if none are left; -1: the
        trace is to be brought in first, or looked at."""
        if self._chain is not None or self._supply is None:
            return -1
        if self.next_block == self.blocks:
            return 0
        return self._supply.whole_row(self.next_block)

    @property
    def compiled_state(self) -> tuple[DispatchRates, DispatchState, np.ndarray]:
        """What :func:`serve` and :func:`end_blocks` get: rates, state, live chunks."""
        return self._rates, self._state, self._chunks.live

    def served(self, last_start_tick: int, emptied: bool) -> None:
        """Compiled code has served blocks, the last of which starts at ``last_start_tick`` (negative: none), and noted
        block ends; ``emptied``: with which a chunk has no block left."""
        if last_start_tick >= 0:
            self.last_tick = last_start_tick - self.minimum_latency_ticks
        if emptied:
            self._chunks.drop_ended()

    def refuse_split_cluster(self) -> NoReturn:
        """Say why the next cluster cannot be served."""
        raise TraceFormatError(
            f"{self.kernel}: of cluster {self.next_block // self._rates.cluster} some blocks execute nothing, or lie in another"
            " chunk than others"
        )

    @property
    def next_look(self) -> int:
        """The cycle before which :meth:`feed` has nothing to do."""
        return self._chunks.next_look

    def feed(self, groups: list[SmGroup], cycle: int) -> None:
        """At the begin of a window, ``cycle``: see that the warps on ``groups`` have all that they can issue in it."""
        self._chunks.feed(groups, self.next_block, cycle)

    def advance(self, until_tick: int) -> Outgoing:
        """Serve the slots whose turn comes before ``until_tick``."""
        if self._chain is not None:
            outgoing = self._chain.advance(until_tick)
            for starts in outgoing:
                self.last_tick = max(self.last_tick, int(starts["time"].max()) - self.minimum_latency_ticks)
            return outgoing
        outgoing: Outgoing = []
        until = until_tick // TICKS_PER_CYCLE
        while _decision_after(self._state) < until:
            row = self._chunks.serving(self.next_block)
            count = _serve_until(self._rates, self._state, self._chunks.live, row, until, self._chunks.idle(row))
            if count < 0:
                self.refuse_split_cluster()
            if count:
                starts = copied(self._state.starts, count)
                self.last_tick = int(starts["time"][-1]) - self.minimum_latency_ticks
                outgoing.append(starts)
        return outgoing

    def skip(self, target: int) -> np.ndarray:
        """Leave out the blocks from the next one to ``target - 1``, as if they had ended (their ``block_times`` are
        -1); how often each instruction would have issued for them, int64[instructions]."""
        first = self.next_block
        executions = np.zeros(self._instructions, np.int64)
        rates = self._rates
        self.block_times[
            [block_at(rates.cluster, rates.shape, rates.grid, place) for place in range(first, target)]
        ] = -1
        self._state.dispatcher[0, FINISHED] += target - first
        for chunk in self._chunks.skip(first, target):
            count_executions(chunk, first, target, executions)
        self._state.dispatcher[0, NEXT_BLOCK] = target
        return executions

    def waiting_for(self) -> str:
        """Blocks that have not ended, empty if all have."""
        if self.done:
            return ""
        started = self.next_block
        return (
            f"{self.name}: {self.finished} of {self.blocks} blocks ended, {started - self.finished} on SMs, "
            f"{self.blocks - started} not started"
        )
