"""Kernels that call the driver: print, memory from the device heap, assertions of linked CUDA C++."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, float64, int64, types

from gpusim.errors import AddressError, ExecutionError

DEVICE_CODE = cuda.CUSource(
    r"""
extern "C" __device__ void __assertfail(
    const char *condition, const char *file, unsigned line, const char *function, size_t char_bytes);
extern "C" __device__ int take_and_give(int *result, long long n)
{
    long long *room = (long long *)malloc(n * sizeof(long long));
    if (!room) { *result = -1; return 0; }
    for (long long i = 0; i < n; i++) room[i] = i;
    long long sum = 0;
    for (long long i = 0; i < n; i++) sum += room[i];
    free(room);
    *result = (int)sum;
    return 0;
}
extern "C" __device__ int give_back_twice(int *result, long long n)
{
    char *room = (char *)malloc(n);
    free(room);
    free(room);
    *result = 0;
    return 0;
}
extern "C" __device__ int must_be_small(int *result, int x)
{
    if (!(x < 40)) __assertfail("x < 40", __FILE__, __LINE__, __func__, 1);  // what assert() expands to
    *result = x;
    return 0;
}
extern "C" __device__ int show(int *result, int x)
{
    *result = printf("%5d|%-5d|%05d|%+d|%x|%#X|%c|%%|%s|%.3f|%10.2e|%g|%hd|%lld\n",
                     x, x, x, x, -x, 255, 'a' + x, "text", x / 3.0, 1e10 * x, 0.5 * x, 70000 + x, -1LL - x);
    return 0;
}
""",
    name="driver_calls.cu",
)
take_and_give = cuda.declare_device("take_and_give", types.int32(int64), link=DEVICE_CODE)
give_back_twice = cuda.declare_device("give_back_twice", types.int32(int64), link=DEVICE_CODE)
must_be_small = cuda.declare_device("must_be_small", types.int32(types.int32), link=DEVICE_CODE)
show = cuda.declare_device("show", types.int32(types.int32), link=DEVICE_CODE)


@cuda.jit
def says(values):
    i = cuda.grid(1)
    print(i, "hop!", values[i], values[i] > 1, float64(i) / 4)
    if i % 3 == 0:
        print("third", cuda.threadIdx.x)
    values[i] += 1


@cuda.jit
def allocates(out, n):
    i = cuda.grid(1)
    out[i] = take_and_give(n + i)


@cuda.jit
def frees_twice(out):
    out[0] = give_back_twice(64)


@cuda.jit
def asserts(out):
    i = cuda.grid(1)
    out[i] = must_be_small(i)


@cuda.jit
def formats(out):
    i = cuda.grid(1)
    out[i] = show(i)


def test_print_comes_out_in_block_order(launch, capsys):
    values = np.arange(12, dtype=np.int64)
    launch(says, 3, 4, values)
    lines = capsys.readouterr().out.splitlines()
    expected = [f"{i} hop! {i} {i > 1} {i / 4:.6f}" for i in range(12)]
    assert sorted(line for line in lines if "hop" in line) == sorted(expected)
    assert [line for line in lines if "third" in line] == [f"third {i % 4}" for i in (0, 3, 6, 9)]
    blocks = [int(line.split()[0]) // 4 for line in lines if "hop" in line]
    assert blocks == sorted(blocks)
    assert (values == np.arange(12) + 1).all()


def test_printf_formats_as_c_does(launch, capsys):
    out = np.zeros(3, np.int32)
    launch(formats, 1, 3, out)
    assert (out == 13).all()
    wanted = [
        f"{x:5d}|{x:<5d}|{x:05d}|{x:+d}|{-x & 0xFFFFFFFF:x}|0XFF|{chr(97 + x)}|%|text|{x / 3:.3f}|"
        f"{1e10 * x:10.2e}|{0.5 * x:g}|{70000 + x - 65536}|{-1 - x}"
        for x in range(3)
    ]
    assert capsys.readouterr().out.splitlines() == wanted


def test_the_device_heap_serves_every_thread(launch):
    out = np.zeros(64, np.int32)
    launch(allocates, 2, 32, out, 10)
    n = 10 + np.arange(64)
    assert (out == n * (n - 1) // 2).all()


def test_a_heap_that_is_full_answers_null(launch):
    out = np.zeros(1, np.int32)
    launch(allocates, 1, 1, out, 1 << 40)
    assert out[0] == -1


def test_giving_back_twice_is_named(launch):
    out = np.ones(1, np.int32)
    with pytest.raises(AddressError, match=r"frees_twice.*thread \(0, 0, 0\).*free\(0x7d.*not allocated"):
        launch(frees_twice, 1, 1, out)
    assert out[0] == 1


def test_a_failed_assertion_names_condition_thread_and_place(launch):
    out = np.zeros(64, np.int32)
    with pytest.raises(
        ExecutionError, match=r"block \(1, 0, 0\), thread \(8, 0, 0\).*x < 40.*must_be_small \(driver_calls"
    ):
        launch(asserts, 2, 32, out)
    assert (out == 0).all()
