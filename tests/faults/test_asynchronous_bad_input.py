"""What a GPU would refuse, trap on or wait for in vain in clusters, mbarriers, wgmma and tensor memory: the error names
who, what and where."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from driver_api import Api, parameters

import gpusim
from gpusim.errors import AddressError, DeadlockError, ExecutionError, UnsupportedOpcodeError

HOPPER = r"""
#include <cstdint>
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void waits(int* out, int parity) {
  __shared__ unsigned long long b; unsigned done;
  if (threadIdx.x == 0)
    do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                    : "=r"(done) : "r"(at(&b)), "r"(parity) : "memory"); while (!done);
}
extern "C" __global__ void multicast(const char* in, int mask) {
  extern __shared__ __align__(128) char s[]; __shared__ unsigned long long b;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&b)) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 64, [%2], %3;"
      :: "r"(at(s)), "l"(in), "r"(at(&b)), "h"((short)mask) : "memory");
  }
}
struct alignas(64) Map { char bytes[128]; };
extern "C" __global__ void swizzled(const __grid_constant__ Map m, int shift) {
  extern __shared__ __align__(1024) char s[]; __shared__ unsigned long long b;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&b)) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {0, 0}], [%2];"
      :: "r"(at(s) + shift), "l"(&m), "r"(at(&b)) : "memory");
  }
}
extern "C" __global__ void product(float* out) {
  extern __shared__ __align__(1024) char s[]; float d[4] = {0, 0, 0, 0}; uint64_t a = at(s) >> 4;
  asm volatile("wgmma.fence.sync.aligned;");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(a));
  asm volatile("wgmma.commit_group.sync.aligned;"); asm volatile("wgmma.wait_group.sync.aligned 0;");
  out[threadIdx.x] = d[0];
}
"""
BLACKWELL = r"""
#include <cstdint>
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void allocates(uint32_t* out, uint32_t columns, uint32_t more, uint32_t freed, uint32_t shift) {
  __shared__ uint32_t memory, further;
  if (threadIdx.x < 32) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" :: "r"(at(&memory)), "r"(columns));
    if (more) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" :: "r"(at(&further)), "r"(more));
  }
  __syncthreads();
  if (threadIdx.x < 32)
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(memory + shift), "r"(freed));
}
"""


def said(error: type, source: str, name: str, args: tuple, block: int, gpu: str, **options: object) -> str:
    kernel = gpusim.cuda_cpp(source, name, ["-arch=sm_90a" if gpu == "h200" else "-arch=sm_100a"])
    with pytest.raises(error) as caught:
        gpusim.capture(kernel, options.pop("grid", 1), block, args, gpu=gpu, shared_bytes=4096, **options)
    text = str(caught.value)
    assert name in text and "source.cu:" in text and "\n" not in text
    return text


def test_a_wait_for_an_mbarrier_that_is_not_initialised_is_a_deadlock_that_says_so() -> None:
    text = said(DeadlockError, HOPPER, "waits", (np.zeros(1, np.int32), np.int32(0)), 32, "h200")
    assert "at byte 0x0 there is no mbarrier that is initialised (its word is 0x0)" in text


@pytest.mark.parametrize(("mask", "cluster", "rank"), [(2, 1, 1), (9, 2, 3)])
def test_a_multicast_to_a_block_that_is_not_there_names_it(mask: int, cluster: int, rank: int) -> None:
    args = np.zeros(64, np.uint8), np.int32(mask)
    text = said(AddressError, HOPPER, "multicast", args, 32, "h200", grid=2, cluster=cluster)
    assert (
        f"the mask of the multicast names block {rank}, which the cluster, of {cluster} blocks, does not have" in text
    )
    assert "warp 0" in text and "UBLKCP.S.G.MULTICAST" in text


@pytest.mark.parametrize("shift", [16, 64, 192])
def test_a_swizzled_box_at_an_address_that_breaks_the_swizzle_is_named(shift: int) -> None:
    tensor = gpusim.TensorMap(np.zeros((16, 64), np.float16), (8, 64), swizzle="128B")
    text = said(AddressError, HOPPER, "swizzled", (tensor, np.int32(shift)), 32, "h200")
    assert "is not a multiple of 128, as a bulk copy needs" in text and "UTMALDG.2D" in text


@pytest.mark.parametrize("warps", [2, 7])
def test_a_product_of_a_warp_group_without_four_warps_is_refused(warps: int) -> None:
    text = said(ExecutionError, HOPPER, "product", (np.zeros(256, np.float32),), 32 * warps, "h200")
    assert (
        f"needs the four warps of a warp group, whose first is warp {warps // 4 * 4}, and the block has {warps}" in text
    )


@pytest.mark.parametrize(
    ("columns", "more", "freed", "shift", "message"),
    [
        (16, 0, 16, 0, "0 units of 32 columns of tensor memory are asked for: only 1, 2, 4, 8 or 16"),
        (96, 0, 96, 0, "3 units of 32 columns"),
        (1024, 0, 1024, 0, "32 units of 32 columns"),
        (256, 512, 256, 0, "an SM has 512; warp 0 holds 256 columns from column 0 on); on a GPU the kernel hangs"),
        (
            32,
            0,
            64,
            0,
            "tcgen05.dealloc of columns of tensor memory that are not allocated, or have been freed already: the kernel trapped",
        ),
        (64, 0, 32, 32, "begins at no column that tcgen05.alloc has returned, or has been freed already: the kernel"),
    ],
)
def test_wrong_uses_of_tensor_memory_are_named(columns, more, freed, shift, message) -> None:
    args = (np.zeros(1, np.uint32), *map(np.uint32, (columns, more, freed, shift)))
    text = said(ExecutionError, BLACKWELL, "allocates", args, 64, "b200")
    assert message in text and "block (0, 0, 0), thread (0, 0, 0)" in text


IDLE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry idle() { ret; }
"""


