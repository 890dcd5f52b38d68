"""Whole matrix products by tcgen05 in CUDA C++: plain stores into swizzled shared memory, products, the epilogue from
tensor memory."""

import ml_dtypes
import numpy as np
import pytest
from oracles_tcgen05 import multiply, multiply_groups, numbers

import gpusim
from gpusim.trace.record import MemoryKind

SOURCE = """
#include <cstdint>
#include <cuda_fp16.h>
typedef unsigned long long u64;
__device__ uint32_t shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ uint32_t swizzled(uint32_t byte) { return byte ^ ((byte >> 7 & 7) << 4); }
__device__ u64 describe(uint32_t address, uint32_t stride, u64 layout) {
  return address >> 4 | (u64)1 << 16 | (u64)(stride >> 4) << 32 | (u64)1 << 46 | layout << 61;
}
__device__ void allocate(uint32_t* where, uint32_t columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" :: "r"(shared_address(where)), "r"(columns));
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
}
__device__ void release(uint32_t memory, uint32_t columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(memory), "r"(columns));
}
__device__ void start(u64* bar) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared_address(bar)));
  asm volatile("fence.mbarrier_init.release.cluster;");
}
__device__ void commit(u64* bar) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(shared_address(bar)) : "memory");
}
__device__ void wait(u64* bar, int parity) {
  asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra AGAIN; }"
               :: "r"(shared_address(bar)), "r"(parity) : "memory");
}
// rows x 128 bytes from global memory, `pitch` bytes a row, into the 128-byte swizzle
__device__ void bring(unsigned char* to, const unsigned char* from, int rows, int pitch) {
  for (int i = threadIdx.x; i < rows * 8; i += blockDim.x)
    *(uint4*)(to + swizzled(i * 16)) = *(const uint4*)(from + i / 8 * pitch + i % 8 * 16);
}
__device__ void store_lane(float* out, uint32_t memory, int columns) {
  uint32_t at = memory + (threadIdx.x / 32 << 21);
  for (int n = 0; n < columns; n += 16) {
    uint32_t r[16];
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, [%16];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]), "=r"(r[8]), "=r"(r[9]),
        "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]), "=r"(r[14]), "=r"(r[15]) : "r"(at + n));
    asm volatile("tcgen05.wait::ld.sync.aligned;");
    for (int i = 0; i < 16; i++) out[threadIdx.x * columns + n + i] = __uint_as_float(r[i]);
  }
}

extern "C" __global__ void __launch_bounds__(128) gemm(float* c, const half* a, const half* b, int n, int k) {
  extern __shared__ __align__(1024) unsigned char room[];
  __shared__ uint32_t memory; __shared__ u64 bar;
  unsigned char *tile_a = room, *tile_b = room + 128 * 128;
  if (threadIdx.x < 32) allocate(&memory, 64);
  if (threadIdx.x == 0) start(&bar);
  asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads(); asm volatile("tcgen05.fence::after_thread_sync;");
  uint32_t d = memory, idesc = 1 << 4 | n >> 3 << 17 | 8 << 24;
  for (int step = 0; step < k / 64; step++) {
    if (step) wait(&bar, step - 1 & 1);
    bring(tile_a, (const unsigned char*)(a + 64 * step), 128, 2 * k);
    bring(tile_b, (const unsigned char*)(b + 64 * step), n, 2 * k);
    asm volatile("fence.proxy.async.shared::cta;"); __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("tcgen05.fence::after_thread_sync;");
      for (int i = 0; i < 4; i++) {
        u64 da = describe(shared_address(tile_a) + 32 * i, 1024, 2), db = describe(shared_address(tile_b) + 32 * i, 1024, 2);
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }"
                     :: "r"(d), "l"(da), "l"(db), "r"(idesc), "r"(step + i));
      }
      commit(&bar);
    }
  }
  wait(&bar, k / 64 - 1 & 1);
  asm volatile("tcgen05.fence::after_thread_sync;");
  store_lane(c, d, n);
  asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads();
  if (threadIdx.x < 32) release(d, 64);
}

// 128 x n with k bytes a row and step; scales as cp.32x128b wants them: 16 bytes a row and lane, byte i of word j of row 32 j + lane
template <bool nibbles> __device__ void scaled(float* c, const unsigned char* a, const unsigned char* b, const unsigned char* sa,
                                               const unsigned char* sb, int n, int pitch, uint32_t idesc) {
  extern __shared__ __align__(1024) unsigned char room[];
  __shared__ uint32_t memory; __shared__ u64 bar; __shared__ __align__(16) unsigned char scales[2048];
  unsigned char *tile_a = room, *tile_b = room + 128 * 128;
  if (threadIdx.x < 32) allocate(&memory, 128);
  if (threadIdx.x == 0) start(&bar);
  __syncthreads();
  uint32_t d = memory, steps = pitch / 128, parts = nibbles ? 4 : 1;
  for (uint32_t step = 0; step < steps; step++) {
    if (step) wait(&bar, step - 1 & 1);
    bring(tile_a, a + 128 * step, 128, pitch);
    bring(tile_b, b + 128 * step, n, pitch);
    for (uint32_t part = 0; part < parts; part++) {
      __syncthreads();
      if (part) wait(&bar, step * parts + part - 1 & 1);
      for (int i = threadIdx.x; i < 64; i += 128) {
        ((uint4*)scales)[i] = i < 32 ? ((const uint4*)sa)[(step * parts + part) * 32 + i] : ((const uint4*)sb)[(step * parts + part) * 32 + i - 32];
      }
      asm volatile("fence.proxy.async.shared::cta;"); __syncthreads();
      if (threadIdx.x == 0) {
        u64 of_a = describe(shared_address(scales), 128, 0), of_b = describe(shared_address(scales) + 512, 128, 0);
        asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" :: "r"(d + 64), "l"(of_a));
        asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" :: "r"(d + 68), "l"(of_b));
        for (uint32_t i = nibbles ? part : 0; i < (nibbles ? part + 1 : 4); i++) {
          u64 da = describe(shared_address(tile_a) + 32 * i, 1024, 2), db = describe(shared_address(tile_b) + 32 * i, 1024, 2);
          uint32_t id = idesc | (nibbles ? 0 : i << 29 | i << 4);
          if (nibbles)
            asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [%0], %1, %2, %3, [%5], [%6], p; }"
                         :: "r"(d), "l"(da), "l"(db), "r"(id), "r"(step + i), "r"(d + 64), "r"(d + 68));
          else
            asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%0], %1, %2, %3, [%5], [%6], p; }"
                         :: "r"(d), "l"(da), "l"(db), "r"(id), "r"(step + i), "r"(d + 64), "r"(d + 68));
        }
        commit(&bar);
      }
    }
  }
  wait(&bar, steps * parts - 1 & 1);
  asm volatile("tcgen05.fence::after_thread_sync;");
  store_lane(c, d, n);
  __syncthreads();
  if (threadIdx.x < 32) release(d, 128);
}
extern "C" __global__ void __launch_bounds__(128) mxf8(float* c, const unsigned char* a, const unsigned char* b, const unsigned char* sa, const unsigned char* sb, int n, int pitch) {
  scaled<false>(c, a, b, sa, sb, n, pitch, n >> 3 << 17 | 1 << 23 | 8 << 24);
}
extern "C" __global__ void __launch_bounds__(128) nvf4(float* c, const unsigned char* a, const unsigned char* b, const unsigned char* sa, const unsigned char* sb, int n, int pitch) {
  scaled<true>(c, a, b, sa, sb, n, pitch, 1 << 7 | 1 << 10 | n >> 3 << 17 | 8 << 24);
}
"""
ROOM = 32 * 1024
#: tcgen05 is of the architecture-specific target.
ARCHITECTURE = ["-arch=sm_100a"]


