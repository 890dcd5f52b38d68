"""Warp groups that take turns by named barriers, as FlashAttention-3's do, and waits that name how long they last at
most."""

from __future__ import annotations

import numpy as np

import gpusim

SOURCE = r"""
__device__ void arrive(int barrier, int threads) { asm volatile("bar.arrive %0, %1;" :: "r"(barrier), "r"(threads) : "memory"); }
__device__ void sync(int barrier, int threads) { asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory"); }

// The first group opens its own turn: it arrives at its barrier, at which it then waits.
extern "C" __global__ void turns(int *out, int rounds)
{
    __shared__ int place;
    int group = threadIdx.x / WIDTH, groups = blockDim.x / WIDTH;
    if (threadIdx.x == 0) place = 0;
    __syncthreads();
    if (group == 0) arrive(1, 2 * WIDTH);
    for (int i = 0; i < rounds; i++) {
        sync(1 + group, 2 * WIDTH);
        if (threadIdx.x % WIDTH == 0) out[place++] = group;
        arrive(1 + (group + 1) % groups, 2 * WIDTH);
    }
    if (group == 0) sync(1, 2 * WIDTH);
}

extern "C" __global__ void wait(int *out, int *ready)
{
    __shared__ alignas(8) unsigned long long barrier;
    unsigned at = __cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at) : "memory");
    __syncthreads();
    if (threadIdx.x == 32) {
        int sum = 0;
        for (int i = 0; i < 200; i++) sum = sum * 3 + ready[sum & 1];
        out[1] = sum;
        asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at) : "memory");
    } else if (threadIdx.x < 32) {
        asm volatile("{ .reg .pred p;\nAGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], 0, 10000000;\n@!p bra AGAIN; }" :: "r"(at) : "memory");
        out[0] = out[1];
    }
}
"""


def test_a_warp_that_arrives_and_then_waits_has_come_twice() -> None:
    for width, groups in ((32, 2), (64, 3)):
        out = np.full(5 * groups, -1, np.int32)
        kernel = gpusim.cuda_cpp(SOURCE.replace("WIDTH", str(width)), "turns")
        trace = gpusim.capture(kernel, 1, width * groups, (out, 5), gpu="h200")
        assert out.tolist() == list(range(groups)) * 5
        assert gpusim.simulate(trace, gpu="h200").cycles < 20_000


def test_a_wait_that_may_last_ten_milliseconds_ends_when_the_phase_does() -> None:
    out, ready = np.zeros(2, np.int32), np.array([1, 2], np.int32)
    for gpu in ("h200", "b200", "rtx_5090"):
        kernel = gpusim.cuda_cpp(SOURCE.replace("WIDTH", "32"), "wait")
        trace = gpusim.capture(kernel, 1, 64, (out, ready), gpu=gpu)
        assert any("NANOSLEEP.SYNCS" in text for text in trace.program.texts)
        assert out[0] == out[1]
        assert gpusim.simulate(trace, gpu=gpu).cycles < 200_000  # with the sleep it were 17 million
