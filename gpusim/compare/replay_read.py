"""Replaying one point of the read-bandwidth curves, l1_read and l2_read, on a fraction of the published work.

Mental model: a rate is the difference of two times over the difference of two amounts of work, so that
neither a launch nor its ramp counts. Footprints that L1 may hold are read for many laps, since warps drift
apart and then find more than in step; larger ones for a stretch of a lap. A footprint well beyond L2 is
never found again: one simulation serves all of them.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Any

import numpy as np

from gpusim.cases.suite import capture_case, make_case
from gpusim.compare.replay_bench import Bench, part_of
from gpusim.engine.result import Result
from gpusim.errors import NoDataError
from gpusim.launch.memory import DeviceMemory
from gpusim.silicon.published import PublishedPoint

#: Blocks of the L2 kernel read a quarter of what the published ones read: the footprint, which is what
#: the point is about, stays. Blocks run in step there, so whole waves are timed: of so many, those between
#: the first two and the last, in whose course SMs fall idle.
L2_WAVES, L2_FIRST_WAVES, L2_BLOCK_SHARE = 5, 2, 4
#: Beyond this many times L2's size a footprint is never found in it again.
L2_COLD_FOOTPRINT = 2.5
#: Laps of one block an SM. Where L1 holds a part of the footprint warps drift apart for many laps. A large
#: footprint is not read whole, since every part of a lap is like every other there.
READ_LAPS, READ_LAPS_AT_EDGE, READ_WINDOWS_KIB = (2, 6), (4, 12), (256, 512)
#: Footprints above this are read in stretches, at which neighbouring SMs are so many rounds of a block apart.
READ_LEAST_WINDOWED_KIB, READ_ROUNDS_APART = 1024, 1
#: Threads of a block; footprints whose halves are not whole rounds of so many are read by fewer.
READ_THREADS = 512
#: The edge: footprints between these shares of the L1 array.
READ_EDGE = (0.7, 2.0)
#: Footprints below this take as many laps more as fit in it: short laps are unrolled together.
READ_LEAST_KIB = 256


def l2_read(bench: Bench, point: PublishedPoint) -> float:
    """GB/s that SMs read from a footprint that other blocks have read before."""
    gpu = bench.gpu
    per_block = point.axis("bytes_per_block_kib") // L2_BLOCK_SHARE
    resident = gpu.sm_count * (gpu.sm.max_warps // 32)
    blocks = L2_WAVES * resident
    stretches = point.axis("footprint_kib") // per_block
    reused = stretches * per_block * 1024 <= L2_COLD_FOOTPRINT * gpu.l2.total_bytes
    if reused:
        stretches = _out_of_step(stretches, gpu.sm_count)
    else:
        # No block meets another's data: the same for every footprint that all blocks fill but once.
        stretches = min(stretches, blocks)
    footprint = stretches * per_block
    key = ("l2_read", gpu.clock_hz, footprint)  # a bench changes nothing else of its GPU
    if key not in bench.kept:
        case = make_case(
            "l2_read", {"footprint_kib": footprint, "bytes_per_block_kib": per_block, "blocks": blocks}, gpu
        )
        memory = DeviceMemory()
        # Launches over the same arrays; the first reads every stretch once, as the blocks before did.
        grids = [stretches] * reused + [blocks]
        *warm, timed = (
            capture_case(replace(case, launches=(replace(case.launches[-1], grid=(grid,)),)), gpu, memory)[0].trace
            for grid in grids
        )
        waves = L2_WAVES - 1 - L2_FIRST_WAVES
        cycles = _cycles_between(bench.run([timed], warm), resident, L2_FIRST_WAVES, L2_FIRST_WAVES + waves)
        bench.kept[key] = case.work["bytes_read"] * waves / L2_WAVES / gpu.ns(cycles)
    return bench.kept[key]


def _out_of_step(stretches: int, sm_count: int) -> int:
    """The count of stretches nearest to ``stretches`` that shares no factor with the SMs.

    The published launch has 200,000 blocks, whose order over the SMs has long been shuffled when the median
    is reached. Here the first waves are dealt out in turn, and with a common factor each SM would meet the
    same few stretches again, and find them in its L1.
    """
    for away in range(stretches):
        for count in (stretches - away, stretches + away):
            if gcd(count, sm_count) == 1:
                return count
    return stretches


def _cycles_between(result: Result, resident: int, first: int, last: int) -> float:
    """From the end of wave ``first`` of ``resident`` blocks to the end of wave ``last``."""
    ends = np.sort(result.block_end_cycles)
    if len(ends) < last * resident:
        raise NoDataError(f"{len(ends)} blocks are fewer than {last} waves of {resident}")
    return float(ends[last * resident - 1] - ends[first * resident - 1])


def l1_read(bench: Bench, point: PublishedPoint) -> float:
    """GB/s that SMs read together, one block an SM, all from the same footprint, lap after lap."""
    shape = dict(point.axes)
    if shape["footprint_kib"] > READ_LEAST_WINDOWED_KIB:
        return _read_window(bench, shape)
    return _read_laps(bench, shape)


def _read_laps(bench: Bench, shape: dict[str, Any]) -> float:
    """Whole laps, in L1s that earlier laps have filled, on a part of the GPU."""
    gpu, parts = part_of(bench.gpu)
    footprint_kib = shape["footprint_kib"]
    low, high = (share * gpu.l1.total_bytes / 1024 for share in READ_EDGE)
    laps = READ_LAPS_AT_EDGE if low < footprint_kib < high else READ_LAPS
    more = max(1, int(READ_LEAST_KIB / footprint_kib))
    threads = _whole_rounds(footprint_kib)
    shapes = [{"block_threads": threads, **shape, "laps": count * more} for count in laps]
    return parts * _read_rate(replace(bench, gpu=gpu), shapes, earlier=-1)


def _whole_rounds(footprint_kib: float) -> int:
    """The largest block that reads both halves of the footprint in whole rounds of 4 bytes a thread."""
    half, threads = int(footprint_kib * 128), READ_THREADS
    while threads > 32 and half % threads:
        threads //= 2
    return threads


def _read_window(bench: Bench, shape: dict[str, Any]) -> float:
    """A stretch of a lap, in L2 slices that have seen all of it; another stretch for each SM, since those of
    silicon have drifted apart in the course of some thousand laps."""
    windows = [{**shape, "window_kib": kib, "laps": 1, "rounds_apart": READ_ROUNDS_APART} for kib in READ_WINDOWS_KIB]
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
