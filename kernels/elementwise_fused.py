"""The tail of a linear layer in one pass: add a bias a column, apply an activation, add a residual."""

from __future__ import annotations

import functools
import math

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_block, require_choice, require_positive
from .precision import stored_type, tolerance
from .vector import load_vector, store_vector, vector_width

MAX_GRID_ROWS = 65_535  # the grid's y extent (CUDA programming guide, technical specifications)


@cuda.jit(device=True)
def relu(x):
    return max(x, float32(0))


@cuda.jit(device=True)
def sigmoid(x):
    return float32(1) / (float32(1) + math.exp(-x))


@cuda.jit(device=True)
def tanh(x):
    return math.tanh(x)


ACTIVATIONS = {
    "relu": (relu, lambda x: np.maximum(x, 0)),
    "sigmoid": (sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "tanh": (tanh, np.tanh),
}


@functools.cache
def _kernel(activation: str, dtype: str, width: int):
    activate = ACTIVATIONS[activation][0]
    stored = stored_type(dtype)

    @cuda.jit
    def elementwise_fused(x, bias, residual, out):
        rows, columns = x.shape
        column = cuda.grid(1) * width
        if column >= columns:
            return
        values = cuda.local.array(width, stored)
        offsets = cuda.local.array(width, stored)
        skipped = cuda.local.array(width, stored)
        load_vector(offsets, 0, bias, column, width)
        for row in range(cuda.blockIdx.y, rows, cuda.gridDim.y):
            start = row * columns + column
            load_vector(values, 0, x, start, width)
            load_vector(skipped, 0, residual, start, width)
            for i in range(width):
                fused = activate(float32(values[i]) + float32(offsets[i])) + float32(skipped[i])
                values[i] = stored(fused)
            store_vector(out, start, values, 0, width)

    return elementwise_fused


def make(*, rows: int, columns: int, activation: str, dtype: str, block_threads: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns)
    require_block(block_threads)
    require_choice("activation", activation, ACTIVATIONS)
    stored_type(dtype)
    rng = np.random.default_rng(seed)
    x, residual = (rng.standard_normal((rows, columns)).astype(dtype) for _ in range(2))
    bias = rng.standard_normal(columns).astype(dtype)
    out = np.zeros_like(x)

    def check() -> None:
        expected = ACTIVATIONS[activation][1](x.astype(np.float64) + bias) + residual
        np.testing.assert_allclose(out, expected, rtol=tolerance(dtype), atol=1e-6)

    width = vector_width(dtype, columns)
    grid = (blocks_for(blocks_for(columns, width), block_threads), min(rows, MAX_GRID_ROWS))
    kernel = _kernel(activation, dtype, width)
    size = float(rows * columns)
    return Case(
        launches=(Launch(kernel, grid, (block_threads,), (x, bias, residual, out)),),
        check=check,
        work={
            "bytes_read": 2 * size * x.itemsize,
            "bytes_written": size * x.itemsize,
            "flops": 3 * size,
        },
    )


KERNELS = {
    "elementwise_fused": Kernel(
        name="elementwise_fused",
        purpose="two streams in and one out by 16-byte accesses, a little arithmetic between: DRAM-bound",
        axes={
            "rows": (16, 256, 1024, 4096),
            "columns": (77, 768, 1024, 4096),
            "activation": tuple(ACTIVATIONS),
            "dtype": ("float32", "float16"),
            "block_threads": (64, 128, 256),
        },
        default={
            "rows": 512,
            "columns": 1024,
            "activation": "relu",
            "dtype": "float16",
            "block_threads": 128,
        },
        small={"rows": 5, "columns": 264, "activation": "relu", "dtype": "float16", "block_threads": 32},
        make=make,
    )
}
