"""What only CUDA C++ writes: a recursion whose lanes call at different depths, stack taken as the kernel runs, and a
grid that waits for itself."""

from __future__ import annotations

import numpy as np
import pytest

import gpusim
from gpusim.emulator.block_scheduler import Slot
from gpusim.errors import AddressError
from gpusim.frontend.registry import compile_kernel
from gpusim.isa.binary.cubin import DEFAULT_STACK_BYTES
from gpusim.isa.target import make_target
from gpusim.launch.kernel_launch import KernelLaunch

TREE = """
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void tree(int *x) {
  int i = threadIdx.x;
  if (x[i] & 1) x[i] = fibonacci(x[i]); else x[i] = -x[i];
}
"""
ROOM = """
extern "C" __global__ void reversed(int *x, int n) {
  int count = n + threadIdx.x % 4;
  int *room = (int *)alloca(count * sizeof(int));
  for (int i = 0; i < count; i++) room[i] = i * threadIdx.x;
  int total = 0;
  for (int i = 0; i < count; i++) total = total * 3 + room[count - 1 - i];
  x[threadIdx.x] = total;
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


@pytest.mark.by_day(1)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_a_thread_takes_stack_as_it_runs(architecture: str) -> None:
    x, expected = np.zeros(32, np.int32), []
    trace = gpusim.capture(gpusim.cuda_cpp(ROOM, "reversed"), 1, 32, (x, 9), gpu=architecture)
    for thread in range(32):
        total = 0
        for i in reversed(range(9 + thread % 4)):
            total = total * 3 + i * thread
        expected.append(total)
    assert x.tolist() == expected
    assert trace.launch.local_bytes == DEFAULT_STACK_BYTES


def test_a_stack_that_overflows_is_told_with_what_raises_its_limit() -> None:
    deep = "__device__ __noinline__ int f(int n) { return n ? f(n - 1) * 3 + n : 0; }\n__global__ void k(int *x) { *x = f(*x); }"
    with pytest.raises(AddressError, match=r"local address -\d+ .*stack has overflowed .*cudaLimitStackSize"):
        gpusim.capture(gpusim.cuda_cpp(deep, "k"), 1, 1, (np.full(1, 5000, np.int32),), gpu="sm_90")


@pytest.mark.parametrize(
    ("source", "entry", "known"), [(TREE, "tree", 0), (ROOM, "reversed", 0), (GRID, "mirror", None)]
)
def test_the_limit_of_the_stack_counts_where_the_compiler_sets_none(source: str, entry: str, known: int | None) -> None:
    parameters = (
        (np.zeros(32, np.int32), 9) if entry == "reversed" else (np.zeros(32, np.int32),) * (1 + (known is None))
    )
    binary = compile_kernel(gpusim.cuda_cpp(source, entry), parameters, (9, 0))
    sizes = [
        KernelLaunch(binary, make_target("sm_90"), (1, 1, 1), (32, 1, 1), stack_limit_bytes=limit).local_bytes
        for limit in (1024, 8192)
    ]
    assert sizes[1] - sizes[0] == (0 if known is None else 7168)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_all_blocks_of_a_cooperative_launch_meet(architecture: str) -> None:
    x, y = np.zeros((2, 3 * 32), np.int32)
    gpusim.capture(gpusim.cuda_cpp(GRID, "mirror", cooperative=True), 3, 32, (x, y), gpu=architecture)
    assert y.tolist() == list(range(95, -1, -1))


def test_resident_blocks_are_told_apart_by_what_they_are() -> None:
    # Not by their states, which take megabytes: a cooperative launch asks for each block that ends which of all it is.
    assert Slot.__eq__ is object.__eq__
