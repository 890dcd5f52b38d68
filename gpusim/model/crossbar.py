"""The crossbar: how long a message travels, and which half of the L2 an SM is wired to.

Mental model: two bundles of pipelined wires, SM to L2 and back, each with a fixed latency; their widths
are those of the ports at their ends (the SM's fill and store ports, the slices' ports). Each SM is
wired to the slices of one partition; what the other half owns arrives over the link between the
halves, which the L2 models.
"""

from __future__ import annotations

from gpusim.gpus.spec import GpuSpec
from gpusim.model.compiled import compiled
from gpusim.model.messages import TICKS_PER_CYCLE


def ticks(spec: GpuSpec, time_ns: float) -> int:
    """``time_ns`` in whole ticks of this GPU's SM clock (to the nearest)."""
    return round(spec.cycles(time_ns) * TICKS_PER_CYCLE)


def request_latency_ticks(spec: GpuSpec) -> int:
    """SM output to L2 slice input, one way, in ticks."""
    return ticks(spec, spec.crossbar.request_latency_ns)


def response_latency_ticks(spec: GpuSpec) -> int:
    """L2 slice output to SM input port, one way, in ticks."""
    return ticks(spec, spec.crossbar.response_latency_ns)


@compiled
def partition_of_sm(sm: int, partitions: int) -> int:
    """The L2 partition that an SM is wired to; neighbours alternate, so small grids use both."""
    return sm % partitions
