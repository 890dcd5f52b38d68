"""Rules about the launch: how its blocks fit the SMs, how they fill waves, and what launching costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gpusim.errors import LaunchError
from gpusim.gpus.spec import GpuSpec
from gpusim.model.occupancy import occupancy as occupancy_of
from gpusim.trace.record import WARP_LANES, Launch, PipeClass, Space
from gpusim.why import retrace
from gpusim.why.evidence import Evidence
from gpusim.why.proposal import LEAST_PERCENT, Proposal, counterfactual


def occupancy(found: Evidence) -> Iterator[Proposal]:
    """Registers or shared memory that leave room for too few blocks."""
    first, spec = found.first, found.spec
    limiter, resident = first.occupancy_limiter, first.blocks_per_sm
    field, unit = {"registers": ("registers_per_thread", 1), "shared_mem": ("shared_bytes", 128)}.get(limiter, ("", 0))
    if not field or first.launch.blocks <= resident * spec.sm_count:
        return
    # Up to half of what a block takes, the least that has to go for the most blocks.
    have = getattr(first.launch, field)
    blocks = {
        less: _fitting(replace(first.launch, **{field: less}), spec) for less in range(have, have // 2 - 1, -unit)
    }
    most = max(blocks.values())
    enough = max(less for less, fitting in blocks.items() if fitting == most)
    if most <= resident:
        # Half of it misses two blocks for one by what the system takes of each.
        enough = spec.sm.shared_max_bytes // (resident + 1) // 128 * 128 - spec.sm.shared_reserved_bytes
        most = _fitting(replace(first.launch, **{field: enough}), spec) if limiter == "shared_mem" and enough > 0 else 0
    if most <= resident:
        return
    warps = first.launch.warps_per_block
    what, advice = {
        "registers": (f"{have} registers a thread", f"{enough} of them (max_registers={enough}), if nothing spills"),
        "shared_mem": (f"{have} bytes of shared memory a block", f"{enough} bytes of it"),
    }[limiter]
    yield Proposal(
        "occupancy", 100.0 * (1 - resident * warps / spec.sm.max_warps), "",
        f"{what} leave room for {resident * warps} of {spec.sm.max_warps} warps an SM", advice,
        f"{most * warps} warps an SM",
        trace=lambda t: replace(t, launch=replace(t.launch, **{field: enough})),
    )  # fmt: skip


def _fitting(launch: Launch, spec: GpuSpec) -> int:
    """Blocks of ``launch`` that an SM holds."""
    try:
        return occupancy_of(launch, spec).blocks_per_sm
    except LaunchError:
        return 0


def tail_wave(found: Evidence) -> Iterator[Proposal]:
    """A last wave that leaves SMs idle."""
    first, spec = found.first, found.spec
    wave = first.blocks_per_sm * spec.sm_count
    waves = first.launch.blocks / wave
    if waves <= 1 or first.launch.blocks % wave == 0 or first.launch.cooperative:
        return
    idle = 100.0 * (1 - waves / np.ceil(waves))
    tail = counterfactual("tail wave")
    if idle < LEAST_PERCENT:
        return
    yield Proposal(
        "tail wave", idle, "",
        f"{first.launch.blocks} blocks are {waves:.3g} waves of {wave}: the last one leaves SMs idle",
        f"a grid that fills whole waves ({wave * max(1, int(waves))} blocks, or a grid-stride loop)",
        "the last wave's blocks spread over all", trace=lambda t: tail.trace(t, spec),
        cycles=lambda cycles, old, new: tail.cycles(cycles, old, new, spec),
    )  # fmt: skip


def few_blocks(found: Evidence) -> Iterator[Proposal]:
    """Fewer blocks than SMs, in kernels whose warps share nothing."""
    launch, table, spec = found.first.launch, found.program.instructions, found.spec
    apart = not launch.shared_bytes and not launch.cooperative
    apart = apart and not (table["space"] == Space.SHARED).any() and not (table["pipe"] == PipeClass.BARRIER).any()
    if launch.blocks >= spec.sm_count or not apart or launch.warps_per_block < 2:
        return
    factors = [f for f in range(2, launch.warps_per_block + 1) if launch.warps_per_block % f == 0]
    factor = next((f for f in factors if launch.blocks * f >= spec.sm_count), factors[-1])
    yield Proposal(
        "few blocks", 100.0 * (1 - launch.blocks / spec.sm_count), "",
        f"{launch.blocks} blocks for {spec.sm_count} SMs",
        f"blocks of {launch.warps_per_block // factor * WARP_LANES} threads, {factor} times as many",
        "each block cut into as many", trace=lambda t: retrace.smaller_blocks(t, factor),
    )  # fmt: skip


def launch_overhead(found: Evidence) -> Iterator[Proposal]:
    """What starting and ending a launch takes."""
    launch = found.spec.launch
    percent = 100.0 * (launch.start_cycles + launch.end_cycles) * len(found.launches) / max(1, found.cycles)
    if percent < 4 * LEAST_PERCENT:
        return
    overhead = counterfactual("launch overhead").gpu
    yield Proposal(
        "launch overhead", percent, "", f"launch overhead is {percent:.3g} % of the time",
        "do more in one launch, or fuse it with its neighbours", "no time to start and to end",
        gpu=lambda spec: overhead(spec, []), at_most=True,
    )  # fmt: skip
