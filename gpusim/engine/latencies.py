"""How long messages travel between the parts of a GPU, and which share of a miss each way is.

Mental model: a route's latency is the least time from its sender's event to the message's arrival. The least of all
routes is how far the parts may run ahead of one another, so both the parts and the machine's description
(:mod:`gpusim.engine.graph`) take them from here.
"""

from __future__ import annotations

from gpusim.gpus.spec import GpuSpec
from gpusim.model.crossbar import ticks
from gpusim.model.messages import TICKS_PER_CYCLE

#: Share of DRAM's miss latency spent on the way there.
_WAY_SHARE = 0.3


def turnaround_halves(spec: GpuSpec) -> tuple[int, int]:
    """Cycles from a block's exit to the dispatcher, and from there to the next block's start; each at
    least 1."""
    first = max(1, spec.launch.block_turnaround_cycles // 2)
    return first, max(1, spec.launch.block_turnaround_cycles - first)


def peer_ticks(spec: GpuSpec) -> int:
    """One block of a cluster to another: half of a load there and back, or the barrier where that is faster; at least a
    cycle."""
    away = min((spec.l1.cluster_shared_latency_cycles + 1) // 2, spec.l1.cluster_barrier_latency_cycles)
    return max(1, away) * TICKS_PER_CYCLE


def dram_request_ticks(spec: GpuSpec) -> int:
    """L2 slice to DRAM channel."""
    return ticks(spec, spec.dram.miss_latency_ns * _WAY_SHARE)


def burst_ticks(spec: GpuSpec) -> int:
    """One sector on a DRAM channel's bus."""
    return ticks(spec, spec.l2.sector_bytes * spec.dram.channels / spec.dram.stream_bytes_per_ns)


def dram_answer_ticks(spec: GpuSpec) -> int:
    """End of a burst to the data's arrival at the L2 slice: what is left of the miss latency, or as long as the way
    there."""
    there = dram_request_ticks(spec)
    row_change = ticks(spec, spec.dram.row_miss_extra_ns)
    return max(there, ticks(spec, spec.dram.miss_latency_ns) - there - row_change - burst_ticks(spec))
