"""Metamorphic relations: how a launch's time must change when the machine or the workload changes in a known direction.

Mental model: nobody knows the right cycle count of an arbitrary launch, but everybody knows that more bandwidth does
not make it slower, nor twice the work faster. Each relation changes one thing and says which of two times may not be
longer; the excess beyond the relation's slack is the divergence. Slack exists because timing anomalies are real: a
faster memory reorders requests, and a wave that fits a little better can cost a row buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpusim.engine.gpu import simulate
from gpusim.engine.result import Result
from gpusim.errors import GpusimError
from gpusim.explore.cover import Covered, cover
from gpusim.explore.own_properties import FACTOR, METAMORPHIC
from gpusim.explore.property import Outcome, Property
from gpusim.gpus.spec import GpuSpec
from gpusim.trace.record import Trace

#: What a launch of several waves may lose beyond a relation's slack: when blocks end in another order, the next ones
#: are dealt out differently, and the tail may grow although nothing became slower (Graham, "Bounds on multiprocessing
#: timing anomalies", SIAM J. Appl. Math. 1969; his bound is 2 - 1/m, which would excuse anything).
WAVES_SLACK = 0.10
#: What the place of data may change: whether a line lies in the half of L2 that is near to the SM which asks for it.
#: The far half adds about a fifth to a miss that goes to DRAM, and a small launch may be one chain of them. Another
#: order of blocks, or arrays of another size and so at other addresses, deal this out anew.
PLACE_SLACK = 0.25
#: What a faster machine may lose: reordered requests, a row buffer missed.
MACHINE_SLACK = 0.03


@dataclass(frozen=True)
class Relation:
    """``name`` in the words of what may not happen; ``times(covered, kernel, shape, gpu)``: (time that may not be
    longer, the other time) in cycles, None where the relation says nothing of the workload; ``slack``: the excess that
    anomalies may cause."""

    name: str
    slack: float
    times: Callable[[Covered, str, Mapping[str, Any], GpuSpec], tuple[float, float] | None]


def _with_gpu(change: Callable[[GpuSpec], GpuSpec]) -> Callable:
    """Times of the same launches on a machine that is better in one way, and on the described one.

    A scheduler that prefers some warps (the youngest) deals its issue slots by who is ready, as a list scheduler does:
    when loads return earlier the preferred warps run ahead, the others end later and alone, and the launch may take
    longer although every warp waited less (Graham's anomaly again, within an SM). So the relation speaks only where
    warps have also become slower in all; what they wait for each other at barriers does not count.
    """

    def times(covered: Covered, _kernel: str, _shape: Mapping[str, Any], gpu: GpuSpec) -> tuple[float, float] | None:
        better = simulate(covered.traces, change(gpu), warm=covered.warm)
        if not warps_are_slower(better, covered.result):
            return None
        return better.cycles, covered.result.cycles

    return times


def warps_are_slower(result: Result, before: Result) -> bool:
    """Whether warps took longer in all, beyond the slack, whoever of them came first."""
    return _warp_cycles(result) > (1.0 + MACHINE_SLACK) * _warp_cycles(before)


def _warp_cycles(result: Result) -> float:
    """Resident cycles of all warps, without those that one waits at a barrier for others."""
    return sum(cycles for name, cycles in result.stalls.items() if name != "barrier")


def _dram_faster(gpu: GpuSpec) -> GpuSpec:
    return replace(gpu, dram=replace(gpu.dram, peak_bytes_per_ns=FACTOR * gpu.dram.peak_bytes_per_ns))


def _dram_nearer(gpu: GpuSpec) -> GpuSpec:
    return replace(gpu, dram=replace(gpu.dram, miss_latency_ns=gpu.dram.miss_latency_ns / FACTOR))


def _l2_faster(gpu: GpuSpec) -> GpuSpec:
    rates = ("slice_bytes_per_ns", "slice_write_bytes_per_ns", "partition_link_bytes_per_ns")
    return replace(gpu, l2=replace(gpu.l2, **{name: FACTOR * getattr(gpu.l2, name) for name in rates}))


def _l2_nearer(gpu: GpuSpec) -> GpuSpec:
    return replace(gpu, l2=replace(gpu.l2, hit_latency_ns=gpu.l2.hit_latency_ns / FACTOR))


#: Axes of which twice as much is twice the work, in the order of preference. Not the vertices of a graph: another graph
#: may have fewer levels.
_WORK_AXES = ("n", "rows", "m", "tokens", "batch", "batches", "sequences", "planes")


def _twice_the_work(
    covered: Covered, kernel: str, shape: Mapping[str, Any], gpu: GpuSpec
) -> tuple[float, float] | None:
    axis = next((name for name in _WORK_AXES if isinstance(shape.get(name), int)), None)
    if axis is None:
        return None
    try:
        more = cover(kernel, {**shape, axis: 2 * shape[axis]}, gpu)
    except GpusimError:
        return None  # a shape that the kernel or the machine refuses: the relation says nothing
    if _codes(more) != _codes(covered):
        return None  # another kernel: a library picks wider loads, and fewer steps, for sizes that allow them
    return covered.result.cycles, more.result.cycles


def _codes(covered: Covered) -> set[str]:
    """The machine codes that were launched."""
    return {trace.launch.cubin_sha256 for trace in covered.traces}


def _aligned(covered: Covered, kernel: str, shape: Mapping[str, Any], gpu: GpuSpec) -> tuple[float, float] | None:
    """For kernels that take an offset: the same accesses moved to a line's beginning."""
    if shape.get("pattern") != "offset":
        return None
    aligned = cover(kernel, {**shape, "amount": 32}, gpu)
    return aligned.result.cycles, covered.result.cycles


def reversed_blocks(trace: Trace) -> Trace:
    """The launch with its last block dispatched first."""
    chunks, first = [], 0
    for chunk in reversed(list(trace.chunks())):
        warps = chunk.warps.reshape(chunk.blocks, -1)[::-1].reshape(-1).copy()
        chunks.append(replace(chunk, first_block=first, warps=warps))
        first += chunk.blocks
    return Trace(trace.program, trace.launch, chunks)


def has_waves(covered: Covered, gpu: GpuSpec) -> bool:
    """Whether a launch has more blocks than the machine holds at once."""
    launches = zip(covered.traces, covered.result.launches, strict=True)
    return any(trace.launch.blocks > launch.blocks_per_sm * gpu.sm_count for trace, launch in launches)


def _other_order(covered: Covered, _kernel: str, _shape: Mapping[str, Any], gpu: GpuSpec) -> tuple[float, float] | None:
    """Nobody promises in which order blocks start. What all fit on the machine at once takes as long either way; beyond
    one wave a long block at the end makes a longer tail, and the relation says nothing."""
    if has_waves(covered, gpu):
        return None
    other = simulate([reversed_blocks(trace) for trace in covered.traces], gpu, warm=covered.warm)
    times = covered.result.cycles, other.cycles
    return max(times), min(times)


RELATIONS: tuple[Relation, ...] = (
    Relation("faster DRAM made it slower", MACHINE_SLACK, _with_gpu(_dram_faster)),
    Relation("nearer DRAM made it slower", MACHINE_SLACK, _with_gpu(_dram_nearer)),
    Relation("faster L2 made it slower", MACHINE_SLACK, _with_gpu(_l2_faster)),
    Relation("nearer L2 made it slower", MACHINE_SLACK, _with_gpu(_l2_nearer)),
    Relation("twice the work took less time", PLACE_SLACK, _twice_the_work),
    Relation("aligned accesses took longer", 0.03, _aligned),
    Relation("another order of blocks took longer", PLACE_SLACK, _other_order),
)


class Metamorphic(Property):
    """All relations; the divergence is the largest excess over a relation's slack."""

    name = "metamorphic"
    asks = METAMORPHIC.asks

    def __init__(self, gpu: GpuSpec, relations: tuple[Relation, ...] = RELATIONS) -> None:
        self.gpu, self.relations = gpu, relations

    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        covered = cover(kernel, shape, self.gpu)
        worst, detail = 0.0, f"{covered.result.cycles} cycles, no relation violated"
        more = WAVES_SLACK if has_waves(covered, self.gpu) else 0.0
        for relation in self.relations:
            times = relation.times(covered, kernel, shape, self.gpu)
            if times is None:
                continue
            excess = times[0] / times[1] - 1.0 - relation.slack - more
            if excess > worst:
                worst, detail = excess, f"{relation.name}: {times[0]:.0f} against {times[1]:.0f} cycles"
        return Outcome(worst, detail, covered.coverage)
