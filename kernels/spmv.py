"""Sparse matrix times vector, compressed rows, one thread a row: divergence and gathers."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_block
from .sparse import random_rows, times


@cuda.jit
def spmv_csr(row_start, columns, values, x, y):
    row = cuda.grid(1)
    if row < y.size:
        acc = float32(0)
        for k in range(row_start[row], row_start[row + 1]):
            acc += values[k] * x[columns[k]]
        y[row] = acc


def make(*, rows: int, mean_row_length: int, skew: float, block_threads: int, seed: int = 0) -> Case:
    """The axes of the matrix are explained at :func:`.sparse.random_rows`."""
    require_block(block_threads)
    rng = np.random.default_rng(seed)
    row_start, columns = random_rows(rows, mean_row_length, skew, rng)
    nonzeros = columns.size
    values = rng.random(nonzeros, np.float32)
    x, y = rng.random(rows, np.float32), np.zeros(rows, np.float32)
    args = (row_start, columns, values, x, y)
    return Case(
        launches=(Launch(spmv_csr, (blocks_for(rows, block_threads),), (block_threads,), args),),
        check=lambda: np.testing.assert_allclose(y, times(row_start, columns, values, x), rtol=1e-5),
        work={
            "bytes_read": 12.0 * nonzeros + 4.0 * (rows + 1),
            "bytes_written": 4.0 * rows,
            "flops": 2.0 * nonzeros,
        },
    )


KERNELS = {
    "spmv_csr": Kernel(
        name="spmv_csr",
        purpose="loops of unequal length in one warp, scattered gathers, uncoalesced streams",
        axes={
            "rows": (1000, 16_384, 131_072),
            "mean_row_length": (4, 16, 64),
            "skew": (0.0, 0.5, 1.0),
            "block_threads": (64, 128, 256),
        },
        default={"rows": 16_384, "mean_row_length": 16, "skew": 1.0, "block_threads": 128},
        small={"rows": 150, "mean_row_length": 7, "skew": 1.0, "block_threads": 64},
        make=make,
    )
}
