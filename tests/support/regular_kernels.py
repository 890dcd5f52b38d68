"""Kernels whose blocks follow from a few, and kernels whose blocks do not, in CUDA C++."""

from __future__ import annotations

import numpy as np

import gpusim

SOURCE = r"""
extern "C" __global__ void stencil(const float *x, float *y, int n) {  // the first and the last block do less
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < n - 1) y[i] = x[i - 1] + x[i + 1];
}
extern "C" __global__ void product(const float *a, const float *b, float *c, int m, int n, int k) {  // edges in x and y
  int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < m && column < n) {
    float sum = 0;
    #pragma unroll 1
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
  }
}
extern "C" __global__ void two_buffers(const float *x, float *y, int iterations) {  // shared memory alternates
  __shared__ float tile[2][64];
  float sum = 0;
  #pragma unroll 1
  for (int i = 0; i < iterations; ++i) {
    tile[i & 1][threadIdx.x] = x[(i * gridDim.x + blockIdx.x) * 64 + threadIdx.x];
    __syncthreads();
    sum += tile[i & 1][63 - threadIdx.x];
  }
  y[blockIdx.x * 64 + threadIdx.x] = sum;
}
extern "C" __global__ void counted(const float *x, int *count) {  // an atomic whose result nobody uses
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(count + threadIdx.x % 7, x[i] > 0 ? 1 : 2);
}
extern "C" __global__ void volume(const float *x, float *y) {
  int i = ((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * 32 + threadIdx.x;
  y[i] = 2 * x[i];
}
extern "C" __global__ void normalised(const float *x, float *y, int n) {  // registers take addresses under a guard where data were
  __shared__ float of_warp[2];
  const float *row = x + blockIdx.x * n;
  float most = -1e30f, sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) most = fmaxf(most, row[i]);
  for (int o = 16; o; o >>= 1) most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = most;
  __syncthreads();
  most = of_warp[0];
  for (int i = 1; i < blockDim.x / 32; ++i) most = fmaxf(most, of_warp[i]);
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += __expf(row[i] - most);
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < blockDim.x / 32; ++i) sum += of_warp[i];
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = __fdividef(__expf(row[i] - most), sum);
}
extern "C" __global__ void gather(const int *index, const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[index[i]];
}
extern "C" __global__ void through_shared(const int *index, const float *x, float *y) {
  __shared__ int where[64];
  where[threadIdx.x] = index[blockIdx.x * 64 + threadIdx.x];
  __syncthreads();
  y[blockIdx.x * 64 + threadIdx.x] = x[where[63 - threadIdx.x]];
}
extern "C" __global__ void ticket(int *next, float *y) {
  __shared__ int mine;
  if (threadIdx.x == 0) mine = atomicAdd(next, 1);
  __syncthreads();
  y[mine * 64 + threadIdx.x] = 1;
}
extern "C" __global__ void chained(volatile int *flag, float *y) {
  if (blockIdx.x > 0) while (flag[blockIdx.x - 1] == 0) {}
  y[blockIdx.x * 64 + threadIdx.x] = 1;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) flag[blockIdx.x] = 1;
}
extern "C" __global__ void until(const float *x, float *y) {  // how long a block runs depends on data
  int i = blockIdx.x * 64 + threadIdx.x;
  float v = x[i];
  while (v < 4) v += 1;
  y[i] = v;
}
extern "C" __global__ void triangle(const float *x, float *y) {  // block b makes b iterations
  float sum = 0;
  #pragma unroll 1
  for (unsigned i = 0; i < blockIdx.x; ++i) sum += x[i * 64 + threadIdx.x];
  y[blockIdx.x * 64 + threadIdx.x] = sum;
}
extern "C" __global__ void swizzled(const float *x, float *y) {
  int tile = (blockIdx.x % 8) * (gridDim.x / 8) + blockIdx.x / 8;
  y[tile * 64 + threadIdx.x] = x[tile * 64 + threadIdx.x];
}
"""


def floats(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.float32) % 13


def launch(name: str, blocks: int = 80, iterations: int = 40) -> tuple:
    """(kernel, grid, block, args) of a kernel above, with ``blocks`` blocks and ``iterations`` iterations of its
    loop."""
    i32, n = np.int32, 64 * blocks
    index, x, y = np.arange(n, dtype=i32)[::-1].copy(), floats(n), np.zeros(n, np.float32)
    kernel = gpusim.cuda_cpp(SOURCE, name)
    if name == "product":
        m, k = 8 * (blocks // 10) - 3, iterations
        args = (floats(m * k), floats(k * 77), np.zeros(m * 77, np.float32), i32(m), i32(77), i32(k))
        return kernel, (10, blocks // 10), (8, 8), args
    if name == "volume":
        return kernel, (5, blocks // 20, 4), 32, (x, y)
    args = {
        "stencil": (x, y, i32(n)),
        "two_buffers": (floats(n * iterations), y, i32(iterations)),
        "counted": (x, np.zeros(7, i32)),
        "normalised": (x, y, i32(64)),
        "gather": (index, x, y),
        "through_shared": (index, x, y),
        "ticket": (np.zeros(1, i32), y),
        "chained": (np.zeros(blocks, i32), y),
        "until": (x, y),
        "triangle": (x, y),
        "swizzled": (x, y),
    }[name]
    return kernel, blocks, 64, args
