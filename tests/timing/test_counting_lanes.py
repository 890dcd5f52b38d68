"""Does a shared-memory atomic that counts lanes take a pass a word, where others take a pass a lane?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpusim
from workloads.external.launches import CudaKernel

pytestmark = pytest.mark.usefixtures("without_source_lines")

SOURCE = """
__global__ void count(unsigned *out, unsigned step, unsigned each)
{
    __shared__ unsigned bins[1024];
    bins[threadIdx.x] = 0;
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 64; ++i) atomicAdd(&bins[threadIdx.x % 32 * step], AMOUNT);
    __syncthreads();
    out[threadIdx.x] = bins[threadIdx.x];
}
"""


def cycles(path: Path, amount: str, step: int) -> int:
    path.write_text(SOURCE.replace("AMOUNT", amount))
    out = np.zeros(1024, np.uint32)
    args = (out, np.uint32(step), np.uint32(1))
    trace = gpusim.capture(CudaKernel(path, "count"), (1,), (1024,), args, gpu="a100_80gb")
    assert out.sum() == 64 * 1024
    return gpusim.simulate(trace, gpu="a100_80gb").cycles


def test_lanes_of_a_word_are_counted_in_a_pass(tmp_path: Path) -> None:
    counted, apart = (cycles(tmp_path / "count.cu", "1", step) for step in (0, 1))
    added, in_one_bank = cycles(tmp_path / "add.cu", "each", 0), cycles(tmp_path / "count.cu", "1", 32)
    # 32 warps, 64 atomics each: a pass an atomic, or 32 of them where all lanes add to one word, or to words of one bank.
    assert counted == pytest.approx(apart, rel=0.05)
    assert added > counted + 64 * 32 * 30 and in_one_bank > counted + 64 * 32 * 30