def launch(api: Api, kernel: int, grid: int, cluster: int) -> str:
    attributes = (ctypes.c_uint64 * 9)(4, cluster | 1 << 32, 1)
    raw = (ctypes.c_uint64 * 7)(grid | 1 << 32, 1 | 32 << 32, 1 | 1 << 32, 0, 0, ctypes.addressof(attributes), 1)
    return api.code("cuLaunchKernelEx", ctypes.addressof(raw), kernel, parameters(), 0)


def test_the_driver_answers_for_clusters_that_cannot_be() -> None:
    api = Api("h200")
    kernel = api.kernel(IDLE, "idle")
    assert launch(api, kernel, 32, 8) == "SUCCESS"
    assert launch(api, kernel, 32, 16) == "INVALID_CLUSTER_SIZE"  # beyond what is portable
    api.cuFuncSetAttribute(kernel, 14, 1)  # non-portable sizes are allowed
    assert launch(api, kernel, 32, 16) == "SUCCESS"
    assert launch(api, kernel, 32, 32) == "INVALID_CLUSTER_SIZE"
    assert launch(api, kernel, 30, 4) == "INVALID_VALUE"
    assert launch(api, kernel, 32, 0) == "INVALID_VALUE"
    api.cuFuncSetAttribute(kernel, 11, 2)
    api.cuFuncSetAttribute(kernel, 12, 1)
    api.cuFuncSetAttribute(kernel, 13, 1)
    assert launch(api, kernel, 32, 4) == "INVALID_CLUSTER_SIZE"  # not what the kernel requires
    old = Api("a100_80gb")
    assert launch(old, old.kernel(IDLE.replace("sm_90", "sm_80"), "idle"), 32, 2) == "INVALID_VALUE"


BARRIERS = r"""
extern "C" __global__ void begins(int* out) {
  __shared__ unsigned long long b; unsigned at = (unsigned)__cvta_generic_to_shared(&b);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at) : "memory");
  __syncthreads();
  if (threadIdx.x == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at) : "memory");
}
extern "C" __global__ void stuck(int* out) {
  if (threadIdx.x < 32) { asm volatile("bar.arrive 1, 96;" ::: "memory"); asm volatile("bar.sync 1, 96;" ::: "memory"); }
}
"""


def test_checks_know_an_initialisation_from_a_read_and_count_each_arrival() -> None:
    begins, stuck = (gpusim.cuda_cpp(BARRIERS, name, ["-arch=sm_90a"]) for name in ("begins", "stuck"))
    out = np.zeros(1, np.int32)
    assert not gpusim.capture(begins, 1, 64, (out,), gpu="h200", check=["memory"]).findings
    found = gpusim.capture(stuck, 1, 128, (out,), gpu="h200", check=["sync"]).findings
    assert [each.detail for each in found] == ["64 of the 96 threads come that barrier 1 waits for"]


FAR = r"""
struct alignas(64) Map { char bytes[128]; };
extern "C" __global__ void far(const __grid_constant__ Map m, float* out, int rank) {
  extern __shared__ __align__(1024) char s[]; __shared__ unsigned long long b;
  unsigned to = (unsigned)__cvta_generic_to_shared(s), bar = (unsigned)__cvta_generic_to_shared(&b), done;
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar) : "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 64;" :: "r"(bar) : "memory");
  if (rank) asm volatile("mapa.shared::cluster.u32 %0, %0, 1;" : "+r"(to));
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {0, 2}], [%2];"
    :: "r"(to), "l"(&m), "r"(bar) : "memory");
  do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                  : "=r"(done) : "r"(bar) : "memory"); while (!done);
  for (int i = 0; i < 16; i++) out[i] = ((float*)s)[i];
}
"""


def test_copies_that_sm_120_leaves_to_the_driver_are_refused_where_one_is_made() -> None:
    """Of each copy to .shared::cluster ptxas makes two there: the instruction for the own block, and a call for
    others."""
    kernel = gpusim.cuda_cpp(FAR, "far", ["-arch=sm_120a"])
    x, out = np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros(16, np.float32)
    tensor = gpusim.TensorMap(x, (4, 4), swizzle="none")
    gpusim.capture(kernel, 1, 1, (tensor, out, np.int32(0)), gpu="rtx_5090", shared_bytes=4096)
    np.testing.assert_array_equal(out.reshape(4, 4), x[2:6, :4])
    with pytest.raises(
        UnsupportedOpcodeError, match=r"far: block \(0, 0, 0\), thread .* another block's shared memory"
    ):
        gpusim.capture(kernel, 2, 1, (tensor, out, np.int32(1)), gpu="rtx_5090", shared_bytes=4096, cluster=2)
