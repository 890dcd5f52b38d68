"""Sparse matrix times vector, compressed rows, one warp a row: coalesced streams and a shuffle reduction."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

from .block_scan import FULL_WARP, WARP_THREADS
from .case import Case, Kernel, Launch, blocks_for, require_block
from .sparse import random_rows, times


@cuda.jit
def spmv_csr_vector(row_start, columns, values, x, y):
    row = cuda.grid(1) // WARP_THREADS
    if row < y.size:
        acc = float32(0)
        for k in range(row_start[row] + cuda.laneid, row_start[row + 1], WARP_THREADS):
            acc += values[k] * x[columns[k]]
        distance = WARP_THREADS // 2
        while distance > 0:
            acc += cuda.shfl_down_sync(FULL_WARP, acc, distance)
            distance //= 2
        if cuda.laneid == 0:
            y[row] = acc


def make(*, rows: int, mean_row_length: int, skew: float, block_threads: int, seed: int = 0) -> Case:
    """The axes of the matrix are explained at :func:`.sparse.random_rows`."""
    require_block(block_threads, multiple=WARP_THREADS)
    rng = np.random.default_rng(seed)
    row_start, columns = random_rows(rows, mean_row_length, skew, rng)
    nonzeros = columns.size
    values = rng.random(nonzeros, np.float32)
    x, y = rng.random(rows, np.float32), np.full(rows, -1, np.float32)
    args = (row_start, columns, values, x, y)
    grid = (blocks_for(rows * WARP_THREADS, block_threads),)
    return Case(
        launches=(Launch(spmv_csr_vector, grid, (block_threads,), args),),
        check=lambda: np.testing.assert_allclose(y, times(row_start, columns, values, x), rtol=1e-5),
        work={
            "bytes_read": 12.0 * nonzeros + 4.0 * (rows + 1),
            "bytes_written": 4.0 * rows,
            "flops": 2.0 * nonzeros,
        },
    )


KERNELS = {
    "spmv_csr_vector": Kernel(
        name="spmv_csr_vector",
        purpose="the warp-a-row counterpart of spmv_csr: coalesced streams, idle lanes on short rows",
        axes={
            "rows": (1000, 16_384, 131_072),
            "mean_row_length": (4, 16, 64),
            "skew": (0.0, 0.5, 1.0),
            "block_threads": (64, 128, 256),
        },
        default={"rows": 16_384, "mean_row_length": 16, "skew": 1.0, "block_threads": 128},
        small={"rows": 41, "mean_row_length": 17, "skew": 1.0, "block_threads": 64},
        make=make,
    )
}
