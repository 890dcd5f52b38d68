"""Neighbour reuse in L1: one-dimensional stencils over doubles, one element a thread.

The stencils of the published stream curves: DRAM sees two streams, L1 sees four or six.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from .case import Case, Kernel, require_block, require_positive
from .stream import AXES, DEFAULT, SMALL, padded_launch


@cuda.jit
def stencil3(a, b):
    i = cuda.grid(1)
    if i >= 1 and i < a.size - 1:
        a[i] = 0.5 * b[i - 1] - b[i] + 0.5 * b[i + 1]


@cuda.jit
def stencil5(a, b):
    i = cuda.grid(1)
    if i >= 2 and i < a.size - 2:
        a[i] = 0.25 * b[i - 2] + 0.25 * b[i - 1] - b[i] + 0.5 * b[i + 1] + 0.5 * b[i + 2]


def _expected3(b: np.ndarray) -> np.ndarray:
    out = np.zeros_like(b)
    out[1:-1] = 0.5 * b[:-2] - b[1:-1] + 0.5 * b[2:]
    return out


def _expected5(b: np.ndarray) -> np.ndarray:
    out = np.zeros_like(b)
    out[2:-2] = 0.25 * b[:-4] + 0.25 * b[1:-3] - b[2:-2] + 0.5 * b[3:-1] + 0.5 * b[4:]
    return out


def _maker(kernel, points: int, expected):
    def make(*, n: int, block_threads: int, blocks_per_sm: int, shared_bytes_per_sm: int, seed: int = 0) -> Case:
        require_positive(n=n)
        require_block(block_threads)
        if n < points:
            raise ValueError(f"n must be at least the stencil's {points} points, not {n}")
        a, b = np.zeros(n), np.random.default_rng(seed).random(n)
        return Case(
            launches=(padded_launch(kernel, (a, b), n, block_threads, blocks_per_sm, shared_bytes_per_sm),),
            # The sum cancels: absolute error in units of the largest term (1.0).
            check=lambda: np.testing.assert_allclose(a, expected(b), rtol=0, atol=1e-15),
            work={"bytes_read": 8.0 * n, "bytes_written": 8.0 * n, "flops": (2.0 * points - 2) * n},
        )

    return make


KERNELS = {
    "stencil3": Kernel(
        "stencil3",
        "neighbour reuse in L1, three loads a store: A[i] = B[i-1]/2 - B[i] + B[i+1]/2",
        AXES,
        DEFAULT,
        SMALL,
        _maker(stencil3, 3, _expected3),
    ),
    "stencil5": Kernel(
        "stencil5",
        "neighbour reuse in L1, five loads a store",
        AXES,
        DEFAULT,
        SMALL,
        _maker(stencil5, 5, _expected5),
    ),
}
