"""Bank and tag conflicts of L1: one block, all loads hit, the lanes' spread is the axis.

The access patterns of the published curve (RRZE-HPC/gpu-benches, gpu-l1-stride). ``stride``: thread
t reads around element ``t % 64 * width_or_stride``; ``block``: threads form a tile of ``width_or_stride``
columns and read around ``column + row * pitch``. Around: eight loads at the fixed offsets below,
multiplied in pairs and summed, ``iterations`` times.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from .case import Case, Kernel, Launch, require_block, require_positive

#: The pairs whose products a thread sums, as element offsets from its base.
PAIRS = ((0, 4), (8, 12), (20, 16), (24, 28))
LOADS_PER_ITERATION = 2 * len(PAIRS)
REACH = 1 + max(max(pair) for pair in PAIRS)


@cuda.jit
def sum_strided(values, sums, modulus, stride, pitch, step, iterations):
    """Thread t sums its pairs around ``t % modulus * stride + t // modulus * pitch``.

    ``step`` is zero and moves the base between iterations: only the host knows that the loads
    repeat, so none may be taken out of the loop.
    """
    t = cuda.threadIdx.x
    i = np.uint64(t % modulus * stride + t // modulus * pitch)
    advance = np.uint64(step)
    total = values.dtype.type(0)
    for _ in range(iterations):
        total += values[i] * values[i + np.uint64(4)]
        total += values[i + np.uint64(8)] * values[i + np.uint64(12)]
        total += values[i + np.uint64(20)] * values[i + np.uint64(16)]
        total += values[i + np.uint64(24)] * values[i + np.uint64(28)]
        i += advance
    sums[t] = total


def make(
    *,
    pattern: str,
    width_or_stride: int,
    pitch: int,
    dtype: str,
    block_threads: int,
    iterations: int,
    seed: int = 0,
) -> Case:
    """``pitch`` counts only for the ``block`` pattern (its elements from row to row)."""
    require_block(block_threads)
    require_positive(iterations=iterations)
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be float32 or float64, not {dtype!r}")
    if pattern == "stride":
        if width_or_stride < 0:
            raise ValueError(f"width_or_stride must not be negative for a stride: {width_or_stride}")
        modulus, stride, row_pitch = 64, width_or_stride, 0
    elif pattern == "block":
        require_positive(width_or_stride=width_or_stride, pitch=pitch)
        modulus, stride, row_pitch = width_or_stride, 1, pitch
    else:
        raise ValueError(f"pattern must be stride or block, not {pattern!r}")
    t = np.arange(block_threads)
    base = t % modulus * stride + t // modulus * row_pitch
    # Small whole numbers: sums are exact in either type for as long as they stay under 2**24.
    values = np.random.default_rng(seed).integers(0, 4, int(base.max()) + REACH).astype(dtype)
    sums = np.zeros(block_threads, dtype)

    def check() -> None:
        once = sum(values[base + a] * values[base + b] for a, b in PAIRS)
        np.testing.assert_allclose(sums, once.astype(np.float64) * iterations, rtol=1e-4)

    args = (values, sums, np.int32(modulus), np.int32(stride), np.int32(row_pitch), np.int32(0), iterations)
    loads = float(block_threads * LOADS_PER_ITERATION * iterations)
    warps = -(-block_threads // 32)
    return Case(
        launches=(Launch(sum_strided, (1,), (block_threads,), args),),
        check=check,
        work={
            "loads": loads,
            "warp_loads": float(warps * LOADS_PER_ITERATION * iterations),
            "bytes_read": loads * values.itemsize,
            "flops": loads,
        },
    )


KERNELS = {
    "l1_stride": Kernel(
        name="l1_stride",
        purpose="cycles an L1 load takes when its lanes spread over banks (data) and lines (tags)",
        axes={
            "pattern": ("stride", "block"),
            "width_or_stride": (0, 1, 2, 3, 4, 8, 16, 17, 32, 33, 64),
            "pitch": (4098,),
            "dtype": ("float32", "float64"),
            "block_threads": (1024,),
            "iterations": (16, 64, 256, 1024),
        },
        default={
            "pattern": "stride",
            "width_or_stride": 1,
            "pitch": 4098,
            "dtype": "float32",
            "block_threads": 1024,
            "iterations": 256,
        },
        small={
            "pattern": "block",
            "width_or_stride": 4,
            "pitch": 130,
            "dtype": "float64",
            "block_threads": 96,
            "iterations": 5,
        },
        make=make,
    )
}
