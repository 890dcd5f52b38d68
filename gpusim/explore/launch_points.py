"""Bins that follow from a launch's shape and resources alone: known before anything runs.

Mental model: grid, block, registers and shared memory fix how a launch fills the machine; :mod:`gpusim.explore.observe`
asks here about launches that ran, :mod:`gpusim.explore.predict` about launches that might.
"""

from __future__ import annotations

from bisect import bisect_left

from gpusim.explore.points import POINTS
from gpusim.gpus.spec import GpuSpec

#: The points that are answered here.
LAUNCH_POINTS = (
    "block_threads", "block_tail", "grid_blocks", "dimensions", "registers", "shared_bytes", "occupancy",
    "occupancy_limiter", "waves", "tail",
)  # fmt: skip
Sides = tuple[int, int, int]


def launch_answers(
    grid: Sides, block: Sides, registers: int, shared_bytes: int, blocks_per_sm: int, limiter: str, gpu: GpuSpec
) -> dict[str, set[str]]:
    """The bins of :data:`LAUNCH_POINTS`, one each. ``registers`` of a thread, ``shared_bytes`` of a block;
    ``blocks_per_sm`` and ``limiter`` as :func:`gpusim.model.occupancy.occupancy` has them."""
    threads, blocks = block[0] * block[1] * block[2], grid[0] * grid[1] * grid[2]
    percent = 100 * blocks_per_sm * -(-threads // 32) / gpu.sm.max_warps
    wave = blocks_per_sm * gpu.sm_count
    sides = zip(grid, block, strict=True)
    found = {
        "block_threads": size_of(threads, (32, 128, 256, 512, 1024), POINTS["block_threads"].bins),
        "block_tail": "partial" if threads % 32 else "full",
        "grid_blocks": upto(blocks, (1, 31, 255, 4095), POINTS["grid_blocks"].bins),
        "dimensions": str(max([1] + [axis + 1 for axis, pair in enumerate(sides) if max(pair) > 1])),
        "registers": upto(registers, (32, 64, 128), POINTS["registers"].bins),
        "shared_bytes": upto(shared_bytes, (0, 16 * 1024 - 1, 48 * 1024), POINTS["shared_bytes"].bins),
        "occupancy": upto(percent, (12.5, 25, 50, 75, 99.999), POINTS["occupancy"].bins),
        "occupancy_limiter": limiter,
        "waves": _waves(blocks, wave, gpu),
        "tail": _tail(blocks, wave),
    }
    return {name: {label} for name, label in found.items()}


def _waves(blocks: int, wave: int, gpu: GpuSpec) -> str:
    if blocks < gpu.sm_count:
        return "below one block an SM"
    if blocks == wave:
        return "one"
    return "below one" if blocks < wave else upto(blocks / wave, (2, 8), ("1-2", "2-8", "above 8"))


def _tail(blocks: int, wave: int) -> str:
    rest = blocks % wave
    return "full" if not rest else upto(100 * rest / wave, (25, 75), ("1-25 %", "26-75 %", "76-99 %"))


def upto(value: float, limits: tuple[float, ...], bins: tuple[str, ...]) -> str:
    """The bin of the first limit that ``value`` does not exceed, else the last bin."""
    return bins[bisect_left(limits, value)]


def size_of(value: int, exact: tuple[int, ...], bins: tuple[str, ...]) -> str:
    """Bins that alternate between a range and the exact value above it."""
    place = bisect_left(exact, value)
    on_it = place < len(exact) and exact[place] == value
    return bins[2 * place + (1 if on_it else 0)]
