"""How many blocks of a launch fit on an SM, what limits them, and how much L1 that leaves.

Mental model: a block takes warps, threads, registers and shared memory, each rounded up to what the
hardware hands out; the scarcest resource decides. The driver then picks the smallest legal shared
carve-out that holds as many blocks as fit, whether or not the grid has so many; the rest of the array is L1.

That the grid does not matter shows in profiles: one warp in a grid of one block on a GA10x of 38 SMs (16 blocks fit, 1
KiB each for the system) runs with 16.38 kB (Nsight Compute's ``launch__shared_mem_config_size``), not 8.19. And in two
published experiments: a chase of one thread loses its first lines 24 KiB before sums of 256 threads do
(``l1.reserved_bytes``). Without shared memory of its own a kernel still gets more than its blocks' 1 KiB each on some
GPUs: ``sm.shared_carveout_reserved_bytes``.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.errors import LaunchError
from gpusim.gpus.spec import GpuSpec
from gpusim.trace.record import WARP_LANES, Launch


@dataclass(frozen=True)
class Occupancy:
    """``blocks_per_sm`` resident at most; ``limits`` block limit by resource (Nsight's
    ``launch__occupancy_limit_*``); ``limiter`` the scarcest; ``l1_bytes`` what the carve-out leaves."""

    blocks_per_sm: int
    warps_per_sm: int
    limits: dict[str, int]
    limiter: str
    carveout_bytes: int
    l1_bytes: int


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def block_needs(launch: Launch, spec: GpuSpec) -> tuple[int, int]:
    """Registers and bytes of shared memory that a block of ``launch`` takes of an SM, rounded up to what is handed
    out."""
    sm = spec.sm
    registers_per_warp = _round_up(max(1, launch.registers_per_thread) * WARP_LANES, sm.register_allocation_unit)
    shared = _round_up(launch.shared_bytes, sm.shared_allocation_unit_bytes) + sm.shared_reserved_bytes
    return launch.warps_per_block * registers_per_warp, shared


def occupancy(launch: Launch, spec: GpuSpec) -> Occupancy:
    """Occupancy of ``launch`` on ``spec``; raises LaunchError if not even one block fits."""
    sm = spec.sm
    if launch.block_threads < 1 or launch.blocks < 1:
        raise LaunchError(f"{launch.kernel}: grid {launch.grid} x block {launch.block} launches no thread")
    if launch.block_threads > sm.max_threads_per_block:
        raise LaunchError(
            f"{launch.kernel}: {launch.block_threads} threads a block, {spec.name} allows {sm.max_threads_per_block}"
        )
    warps = launch.warps_per_block
    registers_per_warp = _round_up(max(1, launch.registers_per_thread) * WARP_LANES, sm.register_allocation_unit)
    warps_by_registers = sm.registers // registers_per_warp // sm.sub_cores * sm.sub_cores
    shared = _round_up(launch.shared_bytes, sm.shared_allocation_unit_bytes) + sm.shared_reserved_bytes
    limits = {
        "warps": sm.max_warps // warps,
        "blocks": sm.max_blocks,
        "registers": warps_by_registers // warps,
        "shared_mem": sm.shared_max_bytes // shared if shared else sm.max_blocks,
    }
    if launch.shared_bytes > sm.shared_per_block_max_bytes or limits["shared_mem"] < 1:
        raise LaunchError(
            f"{launch.kernel}: {launch.shared_bytes} bytes of shared memory a block, "
            f"{spec.name} allows {sm.shared_per_block_max_bytes}"
        )
    if limits["registers"] < 1:
        raise LaunchError(
            f"{launch.kernel}: {warps} warps of {launch.registers_per_thread} registers a thread do not fit "
            f"into the {sm.registers} registers of an SM of {spec.name}; use smaller blocks"
        )
    limiter = min(limits, key=limits.__getitem__)
    blocks = limits[limiter]
    if blocks < 1:
        raise LaunchError(f"{launch.kernel}: a block of {warps} warps does not fit on an SM of {spec.name}")
    if launch.cooperative and launch.blocks > blocks * spec.sm_count:
        raise LaunchError(
            f"{launch.kernel}: a cooperative launch of {launch.blocks} blocks, but {spec.name} holds only "
            f"{blocks * spec.sm_count} of them at once ({limiter})"
        )
    least = min(blocks * sm.shared_carveout_reserved_bytes, sm.max_blocks * sm.shared_reserved_bytes)
    need = max(blocks * shared, least)
    fitting = [kib * 1024 for kib in sm.shared_carveouts_kib if kib * 1024 >= need]
    carveout = min(fitting, default=sm.shared_max_bytes)
    return Occupancy(blocks, blocks * warps, limits, limiter, carveout, spec.l1.total_bytes - carveout)
