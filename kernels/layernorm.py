"""Layer normalisation: one warp a row, mean and variance by warp shuffles, no barrier."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive
from .warp import WARP, warp_sum


@cuda.jit
def layernorm(x, gain, bias, epsilon, out):
    lane = cuda.threadIdx.x % WARP
    row = cuda.grid(1) // WARP
    columns = x.shape[1]
    if row >= x.shape[0]:
        return
    total = float32(0)
    for j in range(lane, columns, WARP):
        total += x[row, j]
    mean = warp_sum(total) / float32(columns)
    squares = float32(0)
    for j in range(lane, columns, WARP):
        delta = x[row, j] - mean
        squares += delta * delta
    scale = float32(1) / math.sqrt(warp_sum(squares) / float32(columns) + epsilon)
    for j in range(lane, columns, WARP):
        out[row, j] = (x[row, j] - mean) * scale * gain[j] + bias[j]


def make(*, rows: int, columns: int, block_threads: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns)
    require_block(block_threads, multiple=WARP)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, columns), np.float32) * 3 + 1
    gain, bias = rng.random(columns, np.float32), rng.random(columns, np.float32)
    epsilon = np.float32(1e-5)
    out = np.zeros_like(x)

    def check() -> None:
        wide = x.astype(np.float64)
        centred = wide - wide.mean(axis=1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + epsilon)
        np.testing.assert_allclose(out, centred / deviation * gain + bias, rtol=1e-4, atol=1e-5)

    grid = (blocks_for(rows * WARP, block_threads),)
    size = float(rows * columns)
    return Case(
        launches=(Launch(layernorm, grid, (block_threads,), (x, gain, bias, epsilon, out)),),
        check=check,
        work={"bytes_read": 20.0 * size, "bytes_written": 4.0 * size, "flops": 8.0 * size},
    )


KERNELS = {
    "layernorm": Kernel(
        name="layernorm",
        purpose="warp shuffles, division and square root, re-reading a row that L1 may keep",
        axes={
            "rows": (16, 256, 1024, 4096),
            "columns": (64, 500, 1024, 4096),
            "block_threads": (32, 64, 128, 256),
        },
        default={"rows": 1024, "columns": 1024, "block_threads": 128},
        small={"rows": 7, "columns": 75, "block_threads": 64},
        make=make,
    )
}
