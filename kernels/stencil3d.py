"""Seven-point stencil in space: planes of a column march through registers and shared memory.

The scheme of Micikevicius ("3D finite difference computation on GPUs using CUDA", GPGPU-2, 2009): a block owns
a rectangle of x and y and walks along z. The points behind and ahead are in registers; the
current plane lies in shared memory for the neighbours.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive

TILE_X, MAX_TILE_Y = 32, 32
TILE_SHAPE = MAX_TILE_Y + 2, TILE_X + 2
CENTRE, SIDE = np.float32(0.4), np.float32(0.1)


@cuda.jit
def stencil3d(source, target):
    """Interior points only; the outermost layer of ``target`` is left alone."""
    tile = cuda.shared.array(TILE_SHAPE, float32)
    depth, rows, columns = source.shape
    # Threads stand on the interior: the first one at (1, 1).
    column, row = cuda.grid(2)
    column, row = column + 1, row + 1
    x, y = cuda.threadIdx.x + 1, cuda.threadIdx.y + 1
    inside = row < rows - 1 and column < columns - 1
    behind = current = ahead = float32(0)
    if inside:
        behind, current = source[0, row, column], source[1, row, column]
    for z in range(1, depth - 1):
        if inside:
            ahead = source[z + 1, row, column]
            tile[y, x] = current
            if x == 1:
                tile[y, 0] = source[z, row, column - 1]
            if x == cuda.blockDim.x or column == columns - 2:
                tile[y, x + 1] = source[z, row, column + 1]
            if y == 1:
                tile[0, x] = source[z, row - 1, column]
            if y == cuda.blockDim.y or row == rows - 2:
                tile[y + 1, x] = source[z, row + 1, column]
        cuda.syncthreads()
        if inside:
            around = tile[y, x - 1] + tile[y, x + 1] + tile[y - 1, x] + tile[y + 1, x]
            target[z, row, column] = CENTRE * current + SIDE * (behind + ahead + around)
        cuda.syncthreads()
        behind, current = current, ahead


def make(*, depth: int, rows: int, columns: int, block_y: int, seed: int = 0) -> Case:
    """Blocks are 32 threads wide and ``block_y`` high; each extent must be at least 3."""
    require_positive(depth=depth, rows=rows, columns=columns, block_y=block_y)
    require_block(TILE_X * block_y)
    if min(depth, rows, columns) < 3:
        raise ValueError(f"depth, rows and columns must be at least 3, not {depth}, {rows}, {columns}")
    source = np.random.default_rng(seed).random((depth, rows, columns), np.float32)
    target = np.zeros_like(source)

    def check() -> None:
        s = source.astype(np.float64)
        around = s[1:-1, 1:-1, :-2] + s[1:-1, 1:-1, 2:] + s[1:-1, :-2, 1:-1] + s[1:-1, 2:, 1:-1]
        expected = np.zeros_like(s)
        expected[1:-1, 1:-1, 1:-1] = 0.4 * s[1:-1, 1:-1, 1:-1] + 0.1 * (s[:-2, 1:-1, 1:-1] + s[2:, 1:-1, 1:-1] + around)
        np.testing.assert_allclose(target, expected, rtol=1e-6)

    points = float((depth - 2) * (rows - 2) * (columns - 2))
    grid = (blocks_for(columns - 2, TILE_X), blocks_for(rows - 2, block_y))
    return Case(
        launches=(Launch(stencil3d, grid, (TILE_X, block_y), (source, target)),),
        check=check,
        work={
            "bytes_read": 4.0 * source.size,
            "bytes_written": 4.0 * points,
            "flops": 8 * points,
            "points": points,
        },
    )


KERNELS = {
    "stencil3d": Kernel(
        name="stencil3d",
        purpose="space stencil marching along z: a register queue, a shared plane, two barriers a plane",
        axes={
            "depth": (16, 64, 256),
            "rows": (64, 128, 256),
            "columns": (64, 128, 256),
            "block_y": (4, 8, 16),
        },
        default={"depth": 64, "rows": 128, "columns": 128, "block_y": 8},
        small={"depth": 5, "rows": 9, "columns": 37, "block_y": 4},
        make=make,
    )
}
