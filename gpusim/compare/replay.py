"""Replaying one published point on the simulated machine, in seconds instead of on gigabytes.

Mental model: the published programs run long so that start-up and tail vanish; the simulator reaches
the same steady state sooner, by starting from it. Caches begin in the state that the previous
repetition left (functional warming), and the value is read in the steady state:

- a rate from the completions of blocks between the first and the last wave, so that neither the ramp
  nor the tail counts;
- a latency over the launch less its fixed overhead, or from two launches of different length.

What cannot be found again in a cache is not walked: of a buffer well beyond L2 a random part is visited,
scattered over all of it, and a footprint well beyond L2 is read once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpusim.cases.suite import capture_case, make_case
from gpusim.compare.replay_bench import Bench
from gpusim.compare.replay_chase import chase
from gpusim.compare.replay_read import l1_read, l2_read
from gpusim.engine.result import Result
from gpusim.errors import NoDataError
from gpusim.launch.memory import DeviceMemory
from gpusim.silicon.published import PublishedPoint
from gpusim.trace.record import Trace

#: Waves of blocks of a stream, of which the first ones find the memory side idle and do not count; few-warp launches
#: are cheap, and take more.
STREAM_WAVES, STREAM_WAVES_FEW_WARPS, FEW_WARPS, STREAM_FIRST_WAVES = 18, 40, 8, 5
#: Where so few waves keep DRAM busy to this share of its pin rate, as many more are run as move L2's size times this,
#: and they alone count: written lines come back in runs, about once a turn of the cache, as they were written. (With a
#: quarter of it, triad of 448 threads on GH200 was read 6 % above the mean of its waves, which swing from 3,050 to
#: 4,690 GB/s.)
STREAM_BUSY, STREAM_L2_SHARE = 0.75, 1.0
#: A streaming predecessor leaves L2 full of its own lines; it touches this many times L2's size.
WARM_FOOTPRINT = 1.5
STRIDE_ITERATIONS = (8, 40)


def stream(bench: Bench, point: PublishedPoint) -> float:
    """GB/s of a kernel that streams one element a thread, at the point's occupancy."""
    few = -(-point.axis("block_threads") // 32) * point.axis("blocks_per_sm") < FEW_WARPS
    waves = STREAM_WAVES_FEW_WARPS if few else STREAM_WAVES
    rate = _stream_rate(bench, point, waves, STREAM_FIRST_WAVES)
    gpu = bench.gpu
    busy = rate / gpu.dram.peak_bytes_per_ns
    if busy > STREAM_BUSY:
        threads = gpu.sm_count * point.axis("blocks_per_sm") * point.axis("block_threads")
        moved_a_wave = threads * _bytes_per_element(make_case(point.series, {**dict(point.axes), "n": 4096}, gpu), 4096)
        counted = math.ceil(STREAM_L2_SHARE * gpu.l2.total_bytes / moved_a_wave)
        if busy > 1:  # not steady yet: stores still fill the queues on their way
            counted = max(counted, 2 * waves)
        if counted > waves - STREAM_FIRST_WAVES:
            rate = _stream_rate(bench, point, waves + counted, waves)
    return rate


def _stream_rate(bench: Bench, point: PublishedPoint, waves: int, first_waves: int) -> float:
    """GB/s of so many waves of blocks, of which the first do not count."""
    threads, blocks = point.axis("block_threads"), point.axis("blocks_per_sm")
    resident = bench.gpu.sm_count * blocks
    # The grid is n // block_threads + 1 blocks: exactly `waves` full waves.
    elements = resident * waves * threads - 1
    memory, warm = _streamed(bench, point)
    case = make_case(point.series, {"n": elements, **dict(point.axes)}, bench.gpu)
    timed = [launch.trace for launch in capture_case(case, bench.gpu, memory)]
    cycles_per_block = steady_cycles_per_block(bench.run(timed, [warm]), resident, first_waves)
    return _bytes_per_element(case, elements) * threads / bench.gpu.ns(cycles_per_block)


def _streamed(bench: Bench, point: PublishedPoint) -> tuple[DeviceMemory, Trace]:
    """A device memory and the trace of a launch of the point's kernel that fills L2 with its lines."""
    variant = {name: value for name, value in point.axes if name not in ("block_threads", "blocks_per_sm")}
    key = ("stream", point.series, *variant.items())
    if key not in bench.kept:
        memory = DeviceMemory()
        per_element = _bytes_per_element(make_case(point.series, {"n": 4096, **variant}, bench.gpu), 4096)
        elements = int(WARM_FOOTPRINT * bench.gpu.l2.total_bytes / per_element)
        case = make_case(point.series, {"n": elements, "block_threads": 1024, **variant}, bench.gpu)
        bench.kept[key] = memory, capture_case(case, bench.gpu, memory)[-1].trace
    return bench.kept[key]


def l1_stride(bench: Bench, point: PublishedPoint) -> float:
    """Cycles a warp's load takes when all lanes hit L1: two launches' difference, so no start-up."""
    short, long = (_stride_run(bench, point, iterations) for iterations in STRIDE_ITERATIONS)
    return (long[0].cycles - short[0].cycles) / (long[1] - short[1])


def l1_stride_wavefronts(counter: str) -> Callable[[Bench, PublishedPoint], float]:
    """A replay that gives the wavefronts a warp's load takes, as ``counter`` counts them."""

    def replay(bench: Bench, point: PublishedPoint) -> float:
        short, long = (_stride_run(bench, point, iterations) for iterations in STRIDE_ITERATIONS)
        return (long[0].counters[counter] - short[0].counters[counter]) / (long[1] - short[1])

    return replay


def _stride_run(bench: Bench, point: PublishedPoint, iterations: int) -> tuple[Result, float]:
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


def steady_cycles_per_block(result: Result, resident: int, first_waves: int = STREAM_FIRST_WAVES) -> float:
    """SM cycles from one block's completion to the next, all SMs together, between the end of wave
    ``first_waves`` of ``resident`` blocks (of the first, if there are few) and the beginning of the last."""
    ends = np.sort(result.block_end_cycles)
    skipped = min(first_waves, max(1, len(ends) // resident - 2))
    first = skipped * resident - 1
    waves = len(ends) // resident - 1 - skipped
    last = first + resident * max(waves, 1)
    if last >= len(ends) or ends[last] <= ends[first]:
        raise NoDataError(f"{len(ends)} blocks are too few for a steady state with {resident} resident")
    return float(ends[last] - ends[first]) / (last - first)


def _bytes_per_element(case: Any, elements: int) -> float:
    """Bytes that the kernel's author counts as moved for each element."""
    return (case.work["bytes_read"] + case.work["bytes_written"]) / elements


#: Published series of times and rates -> how one of its points is simulated.
TIMED_REPLAYS: dict[str, Callable[[Bench, PublishedPoint], float]] = {
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
COUNTER_REPLAYS: dict[str, Callable[[Bench, PublishedPoint], float]] = {
    "l1_stride_data_wavefronts": l1_stride_wavefronts("l1tex__data_pipe_lsu_wavefronts.sum"),
    "l1_stride_tag_wavefronts": l1_stride_wavefronts("l1tex__t_output_wavefronts_pipe_lsu.sum"),
}
REPLAYS = TIMED_REPLAYS | COUNTER_REPLAYS
