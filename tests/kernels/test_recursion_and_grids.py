"""Control flow that only CUDA C++ writes: a recursion whose lanes call at different depths, and a grid that waits for itself."""

from __future__ import annotations

import numpy as np
import pytest

import gpusim

TREE = """
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void tree(int *x) {
  int i = threadIdx.x;
  if (x[i] & 1) x[i] = fibonacci(x[i]); else x[i] = -x[i];
}
"""
GRID = """
#include <cooperative_groups.h>
extern "C" __global__ void mirror(int *x, int *y) {
  auto grid = cooperative_groups::this_grid();
  x[grid.thread_rank()] = grid.thread_rank();
  grid.sync();
  y[grid.thread_rank()] = x[grid.size() - 1 - grid.thread_rank()];
}
"""


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_lanes_of_different_calls_wait_for_their_own(architecture: str) -> None:
    x = np.arange(32, dtype=np.int32) % 8
    fibonacci = [0, 1, 1, 2, 3, 5, 8, 13]
    expected = [fibonacci[n] if n & 1 else -n for n in x.tolist()]
    gpusim.capture(gpusim.cuda_cpp(TREE, "tree"), 1, 32, (x,), gpu=architecture)
    assert x.tolist() == expected


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_all_blocks_of_a_cooperative_launch_meet(architecture: str) -> None:
    x, y = np.zeros((2, 3 * 32), np.int32)
    gpusim.capture(gpusim.cuda_cpp(GRID, "mirror", cooperative=True), 3, 32, (x, y), gpu=architecture)
    assert y.tolist() == list(range(95, -1, -1))
