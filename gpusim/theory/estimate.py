"""An analytical estimate of a launch's time, without simulating: throughput of each unit beside exposed latency.

Mental model: a launch takes as long as its busiest unit, or as its longest chain of warps that wait, whichever is
longer, plus the fixed cost of a launch. A warp alone takes its own stall counts and, each time that it waits on a
dependence counter, the latency of what it waits for; an SM runs as many such warps one after another as the launch
has waves (the form of Hong and Kim, "An analytical model for a GPU architecture", ISCA 2009, with waits read from the
control fields instead of guessed). Loads that touch a line for the first time cost DRAM's latency, others L1's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusim.gpus.spec import GpuSpec
from gpusim.model.occupancy import occupancy
from gpusim.theory.bounds import lower_bounds
from gpusim.theory.footprint import footprint
from gpusim.trace.compiled import reading
from gpusim.trace.record import NO_BARRIER, WARP_LANES, MemoryKind, PipeClass, Program, Space, Trace

#: A shared or variable-latency result is awaited for so long where the GPU's file has no figure of its own.
_COUNTERS = 6


@dataclass(frozen=True)
class TimeEstimate:
    """SM cycles: ``expected`` as the model above has it; ``ceiling`` with every wait as long as a far DRAM access under
    load, all units one after another, and every line of code and constants fetched once, one after another: a launch
    above it is not explained by its own work."""

    expected: float
    ceiling: float


def estimate(trace: Trace, gpu: GpuSpec, *, cold: bool = True) -> TimeEstimate:
    """Estimate ``trace`` on ``gpu``; ``cold``: its data come from DRAM first. Raises LaunchError where not one block
    fits on an SM."""
    bounds = lower_bounds(trace, gpu, cold=cold)
    touched = footprint(trace, sector_bytes=gpu.l1.sector_bytes, line_bytes=gpu.l1.line_bytes)
    lines = touched.sectors * touched.sector_bytes / gpu.l1.line_bytes
    first = min(1.0, lines / touched.line_lookups) if touched.line_lookups else 0.0
    far_ns = gpu.l2.hit_latency_ns + (gpu.dram.miss_latency_ns if cold else 0.0)
    hit = gpu.l1.hit_latency_cycles
    miss = hit + gpu.cycles(far_ns + gpu.crossbar.request_latency_ns + gpu.crossbar.response_latency_ns)
    usual = first * miss + (1.0 - first) * hit
    fits = occupancy(trace.launch, gpu)
    waves = -(-trace.launch.blocks // (fits.blocks_per_sm * gpu.sm_count))
    # Every wave but the first starts behind blocks that have ended.
    fixed = gpu.launch.start_cycles + gpu.launch.end_cycles + (waves - 1) * gpu.launch.block_turnaround_cycles
    chain = _longest_chain(trace, _latencies(trace.program, gpu, usual))
    # Under load a request waits behind those of all other lanes of its warp, at one sector a cycle, and its data may
    # lie in the far half of L2.
    worst = miss + gpu.cycles(max(gpu.l2.far_hit_extra_ns, gpu.l2.far_miss_extra_ns)) + WARP_LANES
    slow = _longest_chain(trace, _latencies(trace.program, gpu, worst, worst=True))
    return TimeEstimate(
        expected=fixed + max(bounds.least_cycles, waves * chain),
        ceiling=fixed + _front(trace.program, gpu) + sum(bounds.cycles.values()) + waves * fits.warps_per_sm * slow,
    )


def _front(program: Program, gpu: GpuSpec) -> float:
    """Cycles in which all lines of the program's code and of the constants that it names come to an SM, none beside
    another. The caches are filled once a launch: every warp after the first finds them."""
    table, code, constants = program.instructions, gpu.instruction_cache, gpu.constant_cache
    lines = np.unique(table["address"] // code.line_bytes).size
    named = table[table["constant_bytes"] > 0]
    places = np.unique(np.stack([named["constant_bank"], named["constant_offset"] // constants.line_bytes]), axis=1)
    return lines * (code.l1_miss_cycles + code.decode_cycles) + 2 * places.shape[1] * constants.miss_cycles


def _latencies(program: Program, gpu: GpuSpec, global_cycles: float, *, worst: bool = False) -> np.ndarray:
    """Cycles from the issue of each instruction to what waits for it, float64[instructions]."""
    table = program.instructions
    found = np.zeros(table.size, np.float64)
    for pipe in PipeClass:
        spec = gpu.pipes.get(pipe.name.lower())
        if spec is not None:
            found[table["pipe"] == pipe] = spec.latency_cycles
    found[table["pipe"] == PipeClass.SHUFFLE] = gpu.l1.shuffle_latency_cycles
    found[table["pipe"] == PipeClass.CONSTANT] = gpu.l1.constant_latency_cycles
    found[table["pipe"] == PipeClass.BARRIER] = gpu.l1.barrier_latency_cycles
    moves = table["memory_kind"] != MemoryKind.NONE
    far = moves & np.isin(table["space"], (Space.GLOBAL, Space.GENERIC, Space.LOCAL))
    # At worst every lane's words, at most four, pass one after another.
    found[moves & (table["space"] == Space.SHARED)] = gpu.l1.shared_latency_cycles + (4 * WARP_LANES if worst else 0)
    found[far] = global_cycles
    return found


def _longest_chain(trace: Trace, latencies: np.ndarray) -> float:
    """Cycles of the warp that takes longest when it runs alone."""
    table = trace.program.instructions
    longest = 0.0
    columns = [table[name].astype(np.int64) for name in ("stall_cycles", "write_barrier", "read_barrier", "wait_mask")]
    for chunk in trace.chunks():
        longest = max(longest, _chain(chunk.runs, chunk.path_start, *columns, latencies, NO_BARRIER))
    return longest


@reading
def _chain(runs, path_start, stalls, writes, reads, waits, latencies, none):  # pragma: no cover - jitted
    """The longest path's time: each issue takes its stall count, each wait until the counter's last user is done."""
    longest = 0.0
    free = np.zeros(8)
    for path in range(path_start.shape[0] - 1):
        now = 0.0
        free[:] = 0.0
        for r in range(path_start[path], path_start[path + 1]):
            first = np.int64(runs[r]["first"])
            for i in range(first, first + np.int64(runs[r]["count"])):
                for counter in range(_COUNTERS):
                    if (waits[i] >> counter) & 1 and free[counter] > now:
                        now = free[counter]
                for counter in (writes[i], reads[i]):
                    if counter != none and now + latencies[i] > free[counter]:
                        free[counter] = now + latencies[i]
                now += max(1, stalls[i])
        longest = max(longest, now)
    return longest