def test_a_product_of_halves_by_whole_tiles():
    rng, n, k = np.random.default_rng(21), 48, 128
    a, b = rng.normal(size=(128, k)).astype(np.float16), rng.normal(size=(n, k)).astype(np.float16)
    c = np.zeros((128, n), np.float32)
    trace = gpusim.capture(
        gpusim.cuda_cpp(SOURCE, "gemm", ARCHITECTURE), 1, 128, (c, a, b, n, k), gpu="b200", shared_bytes=ROOM
    )
    want = np.zeros((128, n), np.float32)
    for step in range(0, k, 16):
        part = slice(step, step + 16)
        want = multiply(a[:, part].astype(np.float64), b[:, part].astype(np.float64), want, -14, -14, 16)
    np.testing.assert_array_equal(c, want)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-4, atol=1e-3)
    (chunk,) = trace.chunks()
    products = chunk.bulks[chunk.bulks["kind"] == MemoryKind.TENSOR_PRODUCT]
    assert (
        len(products) == 8
        and (products["count"] == (128, n, 16, 1)).all()
        and (products["bytes"] == 32 * (128 + n)).all()
    )
    assert (
        gpusim.simulate(trace, gpu="b200").cycles > 8 * 64
    )  # an interval of as many cycles for each product of 48 columns at most


