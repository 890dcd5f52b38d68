"""simulate(): traces in, cycles out.

Mental model: a :class:`Machine` is a GPU that keeps its caches between launches. Launches run one after
another, each under a :class:`~gpusim.engine.window.Conductor` until nothing in the machine has anything
left to do; a launch ends with its last block or its last acknowledged store, whichever is later.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from gpusim.engine.arena import Arena
from gpusim.engine.block_dispatcher import Dispatcher, turnaround_halves
from gpusim.engine.memory import build_memory
from gpusim.engine.result import LaunchResult, Result
from gpusim.engine.samples import Sampler
from gpusim.engine.sampling import Reading, Sampling, WaveReader, behind_sampled
from gpusim.engine.sm import SmGroup
from gpusim.engine.warm import warm_machine
from gpusim.engine.window import Conductor
from gpusim.errors import DeadlockError, LaunchError, UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.model import counters as count
from gpusim.model.crossbar import request_latency_ticks
from gpusim.model.messages import TICKS_PER_CYCLE
from gpusim.model.occupancy import Occupancy, occupancy
from gpusim.model.stall_reasons import SELECTED, STALL_NAMES
from gpusim.trace.record import Trace

#: Fewer busy SMs than this are not worth a second thread.
_SMS_WORTH_A_THREAD = 8

Progress = Callable[[int, int], None]


def simulate(
    traces: Trace | Sequence[Trace],
    gpu: str | GpuSpec = "h200",
    *,
    warm: Trace | Iterable[Trace] = (),
    code: Trace | Iterable[Trace] = (),
    window_cycles: int | None = None,
    threads: int | None = None,
    order_seed: int | None = None,
    samples: bool = False,
    sample: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Predict what the launches of ``traces`` cost, one after another on one machine.

    ``warm``: launches whose footprint the caches (L1 too) hold beforehand; they take no time. ``code``: launches that ran
    before, of which only their machine code is left, in the instruction caches: all data have been swept out since.
    ``window_cycles``: length of the engine's windows, at most :func:`window_limit_cycles`; ``threads``:
    SM groups run in parallel (default: the cores, fewer for small grids); ``order_seed``: visit parts and
    SMs in a shuffled order. None of the three changes the result. ``samples``: keep readings over time (see
    :mod:`gpusim.engine.samples`). ``sample``: leave out the middle of large launches and extrapolate
    (:mod:`gpusim.engine.sampling`; each launch's ``sampling`` says what was done). ``progress(done, blocks)`` is called now
    and then. Raises UsageError, LaunchError, UnknownGpuError, SpecError, TraceFormatError and DeadlockError.
    """
    launches = [traces] if isinstance(traces, Trace) else list(traces)
    if not launches:
        raise UsageError("simulate() needs at least one trace")
    before = [warm] if isinstance(warm, Trace) else list(warm)
    ran = [code] if isinstance(code, Trace) else list(code)
    spec = load_gpu(gpu) if isinstance(gpu, str) else gpu
    for trace in (*before, *ran, *launches):
        check_architecture(trace, spec)
    machine = Machine(spec, _thread_count(threads, launches, spec), window_cycles, order_seed)
    with machine:
        for trace in ran:
            machine.launch(trace)
        if ran:
            machine.sweep_data()
        if before:
            machine.warm(before, launches[0])
        results = []
        for i, trace in enumerate(launches):
            result = machine.launch(trace, progress, keep_l1=bool(before) and i == 0, samples=samples, sample=sample)
            if result.sampling and any(earlier.sampling.skipped_blocks for earlier in results):
                result = replace(result, sampling=behind_sampled(result.sampling, result.cycles))
            results.append(result)
            if result.sampling and result.sampling.skipped_blocks and i + 1 < len(launches):
                machine.warm([trace], launches[i + 1])  # as the blocks left out would have left the L2
    return _summary(spec, results, machine.windows)


def check_architecture(trace: Trace, spec: GpuSpec) -> None:
    """Refuse a trace of another compute capability: its machine code would not run there."""
    if tuple(trace.launch.capability) != tuple(spec.capability):
        have, want = (".".join(map(str, c)) for c in (trace.launch.capability, spec.capability))
        raise LaunchError(
            f"{trace.launch.kernel}: the trace holds machine code for compute capability {have}, "
            f"{spec.name} runs {want}; capture it with gpu={spec.name!r}"
        )


