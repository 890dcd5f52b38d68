"""Cross-entropy over a vocabulary with its gradient: one online pass for the loss, one for the gradient.

loss = log(sum(exp(x))) - x[label]; gradient = (softmax(x) - onehot(label)) / rows. A block a row; each thread
keeps a running maximum and the sum relative to it, so the logits are read twice and not three times.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, require_block, require_positive
from .precision import stored_type, tolerance
from .vector import load_vector, store_vector, vector_width
from .warp import WARP, block_max, block_sum

LOWEST = -1e30


@functools.cache
def _kernel(dtype: str, width: int):
    stored = stored_type(dtype)

    @cuda.jit
    def cross_entropy(logits, labels, losses, gradients):
        row = cuda.blockIdx.x
        rows, columns = logits.shape
        first, step = cuda.threadIdx.x * width, cuda.blockDim.x * width
        values = cuda.local.array(width, stored)
        highest = float32(LOWEST)
        total = float32(0)
        for column in range(first, columns, step):
            load_vector(values, 0, logits, row * columns + column, width)
            peak = highest
            for i in range(width):
                peak = max(peak, float32(values[i]))
            total *= math.exp(highest - peak)
            for i in range(width):
                total += math.exp(float32(values[i]) - peak)
            highest = peak
        peak = block_max(highest)
        total = block_sum(total * math.exp(highest - peak))
        label = labels[row]
        if cuda.threadIdx.x == 0:
            losses[row] = math.log(total) + peak - float32(logits[row, label])
        scale = float32(1) / (total * float32(rows))
        share = float32(1) / float32(rows)
        for column in range(first, columns, step):
            load_vector(values, 0, logits, row * columns + column, width)
            for i in range(width):
                gradient = math.exp(float32(values[i]) - peak) * scale
                if column + i == label:
                    gradient -= share
                values[i] = stored(gradient)
            store_vector(gradients, row * columns + column, values, 0, width)

    return cross_entropy


def make(*, rows: int, vocabulary: int, dtype: str, block_threads: int, seed: int = 0) -> Case:
    require_positive(rows=rows, vocabulary=vocabulary)
    require_block(block_threads, multiple=WARP)
    stored_type(dtype)
    rng = np.random.default_rng(seed)
    logits = (3 * rng.standard_normal((rows, vocabulary))).astype(dtype)
    labels = rng.integers(0, vocabulary, rows)
    losses = np.zeros(rows, np.float32)
    gradients = np.zeros_like(logits)

    def check() -> None:
        wide = logits.astype(np.float64)
        wide -= wide.max(axis=1, keepdims=True)
        sums = np.exp(wide).sum(axis=1, keepdims=True)
        chosen = np.arange(rows), labels
        np.testing.assert_allclose(losses, (np.log(sums)[:, 0] - wide[chosen]), rtol=1e-5, atol=1e-5)
        expected = np.exp(wide) / sums
        expected[chosen] -= 1
        # Halves below 2^-14 are denormal: their rounding error is absolute, at most 2^-25.
        smallest = 2.0**-25 if dtype == "float16" else 1e-7 / rows
        np.testing.assert_allclose(gradients, expected / rows, rtol=tolerance(dtype, 2e-5), atol=1.01 * smallest)

    kernel = _kernel(dtype, vector_width(dtype, vocabulary))
    return Case(
        launches=(Launch(kernel, (rows,), (block_threads,), (logits, labels, losses, gradients)),),
        check=check,
        work={
            "bytes_read": 2.0 * logits.nbytes,
            "bytes_written": float(logits.nbytes),
            "exponentials": 2.0 * logits.size,
        },
    )


KERNELS = {
    "cross_entropy": Kernel(
        name="cross_entropy",
        purpose="long rows read twice, an exponential a value, a dependent rescaling chain in each thread",
        axes={
            "rows": (1, 32, 256),
            "vocabulary": (75, 1000, 32_000, 50_257),
            "dtype": ("float32", "float16"),
            "block_threads": (128, 256, 512, 1024),
        },
        default={"rows": 128, "vocabulary": 32_000, "dtype": "float16", "block_threads": 512},
        small={"rows": 3, "vocabulary": 528, "dtype": "float16", "block_threads": 64},
        make=make,
    )
}
