"""y = A x, a warp a row: the product that generating one token at a time consists of."""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive
from .precision import stored_type, tolerance
from .vector import load_vector, vector_width
from .warp import WARP, warp_sum

#: Vectors that a lane loads before it uses the first: more bytes in flight a warp.
UNROLL = 4


@functools.cache
def _kernel(dtype: str, width: int):
    stored = stored_type(dtype)
    in_flight = UNROLL * width

    @cuda.jit
    def gemv(matrix, vector, out):
        lane = cuda.threadIdx.x % WARP
        row = cuda.grid(1) // WARP
        rows, columns = matrix.shape
        if row >= rows:
            return
        left = cuda.local.array(in_flight, stored)
        right = cuda.local.array(width, stored)
        total = float32(0)
        stride = WARP * width
        start = lane * width
        while start + (UNROLL - 1) * stride < columns:
            for turn in range(UNROLL):
                load_vector(left, turn * width, matrix, row * columns + start + turn * stride, width)
            for turn in range(UNROLL):
                load_vector(right, 0, vector, start + turn * stride, width)
                for i in range(width):
                    total += float32(left[turn * width + i]) * float32(right[i])
            start += UNROLL * stride
        while start < columns:
            load_vector(left, 0, matrix, row * columns + start, width)
            load_vector(right, 0, vector, start, width)
            for i in range(width):
                total += float32(left[i]) * float32(right[i])
            start += stride
        total = warp_sum(total)
        if lane == 0:
            out[row] = stored(total)

    return gemv


def make(*, rows: int, columns: int, dtype: str, block_threads: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns)
    require_block(block_threads, multiple=WARP)
    stored_type(dtype)
    rng = np.random.default_rng(seed)
    # Positive and small: no cancellation, and halves do not overflow.
    matrix, vector = rng.random((rows, columns)).astype(dtype), (rng.random(columns) / 8).astype(dtype)
    out = np.zeros(rows, dtype)

    def check() -> None:
        expected = matrix.astype(np.float64) @ vector.astype(np.float64)
        np.testing.assert_allclose(out, expected, rtol=tolerance(dtype))

    kernel = _kernel(dtype, vector_width(dtype, columns))
    return Case(
        launches=(Launch(kernel, (blocks_for(rows * WARP, block_threads),), (block_threads,), (matrix, vector, out)),),
        check=check,
        work={
            "bytes_read": float((rows + 1) * columns * matrix.itemsize),
            "bytes_written": float(rows * matrix.itemsize),
            "flops": 2.0 * rows * columns,
        },
    )


KERNELS = {
    "gemv": Kernel(
        name="gemv",
        purpose="DRAM bandwidth by 16-byte loads, a vector that stays in L1, one shuffle reduction a row",
        axes={
            "rows": (16, 1024, 4096, 16_384),
            "columns": (77, 1024, 4096, 14_336),
            "dtype": ("float32", "float16"),
            "block_threads": (32, 64, 128, 256),
        },
        default={"rows": 2048, "columns": 4096, "dtype": "float16", "block_threads": 128},
        small={"rows": 5, "columns": 1336, "dtype": "float16", "block_threads": 64},
        make=make,
    )
}
