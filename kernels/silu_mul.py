"""The gate of a SwiGLU feed-forward layer: out = silu(gate) x up, with gate and up side by side.

Each row of the input is the output of one fused projection: first the gate's ``columns``, then the up
projection's. Formula: Shazeer, "GLU Variants Improve Transformer", 2020; silu(x) = x / (1 + exp(-x)).
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, require_block, require_positive
from .precision import stored_type, tolerance
from .vector import load_vector, store_vector, vector_width


@functools.cache
def _kernel(dtype: str, width: int):
    stored = stored_type(dtype)

    @cuda.jit
    def silu_mul(gate_up, out):
        row = cuda.blockIdx.x
        columns = out.shape[1]
        gates = cuda.local.array(width, stored)
        ups = cuda.local.array(width, stored)
        for column in range(cuda.threadIdx.x * width, columns, cuda.blockDim.x * width):
            start = row * 2 * columns + column
            load_vector(gates, 0, gate_up, start, width)
            load_vector(ups, 0, gate_up, start + columns, width)
            for i in range(width):
                gate = float32(gates[i])
                gates[i] = stored(gate / (float32(1) + math.exp(-gate)) * float32(ups[i]))
            store_vector(out, row * columns + column, gates, 0, width)

    return silu_mul


def make(*, rows: int, columns: int, dtype: str, block_threads: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns)
    require_block(block_threads)
    stored_type(dtype)
    gate_up = np.random.default_rng(seed).standard_normal((rows, 2 * columns)).astype(dtype)
    out = np.zeros((rows, columns), dtype)

    def check() -> None:
        gate, up = np.split(gate_up.astype(np.float64), 2, axis=1)
        expected = gate / (1 + np.exp(-gate)) * up
        np.testing.assert_allclose(out, expected, rtol=tolerance(dtype), atol=1e-7)

    kernel = _kernel(dtype, vector_width(dtype, columns))
    size = float(rows * columns)
    return Case(
        launches=(Launch(kernel, (rows,), (block_threads,), (gate_up, out)),),
        check=check,
        work={
            "bytes_read": 2 * size * out.itemsize,
            "bytes_written": size * out.itemsize,
            "activations": size,
        },
    )


KERNELS = {
    "silu_mul": Kernel(
        name="silu_mul",
        purpose="a gated activation: exponential and division a value, a block a row, half precision",
        axes={
            "rows": (1, 16, 256, 1024),
            "columns": (333, 2048, 8192, 14_336),
            "dtype": ("float32", "float16"),
            "block_threads": (128, 256, 512, 1024),
        },
        default={"rows": 128, "columns": 8192, "dtype": "float16", "block_threads": 256},
        small={"rows": 3, "columns": 328, "dtype": "float16", "block_threads": 32},
        make=make,
    )
}
