"""Histogram of bytes: atomics in shared memory, then one global atomic a bin and block."""

from __future__ import annotations

import numpy as np
from numba import cuda, int32

from .case import Case, Kernel, Launch, require_block, require_positive

BINS = 256


@cuda.jit
def histogram(values, counts):
    local = cuda.shared.array(BINS, int32)
    for i in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
        local[i] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(local, values[i], 1)
    cuda.syncthreads()
    for i in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
        cuda.atomic.add(counts, i, local[i])


def make(*, n: int, spread: float, block_threads: int, blocks: int, seed: int = 0) -> Case:
    """``spread`` in (0, 1]: the share of the bins that the data falls in, evenly; small is contended."""
    require_positive(n=n, blocks=blocks)
    require_block(block_threads)
    if not 0 < spread <= 1:
        raise ValueError(f"spread must lie in (0, 1], not {spread!r}")
    used = max(1, round(BINS * spread))
    values = np.random.default_rng(seed).integers(0, used, n).astype(np.uint8)
    counts = np.zeros(BINS, np.int32)
    return Case(
        launches=(Launch(histogram, (blocks,), (block_threads,), (values, counts)),),
        check=lambda: np.testing.assert_array_equal(counts, np.bincount(values, minlength=BINS)),
        work={
            "bytes_read": float(n),
            "bytes_written": 4.0 * BINS * blocks,
            "shared_atomics": float(n),
            "atomics": float(BINS * blocks),
        },
    )


KERNELS = {
    "histogram": Kernel(
        name="histogram",
        purpose="shared-memory atomics under contention, byte loads, global atomics",
        axes={
            "n": (10_000, 2**20, 2**24),
            "spread": (1 / 256, 1 / 16, 1.0),
            "block_threads": (64, 128, 256, 512),
            "blocks": (16, 132, 528),
        },
        default={"n": 2**20, "spread": 1.0, "block_threads": 256, "blocks": 132},
        small={"n": 5003, "spread": 1.0, "block_threads": 96, "blocks": 3},
        make=make,
    )
}
