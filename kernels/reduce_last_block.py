"""Sum in one launch: the block that finishes last adds up what the others left."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int32

from .block_reduce import block_sum
from .block_scan import MAX_WARPS
from .case import Case, Kernel, Launch, require_block, require_positive


@cuda.jit
def reduce_last_block(values, partial_sums, finished, total):
    warp_sums = cuda.shared.array(MAX_WARPS, float32)
    is_last = cuda.shared.array(1, int32)
    t, blocks = cuda.threadIdx.x, cuda.gridDim.x
    acc = float32(0)
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        acc += values[i]
    acc = block_sum(acc, warp_sums)
    if t == 0:
        partial_sums[cuda.blockIdx.x] = acc
        cuda.threadfence()  # the sum is visible before the count says so
        # Wraps to zero at the last block: the counter is ready for the next launch.
        is_last[0] = cuda.atomic.inc(finished, 0, blocks - 1) == blocks - 1
    cuda.syncthreads()
    if is_last[0]:
        acc = float32(0)
        for i in range(t, blocks, cuda.blockDim.x):
            acc += cuda.ldcg(partial_sums, i)
        acc = block_sum(acc, warp_sums)
        if t == 0:
            total[0] = acc


def make(*, n: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    require_positive(n=n, blocks=blocks)
    require_block(block_threads, multiple=32)
    values = np.random.default_rng(seed).random(n, np.float32)
    partial_sums, finished = np.zeros(blocks, np.float32), np.zeros(1, np.uint32)
    total = np.zeros(1, np.float32)

    def check() -> None:
        # The terms are positive: the error is relative, a rounding for each addition of a chain.
        np.testing.assert_allclose(total[0], values.sum(dtype=np.float64), rtol=1e-5)
        assert finished[0] == 0

    args = (values, partial_sums, finished, total)
    return Case(
        launches=(Launch(reduce_last_block, (blocks,), (block_threads,), args),),
        check=check,
        work={"bytes_read": 4.0 * n, "bytes_written": 4.0, "flops": float(n), "atomics": float(blocks)},
    )


KERNELS = {
    "reduce_last_block": Kernel(
        name="reduce_last_block",
        purpose="a sum finished by whichever block comes last: fence, counter, a tail that one SM runs alone",
        axes={
            "n": (10_000, 2**20, 2**22, 2**24),
            "block_threads": (64, 128, 256, 512, 1024),
            "blocks": (16, 132, 264, 1056),
        },
        default={"n": 2**20, "block_threads": 256, "blocks": 264},
        small={"n": 3007, "block_threads": 128, "blocks": 6},
        make=make,
    )
}
