"""C = A x B in single precision as libraries do it without tensor cores: blocked in shared and in registers."""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_choice, require_positive
from .gemm_operand import fetch_across, fetch_down, write_tile
from .gemm_tile import TILES, accumulator
from .vector import vector_width


@functools.cache
def _kernel(width_of_tile: int, a_width: int, b_width: int):
    tile = TILES[width_of_tile]
    accumulate = accumulator(tile, fetch_across(a_width), True, a_width, fetch_down(b_width), False, b_width)
    write = write_tile(tile, b_width)
    tile_m, tile_n, own = tile.m, tile.n, tile.thread_m * tile.thread_n

    @cuda.jit
    def sgemm_register(a, b, c):
        sums = cuda.local.array(own, float32)
        for i in range(own):
            sums[i] = float32(0)
        first_row, first_column = cuda.blockIdx.y * tile_m, cuda.blockIdx.x * tile_n
        accumulate(a, b, first_row, first_column, 0, a.shape[1], sums)
        write(c, first_row, first_column, sums)

    return sgemm_register


def make(*, m: int, n: int, k: int, tile: int, seed: int = 0) -> Case:
    """``tile`` is 128 (256 threads of 8 x 8 sums each), 64 (256 of 4 x 4) or 32 (64 of 4 x 4)."""
    require_positive(m=m, n=n, k=k)
    require_choice("tile", tile, TILES)
    rng = np.random.default_rng(seed)
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    c = np.zeros((m, n), np.float32)

    def check() -> None:
        expected = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_allclose(c, expected, rtol=1e-6 * max(4, k**0.5))

    kernel = _kernel(tile, vector_width(np.float32, k), vector_width(np.float32, n))
    grid = (blocks_for(n, tile), blocks_for(m, tile))
    return Case(
        launches=(Launch(kernel, grid, (TILES[tile].threads,), (a, b, c)),),
        check=check,
        work={
            "flops": 2.0 * m * n * k,
            "bytes_read": 4.0 * (m * k + k * n),
            "bytes_written": 4.0 * m * n,
        },
    )


_SIZES = (64, 100, 256, 512, 1024, 2048)

KERNELS = {
    "sgemm_register": Kernel(
        name="sgemm_register",
        purpose="near the FP32 peak: FMA from registers, 16-byte shared loads, global loads a slice ahead",
        axes={"m": _SIZES, "n": _SIZES, "k": _SIZES, "tile": tuple(TILES)},
        default={"m": 1024, "n": 1024, "k": 128, "tile": 64},
        small={"m": 36, "n": 28, "k": 20, "tile": 32},
        make=make,
    )
}
