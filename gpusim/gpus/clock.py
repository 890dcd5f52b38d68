"""The same GPU at another clock of its cores: what follows the clock, and what keeps its time.

Mental model: a GPU has two clocks that a kernel feels. SMs, crossbar and L2 are in the one, and their latencies are so
many of its cycles; DRAM is in the other, and keeps its nanoseconds. A description says what lies beyond the SM in
nanoseconds, which hold at its own ``clock_hz``; :func:`at_clock` turns them.

Rates beyond the SM fall less than the clock: by its ratio to the power of ``RATE_POWER``. Sums and products of arrays
on an A100 whose SMs Nsight Compute held at 765 of 1,410 MHz (docs/validation/external.md, ``reductions_a100``; that its
instruction-bound rungs come out says which clock it was) still read and wrote 1,417 GB/s, 91 % of DRAM's peak, of which
half crosses between the L2's halves: no less than three quarters of what the link carries at 1,410 MHz.

NVIDIA's open driver for its embedded GPUs sets clocks so (nvgpu, ``clk_arb.c``): each clock of the SMs comes with its
"slave clocks" of crossbar and system, and the memory's is chosen apart. That latencies keep their ratio to the SMs'
clock is a guess. What is measured agrees: of a convolution on an A100 whose clock rose from 765 MHz to at most 1,410
(docs/validation/external.md), configurations that load most for what they compute gained most, up to 1.76 times of the
clocks' 1.84, with all that they lose elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

from gpusim.gpus.spec import GpuSpec

#: Of ``crossbar`` and ``l2``: times that are so many cycles of the cores' clock, and rates that are so much a cycle.
_CROSSBAR_TIMES = ("request_latency_ns", "response_latency_ns", "sm_spread_ns", "slice_spread_ns")
_L2_TIMES = (
    "hit_latency_ns",
    "far_hit_extra_ns",
    "far_miss_extra_ns",
    "atomic_interval_ns",
    "atomic_sector_ns",
    "tag_interval_ns",
)
_L2_RATES = ("slice_bytes_per_ns", "slice_write_bytes_per_ns", "partition_link_bytes_per_ns")
#: Of the clocks' ratio, for rates: with 0.46 the link carries what DRAM was seen to give; less would be as well borne
#: out.
RATE_POWER = 0.46


def at_clock(spec: GpuSpec, clock_hz: float) -> GpuSpec:
    """``spec`` with its cores at ``clock_hz`` (Hz, positive): crossbar and L2 take as many cycles as before and carry
    less a second by ``RATE_POWER``, DRAM takes as many nanoseconds. TLB misses keep their time too, for want of a
    measurement."""
    if clock_hz == spec.clock_hz:
        return spec
    slower = spec.clock_hz / clock_hz
    return replace(
        spec,
        clock_hz=clock_hz,
        crossbar=replace(spec.crossbar, **{name: getattr(spec.crossbar, name) * slower for name in _CROSSBAR_TIMES}),
        l2=replace(
            spec.l2,
            **{name: getattr(spec.l2, name) * slower for name in _L2_TIMES},
            **{name: getattr(spec.l2, name) / slower**RATE_POWER for name in _L2_RATES},
        ),
    )
