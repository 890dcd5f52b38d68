"""Latency hidden by warps: dependent loads that hit in L2, and as many warps an SM as wanted.

By Little's law the rate is the warps in flight over the latency until something saturates. Each warp follows
its own chain of whole lines, past L1: where the next line lies stands in the line itself.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from .block_scan import WARP_THREADS
from .case import Case, Kernel, Launch, require_block, require_positive, shared_padding_bytes


@cuda.jit
def fill(chains):
    """Only so that the lines are in L2 before the timed launch: what is written stands there already."""
    for i in range(cuda.grid(1), chains.size, cuda.gridsize(1)):
        chains[i] = chains[i]


@cuda.jit
def occupancy_ramp(chains, lines, steps, ends):
    """Lane l of warp w starts at its chain's first line and reads element l of each line it gets to."""
    thread = cuda.grid(1)
    lane = thread % WARP_THREADS
    i = np.uint32(thread // WARP_THREADS * lines * WARP_THREADS + lane)
    for _ in range(steps):
        i = cuda.ldcg(chains, i)
    ends[thread] = i


def make(
    *,
    blocks_per_sm: int,
    shared_bytes_per_sm: int,
    block_threads: int,
    blocks: int,
    lines: int,
    steps: int,
    seed: int = 0,
) -> Case:
    """``lines``: the length of each warp's chain, a random cycle of 128-byte lines. ``blocks_per_sm``: blocks that
    fit on an SM by padding their shared memory, 0 for as many as do."""
    require_positive(blocks=blocks, lines=lines, steps=steps)
    require_block(block_threads, multiple=WARP_THREADS)
    padding = shared_padding_bytes(blocks_per_sm, shared_bytes_per_sm) if blocks_per_sm else 0
    warps = block_threads * blocks // WARP_THREADS
    order = np.argsort(np.random.default_rng(seed).random((warps, lines)), axis=1)
    following = np.empty_like(order)
    np.put_along_axis(following, order, np.roll(order, -1, axis=1), axis=1)
    first_line = np.arange(warps)[:, None] * lines
    lane = np.arange(WARP_THREADS)
    chains = ((first_line + following)[..., None] * WARP_THREADS + lane).astype(np.uint32).reshape(-1)
    ends = np.full(block_threads * blocks, 2**32 - 1, np.uint32)

    def check() -> None:
        expected = (first_line * WARP_THREADS + lane).reshape(-1)
        for _ in range(steps):
            expected = chains[expected]
        np.testing.assert_array_equal(ends, expected)

    return Case(
        launches=(
            Launch(fill, (min(1024, -(-chains.size // 256)),), (256,), (chains,), timed=False),
            Launch(occupancy_ramp, (blocks,), (block_threads,), (chains, lines, steps, ends), shared_bytes=padding),
        ),
        check=check,
        work={"bytes_read": 128.0 * warps * steps, "warp_loads": float(warps * steps)},
    )


KERNELS = {
    "occupancy_ramp": Kernel(
        name="occupancy_ramp",
        purpose="rate of dependent L2 loads against resident warps: where occupancy stops to pay",
        axes={
            "blocks_per_sm": (0, 1, 2, 4, 8, 16),
            "shared_bytes_per_sm": (64 * 1024, 164 * 1024, 228 * 1024),
            "block_threads": (32, 64, 128, 256),
            "blocks": (132, 264, 528, 2112),
            "lines": (4, 16, 64),
            "steps": (16, 64),
        },
        default={
            "blocks_per_sm": 4,
            "shared_bytes_per_sm": 228 * 1024,
            "block_threads": 64,
            "blocks": 528,
            "lines": 16,
            "steps": 32,
        },
        # 64 KiB: so small a padding fits an SM of every generation.
        small={
            "blocks_per_sm": 2,
            "shared_bytes_per_sm": 64 * 1024,
            "block_threads": 64,
            "blocks": 4,
            "lines": 5,
            "steps": 7,
        },
        make=make,
    )
}
