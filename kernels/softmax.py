"""Row-wise softmax: one block a row, maximum and sum by trees in shared memory."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, require_block, require_positive

MAX_BLOCK_THREADS = 1024


@cuda.jit
def softmax(x, out):
    scratch = cuda.shared.array(MAX_BLOCK_THREADS, float32)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    threads = cuda.blockDim.x
    columns = x.shape[1]

    largest = float32(-math.inf)
    for j in range(t, columns, threads):
        largest = max(largest, x[row, j])
    scratch[t] = largest
    cuda.syncthreads()
    half = threads // 2
    while half > 0:
        if t < half:
            scratch[t] = max(scratch[t], scratch[t + half])
        cuda.syncthreads()
        half //= 2
    largest = scratch[0]
    cuda.syncthreads()

    total = float32(0)
    for j in range(t, columns, threads):
        e = math.exp(x[row, j] - largest)
        out[row, j] = e
        total += e
    scratch[t] = total
    cuda.syncthreads()
    half = threads // 2
    while half > 0:
        if t < half:
            scratch[t] += scratch[t + half]
        cuda.syncthreads()
        half //= 2
    total = scratch[0]
    for j in range(t, columns, threads):
        out[row, j] /= total


def make(*, rows: int, columns: int, block_threads: int, seed: int = 0) -> Case:
    """``block_threads`` must be a power of two: the trees halve it."""
    require_positive(rows=rows, columns=columns)
    require_block(block_threads)
    if block_threads & (block_threads - 1):
        raise ValueError(f"block_threads must be a power of two, not {block_threads}")
    x = (8 * np.random.default_rng(seed).standard_normal((rows, columns))).astype(np.float32)
    out = np.zeros_like(x)

    def check() -> None:
        e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
        np.testing.assert_allclose(out, e / e.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-30)

    size = float(rows * columns)
    return Case(
        launches=(Launch(softmax, (rows,), (block_threads,), (x, out)),),
        check=check,
        work={"bytes_read": 12.0 * size, "bytes_written": 8.0 * size, "flops": 5.0 * size},
    )


KERNELS = {
    "softmax": Kernel(
        name="softmax",
        purpose="exponentials, two block reductions a row, three passes over data that L1 or L2 keeps",
        axes={
            "rows": (16, 256, 1024, 4096),
            "columns": (64, 500, 1024, 4096),
            "block_threads": (64, 128, 256, 512),
        },
        default={"rows": 512, "columns": 1024, "block_threads": 256},
        small={"rows": 5, "columns": 150, "block_threads": 64},
        make=make,
    )
}
