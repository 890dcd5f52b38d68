"""``--check race`` in kernels whose warps wait for each other by named barriers or mbarriers: silent where these order
accesses, and not where they do not."""

from __future__ import annotations

import numpy as np
import pytest

import gpusim
from gpusim.sanitizer.findings import Finding

#: Two groups of two warps that hand a tile to and fro (bar.sync and bar.arrive), once by mbarriers, once by cp.async;
#: the tests take parts of it away.
SOURCE = r"""
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void sync(int number) { asm volatile("bar.sync %0, 128;" :: "r"(number) : "memory"); }
__device__ void arrive(int number) { asm volatile("bar.arrive %0, 128;" :: "r"(number) : "memory"); }
extern "C" __global__ void turns(float* out) {
  __shared__ float s[64];
  int t = threadIdx.x % 64; float sum = 0;
  for (int i = 0; i < 3; i++) {
    if (threadIdx.x < 64) { if (i) sync(1); s[t] = i + t; arrive(2); }
    else { sync(2); sum += s[63 - t]; if (i < 2) arrive(1); }
  }
  if (threadIdx.x >= 64) out[t] = sum;
}
extern "C" __global__ void everywhere(float* out) {  // one barrier of all threads that is not __syncthreads', at two instructions
  __shared__ float s[128]; int t = threadIdx.x;
  s[t] = t;
  if (t < 64) { asm volatile("barrier.sync 1;" ::: "memory"); out[t] = s[127 - t]; }
  else { asm volatile("barrier.sync 1;" ::: "memory"); out[t] = 2 * s[127 - t]; }
}
extern "C" __global__ void objects(float* out) {
  __shared__ float s[64]; __shared__ unsigned long long b;
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" :: "r"(at(&b)));
  __syncthreads();
  int t = threadIdx.x % 64;
  if (threadIdx.x < 64) { s[t] = t; asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(&b)) : "memory"); }
  else {
    unsigned done;
    do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                    : "=r"(done) : "r"(at(&b)) : "memory"); while (!done);
    out[t] = s[63 - t];
  }
}
extern "C" __global__ void copies(const float* in, float* out) {
  __shared__ float s[128]; int t = threadIdx.x;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at(s + t)), "l"(in + t) : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  sync(1);
  out[t] = s[127 - t];
}
extern "C" __global__ void alike(float* out) {  // all threads of two warps store the same word, once at two instructions
  __shared__ float s[128]; int t = threadIdx.x;
  if (t < 64) s[5] = out[3];
  sync(1);
  if (t < 64) s[9] = 1; else s[9] = 1;
  if (t < 64) asm volatile("barrier.sync 0;" ::: "memory"); else asm volatile("barrier.sync 0;" ::: "memory");
  out[t] = s[5] + s[9];
}
extern "C" __global__ void plain(float* out) {  // with no barrier but the block's: each warp stores the same four words
  __shared__ float4 s[8]; int t = threadIdx.x;
  s[t % 8] = make_float4(t % 8, 1, 2, 3);
  __syncthreads();
  out[t] = s[t % 8].x + s[7 - t % 8].w;
}
extern "C" __global__ void part(float* out) {
  __shared__ float s[128]; int t = threadIdx.x;
  if (t < 64) s[t] = t;
  sync(1);
  if (t < 32) out[t] = s[t + 64 * (t == 31)];
}
"""


#: Of the wait in `objects`, from its first word to its last.
WAIT = SOURCE[SOURCE.index("do asm") : SOURCE.index("while (!done);") + len("while (!done);")]


def findings(kernel: str, change: tuple[str, str] = ("", "")) -> list[Finding]:
    x, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    built = gpusim.cuda_cpp(SOURCE.replace(*change), kernel, ["-arch=sm_90"])
    args = (x, out) if kernel == "copies" else (out,)
    return list(gpusim.capture(built, 1, 128, args, gpu="h200", check=["memory", "race", "sync"]).findings)


@pytest.mark.parametrize("kernel", ["turns", "everywhere", "objects", "copies"])
def test_what_named_barriers_and_mbarriers_order_is_no_hazard(kernel: str) -> None:
    assert findings(kernel) == []


@pytest.mark.parametrize(
    ("kernel", "change"),
    [
        ("turns", ("s[t] = i + t; arrive(2);", "arrive(2); s[t] = i + t;")),
        ("turns", ("sum += s[63 - t]; if (i < 2) arrive(1);", "if (i < 2) arrive(1); sum += s[63 - t];")),
        ("objects", (WAIT, "done = 1;")),
        ("copies", ("sync(1);", "__syncwarp();")),
    ],
)
def test_what_they_do_not_order_is_one(kernel: str, change: tuple[str, str]) -> None:
    found = [each for each in findings(kernel, change) if each.tool == "racecheck"]
    assert {each.what for each in found} == {"Read-write hazard on __shared__ memory"}
    assert all(each.other_where for each in found)


def test_a_read_of_what_nobody_has_written_is_told_behind_a_named_barrier() -> None:
    (found,) = findings("part")
    assert (found.tool, found.what) == ("initcheck", "Uninitialized __shared__ memory read of size 4 bytes")
    assert found.detail == "byte 380 was never written"


def test_writes_of_the_same_value_are_no_hazard_and_of_another_one_are() -> None:
    assert not findings("alike")
    (found,) = findings("alike", ("else s[9] = 1;", "else s[9] = 2;"))
    assert found.what == "Write-write hazard on __shared__ memory"
    (found,) = findings("alike", ("s[5] = out[3];", "s[5] = t / 32;"))
    assert found.what == "Write-write hazard on __shared__ memory"


def test_writes_of_the_same_values_are_no_hazard_in_kernels_of_one_barrier_either() -> None:
    assert not findings("plain")
    (found,) = findings("plain", ("1, 2, 3);", "1, 2, t / 96);"))
    assert found.what == "Write-write hazard on __shared__ memory" and "STS.128" in found.where


def test_warps_may_meet_at_barrier_sync_from_where_they_are_and_not_at_bar_sync() -> None:
    aligned = findings(
        "alike",
        (
            'barrier.sync 0;" ::: "memory"); else asm volatile("barrier.sync 0;',
            'bar.sync 0;" ::: "memory"); else asm volatile("bar.sync 0;',
        ),
    )
    assert [found.what for found in aligned] == ["Divergent thread(s) in block"]
