"""Sparse matrix times vector, ELLPACK: rows padded to one length and stored column by column."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_block
from .sparse import random_rows, times

PADDING = -1


@cuda.jit
def spmv_ell(columns, values, x, y):
    """Slot k of row r is element [k, r], so that neighbouring threads read neighbouring words."""
    row = cuda.grid(1)
    if row < y.size:
        acc = float32(0)
        for k in range(columns.shape[0]):
            column = columns[k, row]
            if column != PADDING:
                acc += values[k, row] * x[column]
        y[row] = acc


def make(*, rows: int, mean_row_length: int, skew: float, block_threads: int, seed: int = 0) -> Case:
    """The axes of the matrix are explained at :func:`.sparse.random_rows`; the longest row sets the padding."""
    require_block(block_threads)
    rng = np.random.default_rng(seed)
    row_start, csr_columns = random_rows(rows, mean_row_length, skew, rng)
    lengths = np.diff(row_start)
    row_of = np.repeat(np.arange(rows), lengths)
    slot = np.arange(csr_columns.size) - row_start[row_of]
    width = max(1, int(lengths.max()))
    csr_values = rng.random(csr_columns.size, np.float32)
    columns, values = np.full((width, rows), PADDING, np.int32), np.zeros((width, rows), np.float32)
    columns[slot, row_of], values[slot, row_of] = csr_columns, csr_values
    x, y = rng.random(rows, np.float32), np.full(rows, -1, np.float32)
    return Case(
        launches=(Launch(spmv_ell, (blocks_for(rows, block_threads),), (block_threads,), (columns, values, x, y)),),
        check=lambda: np.testing.assert_allclose(y, times(row_start, csr_columns, csr_values, x), rtol=1e-5),
        work={
            "bytes_read": 4.0 * columns.size + 8.0 * csr_columns.size,
            "bytes_written": 4.0 * rows,
            "flops": 2.0 * csr_columns.size,
        },
    )


KERNELS = {
    "spmv_ell": Kernel(
        name="spmv_ell",
        purpose="padded sparse rows: coalesced streams, predicated gathers, work wasted on padding",
        axes={
            "rows": (1000, 16_384, 131_072),
            "mean_row_length": (4, 16, 64),
            "skew": (0.0, 0.5, 1.0),
            "block_threads": (64, 128, 256),
        },
        default={"rows": 16_384, "mean_row_length": 16, "skew": 0.0, "block_threads": 128},
        small={"rows": 80, "mean_row_length": 7, "skew": 0.5, "block_threads": 64},
        make=make,
    )
}
