"""Lower bounds on a launch's time, one a unit: the speed of light that no simulated time may beat.

Mental model: give every unit its work and let nothing else exist; the unit that needs longest is the
bound. Work is counted in the trace alone, so a bound holds whatever the scheduler does, and the
engine is wrong wherever it is faster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpusim.gpus.spec import GpuSpec
from gpusim.model.messages import TICKS_PER_CYCLE
from gpusim.model.tensor import instruction_timing
from gpusim.theory.contention import most_operations_on_a_word
from gpusim.theory.footprint import footprint
from gpusim.trace.record import PipeClass, Trace


@dataclass(frozen=True)
class Bounds:
    """``cycles``: unit -> least SM cycles for the launch; ``limiter``: the unit that needs most."""

    cycles: dict[str, float]

    @property
    def limiter(self) -> str:
        return max(self.cycles, key=self.cycles.__getitem__)

    @property
    def least_cycles(self) -> float:
        return max(self.cycles.values())


def _run_sums(runs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sum of ``weights`` over the instructions of each run."""
    prefix = np.concatenate(([0], np.cumsum(weights, dtype=np.float64)))
    first = runs["first"].astype(np.int64)
    return prefix[first + runs["count"]] - prefix[first]


def _path_sums(chunk, weights: np.ndarray) -> np.ndarray:
    """Sum of ``weights`` over the instructions that each path of the chunk executes in any case."""
    totals = np.concatenate(([0], np.cumsum(np.where(chunk.polling, 0.0, _run_sums(chunk.runs, weights)))))
    return totals[chunk.path_start[1:]] - totals[chunk.path_start[:-1]]


def _port_cycles(table: np.ndarray, pipe: PipeClass, gpu: GpuSpec) -> np.ndarray:
    """Cycles that each instruction keeps the port of ``pipe``: 0 for those of other classes."""
    used = table["pipe"] == pipe
    spec = gpu.pipes.get(pipe.name.lower())
    if spec is None or not used.any():
        return np.zeros(table.size, np.int64)
    if pipe != PipeClass.TENSOR:
        return used * np.int64(spec.interval_cycles)
    return np.array(
        [instruction_timing(row, gpu)[0] if on else 0 for on, row in zip(used, table, strict=True)], np.float64
    )


def lower_bounds(trace: Trace, gpu: GpuSpec, *, cold: bool = True) -> Bounds:
    """Least SM cycles that each unit of ``gpu`` needs for ``trace``.

    ``issue``: one warp instruction a sub-core a cycle. ``pipe.<class>``: port occupancy. ``warp``: the
    longest warp, issuing back to back with its own stall counts. ``l1.tags`` / ``l2`` / ``dram``: line
    lookups, and distinct sectors at the peak rates. ``l2.atomics``: the operations on the word that most atomics go to,
    one after another. ``cold=False`` drops the DRAM bound, since a launch that finds its data in L2 needs none. Raises
    nothing beyond what reading the trace does.
    """
    table = trace.program.instructions
    ones = np.ones(table.size, np.int64)
    # A warp's next instruction issues max(stall, 1) cycles later, except where a large stall with the
    # yield bit clear collapses (see microbenchmarks): one cycle is the only safe bound there.
    stall = table["stall_cycles"].astype(np.int64)
    least_gap = np.where(stall > 11, 1, np.maximum(stall, 1))
    issued = 0
    longest_warp = 0
    per_pipe = {pipe: 0.0 for pipe in PipeClass}
    busy = {pipe: _port_cycles(table, pipe, gpu) for pipe in PipeClass}
    per_block = trace.launch.warps_per_block
    carried = np.zeros(0, np.int64)  # what the warps of blocks that go on in the next chunk have taken so far
    for chunk in trace.chunk_list:
        population = np.bincount(chunk.warps["path"], minlength=chunk.path_start.size - 1)
        issued += int((_path_sums(chunk, ones) * population).sum())
        by_warp = _path_sums(chunk, least_gap)[chunk.warps["path"]]
        by_warp[: carried.size] += carried
        longest_warp = max(longest_warp, int(by_warp.max(initial=0)))
        carried = by_warp[(chunk.blocks - chunk.open_blocks) * per_block :]
        for pipe in PipeClass:
            if busy[pipe].any():
                per_pipe[pipe] += float((_path_sums(chunk, busy[pipe]) * population).sum())
    sub_cores = gpu.sm_count * gpu.sm.sub_cores
    cycles = {"issue": issued / sub_cores, "warp": float(longest_warp)}
    for pipe, port_cycles in per_pipe.items():
        if port_cycles:
            units = gpu.sm_count if gpu.pipes[pipe.name.lower()].shared_by_sm else sub_cores
            cycles[f"pipe.{pipe.name.lower()}"] = port_cycles / units
    touched = footprint(trace, sector_bytes=gpu.l1.sector_bytes, line_bytes=gpu.l1.line_bytes)
    cycles["l1.tags"] = touched.line_lookups / (gpu.l1.tag_banks * gpu.sm_count)
    l2_rate = gpu.l2.slices * max(gpu.l2.slice_bytes_per_ns, gpu.l2.slice_write_bytes_per_ns)
    cycles["l2"] = gpu.cycles(touched.sectors * touched.sector_bytes / l2_rate)
    if operations := most_operations_on_a_word(trace):
        # Lanes of one request are an interval apart, requests a sector; the engine's clock of ticks may round either
        # down.
        apart_ns = min(gpu.l2.atomic_interval_ns, gpu.l2.atomic_sector_ns)
        ticks = math.floor(gpu.cycles(apart_ns) * TICKS_PER_CYCLE)
        cycles["l2.atomics"] = operations * ticks / TICKS_PER_CYCLE
    if cold:
        read_bytes = touched.sectors_read_only * touched.sector_bytes
        cycles["dram"] = gpu.cycles(read_bytes / gpu.dram.peak_bytes_per_ns)
    return Bounds(cycles)
