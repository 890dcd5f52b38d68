"""The simulated GPU that points are replayed on, with what points of one series have in common.

Mental model: a :class:`Bench` runs captured launches on a machine that other launches have prepared
(functional warming), and keeps what is costly to prepare from one point to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import gcd

from gpusim.engine.gpu import simulate
from gpusim.engine.result import Result
from gpusim.gpus.spec import GpuSpec
from gpusim.trace.record import Trace

#: Machines are cut into at most so many equal parts, and into parts of no fewer SMs than this.
_MOST_PARTS, _LEAST_SMS = 4, 24


@dataclass
class Bench:
    """``gpu`` simulated on ``threads`` threads; ``kept`` holds whatever a replay wants to find again, under keys
    that begin with its series."""

    gpu: GpuSpec
    threads: int = 1
    kept: dict[tuple, object] = field(default_factory=dict)

    def run(self, timed: list[Trace], warm: list[Trace] = ()) -> Result:
        """Simulate launches one after another on a machine that ``warm`` has prepared."""
        return simulate(timed, self.gpu, warm=tuple(warm), threads=self.threads)


def part_of(gpu: GpuSpec) -> tuple[GpuSpec, int]:
    """An equal part of a GPU and the number of such parts in it: SMs, L2 slices, DRAM channels and what they
    share divided alike, so that each SM has the bandwidth that it has when all of them do the same.

    For work whose data all lie in L2 and would fit in the part's; the part's latencies are the GPU's.
    """
    l2, dram = gpu.l2, gpu.dram
    units = gcd(gpu.sm_count // l2.partitions, l2.slices // l2.partitions, dram.channels)
    parts = max(n for n in range(1, _MOST_PARTS + 1) if units % n == 0 and gpu.sm_count >= n * _LEAST_SMS)
    share = replace(
        gpu,
        sm_count=gpu.sm_count // parts,
        l2=replace(
            l2,
            slices=l2.slices // parts,
            total_bytes=l2.total_bytes // parts,
            partition_link_bytes_per_ns=l2.partition_link_bytes_per_ns / parts,
        ),
        dram=replace(dram, channels=dram.channels // parts, peak_bytes_per_ns=dram.peak_bytes_per_ns / parts),
    )
    return share, parts
