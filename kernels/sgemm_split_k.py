"""A matrix product with few sums and a long k, split along k over more blocks than C has tiles.

The parts meet in C by atomic additions, or each in a workspace of its own that a second launch adds up.
"""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_choice, require_positive
from .gemm_operand import fetch_across, fetch_down, write_tile
from .gemm_tile import QUAD, TILES, accumulator
from .vector import load_vector, store_vector, vector_width

REDUCE_THREADS = 128


@functools.cache
def _kernel(width_of_tile: int, meeting: str, k_width: int, n_width: int):
    tile = TILES[width_of_tile]
    accumulate = accumulator(tile, fetch_across(k_width), True, k_width, fetch_down(n_width), False, n_width)
    write = write_tile(tile, n_width)
    row_stride, column_stride = tile.row_stride, tile.column_stride
    tile_m, tile_n, threads_n = tile.m, tile.n, tile.threads_n
    m, n = tile.thread_m, tile.thread_n
    own = m * n

    @cuda.jit(device=True)
    def part(a, b, k_per_split, first_row, first_column, sums):
        for i in range(own):
            sums[i] = float32(0)
        k_begin = cuda.blockIdx.z * k_per_split
        k_end = min(k_begin + k_per_split, a.shape[1])
        accumulate(a, b, first_row, first_column, k_begin, k_end, sums)

    @cuda.jit
    def sgemm_split_k_workspace(a, b, k_per_split, workspace):
        sums = cuda.local.array(own, float32)
        first_row, first_column = cuda.blockIdx.y * tile_m, cuda.blockIdx.x * tile_n
        part(a, b, k_per_split, first_row, first_column, sums)
        write(workspace[cuda.blockIdx.z], first_row, first_column, sums)

    @cuda.jit
    def sgemm_split_k_atomic(a, b, k_per_split, c):
        sums = cuda.local.array(own, float32)
        first_row, first_column = cuda.blockIdx.y * tile_m, cuda.blockIdx.x * tile_n
        part(a, b, k_per_split, first_row, first_column, sums)
        thread_row, thread_column = cuda.threadIdx.x // threads_n, cuda.threadIdx.x % threads_n
        for i in range(m):
            row = first_row + i // QUAD * row_stride + thread_row * QUAD + i % QUAD
            for j in range(n):
                column = first_column + j // QUAD * column_stride + thread_column * QUAD + j % QUAD
                if row < c.shape[0] and column < c.shape[1]:
                    cuda.atomic.add(c, (row, column), sums[i * n + j])

    return sgemm_split_k_workspace if meeting == "workspace" else sgemm_split_k_atomic


@functools.cache
def _reduction(width: int):
    @cuda.jit
    def split_k_reduce(workspace, c):
        start = cuda.grid(1) * width
        if start >= c.size:
            return
        total = cuda.local.array(width, float32)
        values = cuda.local.array(width, float32)
        for i in range(width):
            total[i] = float32(0)
        for split in range(workspace.shape[0]):
            load_vector(values, 0, workspace, split * c.size + start, width)
            for i in range(width):
                total[i] += values[i]
        store_vector(c, start, total, 0, width)

    return split_k_reduce


def make(*, m: int, n: int, k: int, splits: int, meeting: str, tile: int, seed: int = 0) -> Case:
    """``meeting`` is "atomic" or "workspace"; ``splits`` may come out lower for a short k."""
    require_positive(m=m, n=n, k=k, splits=splits)
    require_choice("tile", tile, TILES)
    require_choice("meeting", meeting, ("atomic", "workspace"))
    rng = np.random.default_rng(seed)
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    c = np.zeros((m, n), np.float32)
    slice_k = TILES[tile].k
    k_per_split = blocks_for(blocks_for(k, splits), slice_k) * slice_k
    splits = blocks_for(k, k_per_split)

    def check() -> None:
        expected = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_allclose(c, expected, rtol=1e-6 * max(4, k**0.5))

    kernel = _kernel(tile, meeting, vector_width(np.float32, k), vector_width(np.float32, n))
    grid, block = (blocks_for(n, tile), blocks_for(m, tile), splits), (TILES[tile].threads,)
    work = {
        "flops": 2.0 * m * n * k,
        "bytes_read": 4.0 * (m * k + k * n),
        "bytes_written": 4.0 * m * n * splits,
    }
    if meeting == "atomic":
        work["atomics"] = float(m * n * splits)
        return Case((Launch(kernel, grid, block, (a, b, k_per_split, c)),), check, work)
    workspace = np.zeros((splits, m, n), np.float32)
    width = vector_width(np.float32, m * n)
    reduce_grid = (blocks_for(blocks_for(m * n, width), REDUCE_THREADS),)
    return Case(
        launches=(
            Launch(kernel, grid, block, (a, b, k_per_split, workspace)),
            Launch(_reduction(width), reduce_grid, (REDUCE_THREADS,), (workspace, c)),
        ),
        check=check,
        work=work,
    )


KERNELS = {
    "sgemm_split_k": Kernel(
        name="sgemm_split_k",
        purpose="filling the machine along k: floating-point atomics on shared results, or a second launch",
        axes={
            "m": (16, 64, 100, 256),
            "n": (16, 64, 100, 256),
            "k": (1000, 4096, 16_384),
            "splits": (1, 8, 32, 128),
            "meeting": ("atomic", "workspace"),
            "tile": tuple(TILES),
        },
        default={"m": 128, "n": 128, "k": 8192, "splits": 64, "meeting": "atomic", "tile": 64},
        small={"m": 20, "n": 36, "k": 100, "splits": 3, "meeting": "workspace", "tile": 32},
        make=make,
    )
}
