"""A claimed time against the least time that each unit needs, with the arithmetic written out.

Mental model: a lower bound (:mod:`gpusim.theory.bounds`) gives one unit the launch's work and lets nothing else exist;
a launch that claims to be faster than any of them claims more bytes or operations a second than the GPU has. What a
bound divides by what is told, so that who is told "impossible" can check it by hand. A launch begins and ends, too;
that takes what the GPU's description says of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpusim.gpus.spec import GpuSpec
from gpusim.theory.bounds import lower_bounds
from gpusim.theory.footprint import footprint
from gpusim.trace.record import Trace

LAUNCH = "launch"


@dataclass(frozen=True)
class UnitBound:
    """``unit`` needs at least ``least_us`` for all timed launches; ``arithmetic`` says why in figures."""

    unit: str
    least_us: float
    arithmetic: str


def unit_bounds(traces: Sequence[Trace], spec: GpuSpec, *, warm: bool) -> list[UnitBound]:
    """The bounds of ``traces``, timed one after another, by falling time. ``warm``: their data may be in L2 already, so
    that DRAM bounds nothing. Of several launches only the first must read DRAM."""
    sums: dict[str, float] = {}
    for index, trace in enumerate(traces):
        cold = index == 0 and not warm
        for unit, cycles in lower_bounds(trace, spec, cold=cold).cycles.items():
            sums[unit] = sums.get(unit, 0.0) + cycles
    fixed = len(traces) * (spec.launch.start_cycles + spec.launch.end_cycles)
    mhz = spec.clock_hz / 1e6
    told = _arithmetic(traces, spec)
    if warm and traces:  # of what an earlier call has left in L2, no more than L2 holds is there
        read = _read_bytes(traces[0], spec)
        beyond = max(0, read - spec.l2.total_bytes)
        sums["dram"] = sums.get("dram", 0.0) + spec.cycles(beyond / spec.dram.peak_bytes_per_ns)
        told["dram"] = (
            f"({read:,} bytes that are read and never written - {spec.l2.total_bytes:,} of L2) / {spec.dram.peak_bytes_per_ns:,.6g} GB/s"
        )
    found = [
        UnitBound(unit, cycles / mhz, told.get(unit) or _of_pipe(unit, cycles, spec))
        for unit, cycles in sums.items()
        if cycles > 0
    ]
    found.append(
        UnitBound(
            LAUNCH, fixed / mhz,
            f"{len(traces)} launch{'es' * (len(traces) > 1)} x {spec.launch.start_cycles + spec.launch.end_cycles:g} cycles to begin and end at {mhz:,.0f} MHz",
        )
    )  # fmt: skip
    return sorted(found, key=lambda bound: -bound.least_us)


def _arithmetic(traces: Sequence[Trace], spec: GpuSpec) -> dict[str, str]:
    """What is divided by what, of the units whose work is bytes or instructions."""
    mhz = spec.clock_hz / 1e6
    touched = [footprint(trace, sector_bytes=spec.l1.sector_bytes, line_bytes=spec.l1.line_bytes) for trace in traces]
    sub_cores = spec.sm_count * spec.sm.sub_cores
    issued = sum(chunk.warp_instructions for trace in traces for chunk in trace.chunk_list)
    read = _read_bytes(traces[0], spec) if traces else 0
    moved = sum(each.sectors * each.sector_bytes for each in touched)
    l2_rate = spec.l2.slices * max(spec.l2.slice_bytes_per_ns, spec.l2.slice_write_bytes_per_ns)
    lookups = sum(each.line_lookups for each in touched)
    found = {
        "dram": f"{read:,} bytes that are read and never written / {spec.dram.peak_bytes_per_ns:,.6g} GB/s",
        "l2": f"{moved:,} bytes in distinct sectors / {l2_rate:,.6g} GB/s of {spec.l2.slices} slices",
        "l1.tags": f"{lookups:,} lines looked up / ({spec.l1.tag_banks * spec.sm_count} a cycle at {mhz:,.0f} MHz)",
        "issue": f"{issued:,} warp instructions / ({sub_cores} a cycle at {mhz:,.0f} MHz)",
        "warp": f"the longest warp's own instructions, one behind another, at {mhz:,.0f} MHz",
        "l2.atomics": f"operations on one word, {min(spec.l2.atomic_interval_ns, spec.l2.atomic_sector_ns):g} ns apart",
    }
    return found


def _of_pipe(unit: str, cycles: float, spec: GpuSpec) -> str:
    """What a pipe's bound divides by what."""
    mhz = spec.clock_hz / 1e6
    pipe = spec.pipes.get(unit.removeprefix("pipe."))
    if pipe is None:
        return f"{cycles:,.0f} cycles at {mhz:,.0f} MHz"
    units = spec.sm_count if pipe.shared_by_sm else spec.sm_count * spec.sm.sub_cores
    if unit == "pipe.tensor":  # whose instructions take as long as their shape says
        return f"{cycles * units:,.0f} cycles of tensor cores / {units} at {mhz:,.0f} MHz"
    count = cycles * units / pipe.interval_cycles
    return f"{count:,.0f} warp instructions x {pipe.interval_cycles:g} cycles / {units} pipes at {mhz:,.0f} MHz"


def _read_bytes(trace: Trace, spec: GpuSpec) -> int:
    """Bytes of distinct sectors that are read and never written."""
    touched = footprint(trace, sector_bytes=spec.l1.sector_bytes, line_bytes=spec.l1.line_bytes)
    return touched.sectors_read_only * touched.sector_bytes
