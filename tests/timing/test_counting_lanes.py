"""Does a shared-memory atomic that counts lanes take a pass a word, where others take a pass a lane?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.explore.trace_counts import count_trace
from gpusim.model import counters as count
from gpusim.trace.record import Trace
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


def run(path: Path, amount: str, step: int) -> Trace:
    path.write_text(SOURCE.replace("AMOUNT", amount))
    out = np.zeros(1024, np.uint32)
    args = (out, np.uint32(step), np.uint32(1))
    trace = gpusim.capture(CudaKernel(path, "count"), (1,), (1024,), args, gpu="a100_80gb")
    assert out.sum() == 64 * 1024
    return trace


def cycles(path: Path, amount: str, step: int) -> int:
    return gpusim.simulate(run(path, amount, step), gpu="a100_80gb").cycles


def test_lanes_of_a_word_are_counted_in_a_pass(tmp_path: Path) -> None:
    counted, apart = (cycles(tmp_path / "count.cu", "1", step) for step in (0, 1))
    added, in_one_bank = cycles(tmp_path / "add.cu", "each", 0), cycles(tmp_path / "count.cu", "1", 32)
    # 32 warps, 64 atomics each: a pass an atomic, or 32 of them where all lanes add to one word, or to words of one
    # bank.
    assert counted == pytest.approx(apart, rel=0.05)
    assert added > counted + 64 * 32 * 30 and in_one_bank > counted + 64 * 32 * 30


@pytest.mark.parametrize(("amount", "step", "passes"), [("1", 0, 1), ("1", 32, 32), ("each", 0, 32)])
def test_brute_force_counts_as_many_passes(tmp_path: Path, amount: str, step: int, passes: int) -> None:
    counted = count_trace(run(tmp_path / "count.cu", amount, step), 32)[count.SHARED_WAVEFRONTS]
    # And the stores and loads of a word a thread: 32 warps, one of each.
    assert counted[counted > 0].sum() == 32 * (64 * passes + 2)


ARRIVALS = """
__global__ void arrive(unsigned long long *out, int lanes)
{
    __shared__ unsigned long long bar;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1000000;" :: "r"(at));
    __syncthreads();
    if (threadIdx.x % 32 < lanes) {
        #pragma unroll
        for (int i = 0; i < 32; ++i) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at) : "memory");
    }
    __syncthreads();
    out[threadIdx.x] = bar;
}
"""


def test_lanes_that_arrive_at_an_mbarrier_share_a_pass(tmp_path: Path) -> None:
    path = tmp_path / "arrive.cu"
    path.write_text(ARRIVALS)

    def took(lanes: int) -> tuple[int, np.ndarray]:
        out = np.zeros(512, np.uint64)
        trace = gpusim.capture(CudaKernel(path, "arrive"), (1,), (512,), (out, np.int32(lanes)), gpu="h100")
        return gpusim.simulate(trace, gpu="h100").cycles, out

    (one, few), (all_of_them, many) = took(1), took(32)
    assert all_of_them < 1.5 * one  # a pass a lane would be ten times as long
    assert few[0] != many[0]  # sixteen warps, 32 arrivals of one lane or of each
