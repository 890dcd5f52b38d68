"""Replaying one published point on the simulated machine, in seconds instead of on gigabytes.

Mental model: the published programs run long so that start-up and tail vanish; the simulator reaches
the same steady state sooner, by starting from it. Caches begin in the state that the previous
repetition left (functional warming), and the value is read where the machine is in its stride:

- a rate from the completions of blocks between the first and the last wave, so that neither the ramp
  nor the tail counts;
- a latency over the launch less its fixed overhead, or from two launches of different length.

What is thereby left out: the effect of buffers beyond the simulated ones on address translation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpusim.capture.memory import DeviceMemory
from gpusim.engine.gpu import simulate
from gpusim.engine.result import Result
from gpusim.errors import NoDataError
from gpusim.gpus.spec import GpuSpec
from gpusim.silicon.published import Measurement
from gpusim.suite import capture_case, make_case
from gpusim.trace.record import Trace

#: Dependent loads that are timed: many where one costs little and start-up would show.
CHASE_LOADS_IN_L1, CHASE_LOADS_BEYOND = 131072, 4096
CHASE_L1_LIMIT_KIB = 256
#: Waves of blocks of a stream; few-warp launches are cheap, and take more.
STREAM_WAVES, STREAM_WAVES_FEW_WARPS, FEW_WARPS = 5, 12, 8
#: A streaming predecessor leaves L2 full of its own lines; it touches this many times L2's size.
WARM_FOOTPRINT = 1.5
#: Blocks of the L2 kernel read a quarter of what the published ones read: the footprint, which is what
#: the point is about, stays. Blocks run in step there, so whole waves are timed: a long launch less a
#: short one.
L2_WAVES, L2_BLOCK_SHARE = (2, 5), 4
#: Beyond this many times L2's size a footprint is never found in it again.
L2_COLD_FOOTPRINT = 4
STRIDE_ITERATIONS = (8, 40)
#: Laps of one block an SM: two launches' difference, so that neither launch nor first lap counts. A large
#: footprint is not read whole, since every part of a lap is like every other there.
READ_LAPS, READ_WINDOWS_KIB = (2, 6), (512, 1024)
#: Footprints below this take as many laps more as fit in it: short laps are unrolled together.
READ_LEAST_KIB = 256


@dataclass
class Bench:
    """A simulated GPU on which points are replayed; keeps what points of a kernel have in common."""

    gpu: GpuSpec
    threads: int = 1
    _streams: dict[str, tuple[DeviceMemory, Trace]] = field(default_factory=dict)

    def run(self, timed: list[Trace], warm: list[Trace] = ()) -> Result:
        """Simulate launches one after another on a machine that ``warm`` has prepared."""
        return simulate(timed, self.gpu, warm=tuple(warm), threads=self.threads)

    def streamed(self, kernel: str) -> tuple[DeviceMemory, Trace]:
        """A device memory and the trace of a launch of ``kernel`` that fills L2 with its lines."""
        if kernel not in self._streams:
            memory = DeviceMemory()
            per_element = _bytes_per_element(make_case(kernel, {"n": 4096}, self.gpu), 4096)
            elements = int(WARM_FOOTPRINT * self.gpu.l2.total_bytes / per_element)
            case = make_case(kernel, {"n": elements, "block_threads": 1024}, self.gpu)
            self._streams[kernel] = memory, capture_case(case, self.gpu, memory)[-1].trace
        return self._streams[kernel]


def chase(bench: Bench, point: Measurement) -> float:
    """Cycles a dependent load takes in a buffer that earlier laps have walked."""
    size = point.axis("buffer_kib")
    loads = CHASE_LOADS_IN_L1 if size <= CHASE_L1_LIMIT_KIB else CHASE_LOADS_BEYOND
    case = make_case("pointer_chase", {"buffer_kib": size, "loads": loads}, bench.gpu)
    launches = capture_case(case, bench.gpu)
    timed = [launch.trace for launch in launches if launch.timed]
    before = [launch.trace for launch in launches if not launch.timed]
    if size <= CHASE_L1_LIMIT_KIB:
        before += timed  # laps over every element of the lines, as the published warm-up runs made
    result = bench.run(timed, before)
    overhead = bench.gpu.launch.start_cycles + bench.gpu.launch.end_cycles
    return (result.cycles - overhead) / case.work["loads"]


def stream(bench: Bench, point: Measurement) -> float:
    """GB/s of a kernel that streams one element a thread, at the point's occupancy."""
    threads, blocks = point.axis("block_threads"), point.axis("blocks_per_sm")
    warps_per_sm = -(-threads // 32) * blocks
    waves = STREAM_WAVES_FEW_WARPS if warps_per_sm < FEW_WARPS else STREAM_WAVES
    resident = bench.gpu.sm_count * blocks
    # The grid is n // block_threads + 1 blocks: exactly `waves` full waves.
    elements = resident * waves * threads - 1
    memory, warm = bench.streamed(point.series)
    shape = {"n": elements, "block_threads": threads, "blocks_per_sm": blocks}
    case = make_case(point.series, shape, bench.gpu)
    timed = [launch.trace for launch in capture_case(case, bench.gpu, memory)]
    cycles_per_block = steady_cycles_per_block(bench.run(timed, [warm]), resident)
    return _bytes_per_element(case, elements) * threads / bench.gpu.ns(cycles_per_block)


def l2_read(bench: Bench, point: Measurement) -> float:
    """GB/s that SMs read from a footprint that other blocks have read before."""
    gpu = bench.gpu
    footprint = point.axis("footprint_kib")
    per_block = point.axis("bytes_per_block_kib") // L2_BLOCK_SHARE
    resident = gpu.sm_count * (gpu.sm.max_warps // 32)
    short, long = (waves * resident for waves in L2_WAVES)
    reused = footprint * 1024 <= L2_COLD_FOOTPRINT * gpu.l2.total_bytes
    if not reused:
        # No block meets another's data: the same for every footprint that all blocks fill but once.
        footprint = min(footprint, long * per_block)
    shape = {"footprint_kib": footprint, "bytes_per_block_kib": per_block}
    case = make_case("l2_read", {**shape, "blocks": long}, gpu)
    memory = DeviceMemory()
    # Launches over the same arrays; the first reads every stretch once, as the blocks before did.
    once, few, many = (
        capture_case(replace(case, launches=(replace(case.launches[-1], grid=(blocks,)),)), gpu, memory)[0].trace
        for blocks in (footprint // per_block, short, long)
    )
    warm = [once] if reused else []
    cycles = bench.run([many], warm).cycles - bench.run([few], warm).cycles
    return case.work["bytes_read"] * (long - short) / long / gpu.ns(cycles)


def l1_read(bench: Bench, point: Measurement) -> float:
    """GB/s that SMs read together, one block an SM, all from the same footprint, lap after lap."""
    gpu = bench.gpu
    footprint = point.axis("footprint_kib")
    if footprint <= max(READ_WINDOWS_KIB):
        return _read_laps(bench, footprint)
    return _read_window(bench, footprint)


def _read_laps(bench: Bench, footprint_kib: float) -> float:
    """Whole laps, in L1s that earlier laps have filled."""
    more = max(1, int(READ_LEAST_KIB / footprint_kib))
    shapes = [{"footprint_kib": footprint_kib, "laps": laps * more} for laps in READ_LAPS]
    return _read_rate(bench, shapes, earlier=-1)


def _read_window(bench: Bench, footprint_kib: float) -> float:
    """A stretch of a lap, in L2 slices that have seen all of it."""
    windows = [{"footprint_kib": footprint_kib, "window_kib": kib, "laps": 1} for kib in READ_WINDOWS_KIB]
    return _read_rate(bench, windows, earlier=0)


def _read_rate(bench: Bench, shapes: list[dict[str, Any]], earlier: int) -> float:
    """GB/s of what the second shape reads more than the first, each after launch ``earlier`` of its case."""
    cycles, counted = [], []
    for shape in shapes:
        case = make_case("l1_read", {**shape, "blocks": bench.gpu.sm_count}, bench.gpu)
        traces = [launch.trace for launch in capture_case(case, bench.gpu)]
        cycles.append(bench.run([traces[-1]], [traces[earlier]]).cycles)
        counted.append(case.work["bytes_read"])
    return (counted[1] - counted[0]) / bench.gpu.ns(cycles[1] - cycles[0])


def l1_stride(bench: Bench, point: Measurement) -> float:
    """Cycles a warp's load takes when all lanes hit L1: two launches' difference, so no start-up."""
    short, long = (_stride_run(bench, point, iterations) for iterations in STRIDE_ITERATIONS)
    return (long[0].cycles - short[0].cycles) / (long[1] - short[1])


def l1_stride_wavefronts(counter: str) -> Callable[[Bench, Measurement], float]:
    """A replay that gives the wavefronts a warp's load takes, as ``counter`` counts them."""

    def replay(bench: Bench, point: Measurement) -> float:
        short, long = (_stride_run(bench, point, iterations) for iterations in STRIDE_ITERATIONS)
        return (long[0].counters[counter] - short[0].counters[counter]) / (long[1] - short[1])

    return replay


def _stride_run(bench: Bench, point: Measurement, iterations: int) -> tuple[Result, float]:
    shape = {
        "pattern": point.axis("shape"),
        "width_or_stride": point.axis("stride"),
        "dtype": {"float": "float32", "double": "float64"}[point.axis("dtype")],
        "iterations": iterations,
    }
    if point.axis("shape") == "block":
        shape["pitch"] = point.axis("pitch")
    case = make_case("l1_stride", shape, bench.gpu)
    result = bench.run([launch.trace for launch in capture_case(case, bench.gpu)])
    return result, case.work["warp_loads"]


def steady_cycles_per_block(result: Result, resident: int) -> float:
    """SM cycles from one block's completion to the next, all SMs together, between the end of the
    first wave of ``resident`` blocks and the beginning of the last one."""
    ends = np.sort(result.block_end_cycles)
    first = resident - 1
    waves = len(ends) // resident - 2
    last = first + resident * max(waves, 1)
    if last >= len(ends) or ends[last] <= ends[first]:
        raise NoDataError(f"{len(ends)} blocks are too few for a steady state with {resident} resident")
    return float(ends[last] - ends[first]) / (last - first)


def _bytes_per_element(case: Any, elements: int) -> float:
    """Bytes that the kernel's author counts as moved for each element."""
    return (case.work["bytes_read"] + case.work["bytes_written"]) / elements


#: Published series of times and rates -> how one of its points is simulated.
TIMED_REPLAYS: dict[str, Callable[[Bench, Measurement], float]] = {
    "pointer_chase": chase,
    "stream_init": stream,
    "stream_read": stream,
    "stream_scale": stream,
    "stream_triad": stream,
    "stencil3": stream,
    "stencil5": stream,
    "l1_stride": l1_stride,
    "l1_read": l1_read,
    "l2_read": l2_read,
}
#: The same for hardware counters, which explain a time; compared when they are asked for by name.
COUNTER_REPLAYS: dict[str, Callable[[Bench, Measurement], float]] = {
    "l1_stride_data_wavefronts": l1_stride_wavefronts("l1tex__data_pipe_lsu_wavefronts.sum"),
    "l1_stride_tag_wavefronts": l1_stride_wavefronts("l1tex__t_output_wavefronts_pipe_lsu.sum"),
}
REPLAYS = TIMED_REPLAYS | COUNTER_REPLAYS
