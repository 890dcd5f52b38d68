"""A chain of launches that depend on each other programmatically, simulated at once.

Mental model: the first grid begins as any launch does; each later one is launched with programmatic stream serialization and may begin before the
one before it has ended (:mod:`gpusim.engine.chain_dispatch`). All share the SMs' room, pipes and caches. A grid's cycles are those
by which its completion lies behind that of the grid before, so that they add up to the chain's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusim.engine.arena import Arena
from gpusim.engine.chain_dispatch import G_COMPLETE, G_LET_GO_CYCLE
from gpusim.engine.chain_supply import MOST_GRIDS
from gpusim.engine.device import Device
from gpusim.engine.launch import CounterReader, Observation
from gpusim.engine.poll_watch import PollWatch
from gpusim.engine.sm import is_clustered
from gpusim.model.messages import TICKS_PER_CYCLE
from gpusim.model.occupancy import occupancy
from gpusim.model.stall_reasons import SELECTED, STALL_NAMES
from gpusim.trace.record import Trace


@dataclass(frozen=True)
class GridResult:
    """One grid of a chain; times in cycles since the chain's begin. ``start_cycle`` of its first block, ``let_go_cycle`` at which the dispatcher knows
    that all its blocks have let the next grid begin, ``end_cycle`` at which it has completed; ``cycles`` by which it ends after the
    grid before; ``overlap_cycles`` of it that lie before that end. ``stalls``: warp cycles by stall reason;
    ``stalls_by_instruction`` int64[instructions, reasons]; ``block_times`` int64[blocks, columns] of :data:`gpusim.engine.block_dispatcher.BLOCK_TIME_TABLE`."""

    kernel: str
    cycles: int
    overlap_cycles: int
    start_cycle: int
    let_go_cycle: int
    end_cycle: int
    stalls: dict[str, int]
    stalls_by_instruction: np.ndarray
    block_times: np.ndarray


@dataclass(frozen=True)
class ChainResult:
    """What is said of a chain: ``cycles`` from its begin to the end of its last grid, ``counters`` of L2 and DRAM of all of it."""

    cycles: int
    grids: tuple[GridResult, ...]
    counters: dict[str, int]


def why_not_at_once(traces: Sequence[Trace]) -> str:
    """Why these launches cannot be simulated at once; empty if they can."""
    if len(traces) > MOST_GRIDS:
        return f"a chain of {len(traces)} launches, {MOST_GRIDS} are simulated at once at most"
    for trace in traces:
        if is_clustered(trace.program, trace.launch):
            return f"{trace.launch.kernel} has clusters"
        if any((np.diff(chunk.path_start) == 0).any() for chunk in trace.chunks()):
            return f"{trace.launch.kernel} has blocks whose work others have taken over"
    for name in ("shared_window", "local_window"):
        if len({getattr(trace.launch, name) for trace in traces} - {0}) > 1:
            return f"the launches place {name.replace('_', ' ')}s of generic addresses differently"
    return ""


class RunningChain:
    """A chain on ``device`` from the machine's ``cycle`` on; see :class:`gpusim.engine.launch.RunningLaunch`."""

    def __init__(
        self, device: Device, traces: Sequence[Trace], cycle: int, reach_cycles: int, wanted: Observation
    ) -> None:
        self._device, self._traces, self._cycle, self._progress = device, traces, cycle, wanted.progress
        fits = [occupancy(trace.launch, device.spec) for trace in traces]
        arena = Arena()
        self._supply = device.dispatcher.begin_chain(traces, fits, cycle, arena, reach_cycles)
        device.l2.begin_launch(arena)
        self._polling = PollWatch(device, arena)
        for group in device.groups:
            group.begin_chain(traces, min(fit.l1_bytes for fit in fits), arena)
        self._counters = CounterReader(device, cycle)

    @property
    def kernel(self) -> str:
        """The kernels' names."""
        return ", ".join(trace.launch.kernel for trace in self._traces)

    @property
    def blocks(self) -> int:
        """Blocks of all grids."""
        return self._supply.blocks

    def how_far(self) -> tuple[int, float]:
        """Blocks that have ended, and their share of all."""
        finished = self._supply.finished
        return finished, finished / self.blocks

    def on_boundary(self, tick: int) -> None:
        """Before a window: all parts of the device have done everything before ``tick`` and nothing after it."""
        self._polling.look(tick // TICKS_PER_CYCLE)

    def on_window(self) -> None:
        """After a part's turn: tell of progress, if that is wanted."""
        if self._progress is not None:
            self._progress(self._supply.finished, self.blocks)

    def waiting(self) -> str:
        """Warps that wait for words which have not been written; empty if none does."""
        return self._polling.waiting()

    def finish(self) -> tuple[ChainResult, int]:
        """What is said of the chain, which has ended, and the machine's cycle at its end."""
        device, begin = self._device, self._cycle
        end = max(group.last_tick for group in device.groups) // TICKS_PER_CYCLE + device.spec.launch.end_cycles
        reading = self._counters.read(end)
        times = self._supply.times.copy()
        times[:, :2] -= begin
        results: list[GridResult] = []
        first_block = first_instruction = before = 0
        for number, trace in enumerate(self._traces):
            own = times[first_block : first_block + trace.launch.blocks]
            code = slice(first_instruction, first_instruction + len(trace.program.instructions))
            first_block, first_instruction = first_block + trace.launch.blocks, code.stop
            is_last = number + 1 == len(self._traces)
            complete = (end if is_last else int(self._supply.grids[number, G_COMPLETE])) - begin
            start, stalls = int(own[:, 0].min()), reading.stalls[code]
            results.append(
                GridResult(
                    kernel=trace.launch.kernel,
                    cycles=complete - before,
                    overlap_cycles=max(0, before - start),
                    start_cycle=start,
                    let_go_cycle=int(self._supply.grids[number, G_LET_GO_CYCLE]) - begin,
                    end_cycle=complete,
                    stalls={name: int(stalls[:, i].sum()) for i, name in enumerate(STALL_NAMES)},
                    stalls_by_instruction=stalls,
                    block_times=own,
                )
            )
            before = complete
        device.dispatcher.end_launch()
        counters = {**reading.memory, "smsp__inst_executed.sum": int(reading.stalls[:, SELECTED].sum())}
        return ChainResult(end - begin, tuple(results), counters), end
