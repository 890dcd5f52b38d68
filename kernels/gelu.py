"""GELU over a flat array, exact by the error function or approximated by the hyperbolic tangent.

Formulas: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016: x P(X <= x) with X normal, and
x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_block, require_choice, require_positive
from .precision import stored_type, tolerance
from .vector import load_vector, store_vector, vector_width

HALF_ROOT = np.float32(math.sqrt(0.5))
TANH_SCALE = np.float32(math.sqrt(2 / math.pi))
CUBIC = np.float32(0.044715)


@cuda.jit(device=True)
def gelu_erf(x):
    return float32(0.5) * x * (float32(1) + math.erf(x * HALF_ROOT))


@cuda.jit(device=True)
def gelu_tanh(x):
    return float32(0.5) * x * (float32(1) + math.tanh(TANH_SCALE * (x + CUBIC * x * x * x)))


def _reference(x: np.ndarray, approximation: str) -> np.ndarray:
    if approximation == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + np.vectorize(math.erf)(x * math.sqrt(0.5)))


@functools.cache
def _kernel(approximation: str, dtype: str, width: int):
    activate = gelu_tanh if approximation == "tanh" else gelu_erf
    stored = stored_type(dtype)

    @cuda.jit
    def gelu(x, out):
        values = cuda.local.array(width, stored)
        for start in range(cuda.grid(1) * width, x.size, cuda.gridsize(1) * width):
            load_vector(values, 0, x, start, width)
            for i in range(width):
                values[i] = stored(activate(float32(values[i])))
            store_vector(out, start, values, 0, width)

    return gelu


def make(*, n: int, approximation: str, dtype: str, block_threads: int, blocks: int, seed: int = 0) -> Case:
    """``blocks`` limits the grid: the kernel strides over what is left."""
    require_positive(n=n, blocks=blocks)
    require_block(block_threads)
    require_choice("approximation", approximation, ("none", "tanh"))
    stored_type(dtype)
    x = (2 * np.random.default_rng(seed).standard_normal(n)).astype(dtype)
    out = np.zeros_like(x)

    def check() -> None:
        expected = _reference(x.astype(np.float64), approximation)
        # 1 + erf cancels far to the left, where the result itself is small: an absolute error there.
        np.testing.assert_allclose(out, expected, rtol=tolerance(dtype, 1e-5), atol=1e-6)

    width = vector_width(dtype, n)
    grid = (min(blocks, blocks_for(blocks_for(n, width), block_threads)),)
    return Case(
        launches=(Launch(_kernel(approximation, dtype, width), grid, (block_threads,), (x, out)),),
        check=check,
        work={
            "bytes_read": float(n * x.itemsize),
            "bytes_written": float(n * x.itemsize),
            "activations": float(n),
        },
    )


KERNELS = {
    "gelu": Kernel(
        name="gelu",
        purpose="polynomials, exponentials and selects a value: how much arithmetic hides under a stream",
        axes={
            "n": (1000, 2**16, 2**20, 2**24),
            "approximation": ("none", "tanh"),
            "dtype": ("float32", "float16"),
            "block_threads": (64, 128, 256, 512),
            "blocks": (132, 264, 1056, 2**20),
        },
        default={
            "n": 2**20,
            "approximation": "none",
            "dtype": "float32",
            "block_threads": 256,
            "blocks": 1056,
        },
        small={"n": 1000, "approximation": "none", "dtype": "float32", "block_threads": 64, "blocks": 3},
        make=make,
    )
}