def window_limit_cycles(spec: GpuSpec) -> int:
    """Longest window that is exact: the least latency of any message between parts, in whole cycles."""
    l2, hbm = build_memory(spec)
    ticks = min(request_latency_ticks(spec), l2.minimum_latency_ticks, hbm.minimum_latency_ticks)
    return min(ticks // TICKS_PER_CYCLE, *turnaround_halves(spec))


def _thread_count(threads: int | None, launches: list[Trace], spec: GpuSpec) -> int:
    if threads is not None:
        if threads < 1:
            raise UsageError(f"threads = {threads}; give 1 or more")
        return min(threads, spec.sm_count)
    busy = min(spec.sm_count, max(trace.launch.blocks for trace in launches))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, busy // _SMS_WORTH_A_THREAD))


class Machine:
    """A GPU with its caches, at some cycle; a context manager that owns its threads."""

    def __init__(
        self, spec: GpuSpec, threads: int = 1, window_cycles: int | None = None, order_seed: int | None = None
    ) -> None:
        limit = window_limit_cycles(spec)
        if limit < 1:
            raise UsageError(f"{spec.name}: a latency between its parts is below one cycle")
        if window_cycles is not None and not 1 <= window_cycles <= limit:
            raise UsageError(f"window_cycles = {window_cycles}; {spec.name} allows 1 to {limit}")
        self.spec = spec
        self.windows = 0
        self.cycle = 0
        self.window_ticks = (window_cycles or limit) * TICKS_PER_CYCLE
        bounds = [spec.sm_count * i // threads for i in range(threads + 1)]
        self.groups = [SmGroup(spec, lo, hi - lo) for lo, hi in zip(bounds, bounds[1:], strict=False)]
        self.l2, self.hbm = build_memory(spec)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._random = random.Random(order_seed) if order_seed is not None else None
        if self._random is not None:
            for group in self.groups:
                self._random.shuffle(group.state.order)

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def warm(self, traces: list[Trace], next_trace: Trace) -> None:
        """Leave the caches as ``traces`` would, with the L1 as large as ``next_trace`` will find it."""
        l1_bytes = occupancy(next_trace.launch, self.spec).l1_bytes
        for trace in traces:
            warm_machine(trace, self.spec, self.groups, self.l2, l1_bytes)

    def sweep_data(self) -> None:
        """Empty L1, L2 and what lies behind it, as a kernel that reads much else does; code stays in the instruction
        caches."""
        self.l2, self.hbm = build_memory(self.spec)
        for group in self.groups:
            group.state.l1[:] = 0

    def launch(
        self,
        trace: Trace,
        progress: Progress | None = None,
        keep_l1: bool = False,
        samples: bool = False,
        sample: bool = False,
    ) -> LaunchResult:
        """Run one launch to its end on the machine as it stands."""
        fit = occupancy(trace.launch, self.spec)
        arena = Arena()
        reach = self.window_ticks // TICKS_PER_CYCLE
        dispatcher = Dispatcher(trace, self.spec, fit.blocks_per_sm, self.cycle, arena, reach)
        for group in self.groups:
            group.begin_launch(trace.program, trace.launch, fit, arena, keep_l1)
        memory_before = {**self.l2.counters(), **self.hbm.counters()}

        def read(cycle: int) -> Reading:
            memory = {**self.l2.counters(), **self.hbm.counters()}
            memory = {name: value - memory_before.get(name, 0) for name, value in memory.items()}
            stalls = sum(group.state.stalls for group in self.groups)
            work = sum(group.state.work for group in self.groups)
            totals = sum(group.state.counters for group in self.groups)
            issued = int(stalls[:, SELECTED].sum())
            return Reading(cycle - self.cycle, issued, self.l2.filled, stalls, work, totals, memory)

        parts = [self.l2, *self.groups, self.hbm, dispatcher]
        if self._random is not None:
            self._random.shuffle(parts)
        routes = {
            "dispatcher": [(dispatcher, dispatcher.deliver)],
            "starts": [(group, group.deliver_starts) for group in self.groups],
            "sm": [(group, group.deliver) for group in self.groups],
            "l2": [(self.l2, self.l2.deliver)],
            "hbm": [(self.hbm, self.hbm.deliver)],
        }
        on_window = None
        if progress is not None:
            on_window = _Ticker(progress, dispatcher)
        start_tick = self.cycle * TICKS_PER_CYCLE
        sampler = Sampler(self.cycle, lambda: self._totals(dispatcher)) if samples else None
        waves = None
        if sample:
            wave_blocks = min(trace.launch.blocks, fit.blocks_per_sm * self.spec.sm_count)
            waves = WaveReader(trace, dispatcher, wave_blocks, read)
        watchers = [watcher for watcher in (sampler, waves) if watcher is not None]

        def on_boundary(tick: int) -> None:
            dispatcher.feed(self.groups, tick // TICKS_PER_CYCLE)
            for watcher in watchers:
                watcher(tick)

        conductor = Conductor(parts, routes, self.window_ticks, start_tick, self._pool, on_window, on_boundary)
        conductor.run()
        self.windows += conductor.windows
        if not dispatcher.done:
            raise DeadlockError(f"{trace.launch.kernel}: nothing can move any more; " + "; ".join(conductor.waiting()))
        end = max(group.last_tick for group in self.groups) // TICKS_PER_CYCLE
        cycles = end + self.spec.launch.end_cycles - self.cycle
        reading = read(self.cycle + cycles)
        if sampler is not None:
            sampler.take(self.cycle + cycles)
        times = dispatcher.block_times
        times[times[:, 2] >= 0, :2] -= self.cycle
        table = sampler.table() if sampler is not None else None
        sampling = None
        total_cycles = cycles
        if waves is not None:
            total_cycles = cycles + waves.skipped_cycles
            sampling = waves.sampling(total_cycles)
            reading = waves.complete(reading)
        result = self._launch_result(trace, fit, total_cycles, reading, times, table, sampling)
        quiet = max(self.l2.last_tick, self.hbm.last_tick)
        self.cycle = max(self.cycle + cycles, -(-quiet // TICKS_PER_CYCLE))
        return result

    def _totals(self, dispatcher: Dispatcher) -> list[int]:
        """What a sample reads, in the order of :data:`gpusim.engine.samples.COLUMNS` after the cycle."""
        memory = {**self.l2.counters(), **self.hbm.counters()}
        sectors = sum(memory[f"lts__t_sectors_op_{kind}.sum"] for kind in ("read", "write", "atom", "red"))
        stalls = sum(group.state.stalls.sum(axis=0) for group in self.groups)
        return [
            dispatcher.finished,
            sectors,
            memory["l2__slice_busy_ticks.sum"],
            memory["dram__bytes_read.sum"],
            memory["dram__bytes_write.sum"],
            *stalls.tolist(),
        ]

    def _launch_result(
        self,
        trace: Trace,
        fit: Occupancy,
        cycles: int,
        reading: Reading,
        times: np.ndarray,
        samples: np.ndarray | None,
        sampling: Sampling | None,
    ) -> LaunchResult:
        spec = self.spec
        totals, stalls, work = reading.totals, reading.stalls, reading.work
        counters: dict[str, float] = {"sm__cycles_elapsed.max": cycles}
        counters["smsp__inst_executed.sum"] = int(stalls[:, SELECTED].sum())
        counters.update(zip(count.WORK_NAMES, work.sum(axis=0).tolist(), strict=True))
        counters.update(zip(count.COUNTER_NAMES, totals.tolist(), strict=True))
        counters.update(reading.memory)
        active = 100.0 * int(totals[count.WARP_CYCLES]) / (cycles * spec.sm_count * spec.sm.max_warps)
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
        )


class _Ticker:
    """Calls ``progress`` when another hundredth of the blocks has ended."""

    def __init__(self, progress: Progress, dispatcher: Dispatcher) -> None:
        self._progress, self._dispatcher = progress, dispatcher
        self._next = 0

    def __call__(self, _until_tick: int) -> None:
        done = self._dispatcher.finished
        if done >= self._next:
            self._next = done + max(1, self._dispatcher.blocks // 100)
            self._progress(done, self._dispatcher.blocks)


#: Counters that are no sums over launches.
_NOT_SUMMED = ("pct", "launch__occupancy_limit", ".max")


def _summary(spec: GpuSpec, launches: list[LaunchResult], windows: int) -> Result:
    counters: dict[str, float] = {}
    for launch in launches:
        for name, value in launch.counters.items():
            if any(part in name for part in _NOT_SUMMED) and name in counters:
                counters[name] = max(counters[name], value)
            else:
                counters[name] = counters.get(name, 0) + value
    cycles = sum(launch.cycles for launch in launches)
    counters["sm__cycles_elapsed.max"] = cycles
    return Result(
        gpu=spec.name,
        kernel=launches[-1].kernel,
        cycles=cycles,
        clock_hz=spec.clock_hz,
        counters=counters,
        stalls={name: sum(launch.stalls[name] for launch in launches) for name in STALL_NAMES},
        launches=tuple(launches),
        spec=spec,
        windows=windows,
    )
