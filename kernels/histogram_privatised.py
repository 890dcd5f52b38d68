"""Histogram of bytes with a copy of the bins for each warp: fewer collisions for more shared memory."""

from __future__ import annotations

import numpy as np
from numba import cuda, int32, uint32

from .block_scan import WARP_THREADS
from .case import Case, Kernel, Launch, require_block, require_positive

BINS = 256
BYTES_PER_WORD = 4


@cuda.jit
def histogram_privatised(words, counts):
    """``words`` hold four values each, so that a warp reads a whole line at a time."""
    copies = cuda.shared.array(0, int32)
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    warps = threads // WARP_THREADS
    own = t // WARP_THREADS * BINS
    for k in range(t, warps * BINS, threads):
        copies[k] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), words.size, cuda.gridsize(1)):
        word = words[i]
        for _ in range(BYTES_PER_WORD):
            cuda.atomic.add(copies, own + int32(word & uint32(BINS - 1)), 1)
            word >>= uint32(8)
    cuda.syncthreads()
    for value in range(t, BINS, threads):
        count = 0
        for warp in range(warps):
            count += copies[warp * BINS + value]
        if count > 0:
            cuda.atomic.add(counts, value, count)


def make(*, n: int, spread: float, block_threads: int, blocks: int, seed: int = 0) -> Case:
    """``n`` bytes, a multiple of 4; ``spread`` in (0, 1]: the share of the bins that the data falls in."""
    require_positive(n=n, blocks=blocks)
    require_block(block_threads, multiple=WARP_THREADS)
    if n % BYTES_PER_WORD:
        raise ValueError(f"n must be a multiple of {BYTES_PER_WORD}, not {n}")
    if not 0 < spread <= 1:
        raise ValueError(f"spread must lie in (0, 1], not {spread!r}")
    used = max(1, round(BINS * spread))
    values = np.random.default_rng(seed).integers(0, used, n).astype(np.uint8)
    counts = np.zeros(BINS, np.int32)
    shared_bytes = 4 * BINS * (block_threads // WARP_THREADS)
    return Case(
        launches=(
            Launch(
                histogram_privatised,
                (blocks,),
                (block_threads,),
                (values.view(np.uint32), counts),
                shared_bytes=shared_bytes,
            ),
        ),
        check=lambda: np.testing.assert_array_equal(counts, np.bincount(values, minlength=BINS)),
        work={"bytes_read": float(n), "shared_atomics": float(n), "atomics": float(BINS * blocks)},
    )


KERNELS = {
    "histogram_privatised": Kernel(
        name="histogram_privatised",
        purpose="shared-memory atomics with a copy of the bins a warp: the remedy for the contention of histogram",
        axes={
            "n": (10_000, 2**20, 2**22),
            "spread": (1 / 256, 1 / 16, 1.0),
            "block_threads": (64, 128, 256, 512),
            "blocks": (16, 132, 264),
        },
        default={"n": 2**20, "spread": 1.0, "block_threads": 256, "blocks": 132},
        small={"n": 4004, "spread": 0.25, "block_threads": 96, "blocks": 2},
        make=make,
    )
}
