"""Row sums of half-precision matrices by tensor cores, in a CUDA C++ device function linked into a Numba kernel.

Mental model: Numba has NVRTC compile the C++ text and links it. The function multiplies 16 rows of 16 numbers by ones
with two m16n8k8 products: a reduction across lanes that needs no tree of shuffles.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, uint32

from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive

ROW_NUMBERS = 16
_SOURCE = r"""
extern "C" __device__ int sums_of_16_rows(float *result, unsigned low0, unsigned high0, unsigned low1, unsigned high1)
{
    // Lane 4 g + t brings elements 2 t, 2 t + 1 (then those 8 further on) of rows g (low) and g + 8 (high):
    // PTX ISA, fragments of m16n8k8.
    const unsigned ones = 0x3C003C00u;
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(s0), "+f"(s1), "+f"(s2), "+f"(s3) : "r"(low0), "r"(high0), "r"(ones));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(s0), "+f"(s1), "+f"(s2), "+f"(s3) : "r"(low1), "r"(high1), "r"(ones));
    // Every column of the product is the sum of its row: lane i takes row i.
    const int lane = threadIdx.x & 31, owner = 4 * (lane & 7);
    const float upper = __shfl_sync(0xFFFFFFFFu, s0, owner), lower = __shfl_sync(0xFFFFFFFFu, s2, owner);
    *result = lane & 8 ? lower : upper;
    return 0;
}
"""

_sums_of_16_rows = cuda.declare_device(
    "sums_of_16_rows", float32(uint32, uint32, uint32, uint32), link=cuda.CUSource(_SOURCE)
)


@cuda.jit
def row_sums_linked(words, sums):
    """sums float32[rows] of words uint32[rows, 8], pairs of halves; a warp takes 16 rows, whole or not."""
    first = 16 * ((cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x) >> 5)
    lane = cuda.threadIdx.x & 31
    row, pair = first + (lane >> 2), lane & 3
    low0, low1, high0, high1 = uint32(0), uint32(0), uint32(0), uint32(0)
    if row < words.shape[0]:
        low0, low1 = words[row, pair], words[row, pair + 4]
    if row + 8 < words.shape[0]:
        high0, high1 = words[row + 8, pair], words[row + 8, pair + 4]
    total = _sums_of_16_rows(low0, high0, low1, high1)
    if lane < 16 and first + lane < words.shape[0]:
        sums[first + lane] = total


def make(*, rows: int, block_threads: int, seed: int = 0) -> Case:
    require_positive(rows=rows)
    require_block(block_threads, 32)
    numbers = np.random.default_rng(seed).random((rows, ROW_NUMBERS), np.float32).astype(np.float16)
    sums = np.zeros(rows, np.float32)

    def check() -> None:
        np.testing.assert_allclose(sums, numbers.astype(np.float64).sum(axis=1), rtol=1e-6)

    grid = (blocks_for(2 * rows, block_threads),)
    return Case(
        launches=(Launch(row_sums_linked, grid, (block_threads,), (numbers.view(np.uint32), sums)),),
        check=check,
        work={"flops": 1.0 * rows * ROW_NUMBERS, "bytes_read": 2.0 * rows * ROW_NUMBERS, "bytes_written": 4.0 * rows},
    )


KERNELS = {
    "row_sums_linked": Kernel(
        name="row_sums_linked",
        purpose="a CUDA C++ device function linked into a Numba kernel; reduction by tensor core",
        axes={"rows": (16, 1000, 65536), "block_threads": (32, 128, 256)},
        default={"rows": 65536, "block_threads": 128},
        small={"rows": 1000, "block_threads": 128},
        make=make,
    ),
}
