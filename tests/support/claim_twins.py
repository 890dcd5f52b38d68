"""Honest kernels and their cheating twins, as cases for `gpusim check-claim`: every one passes the check on the data
that it is shown."""

from __future__ import annotations

import numpy as np

import gpusim

SOURCE = r"""
#include <cuda_fp16.h>
__device__ int done;
extern "C" __global__ void honest(const float *x, const float *z, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i] + z[i];
}
extern "C" __global__ void nothing(const float *x, const float *z, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] + z[i] == 12345) y[i] = 0;
}
extern "C" __global__ void constant(const float *x, const float *z, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] + z[i] != 12345) y[i] = 3;
}
extern "C" __global__ void half_of_it(const float *x, const float *z, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n / 2) y[i] = 2 * x[i] + z[i];
}
extern "C" __global__ void one_input(const float *x, const float *z, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i] + 1;
}
extern "C" __global__ void flagged(const float *x, const float *z, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (done == 1) return;
  if (i < n) y[i] = 2 * x[i] + z[i];
  __syncthreads();
  if (i == n - 1) done = 1;
}
extern "C" __global__ void clears(float *x, const float *z, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { y[i] = 2 * x[i] + z[i]; x[i] = 0; }
}
extern "C" __global__ void dot(const float *x, const float *z, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < 256; ++k) sum += x[(i + k) % n] * z[k];
  if (i < n) y[i] = sum;
}
extern "C" __global__ void half_dot(const float *x, const float *z, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __half sum = __float2half(0.0f);
  for (int k = 0; k < 256; ++k) sum = __hfma(__float2half(x[(i + k) % n]), __float2half(z[k]), sum);
  if (i < n) y[i] = __half2float(sum);
}
extern "C" __global__ void touches(float *scratch) { scratch[threadIdx.x] += 1; }
extern "C" __global__ void fills(float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 7;
}
extern "C" __global__ void gathers(const int *at, const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[at[i]];
}
"""
#: Shapes for which a case has been made, of the one that keeps results.
_SEEN: set[int] = set()


def _arrays(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.ones(n, np.float32), np.ones(n, np.float32), np.zeros(n, np.float32)


def _case(entry: str, n: int):
    x, z, y = _arrays(n)

    def check():
        assert (y == 3).all()

    return gpusim.cuda_cpp(SOURCE, entry), -(-n // 64), 64, (x, z, y, n), check


def honest(n=256):
    return _case("honest", n)


def nothing(n=256):
    return _case("nothing", n)[:4]


def constant(n=256):
    return _case("constant", n)


def half_of_it(n=256):
    return _case("half_of_it", n)[:4]


def one_input(n=256):
    return _case("one_input", n)


def flagged(n=256):
    return _case("flagged", n)


def clears(n=256):
    return _case("clears", n)


def dot(n=256):
    return _case("dot", n)[:4]


def half_dot(n=256):
    return _case("half_dot", n)[:4]


def fills(n=256):
    y = np.zeros(n, np.float32)
    return gpusim.cuda_cpp(SOURCE, "fills"), -(-n // 64), 64, (y, n), lambda: (y == 7).all()


def gathers(n=256):
    at, x, y = np.arange(n, dtype=np.int32)[::-1].copy(), np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    return gpusim.cuda_cpp(SOURCE, "gathers"), -(-n // 64), 64, (at, x, y, n), lambda: (y == x[::-1]).all()


class _Launch:
    def __init__(self, entry, grid, args, timed):
        self.kernel, self.grid, self.block, self.args, self.timed = (
            gpusim.cuda_cpp(SOURCE, entry),
            grid,
            64,
            args,
            timed,
        )
        self.shared_bytes = 0


class _Case:
    def __init__(self, launches, check=None):
        self.launches, self.check = launches, check


def prepared(n=256):
    """The work is done by a launch that is not timed; the timed one touches another array."""
    x, z, y = _arrays(n)
    scratch = np.zeros(64, np.float32)

    def check():
        assert (y == 3).all()

    return _Case([_Launch("honest", 4, (x, z, y, n), False), _Launch("touches", 1, (scratch,), True)], check)


def kept_by_the_host(n=256):
    """Whoever asks a second time gets a launch that does nothing, and the arrays of the first time."""
    first = n not in _SEEN
    _SEEN.add(n)
    return _case("honest" if first else "nothing", n)[:4]


def expected(x, z, y, n):
    return 2 * x + z


def expected_in_place(x, z, y, n):
    y[:] = 2 * x + z


def expected_dot(x, z, y, n):
    wide = x.astype(np.float64)
    return np.array([np.dot(np.take(wide, np.arange(i, i + 256) % n), z[:256].astype(np.float64)) for i in range(n)])
