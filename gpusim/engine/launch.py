"""A launch while it runs on a device, and what is said of it when it has ended.

Mental model: a launch loads its program into the device's SMs and its blocks into the dispatcher; the parts do the
rest. It watches them at window boundaries (supplies what warps are about to issue, takes samples, leaves out blocks of
a sampled launch) and at the end reads all counters, less what they showed at its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from gpusim.engine.arena import Arena
from gpusim.engine.device import Device
from gpusim.engine.poll_watch import PollWatch
from gpusim.engine.result import LaunchResult
from gpusim.engine.samples import Sampler
from gpusim.engine.sampling import Reading, Sampling, WaveReader
from gpusim.gpus.spec import GpuSpec
from gpusim.model import counters as count
from gpusim.model.messages import NEVER, TICKS_PER_CYCLE
from gpusim.model.occupancy import Occupancy, occupancy
from gpusim.model.stall_reasons import SELECTED, STALL_NAMES
from gpusim.trace.record import Trace

#: Called with the blocks that have ended and all blocks.
Progress = Callable[[int, int], None]
#: Called with the launch's cycle, what gives how often each instruction has issued, int64[instructions], and what reads
#: all counters at a cycle.
Watch = Callable[[int, Callable[[], np.ndarray], Callable[[int], Reading]], None]


@dataclass(frozen=True)
class Observation:
    """What is wanted beside the result: ``samples`` over time (:mod:`gpusim.engine.samples`), to leave blocks out
    (``sample``, :mod:`gpusim.engine.sampling`), calls of ``progress`` when another hundredth of the blocks has ended,
    and of ``watch`` at every window boundary."""

    samples: bool = False
    sample: bool = False
    progress: Progress | None = None
    watch: Watch | None = None

    @property
    def looks_at_boundaries(self) -> bool:
        """Whether somebody looks at the machine at window boundaries, where no part may then be ahead of another."""
        return bool(self.samples or self.sample or self.watch)


NOTHING_MORE = Observation()


class CounterReader:
    """The counters of a device since the machine's cycle ``start``. ``reads_waves``: somebody asks how full L2 is, for
    which all its lines are looked through once (a millisecond on an H200)."""

    def __init__(self, device: Device, start: int, reads_waves: bool) -> None:
        self._device, self._start = device, start
        self._memory_before = device.memory_counters()
        self._flushed_before = device.flushed if reads_waves else 0.0

    def read(self, cycle: int) -> Reading:
        """All of them, at the machine's ``cycle``."""
        groups = self._device.groups
        memory = {
            name: value - self._memory_before.get(name, 0) for name, value in self._device.memory_counters().items()
        }
        stalls = self._device.stalls()
        work = np.sum([group.state.work for group in groups], axis=0)
        totals = np.sum([group.state.counters for group in groups], axis=0)
        issued = int(stalls[:, SELECTED].sum())
        return Reading(cycle - self._start, issued, self._filled(memory), stalls, work, totals, memory)

    def _filled(self, memory: Mapping[str, float]) -> float:
        """The share of L2's lines that hold something, without what is left of another buffer's lines
        (:meth:`Device.fill_data`): as much as the launch brought in is gone of that."""
        chip = self._device.spec.l2
        brought = memory["dram__bytes_read.sum"] + chip.sector_bytes * memory["lts__t_sectors_op_write.sum"]
        return self._device.l2.filled - self._flushed_before * max(0.0, 1 - brought / chip.total_bytes)

    def totals(self) -> list[int]:
        """What a sample reads, in the order of :data:`gpusim.engine.samples.COLUMNS` after the cycle."""
        memory = self._device.memory_counters()
        sectors = sum(memory[f"lts__t_sectors_op_{kind}.sum"] for kind in ("read", "write", "atom", "red"))
        return [
            self._device.dispatcher.finished,
            sectors,
            memory["l2__slice_busy_ticks.sum"],
            memory["dram__bytes_read.sum"],
            memory["dram__bytes_write.sum"],
            *self._device.stalls().sum(axis=0).tolist(),
        ]


