"""A chain of launches that depend on each other programmatically, simulated at once.

Mental model: the first grid begins as any launch does; each later one is launched with programmatic stream
serialization and may begin before the one before it has ended (:mod:`gpusim.engine.chain_dispatch`). All share the SMs'
room, pipes and caches. A grid's cycles are those by which its completion lies behind that of the grid before, so that
they add up to the chain's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpusim.engine.arena import Arena
from gpusim.engine.chain_dispatch import G_COMPLETE, G_LET_GO_CYCLE
from gpusim.engine.chain_supply import MOST_GRIDS
from gpusim.engine.device import Device
from gpusim.engine.launch import CounterReader, Observation, launch_result
from gpusim.engine.poll_watch import PollWatch
from gpusim.engine.result import LaunchResult
from gpusim.engine.sampling import Reading
from gpusim.model import counters as count
from gpusim.model.messages import TICKS_PER_CYCLE
from gpusim.model.occupancy import occupancy
from gpusim.model.stall_reasons import SELECTED
from gpusim.trace.record import Flag, Trace

#: Columns of ``work`` with sectors, or requests, that go beyond the SM.
_ASKING = [
    count.LOAD_SECTORS, count.STORE_SECTORS, count.ATOMIC_SECTORS, count.LOCAL_LOAD_SECTORS, count.LOCAL_STORE_SECTORS,
    count.BULK_REQUESTS,
]  # fmt: skip


@dataclass(frozen=True)
class GridResult:
    """One grid of a chain; times in cycles since the chain's begin. ``start_cycle`` of its first block,
    ``let_go_cycle`` at which the dispatcher knows that all its blocks have let the next grid begin, ``end_cycle`` at
    which it has completed. ``result``: as of a launch alone; its ``cycles`` are those by which it ends after the grid
    before, its ``overlap_cycles`` those that lie before that end; its block times count from that end, and are below 0
    before it. What L2, DRAM and the ports count for all grids at once is shared out by the sectors that each grid's
    instructions ask for."""

    start_cycle: int
    let_go_cycle: int
    end_cycle: int
    result: LaunchResult

    @property
    def cycles(self) -> int:
        """Of the result."""
        return self.result.cycles

    @property
    def overlap_cycles(self) -> int:
        """Of the result."""
        return self.result.overlap_cycles or 0

    @property
    def stalls(self) -> dict[str, int]:
        """Warp cycles by stall reason."""
        return self.result.stalls

    @property
    def block_times(self) -> np.ndarray:
        """int64[blocks, columns] of :data:`gpusim.engine.block_dispatcher.BLOCK_TIME_TABLE`, since the chain's
        begin."""
        times = self.result.block_times.copy()
        times[:, :2] += self.end_cycle - self.cycles
        return times


@dataclass(frozen=True)
class ChainResult:
    """What is said of a chain: ``cycles`` from its begin to the end of its last grid, ``counters`` of L2 and DRAM of
    all of it."""

    cycles: int
    grids: tuple[GridResult, ...]
    counters: dict[str, int]


def lets_dependents_go(trace: Trace) -> bool:
    """Whether launches that depend programmatically on this one may begin before it has ended."""
    return bool((trace.program.instructions["flags"] & int(Flag.LAUNCH_DEPENDENTS)).any())


def why_not_at_once(traces: Sequence[Trace]) -> str:
    """Why these launches cannot be simulated at once; empty if they can."""
    if len(traces) > MOST_GRIDS:
        return f"a chain of {len(traces)} launches, {MOST_GRIDS} are simulated at once at most"
    for trace in traces:
        if trace.regular is not None:
            return f"{trace.launch.kernel} was captured from a few of its blocks"
        if any((np.diff(chunk.path_start) == 0).any() for chunk in trace.chunks()):
            return f"{trace.launch.kernel} has blocks whose work others have taken over"
    for name in ("shared_window", "local_window"):
        if len({getattr(trace.launch, name) for trace in traces} - {0}) > 1:
            return f"the launches place {name.replace('_', ' ')}s of generic addresses differently"
    return ""


def at_once(
    traces: Sequence[Trace], say: Callable[[str], None], why_apart: Callable[[Trace], str] = lambda trace: ""
) -> list[list[int]]:
    """The launches of ``traces``, by index, that are simulated at once: each but the first depends programmatically on
    the one before, which lets it begin. ``say`` is told why where that is not done; ``why_apart``: why else a launch is
    to run by itself, empty where it is not."""
    groups: list[list[int]] = []
    for i, trace in enumerate(traces):
        follows = bool(groups) and trace.launch.dependent and lets_dependents_go(traces[i - 1])
        reason = ""
        if follows:
            reason = (
                why_apart(traces[i - 1])
                or why_apart(trace)
                or why_not_at_once([*(traces[k] for k in groups[-1]), trace])
            )
        if reason:
            say(f"{trace.launch.kernel} does not overlap with the launch that it depends on programmatically: {reason}")
        if follows and not reason:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


class RunningChain:
    """A chain on ``device`` from the machine's ``cycle`` on; see :class:`gpusim.engine.launch.RunningLaunch`."""

    def __init__(
        self, device: Device, traces: Sequence[Trace], cycle: int, reach_cycles: int, keep_l1: bool, wanted: Observation
    ) -> None:
        self._device, self._traces, self._cycle, self._progress = device, traces, cycle, wanted.progress
        fits = self._fits = [occupancy(trace.launch, device.spec) for trace in traces]
        arena = Arena()
        self._supply = device.dispatcher.begin_chain(traces, fits, cycle, arena, reach_cycles)
        device.l2.begin_launch(arena)
        self._polling = PollWatch(device, arena)
        for group in device.groups:
            group.begin_chain(traces, min(fit.l1_bytes for fit in fits), arena, keep_l1)
        self._counters = CounterReader(device, cycle, reads_waves=False)

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
        shares = self._shares(reading)
        results: list[GridResult] = []
        first_block = first_instruction = before = 0
        for number, trace in enumerate(self._traces):
            own = times[first_block : first_block + trace.launch.blocks].copy()
            code = slice(first_instruction, first_instruction + len(trace.program.instructions))
            first_block, first_instruction = first_block + trace.launch.blocks, code.stop
            is_last = number + 1 == len(self._traces)
            complete = (end if is_last else int(self._supply.grids[number, G_COMPLETE])) - begin
            start = int(own[:, 0].min())
            own[:, :2] -= before
            part = _part(reading, code, trace, shares[number], complete - before)
            result = launch_result(
                device.spec, trace, self._fits[number], complete - before, part, own, None, None, device.number
            )
            result = replace(result, overlap_cycles=max(0, before - start))
            let_go = int(self._supply.grids[number, G_LET_GO_CYCLE]) - begin
            results.append(GridResult(start, let_go, complete, result))
            before = complete
        device.dispatcher.end_launch()
        counters = {**reading.memory, "smsp__inst_executed.sum": int(reading.stalls[:, SELECTED].sum())}
        return ChainResult(end - begin, tuple(results), counters), end

    def _shares(self, reading: Reading) -> list[float]:
        """Of what is counted for all grids at once the share of each: by the sectors that its instructions ask for, or
        by instructions where none does."""
        asked, first = [], 0
        for trace in self._traces:
            code = slice(first, first + len(trace.program.instructions))
            first = code.stop
            asked.append((float(reading.work[code][:, _ASKING].sum()), float(reading.stalls[code, SELECTED].sum())))
        column = 0 if any(sectors for sectors, _ in asked) else 1
        whole = sum(each[column] for each in asked)
        return [each[column] / whole for each in asked]


def _part(reading: Reading, code: slice, trace: Trace, share: float, cycles: int) -> Reading:
    """What of the chain's counters belongs to the grid whose instructions are ``code``."""
    stalls = reading.stalls[code]
    totals = np.rint(share * reading.totals).astype(np.int64)
    totals[count.WARP_CYCLES] = stalls.sum()
    totals[count.BLOCKS] = trace.launch.blocks
    totals[count.WARPS] = trace.launch.blocks * trace.launch.warps_per_block
    memory = {name: round(share * value) for name, value in reading.memory.items()}
    issued = int(stalls[:, SELECTED].sum())
    return Reading(cycles, issued, reading.l2_filled, stalls, reading.work[code], totals, memory)
