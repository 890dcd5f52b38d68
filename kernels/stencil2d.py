"""Five-point stencil on a plane: a tile with its halo in shared memory."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive

TILE_X, MAX_TILE_Y = 32, 32
TILE_SHAPE = MAX_TILE_Y + 2, TILE_X + 2
CENTRE, SIDE = np.float32(0.5), np.float32(0.125)


@cuda.jit
def stencil2d(source, target):
    """Points on the edge keep their value."""
    tile = cuda.shared.array(TILE_SHAPE, float32)
    column, row = cuda.grid(2)
    x, y = cuda.threadIdx.x + 1, cuda.threadIdx.y + 1
    rows, columns = source.shape
    if row < rows and column < columns:
        tile[y, x] = source[row, column]
        if x == 1 and column > 0:
            tile[y, 0] = source[row, column - 1]
        if x == cuda.blockDim.x and column + 1 < columns:
            tile[y, x + 1] = source[row, column + 1]
        if y == 1 and row > 0:
            tile[0, x] = source[row - 1, column]
        if y == cuda.blockDim.y and row + 1 < rows:
            tile[y + 1, x] = source[row + 1, column]
    cuda.syncthreads()
    if row < rows and column < columns:
        value = tile[y, x]
        if 0 < row < rows - 1 and 0 < column < columns - 1:
            around = tile[y, x - 1] + tile[y, x + 1] + tile[y - 1, x] + tile[y + 1, x]
            value = CENTRE * value + SIDE * around
        target[row, column] = value


def make(*, rows: int, columns: int, block_y: int, seed: int = 0) -> Case:
    """Blocks are 32 threads wide and ``block_y`` high."""
    require_positive(rows=rows, columns=columns, block_y=block_y)
    require_block(TILE_X * block_y)
    source = np.random.default_rng(seed).random((rows, columns), np.float32)
    target = np.full_like(source, -1)

    def check() -> None:
        expected, s = source.astype(np.float64), source.astype(np.float64)
        around = s[1:-1, :-2] + s[1:-1, 2:] + s[:-2, 1:-1] + s[2:, 1:-1]
        expected[1:-1, 1:-1] = 0.5 * s[1:-1, 1:-1] + 0.125 * around
        np.testing.assert_allclose(target, expected, rtol=1e-6)

    points = float(rows * columns)
    grid = (blocks_for(columns, TILE_X), blocks_for(rows, block_y))
    return Case(
        launches=(Launch(stencil2d, grid, (TILE_X, block_y), (source, target)),),
        check=check,
        work={"bytes_read": 4 * points, "bytes_written": 4 * points, "flops": 6 * points, "points": points},
    )


KERNELS = {
    "stencil2d": Kernel(
        name="stencil2d",
        purpose="a plane's stencil: tile and halo in shared memory, divergence at tile edges, one barrier",
        axes={"rows": (64, 1024, 4096), "columns": (64, 1024, 4096), "block_y": (4, 8, 16, 32)},
        default={"rows": 1024, "columns": 1024, "block_y": 8},
        small={"rows": 13, "columns": 71, "block_y": 8},
        make=make,
    )
}
