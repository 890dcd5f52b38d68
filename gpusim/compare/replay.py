"""Replaying one published point on the simulated machine, in seconds instead of on gigabytes.

Mental model: the published programs run long so that start-up and tail vanish; the simulator reaches
the same steady state sooner, by starting from it. Caches begin in the state that the previous
repetition left (functional warming), and the value is read where the machine is in its stride:

- a rate from the completions of blocks between the first and the last wave, so that neither the ramp
  nor the tail counts;
- a latency over the launch less its fixed overhead, or from two launches of different length.

What cannot be found again in a cache is not walked: of a buffer well beyond L2 a random part is visited,
scattered over all of it, and a footprint well beyond L2 is read once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpusim.capture.memory import DeviceMemory
from gpusim.compare.bench import Bench
from gpusim.compare.replay_chase import chase
from gpusim.compare.replay_read import l1_read, l2_read
from gpusim.engine.result import Result
from gpusim.errors import NoDataError
from gpusim.silicon.published import Measurement
from gpusim.suite import capture_case, make_case
from gpusim.trace.record import Trace

#: Waves of blocks of a stream, of which the first ones find the memory side idle and do not count; few-warp launches
#: are cheap, and take more.
STREAM_WAVES, STREAM_WAVES_FEW_WARPS, FEW_WARPS, STREAM_FIRST_WAVES = 7, 12, 8, 3
#: A streaming predecessor leaves L2 full of its own lines; it touches this many times L2's size.
WARM_FOOTPRINT = 1.5
STRIDE_ITERATIONS = (8, 40)


def stream(bench: Bench, point: Measurement) -> float:
    """GB/s of a kernel that streams one element a thread, at the point's occupancy."""
    threads, blocks = point.axis("block_threads"), point.axis("blocks_per_sm")
    warps_per_sm = -(-threads // 32) * blocks
    waves = STREAM_WAVES_FEW_WARPS if warps_per_sm < FEW_WARPS else STREAM_WAVES
    resident = bench.gpu.sm_count * blocks
    # The grid is n // block_threads + 1 blocks: exactly `waves` full waves.
    elements = resident * waves * threads - 1
    memory, warm = _streamed(bench, point.series)
    shape = {"n": elements, "block_threads": threads, "blocks_per_sm": blocks}
    case = make_case(point.series, shape, bench.gpu)
    timed = [launch.trace for launch in capture_case(case, bench.gpu, memory)]
    cycles_per_block = steady_cycles_per_block(bench.run(timed, [warm]), resident)
    return _bytes_per_element(case, elements) * threads / bench.gpu.ns(cycles_per_block)


def _streamed(bench: Bench, kernel: str) -> tuple[DeviceMemory, Trace]:
    """A device memory and the trace of a launch of ``kernel`` that fills L2 with its lines."""
    if ("stream", kernel) not in bench.kept:
        memory = DeviceMemory()
        per_element = _bytes_per_element(make_case(kernel, {"n": 4096}, bench.gpu), 4096)
        elements = int(WARM_FOOTPRINT * bench.gpu.l2.total_bytes / per_element)
        case = make_case(kernel, {"n": elements, "block_threads": 1024}, bench.gpu)
        bench.kept["stream", kernel] = memory, capture_case(case, bench.gpu, memory)[-1].trace
    return bench.kept["stream", kernel]


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
    """SM cycles from one block's completion to the next, all SMs together, between the end of wave
    :data:`STREAM_FIRST_WAVES` of ``resident`` blocks (of the first, if there are few) and the beginning of the last."""
    ends = np.sort(result.block_end_cycles)
    skipped = min(STREAM_FIRST_WAVES, max(1, len(ends) // resident - 2))
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
