"""Matrix product C = A x B in single precision: straight from global memory, and tiled in shared."""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_positive


@cuda.jit
def matmul_naive(a, b, c):
    row, column = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        acc = float32(0)
        for k in range(a.shape[1]):
            acc += a[row, k] * b[k, column]
        c[row, column] = acc


@functools.cache
def _tiled(tile: int):
    """The tiled kernel for one tile width: shared arrays need it as a constant."""

    @cuda.jit
    def matmul_tiled(a, b, c):
        a_tile = cuda.shared.array((tile, tile), float32)
        b_tile = cuda.shared.array((tile, tile), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        column = cuda.blockIdx.x * tile + tx
        row = cuda.blockIdx.y * tile + ty
        acc = float32(0)
        for start in range(0, a.shape[1], tile):
            a_tile[ty, tx] = 0
            b_tile[ty, tx] = 0
            if row < a.shape[0] and start + tx < a.shape[1]:
                a_tile[ty, tx] = a[row, start + tx]
            if column < b.shape[1] and start + ty < b.shape[0]:
                b_tile[ty, tx] = b[start + ty, column]
            cuda.syncthreads()
            for k in range(tile):
                acc += a_tile[ty, k] * b_tile[k, tx]
            cuda.syncthreads()
        if row < c.shape[0] and column < c.shape[1]:
            c[row, column] = acc

    return matmul_tiled


def _case(kernel, grid, block, m: int, n: int, k: int, seed: int) -> Case:
    rng = np.random.default_rng(seed)
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    c = np.zeros((m, n), np.float32)

    def check() -> None:
        expected = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_allclose(c, expected, rtol=1e-6 * max(4, k**0.5))

    return Case(
        launches=(Launch(kernel, grid, block, (a, b, c)),),
        check=check,
        work={
            "flops": 2.0 * m * n * k,
            "bytes_read": 4.0 * (m * k + k * n),
            "bytes_written": 4.0 * m * n,
        },
    )


def make_naive(*, m: int, n: int, k: int, block_x: int, block_y: int, seed: int = 0) -> Case:
    """Thread (x, y) computes element (x, y): with Numba's grid order, lanes walk down the rows."""
    require_positive(m=m, n=n, k=k, block_x=block_x, block_y=block_y)
    if block_x * block_y > 1024:
        raise ValueError(f"block_x x block_y must be at most 1024 threads, not {block_x * block_y}")
    grid = (blocks_for(m, block_x), blocks_for(n, block_y))
    return _case(matmul_naive, grid, (block_x, block_y), m, n, k, seed)


def make_tiled(*, m: int, n: int, k: int, tile: int, seed: int = 0) -> Case:
    require_positive(m=m, n=n, k=k, tile=tile)
    if tile > 32:
        raise ValueError(f"tile must be at most 32 (a block of 1024 threads), not {tile}")
    return _case(_tiled(tile), (blocks_for(n, tile), blocks_for(m, tile)), (tile, tile), m, n, k, seed)


_SIZES = (64, 100, 256, 512, 1024)

KERNELS = {
    "matmul_naive": Kernel(
        name="matmul_naive",
        purpose="cache reuse without care: uncoalesced rows, every operand from L1",
        axes={"m": _SIZES, "n": _SIZES, "k": _SIZES, "block_x": (8, 16, 32), "block_y": (8, 16, 32)},
        default={"m": 128, "n": 128, "k": 128, "block_x": 16, "block_y": 16},
        small={"m": 40, "n": 24, "k": 33, "block_x": 16, "block_y": 8},
        make=make_naive,
    ),
    "matmul_tiled": Kernel(
        name="matmul_tiled",
        purpose="the textbook tile: shared memory, barriers, FMA chains",
        axes={"m": _SIZES, "n": _SIZES, "k": _SIZES, "tile": (8, 16, 32)},
        default={"m": 256, "n": 256, "k": 256, "tile": 16},
        small={"m": 40, "n": 24, "k": 33, "tile": 16},
        make=make_tiled,
    ),
}
