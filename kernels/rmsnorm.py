"""Root-mean-square normalisation, with the residual addition that precedes it in a transformer.

Formula: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019:
out = x / sqrt(mean(x^2) + epsilon) x gain.
"""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda, float32
from numba.cuda import libdevice

from .case import Case, Kernel, Launch, require_block, require_positive
from .precision import stored_type, tolerance
from .vector import load_vector, store_vector, vector_width
from .warp import WARP, block_sum

EPSILON = 1e-6


@functools.cache
def _kernel(residual_too: bool, dtype: str, width: int):
    stored = stored_type(dtype)

    @cuda.jit
    def rmsnorm(x, residual, gain, epsilon, out):
        """A block a row. With ``residual_too``, x + residual is normalised, and kept in ``residual``."""
        row = cuda.blockIdx.x
        columns = x.shape[1]
        values = cuda.local.array(width, stored)
        others = cuda.local.array(width, stored)
        first, step = cuda.threadIdx.x * width, cuda.blockDim.x * width
        squares = float32(0)
        for column in range(first, columns, step):
            load_vector(values, 0, x, row * columns + column, width)
            if residual_too:
                load_vector(others, 0, residual, row * columns + column, width)
                for i in range(width):
                    values[i] = stored(float32(values[i]) + float32(others[i]))
                store_vector(residual, row * columns + column, values, 0, width)
            for i in range(width):
                value = float32(values[i])
                squares += value * value
        scale = libdevice.rsqrtf(block_sum(squares) / float32(columns) + epsilon)
        for column in range(first, columns, step):
            # Each thread reads back what it wrote itself.
            if residual_too:
                load_vector(values, 0, residual, row * columns + column, width)
            else:
                load_vector(values, 0, x, row * columns + column, width)
            load_vector(others, 0, gain, column, width)
            for i in range(width):
                values[i] = stored(float32(values[i]) * scale * float32(others[i]))
            store_vector(out, row * columns + column, values, 0, width)

    return rmsnorm


def make(*, rows: int, columns: int, residual: bool, dtype: str, block_threads: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns)
    require_block(block_threads, multiple=WARP)
    stored_type(dtype)
    rng = np.random.default_rng(seed)
    x, skipped = (rng.standard_normal((rows, columns)).astype(dtype) for _ in range(2))
    gain = (1 + 0.1 * rng.standard_normal(columns)).astype(dtype)
    out = np.zeros_like(x)
    before = skipped.copy()

    def check() -> None:
        summed = (x.astype(np.float32) + before).astype(dtype) if residual else x
        wide = summed.astype(np.float64)
        expected = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + EPSILON) * gain
        np.testing.assert_allclose(out, expected, rtol=tolerance(dtype), atol=1e-7)
        np.testing.assert_array_equal(skipped, summed if residual else before)

    kernel = _kernel(bool(residual), dtype, vector_width(dtype, columns))
    size = float(rows * columns) * x.itemsize
    return Case(
        launches=(Launch(kernel, (rows,), (block_threads,), (x, skipped, gain, np.float32(EPSILON), out)),),
        check=check,
        work={
            "bytes_read": (2 if residual else 1) * size,
            "bytes_written": (2 if residual else 1) * size,
            "flops": 4.0 * rows * columns,
        },
    )


KERNELS = {
    "rmsnorm": Kernel(
        name="rmsnorm",
        purpose="one block reduction between two passes over a row: barrier latency beside 16-byte streams",
        axes={
            "rows": (1, 16, 256, 2048),
            "columns": (75, 1024, 4096, 8192),
            "residual": (False, True),
            "dtype": ("float32", "float16"),
            "block_threads": (128, 256, 512, 1024),
        },
        default={"rows": 256, "columns": 4096, "residual": True, "dtype": "float16", "block_threads": 256},
        small={"rows": 4, "columns": 264, "residual": True, "dtype": "float16", "block_threads": 64},
        make=make,
    )
}
