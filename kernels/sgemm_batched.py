"""Many products of small matrices in one launch: C[i] = A[i] x B[i], or A[i] x B[i]^T (attention scores)."""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_choice, require_positive
from .gemm_operand import fetch_across, fetch_down, write_tile
from .gemm_tile import TILES, accumulator
from .vector import vector_width

MAX_BATCH = 65_535  # the grid's z extent (CUDA programming guide, technical specifications)


@functools.cache
def _kernel(width_of_tile: int, transposed: bool, k_width: int, n_width: int):
    tile = TILES[width_of_tile]
    b_width = k_width if transposed else n_width
    fetch_b = fetch_across(b_width) if transposed else fetch_down(b_width)
    accumulate = accumulator(tile, fetch_across(k_width), True, k_width, fetch_b, transposed, b_width)
    write = write_tile(tile, n_width)
    tile_m, tile_n, own = tile.m, tile.n, tile.thread_m * tile.thread_n

    @cuda.jit
    def sgemm_batched(a, b, c):
        matrix = cuda.blockIdx.z
        sums = cuda.local.array(own, float32)
        for i in range(own):
            sums[i] = float32(0)
        first_row, first_column = cuda.blockIdx.y * tile_m, cuda.blockIdx.x * tile_n
        accumulate(a[matrix], b[matrix], first_row, first_column, 0, a.shape[2], sums)
        write(c[matrix], first_row, first_column, sums)

    return sgemm_batched


def make(*, batch: int, m: int, n: int, k: int, transposed: bool, tile: int, seed: int = 0) -> Case:
    """With ``transposed``, B is stored as [batch, n, k]: both operands run along k."""
    require_positive(batch=batch, m=m, n=n, k=k)
    require_choice("tile", tile, TILES)
    if batch > MAX_BATCH:
        raise ValueError(f"batch must be at most {MAX_BATCH}, not {batch}")
    rng = np.random.default_rng(seed)
    a = rng.random((batch, m, k), np.float32)
    b = rng.random((batch, n, k) if transposed else (batch, k, n), np.float32)
    c = np.zeros((batch, m, n), np.float32)

    def check() -> None:
        right = b.transpose(0, 2, 1) if transposed else b
        expected = a.astype(np.float64) @ right.astype(np.float64)
        np.testing.assert_allclose(c, expected, rtol=1e-6 * max(4, k**0.5))

    kernel = _kernel(tile, bool(transposed), vector_width(np.float32, k), vector_width(np.float32, n))
    grid = (blocks_for(n, tile), blocks_for(m, tile), batch)
    return Case(
        launches=(Launch(kernel, grid, (TILES[tile].threads,), (a, b, c)),),
        check=check,
        work={
            "flops": 2.0 * batch * m * n * k,
            "bytes_read": 4.0 * batch * (m * k + k * n),
            "bytes_written": 4.0 * batch * m * n,
        },
    )


_SIZES = (32, 50, 64, 128, 256)

KERNELS = {
    "sgemm_batched": Kernel(
        name="sgemm_batched",
        purpose="many short matrix products: prologue, ragged tiles and block turnover weigh, FMA does not",
        axes={
            "batch": (1, 16, 96, 384),
            "m": _SIZES,
            "n": _SIZES,
            "k": _SIZES,
            "transposed": (False, True),
            "tile": tuple(TILES),
        },
        default={"batch": 96, "m": 128, "n": 128, "k": 64, "transposed": True, "tile": 64},
        small={"batch": 3, "m": 36, "n": 28, "k": 20, "transposed": False, "tile": 32},
        make=make,
    )
}
