"""Calls through pointers: each lane may go to another function and they meet again behind the call."""

from __future__ import annotations

import numpy as np
from numba import cuda, types

DEVICE_CODE = cuda.CUSource(
    r"""
typedef int (*Operation)(int, int);
__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int mix(int a, int b) { int s = 0; for (int i = 0; i < (a & 7); i++) s += b * i; return s; }
__device__ __noinline__ int apply_twice(Operation f, int a, int b) { return f(f(a, b), b); }
__device__ Operation operations[2] = {add, mix};
extern "C" __device__ int by_number(int *result, int number, int a, int b)
{
    *result = apply_twice(operations[number], a, b);
    return 0;
}
""",
    name="function_pointers.cu",
)
by_number = cuda.declare_device("by_number", types.int32(types.int32, types.int32, types.int32), link=DEVICE_CODE)


@cuda.jit
def dispatched(numbers, a, b, out):
    i = cuda.grid(1)
    out[i] = by_number(numbers[i], a[i], b[i])


def mix(a, b):
    steps = a & 7
    return b * (steps * (steps - 1) // 2)


def test_lanes_go_to_the_functions_that_they_name(launch):
    draw = np.random.default_rng(5)
    numbers, a, b = (draw.integers(0, high, 96, np.int32) for high in (2, 50, 50))
    out = np.zeros(96, np.int32)
    launch(dispatched, 3, 32, numbers, a, b, out)
    expected = np.where(numbers == 0, a + 2 * b, mix(mix(a, b), b))
    np.testing.assert_array_equal(out, expected)
