"""Sum of an array: grid-stride loads, a tree in shared memory, one atomic addition a block."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, require_block, require_positive

MAX_BLOCK_THREADS = 1024


@cuda.jit
def reduce_sum(values, total):
    partial = cuda.shared.array(MAX_BLOCK_THREADS, float32)
    t = cuda.threadIdx.x
    acc = float32(0)
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        acc += values[i]
    partial[t] = acc
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if t < half:
            partial[t] += partial[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        cuda.atomic.add(total, 0, partial[0])


def make(*, n: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    """``block_threads`` must be a power of two: the tree halves it."""
    require_positive(n=n, blocks=blocks)
    require_block(block_threads)
    if block_threads & (block_threads - 1):
        raise ValueError(f"block_threads must be a power of two, not {block_threads}")
    values = np.random.default_rng(seed).random(n, np.float32)
    total = np.zeros(1, np.float32)
    return Case(
        launches=(Launch(reduce_sum, (blocks,), (block_threads,), (values, total)),),
        # The terms are positive, so the error is relative: log2(n) roundings of trees and chains.
        check=lambda: np.testing.assert_allclose(total[0], values.sum(dtype=np.float64), rtol=1e-5),
        work={"bytes_read": 4.0 * n, "bytes_written": 4.0, "flops": float(n), "atomics": float(blocks)},
    )


KERNELS = {
    "reduce_sum": Kernel(
        name="reduce_sum",
        purpose="barriers, a shared-memory tree with idle warps, and atomics on one address",
        axes={
            "n": (10_000, 2**20, 2**24),
            "block_threads": (64, 128, 256, 512, 1024),
            "blocks": (16, 132, 264, 1056),
        },
        default={"n": 2**20, "block_threads": 256, "blocks": 264},
        small={"n": 10_007, "block_threads": 128, "blocks": 6},
        make=make,
    )
}