class RunningLaunch:
    """One launch on ``device`` from the machine's ``cycle`` on. ``reach_cycles``: the longest window; ``keep_l1``:
    leave the L1 as it is."""

    def __init__(
        self, device: Device, trace: Trace, cycle: int, reach_cycles: int, keep_l1: bool, wanted: Observation
    ) -> None:
        self._device, self._trace, self._cycle = device, trace, cycle
        self._fit = occupancy(trace.launch, device.spec)
        arena = Arena()
        device.dispatcher.begin_launch(trace, self._fit.blocks_per_sm, cycle, arena, reach_cycles)
        device.l2.begin_launch(arena)
        self._polling = PollWatch(device, arena)
        for group in device.groups:
            group.begin_launch(trace.program, trace.launch, self._fit, arena, keep_l1)
        self._counters = CounterReader(device, cycle, wanted.sample)
        self._sampler = Sampler(cycle, self._counters.totals) if wanted.samples else None
        self._waves = None
        if wanted.sample:
            wave_blocks = min(trace.launch.blocks, self._fit.blocks_per_sm * device.spec.sm_count)
            wave_blocks = wave_blocks // trace.launch.cluster_blocks * trace.launch.cluster_blocks
            self._waves = WaveReader(trace, device.dispatcher, wave_blocks, self._counters.read)
        self._progress, self._next_progress, self._watch = wanted.progress, 0, wanted.watch
        self._instructions: int | None = None

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self._trace.launch.kernel

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self._trace.launch.blocks

    def how_far(self) -> tuple[int, float]:
        """Blocks that have ended, and the share of the launch's work that is done, by warp instructions where the trace
        says how many there are. May be called from another thread while the launch runs."""
        finished = self._device.dispatcher.finished
        if self._instructions is None:
            self._instructions = known_instructions(self._trace)
        if not self._instructions:
            return finished, finished / self.blocks
        issued = sum(int(group.state.stalls[:, SELECTED].sum()) for group in self._device.groups)
        if self._waves is not None:
            issued += self._waves.skipped_instructions
        return finished, issued / self._instructions

    def on_boundary(self, tick: int) -> None:
        """Before a window: all parts of the device have done everything before ``tick`` and nothing after it."""
        self._device.dispatcher.feed(self._device.groups, tick // TICKS_PER_CYCLE)
        self._polling.look(tick // TICKS_PER_CYCLE)
        if self._sampler is not None:
            self._sampler(tick)
        if self._waves is not None:
            self._waves(tick)
        if self._watch is not None:
            cycle = tick // TICKS_PER_CYCLE
            self._watch(cycle - self._cycle, self._executions, lambda _cycle: self._counters.read(cycle))

    @property
    def next_boundary(self) -> int:
        """The tick before which :meth:`on_boundary` has nothing to do, where nobody looks at boundaries."""
        return (
            min(self._device.dispatcher.next_look, self._polling.next_look, NEVER // TICKS_PER_CYCLE) * TICKS_PER_CYCLE
        )

    def waiting(self) -> str:
        """Warps that wait for words which have not been written; empty if none does."""
        return self._polling.waiting()

    def _executions(self) -> np.ndarray:
        return np.sum([group.state.stalls[:, SELECTED] for group in self._device.groups], axis=0)

    def on_window(self) -> None:
        """After a part's turn: tell of progress, if that is wanted."""
        dispatcher = self._device.dispatcher
        if self._progress is not None and dispatcher.finished >= self._next_progress:
            self._next_progress = dispatcher.finished + max(1, dispatcher.blocks // 100)
            self._progress(dispatcher.finished, dispatcher.blocks)

    def finish(self) -> tuple[LaunchResult, int]:
        """What is said of the launch, which has ended, and the machine's cycle at its end."""
        device, begin = self._device, self._cycle
        end = max(group.last_tick for group in device.groups) // TICKS_PER_CYCLE + device.spec.launch.end_cycles
        reading, cycles = self._counters.read(end), end - begin
        table = None
        if self._sampler is not None:
            self._sampler.take(end)
            table = self._sampler.table()
        times = device.dispatcher.block_times
        times[times[:, 2] >= 0, :2] -= begin
        sampling = None
        if self._waves is not None:
            cycles += self._waves.skipped_cycles
            sampling = self._waves.sampling(cycles)
            reading = self._waves.complete(reading)
        device.dispatcher.end_launch()
        result = launch_result(
            device.spec, self._trace, self._fit, cycles, reading, times, table, sampling, device.number
        )
        return result, end


def known_instructions(trace: Trace) -> int:
    """Warp instructions of the whole launch; 0 where only running it would tell."""
    streamed = isinstance(trace.chunk_list, Iterator)
    return 0 if streamed else trace.warp_instructions


def launch_result(
    spec: GpuSpec,
    trace: Trace,
    fit: Occupancy,
    cycles: int,
    reading: Reading,
    times: np.ndarray,
    samples: np.ndarray | None,
    sampling: Sampling | None,
    device: int,
) -> LaunchResult:
    """What is said of a launch of ``trace`` that took ``cycles`` and left the counters of ``reading``."""
    totals, stalls, work = reading.totals, reading.stalls, reading.work
    counters: dict[str, float] = {"sm__cycles_elapsed.max": cycles}
    counters["smsp__inst_executed.sum"] = int(stalls[:, SELECTED].sum())
    counters.update(zip(count.WORK_NAMES, work.sum(axis=0).tolist(), strict=True))
    counters.update(zip(count.COUNTER_NAMES, totals.tolist(), strict=True))
    counters.update(reading.memory)
    active = 100.0 * int(totals[count.WARP_CYCLES]) / (max(1, cycles) * spec.sm_count * spec.sm.max_warps)
    counters["sm__warps_active.avg.pct_of_peak_sustained_active"] = active
    counters.update({f"launch__occupancy_limit_{name}": limit for name, limit in fit.limits.items()})
    return LaunchResult(
        kernel=trace.launch.kernel,
        cycles=cycles,
        counters=counters,
        stalls={name: int(stalls[:, i].sum()) for i, name in enumerate(STALL_NAMES)},
        stalls_by_instruction=stalls,
        work_by_instruction=work,
        program=trace.program,
        launch=trace.launch,
        block_times=times,
        samples=samples,
        sampling=sampling,
        blocks_per_sm=fit.blocks_per_sm,
        occupancy_limits=dict(fit.limits),
        occupancy_limiter=fit.limiter,
        device=device,
        clock_hz=spec.clock_hz,
        spec=spec,
    )
