"""Layer normalisation's gradients: one launch for the input, row by row, one for gain and bias, down columns.

With xhat = (x - mean) x rstd and g = dy x gain: dx = rstd x (g - mean(g) - xhat x mean(g x xhat));
d_gain = sum(dy x xhat) and d_bias = sum(dy) over the rows. The forward pass left ``mean`` and ``rstd``.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive
from .warp import WARP, block_sum

STRIPE = 32  # columns of a block of the second launch, one warp wide
ROWS_AT_ONCE = 16  # rows that the block reads at a time, a warp each


@cuda.jit
def layernorm_backward_input(x, dy, gain, mean, rstd, dx):
    """A block a row."""
    row = cuda.blockIdx.x
    columns = x.shape[1]
    centre, scale = mean[row], rstd[row]
    total = float32(0)
    weighted = float32(0)
    for j in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        g = dy[row, j] * gain[j]
        total += g
        weighted += g * ((x[row, j] - centre) * scale)
    total = block_sum(total) / float32(columns)
    weighted = block_sum(weighted) / float32(columns)
    for j in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        xhat = (x[row, j] - centre) * scale
        dx[row, j] = scale * (dy[row, j] * gain[j] - total - xhat * weighted)


@cuda.jit
def layernorm_backward_weights(x, dy, mean, rstd, d_gain, d_bias):
    """A block a stripe of 32 columns: warps take rows in turn, then add up through shared memory."""
    gains = cuda.shared.array((ROWS_AT_ONCE, STRIPE), float32)
    biases = cuda.shared.array((ROWS_AT_ONCE, STRIPE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column = cuda.blockIdx.x * STRIPE + tx
    gain = float32(0)
    bias = float32(0)
    if column < x.shape[1]:
        for row in range(ty, x.shape[0], ROWS_AT_ONCE):
            upstream = dy[row, column]
            gain += upstream * (x[row, column] - mean[row]) * rstd[row]
            bias += upstream
    gains[ty, tx] = gain
    biases[ty, tx] = bias
    half = ROWS_AT_ONCE // 2
    while half > 0:
        cuda.syncthreads()
        if ty < half:
            gains[ty, tx] += gains[ty + half, tx]
            biases[ty, tx] += biases[ty + half, tx]
        half //= 2
    if ty == 0 and column < x.shape[1]:
        d_gain[column] = gains[0, tx]
        d_bias[column] = biases[0, tx]


def make(*, rows: int, columns: int, block_threads: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns)
    require_block(block_threads, multiple=WARP)
    rng = np.random.default_rng(seed)
    x, dy = (rng.standard_normal((rows, columns), np.float32) for _ in range(2))
    gain = rng.random(columns, np.float32)
    mean = x.mean(axis=1)
    rstd = (1 / np.sqrt(x.var(axis=1) + 1e-5)).astype(np.float32)
    dx = np.zeros_like(x)
    d_gain, d_bias = np.zeros((2, columns), np.float32)

    def check() -> None:
        wide, up = x.astype(np.float64), dy.astype(np.float64)
        scale = rstd[:, None].astype(np.float64)
        xhat = (wide - mean[:, None]) * scale
        g = up * gain
        inner = g - g.mean(axis=1, keepdims=True) - xhat * (g * xhat).mean(axis=1, keepdims=True)
        # All three cancel: the errors are relative to the sizes of the terms.
        np.testing.assert_allclose(dx, scale * inner, rtol=1e-4, atol=1e-5 * float(scale.max()))
        sizes = np.abs(up * xhat).sum(axis=0), np.abs(up).sum(axis=0)
        assert np.all(np.abs(d_gain - (up * xhat).sum(axis=0)) <= 1e-5 * sizes[0]), "d_gain is off"
        assert np.all(np.abs(d_bias - up.sum(axis=0)) <= 1e-5 * sizes[1]), "d_bias is off"

    weights_grid, weights_block = (blocks_for(columns, STRIPE),), (STRIPE, ROWS_AT_ONCE)
    return Case(
        launches=(
            Launch(layernorm_backward_input, (rows,), (block_threads,), (x, dy, gain, mean, rstd, dx)),
            Launch(layernorm_backward_weights, weights_grid, weights_block, (x, dy, mean, rstd, d_gain, d_bias)),
        ),
        check=check,
        work={
            "bytes_read": 16.0 * x.size,
            "bytes_written": 4.0 * x.size + 8.0 * columns,
            "flops": 14.0 * x.size,
        },
    )


KERNELS = {
    "layernorm_backward": Kernel(
        name="layernorm_backward",
        purpose="the same matrices by rows and by columns: few tall blocks that leave most SMs idle",
        axes={
            "rows": (1, 64, 512, 2048),
            "columns": (75, 768, 1024, 4096),
            "block_threads": (64, 128, 256),
        },
        default={"rows": 512, "columns": 1024, "block_threads": 128},
        small={"rows": 9, "columns": 75, "block_threads": 64},
        make=make,
    )
}