def lanes_of(scales):
    """uint8[products, 32, 16]: scales [rows, products, 4] as cp.32x128b takes them."""
    rows, products, count = scales.shape
    out = np.zeros((products, 32, 4, 4), np.uint8)
    for group in range(rows // 32):
        out[:, :, group, :count] = scales[32 * group : 32 * group + 32].transpose(1, 0, 2)
    return out.reshape(products, 32, 16)


def test_a_product_of_eight_bit_floats_with_scales():
    rng, n, k = np.random.default_rng(22), 32, 256
    a, b = (rng.normal(size=(rows, k)).astype(ml_dtypes.float8_e4m3fn).view(np.uint8) for rows in (128, n))
    sa, sb = (rng.integers(122, 132, (rows, k // 32)).astype(np.uint8) for rows in (128, n))
    c = np.zeros((128, n), np.float32)
    by_step = [lanes_of(s.reshape(len(s), k // 128, 4)) for s in (sa, sb)]
    gpusim.capture(
        gpusim.cuda_cpp(SOURCE, "mxf8", ARCHITECTURE), 1, 128, (c, a, b, *by_step, n, k), gpu="b200", shared_bytes=ROOM
    )
    want, values = np.zeros((128, n), np.float32), [numbers(m, "e4m3") for m in (a, b)]
    for step in range(k // 32):
        part = slice(32 * step, 32 * step + 32)
        powers = [s[:, step].astype(np.int64) - 127 for s in (sa, sb)]
        want = multiply(values[0][:, part], values[1][:, part], want, -6, -6, 32, a_scale=powers[0], b_scale=powers[1])
    np.testing.assert_array_equal(c, want)
    plain = (values[0] * np.exp2(np.repeat(sa, 32, 1) - 127.0)) @ (values[1] * np.exp2(np.repeat(sb, 32, 1) - 127.0)).T
    np.testing.assert_allclose(c, plain, rtol=1e-4, atol=1e-3)


def test_a_product_of_four_bit_floats_with_scales_of_sixteen():
    rng, n, k = np.random.default_rng(23), 32, 256
    a, b = (rng.integers(0, 16, (rows, k)).astype(np.uint8) for rows in (128, n))
    sa, sb = (rng.integers(0x20, 0x58, (rows, k // 16)).astype(np.uint8) for rows in (128, n))
    packed = [m[:, ::2] | m[:, 1::2] << 4 for m in (a, b)]
    by_product = [lanes_of(s.reshape(len(s), k // 64, 4)) for s in (sa, sb)]
    c = np.zeros((128, n), np.float32)
    arguments = (c, *packed, *by_product, n, k // 2)
    gpusim.capture(gpusim.cuda_cpp(SOURCE, "nvf4", ARCHITECTURE), 1, 128, arguments, gpu="b200", shared_bytes=ROOM)
    want = np.zeros((128, n), np.float32)
    values, scales = [numbers(m, "e2m1") for m in (a, b)], [numbers(s, "e4m3") for s in (sa, sb)]
    for step in range(k // 64):
        part, some = slice(64 * step, 64 * step + 64), slice(4 * step, 4 * step + 4)
        want = multiply_groups(values[0][:, part], values[1][:, part], want, scales[0][:, some], scales[1][:, some])
    np.testing.assert_array_equal(c, want)
    plain = (values[0] * np.repeat(scales[0], 16, 1)) @ (values[1] * np.repeat(scales[1], 16, 1)).T
    np.testing.assert_allclose(c, plain, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize(
    ("left_out", "what"),
    [
        ("", ""),
        ('asm volatile("fence.proxy.async.shared::cta;");', "Missing fence between proxies"),
        ("if (step) wait(&bar, step - 1 & 1);", "Shared memory overwritten while the tensor core reads it"),
    ],
)
def test_a_missing_fence_or_wait_is_found(left_out, what):
    a, b = (np.ones((lines, 128), np.float16) for lines in (128, 64))
    kernel = gpusim.cuda_cpp(SOURCE.replace(left_out, "") if left_out else SOURCE, "gemm", options=("-arch=sm_100a",))
    args = (np.zeros((128, 64), np.float32), a, b, 64, 128)
    trace = gpusim.capture(kernel, 1, 128, args, gpu="b200", shared_bytes=192 * 128, check=["async"])
    assert {each.what for each in trace.findings} == ({what} if what else set())
