"""Jacobi iteration on a plane in one cooperative launch: a grid-wide barrier after every sweep."""

from __future__ import annotations

import numpy as np
from numba import cuda

from .case import Case, Kernel, Launch, require_block, require_positive

QUARTER = np.float32(0.25)


@cuda.jit
def jacobi_grid_sync(even, odd, sweeps):
    """Sweep s reads ``even`` and writes ``odd`` for even s, and the other way round; edges stay."""
    grid = cuda.cg.this_grid()
    rows, columns = even.shape
    source, target = even, odd
    for _ in range(sweeps):
        for row in range(1 + cuda.blockIdx.x, rows - 1, cuda.gridDim.x):
            for column in range(1 + cuda.threadIdx.x, columns - 1, cuda.blockDim.x):
                around = source[row, column - 1] + source[row, column + 1]
                around += source[row - 1, column] + source[row + 1, column]
                target[row, column] = QUARTER * around
        grid.sync()
        source, target = target, source


def make(*, rows: int, columns: int, sweeps: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    """All ``blocks`` must fit on the GPU at once, as for every cooperative launch."""
    require_positive(rows=rows, columns=columns, sweeps=sweeps, blocks=blocks)
    require_block(block_threads)
    if min(rows, columns) < 3:
        raise ValueError(f"rows and columns must be at least 3, not {rows} and {columns}")
    start = np.random.default_rng(seed).random((rows, columns), np.float32)
    even, odd = start.copy(), start.copy()

    def check() -> None:
        expected = start.astype(np.float64)
        for _ in range(sweeps):
            e = expected
            inner = (e[1:-1, :-2] + e[1:-1, 2:] + e[:-2, 1:-1] + e[2:, 1:-1]) / 4
            expected = e.copy()
            expected[1:-1, 1:-1] = inner
        np.testing.assert_allclose(odd if sweeps % 2 else even, expected, rtol=1e-5)

    points = float((rows - 2) * (columns - 2) * sweeps)
    return Case(
        launches=(Launch(jacobi_grid_sync, (blocks,), (block_threads,), (even, odd, sweeps)),),
        check=check,
        work={"points": points, "flops": 4 * points, "grid_barriers": float(sweeps)},
    )


KERNELS = {
    "jacobi_grid_sync": Kernel(
        name="jacobi_grid_sync",
        purpose="cooperative groups: grid-wide barriers between sweeps over an array that fits in L2",
        axes={
            "rows": (64, 256, 1024),
            "columns": (64, 256, 1024),
            "sweeps": (1, 2, 8, 32),
            "block_threads": (64, 128, 256),
            "blocks": (4, 64, 108, 132),
        },
        default={"rows": 256, "columns": 256, "sweeps": 8, "block_threads": 256, "blocks": 64},
        small={"rows": 11, "columns": 41, "sweeps": 3, "block_threads": 32, "blocks": 3},
        make=make,
    )
}
