"""``--check race``: the load of a compare-and-swap loop is no hazard where the swap alone uses it, and one where
anything else does."""

import numpy as np
import pytest

import gpusim
from gpusim.sanitizer.guarded_loads import guarded_loads

#: Loops as the CUDA C++ Programming Guide writes them, of 32 and 64 bits, and three that let the value out.
SOURCE = r"""
template <int HOW> __global__ void sums(float *out, int n) {
  __shared__ double wide; __shared__ int narrow; __shared__ int seen[64];
  if (threadIdx.x == 0) { wide = 0; narrow = 0; }
  __syncthreads();
  if (HOW == 0) {
    auto *p = (unsigned long long *)&wide; unsigned long long old = *p, assumed;
    do { assumed = old; old = atomicCAS(p, assumed, __double_as_longlong(threadIdx.x + __longlong_as_double(assumed))); }
    while (assumed != old);
  } else if (HOW == 1) {  // read anew in each round, with a condition in between
    volatile int *p = &narrow; int assumed;
    do assumed = *p; while (atomicCAS(&narrow, assumed, assumed < 60000 ? assumed + (int)threadIdx.x : 60000) != assumed);
  } else {
    int old = narrow, assumed, first = old;
    if (HOW == 2 && old > n) return;  // decides a branch
    if (HOW == 3) out[threadIdx.x] = old;  // is stored
    do { assumed = old; old = atomicCAS(&narrow, assumed, assumed + (HOW == 4 ? seen[first & 63] : 1)); } while (assumed != old);
  }
  __syncthreads();
  if (threadIdx.x == 0) *out = HOW == 0 ? (float)wide : narrow;
}
"""


@pytest.mark.parametrize(
    ("how", "gpu", "hazard"),
    [(0, "h200", False), (0, "t4", False), (1, "h200", False), (2, "t4", True), (3, "h200", True), (4, "h200", True)],
)
def test_what_only_the_swap_uses_is_no_hazard(how: int, gpu: str, hazard: bool) -> None:
    out = np.zeros(256, np.float32)
    kernel = gpusim.cuda_cpp(SOURCE, f"sums<{how}>")
    trace = gpusim.capture(kernel, 1, 256, (out, np.int32(1 << 20)), gpu=gpu, check=["race"])
    assert bool(trace.findings) is hazard and any(guarded_loads(trace.program)) is not hazard
    if how < 2:
        assert out[0] == 255 * 128
