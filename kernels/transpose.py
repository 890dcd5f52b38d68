"""Matrix transpose through a padded tile in shared memory: both sides coalesced."""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_positive

TILE = 32


@functools.cache
def _kernel(rows_per_block: int, padding: int):
    """The kernel for one block height; ``padding`` columns keep the tile's columns off one bank."""
    pitch = TILE + padding

    @cuda.jit
    def transpose(source, target):
        tile = cuda.shared.array((TILE, pitch), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        x = cuda.blockIdx.x * TILE + tx
        y = cuda.blockIdx.y * TILE + ty
        for j in range(0, TILE, rows_per_block):
            if x < source.shape[1] and y + j < source.shape[0]:
                tile[ty + j, tx] = source[y + j, x]
        cuda.syncthreads()
        x = cuda.blockIdx.y * TILE + tx
        y = cuda.blockIdx.x * TILE + ty
        for j in range(0, TILE, rows_per_block):
            if x < target.shape[1] and y + j < target.shape[0]:
                target[y + j, x] = tile[tx, ty + j]

    return transpose


def make(*, rows: int, columns: int, rows_per_block: int, padding: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns, rows_per_block=rows_per_block)
    if TILE % rows_per_block or padding < 0:
        raise ValueError(f"rows_per_block must divide {TILE} and padding must not be negative")
    source = np.random.default_rng(seed).random((rows, columns), np.float32)
    target = np.zeros((columns, rows), np.float32)
    grid = (blocks_for(columns, TILE), blocks_for(rows, TILE))
    return Case(
        launches=(Launch(_kernel(rows_per_block, padding), grid, (TILE, rows_per_block), (source, target)),),
        check=lambda: np.testing.assert_array_equal(target, source.T),
        work={"bytes_read": 4.0 * source.size, "bytes_written": 4.0 * source.size},
    )


KERNELS = {
    "transpose": Kernel(
        name="transpose",
        purpose="coalescing by way of shared memory; padding=0 shows 32-way bank conflicts",
        axes={
            "rows": (100, 512, 1024, 4096),
            "columns": (100, 512, 1024, 4096),
            "rows_per_block": (4, 8, 16, 32),
            "padding": (0, 1),
        },
        default={"rows": 1024, "columns": 1024, "rows_per_block": 8, "padding": 1},
        small={"rows": 70, "columns": 45, "rows_per_block": 8, "padding": 1},
        make=make,
    )
}
