"""Device functions that fetch neighbouring matrix elements for :mod:`.gemm_tile`, and write results."""

from __future__ import annotations

import functools

from numba import cuda, float32

from .gemm_tile import QUAD, Tile
from .vector import load_vector, store_vector


@functools.cache
def fetch_across(width: int):
    """Fetch from a float32 matrix whose rows run along k: [rows, k], ``width`` elements of one row."""

    @cuda.jit(device=True)
    def fetch(matrix, row, k, k_end, values):
        if row < matrix.shape[0] and k < k_end:
            load_vector(values, 0, matrix, row * matrix.shape[1] + k, width)
        else:
            for i in range(width):
                values[i] = float32(0)

    return fetch


@functools.cache
def fetch_down(width: int):
    """Fetch from a float32 matrix whose columns run along k: [k, columns], ``width`` elements of one row."""

    @cuda.jit(device=True)
    def fetch(matrix, column, k, k_end, values):
        if column < matrix.shape[1] and k < k_end:
            load_vector(values, 0, matrix, k * matrix.shape[1] + column, width)
        else:
            for i in range(width):
                values[i] = float32(0)

    return fetch


@functools.cache
def write_tile(tile: Tile, width: int):
    """Device function (c, first_row, first_column, sums): store a thread's sums in ``c``, inside its bounds."""
    m, n, threads_n = tile.thread_m, tile.thread_n, tile.threads_n
    row_stride, column_stride = tile.row_stride, tile.column_stride
    width = min(width, QUAD)

    @cuda.jit(device=True)
    def write(c, first_row, first_column, sums):
        thread_row, thread_column = cuda.threadIdx.x // threads_n, cuda.threadIdx.x % threads_n
        rows, columns = c.shape
        for i in range(m):
            row = first_row + i // QUAD * row_stride + thread_row * QUAD + i % QUAD
            for j in range(0, n, width):
                column = first_column + j // QUAD * column_stride + thread_column * QUAD + j % QUAD
                if row < rows and column < columns:
                    store_vector(c, row * columns + column, sums, i * n + j, width)

    return write
