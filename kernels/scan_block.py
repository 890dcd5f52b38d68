"""Prefix sum in three launches: scan each block's tile, scan the blocks' sums, add them."""

from __future__ import annotations

import numpy as np
from numba import cuda, int32

from .block_scan import MAX_WARPS, block_exclusive_sum
from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive


@cuda.jit
def scan_tiles(values, sums, block_sums):
    """Inclusive sums within each block, and each block's total."""
    warp_totals = cuda.shared.array(MAX_WARPS, int32)
    i = cuda.grid(1)
    value = int32(0)
    if i < values.size:
        value = values[i]
    before, total = block_exclusive_sum(value, warp_totals)
    if i < values.size:
        sums[i] = before + value
    if cuda.threadIdx.x == 0:
        block_sums[cuda.blockIdx.x] = total


@cuda.jit
def scan_block_sums(block_sums):
    """One block turns the totals into the sum of all blocks before, a block's width at a time."""
    warp_totals = cuda.shared.array(MAX_WARPS, int32)
    carry = int32(0)
    for first in range(0, block_sums.size, cuda.blockDim.x):
        i = first + cuda.threadIdx.x
        value = int32(0)
        if i < block_sums.size:
            value = block_sums[i]
        before, total = block_exclusive_sum(value, warp_totals)
        if i < block_sums.size:
            block_sums[i] = carry + before
        carry = int32(carry + total)
        cuda.syncthreads()


@cuda.jit
def add_block_sums(sums, block_sums):
    i = cuda.grid(1)
    if i < sums.size:
        sums[i] += block_sums[cuda.blockIdx.x]


def make(*, n: int, block_threads: int, seed: int = 0) -> Case:
    require_positive(n=n)
    require_block(block_threads, multiple=32)
    values = np.random.default_rng(seed).integers(1, 100, n, dtype=np.int32)
    sums = np.zeros(n, np.int32)
    blocks = blocks_for(n, block_threads)
    block_sums = np.zeros(blocks, np.int32)
    return Case(
        launches=(
            Launch(scan_tiles, (blocks,), (block_threads,), (values, sums, block_sums)),
            Launch(scan_block_sums, (1,), (block_threads,), (block_sums,)),
            Launch(add_block_sums, (blocks,), (block_threads,), (sums, block_sums)),
        ),
        check=lambda: np.testing.assert_array_equal(sums, np.cumsum(values, dtype=np.int32)),
        work={"bytes_read": 8.0 * n, "bytes_written": 8.0 * n, "elements": float(n)},
    )


KERNELS = {
    "scan_block": Kernel(
        name="scan_block",
        purpose="prefix sum of int32 in three dependent launches: shuffles, barriers, one launch of a single block",
        axes={"n": (10_000, 2**18, 2**20, 2**22), "block_threads": (128, 256, 512, 1024)},
        default={"n": 2**20, "block_threads": 512},
        small={"n": 1001, "block_threads": 64},
        make=make,
    )
}
