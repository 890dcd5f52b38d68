"""Registers of wgmma that are touched too early: ptxas leaves no such code, so waits and fences are cut out of what it
has made."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import gpusim
from gpusim.emulator.prepare import prepare
from gpusim.frontend.registry import front_end_of
from gpusim.sanitizer.findings import Finding

SOURCE = r"""
#include <cstdint>
extern "C" __global__ void __launch_bounds__(128) work(float* out, unsigned n) {
  extern __shared__ __align__(1024) char s[]; unsigned start = (unsigned)__cvta_generic_to_shared(s);
  for (int i = threadIdx.x; i < 512; i += 128) ((float*)s)[i] = 0;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); __syncthreads();
  float d[4] = {1, 2, 3, 4}; uint64_t b = start >> 4 | 8ull << 16 | 8ull << 32; unsigned a = n * threadIdx.x;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, {%4,%4,%4,%4}, %5, 1, 1, 1, 0;"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a), "l"(b));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) :: "memory");
  d[1] += 1;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %4, 1, 1, 1, 0, 0;"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(b));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) :: "memory");
  for (int i = 0; i < 4; i++) out[4 * threadIdx.x + i] = d[i];
}
"""
READ, WRITTEN = "Accumulator of a wgmma read before its wait", "Register of a wgmma written before its wait"


@cache
def built() -> tuple[bytes, tuple]:
    """(the cubin, its instructions)."""
    kernel = gpusim.cuda_cpp(SOURCE, "work", ["-arch=sm_90a"])
    binary = front_end_of(kernel).compile(kernel, (), (9, 0))
    return binary.cubin, prepare(binary).instructions


def findings(cut: str = "", number: int = 0) -> list[Finding]:
    """What is found where instruction ``number`` among those that begin with ``cut`` does nothing."""
    cubin, instructions = built()
    if cut:
        chosen = [each for each in instructions if each.text.startswith(cut)][number]
        idle = next(each for each in instructions if each.text == "NOP")
        code = cubin.index(b"".join(each.word.to_bytes(16, "little") for each in instructions[:8]))
        place = code + chosen.address
        assert cubin[place : place + 16] == chosen.word.to_bytes(16, "little")
        cubin = cubin[:place] + idle.word.to_bytes(16, "little") + cubin[place + 16 :]
    args = np.zeros(512, np.float32), np.uint32(0)
    kernel = gpusim.cubin(cubin, "work")
    return gpusim.capture(kernel, 1, 128, args, gpu="h200", shared_bytes=2048, check=["async"]).findings


def test_nothing_is_found_in_what_the_compiler_makes() -> None:
    assert not findings()


@pytest.mark.parametrize(
    ("cut", "number", "what", "where", "other_where"),
    [
        ("WARPGROUP.DEPBAR", 0, READ, "FADD", "HGMMA"),
        ("WARPGROUP.DEPBAR", 1, READ, "STG", "HGMMA"),
        ("WARPGROUP.DEPBAR", 0, WRITTEN, "FADD", "HGMMA"),
        ("WARPGROUP.ARRIVE", 0, "Missing wgmma.fence", "HGMMA", ""),
        ("WARPGROUP.ARRIVE", 1, "Missing wgmma.fence", "HGMMA", "FADD"),
    ],
)
def test_a_wait_or_fence_that_is_cut_out_is_found(
    cut: str, number: int, what: str, where: str, other_where: str
) -> None:
    found = findings(cut, number)
    each = next((one for one in found if one.what == what and other_where in one.other_where), None)
    assert each is not None, [(one.what, one.where, one.other_where) for one in found]
    assert each.tool == "racecheck" and where in each.where and each.block == (0, 0, 0) and each.detail.startswith("R")
