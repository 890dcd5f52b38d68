"""Kernels in two forms, as a newcomer writes them and mended, for ``tools/remedies.py``: cases of its own file, each a
function whose parameters choose the form."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

import gpusim

TILE = 16


@cuda.jit
def walk(index, x, out, count):
    """A gather a thread that stops at a mark: the compiler may not load ahead of the test."""
    t = cuda.grid(1)
    step = cuda.gridsize(1)
    total = float32(0)
    for k in range(count):
        value = x[index[t + k * step]]
        if value < 0:
            break
        total += value
    out[t] = total


@cuda.jit
def walk_by_four(index, x, out, count):
    t = cuda.grid(1)
    step = cuda.gridsize(1)
    total = float32(0)
    for k in range(0, count, 4):
        a = x[index[t + k * step]]
        b = x[index[t + (k + 1) * step]]
        c = x[index[t + (k + 2) * step]]
        d = x[index[t + (k + 3) * step]]
        if a < 0 or b < 0 or c < 0 or d < 0:
            break
        total += (a + b) + (c + d)
    out[t] = total


def walk_case(unroll=1, threads=16896, count=32):
    """``unroll`` 1 or 4."""
    index = np.random.default_rng(0).permutation(threads * count).astype(np.int32)
    x, out = np.ones(threads * count, np.float32), np.zeros(threads, np.float32)
    return {1: walk, 4: walk_by_four}[unroll], threads // 128, 128, (index, x, out, np.int32(count))


@cuda.jit
def scale_one(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = float32(2) * x[i]


@cuda.jit
def scale_four(x, y):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    if i + 3 * step < x.size:
        a = x[i]
        b = x[i + step]
        c = x[i + 2 * step]
        d = x[i + 3 * step]
        y[i] = float32(2) * a
        y[i + step] = float32(2) * b
        y[i + 2 * step] = float32(2) * c
        y[i + 3 * step] = float32(2) * d


def scale_case(elements=1, n=1 << 20):
    """``elements`` a thread: 1 or 4."""
    x, y = np.ones(n, np.float32), np.zeros(n, np.float32)
    return {1: scale_one, 4: scale_four}[elements], n // 256 // elements, 256, (x, y)


@cuda.jit
def add_lanes(x, total):
    i = cuda.grid(1)
    cuda.atomic.add(total, 0, x[i])


@cuda.jit
def add_warps(x, total):
    i = cuda.grid(1)
    value = x[i]
    for offset in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
    if i % 32 == 0:
        cuda.atomic.add(total, 0, value)


def sum_case(shuffles=0, n=1 << 18):
    """``shuffles`` 1: one atomic a warp. Of int32 the compiler adds the lanes up by itself."""
    x, total = np.ones(n, np.float32), np.zeros(1, np.float32)
    return (add_warps if shuffles else add_lanes), n // 256, 256, (x, total)


@cuda.jit
def polynomial_double(x, y, rounds):
    i = cuda.grid(1)
    v = x[i]
    for _ in range(rounds):
        v = v * 0.5 + 0.25
    y[i] = v


@cuda.jit
def polynomial_single(x, y, rounds):
    i = cuda.grid(1)
    v = x[i]
    for _ in range(rounds):
        v = v * float32(0.5) + float32(0.25)
    y[i] = v


def polynomial_case(double=1, n=1 << 18, rounds=128, block=256):
    """``double`` 1: with bare constants, which are float64."""
    x, y = np.ones(n, np.float32), np.zeros(n, np.float32)
    return (polynomial_double if double else polynomial_single), n // block, block, (x, y, np.int32(rounds))


@cuda.jit
def copy_columns(x, y):
    i = cuda.grid(1)
    rows = x.shape[0]
    y[i % rows, i // rows] = x[i % rows, i // rows]


@cuda.jit
def copy_rows(x, y):
    i = cuda.grid(1)
    columns = x.shape[1]
    y[i // columns, i % columns] = x[i // columns, i % columns]


def copy_case(by_rows=0, n=512):
    """``by_rows`` 1: neighbouring threads copy neighbouring elements."""
    x, y = np.ones((n, n), np.float32), np.zeros((n, n), np.float32)
    return (copy_rows if by_rows else copy_columns), n * n // 256, 256, (x, y)


@cuda.jit
def tiled(a, b, c):
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    total = float32(0)
    for step in range(0, a.shape[1], TILE):
        left[ty, tx] = a[y, step + tx]
        right[ty, tx] = b[step + ty, x]
        cuda.syncthreads()
        for k in range(TILE):
            total += left[ty, k] * right[k, tx]
        cuda.syncthreads()
    c[y, x] = total


@cuda.jit
def tiled_ahead(a, b, c):
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    total = float32(0)
    next_left = a[y, tx]
    next_right = b[ty, x]
    for step in range(0, a.shape[1], TILE):
        left[ty, tx] = next_left
        right[ty, tx] = next_right
        cuda.syncthreads()
        ahead = min(step + TILE, a.shape[1] - TILE)
        next_left = a[y, ahead + tx]
        next_right = b[ahead + ty, x]
        cuda.syncwarp()  # or the compiler moves the loads down to where their values are needed
        for k in range(TILE):
            total += left[ty, k] * right[k, tx]
        cuda.syncthreads()
    c[y, x] = total


def tiled_case(prefetch=0, n=256):
    """``prefetch`` 1: the next tile is loaded while this one is worked on."""
    a, b, c = np.ones((n, n), np.float32), np.ones((n, n), np.float32), np.zeros((n, n), np.float32)
    return (tiled_ahead if prefetch else tiled), (n // TILE, n // TILE), (TILE, TILE), (a, b, c)


@cuda.jit
def chase(following, out, count):
    t = cuda.grid(1)
    place = t
    for _ in range(count):
        place = following[place]
    out[t] = place


@cuda.jit
def chase_two(following, out, count):
    t = cuda.grid(1)
    place, other = t, following.size - 1 - t
    for _ in range(count // 2):
        place = following[place]
        other = following[other]
    out[t] = place + other


def chase_case(chains=1, n=1 << 16, threads=128, count=64):
    """``chains`` 1 or 2 of the same number of steps in all."""
    following = np.random.default_rng(0).permutation(n).astype(np.int32)
    out = np.zeros(threads, np.int32)
    return {1: chase, 2: chase_two}[chains], 1, threads, (following, out, np.int32(count))


_LOOKED_UP = """
__constant__ float kept[1024];
template <bool SHARED> __global__ void looked_up(float *out, int n) {
  __shared__ float copy[1024];
  if (SHARED) {
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) copy[i] = kept[i];
    __syncthreads();
  }
  float sum = 0;
  for (int i = 0; i < n; ++i) {
    int at = (threadIdx.x * 33 + i) & 1023;
    sum += SHARED ? copy[at] : kept[at];
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
template <bool BLOCK> __global__ void counted(int *total, int n) {
  __shared__ int own;
  if (threadIdx.x == 0) own = 0;
  __syncthreads();
  for (int i = 0; i < n; ++i) atomicAdd(BLOCK ? &own : total, i);
  __syncthreads();
  if (BLOCK && threadIdx.x == 0) atomicAdd(total, own);
}
__global__ void binned(int *out, int n, int stride) {
  __shared__ int bins[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) bins[i] = 0;
  __syncthreads();
  for (int i = 0; i < n; ++i) atomicAdd(&bins[(threadIdx.x * stride + i) & 1023], 1);
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = bins[threadIdx.x];
}
"""


def table_case(shared=0, n=500):
    """A table that each lane looks up elsewhere: in constant memory, or with ``shared`` 1 copied from there."""
    kernel = gpusim.cuda_cpp(_LOOKED_UP, f"looked_up<{'true' if shared else 'false'}>")
    return kernel, 264, 128, (np.zeros(264 * 128, np.float32), n)


def count_case(block=0, n=20):
    """``block`` 1: one atomic a block."""
    return gpusim.cuda_cpp(_LOOKED_UP, f"counted<{'true' if block else 'false'}>"), 528, 256, (np.zeros(1, np.int32), n)


def bins_case(stride=32, n=100):
    """``stride`` 33: rows padded by one, so that a warp's lanes add on different banks."""
    return gpusim.cuda_cpp(_LOOKED_UP, "binned"), 132, 256, (np.zeros(132 * 256, np.int32), n, stride)
