"""Corners of the language: compile options, libdevice, vector types, optional arguments, dates,
fences, warps that wait for each other, unoptimised and debug builds."""

from __future__ import annotations

import enum
import math

import numpy as np
import pytest
from numba import cuda, float32, float64, int32, int64
from numba.cuda import libdevice


class Mode(enum.IntEnum):
    ADD = 1
    MULTIPLY = 2


def polynomial(x, out):
    i = cuda.grid(1)
    if i < x.size:
        acc = 0.0
        for k in range(6):
            acc = acc * x[i] + (k + 1)
        out[i] = acc if x[i] > 0 else -acc


OPTIONS = {
    "plain": {},
    "unoptimised": {"opt": False},
    "debug": {"debug": True, "opt": False},
    "line_info": {"lineinfo": True},
    "few_registers": {"max_registers": 24},
    "launch_bounds": {"launch_bounds": (128, 2)},
    "fast": {"fastmath": True},
}
POLYNOMIALS = {name: cuda.jit(**options)(polynomial) for name, options in OPTIONS.items()}


@pytest.mark.parametrize("name", OPTIONS)
def test_compile_options_change_the_code_not_the_result(launch, name):
    x = np.linspace(-2, 2, 100)
    out = np.zeros(100)
    launch(POLYNOMIALS[name], 1, 128, x, out)
    expected = np.polyval([1, 2, 3, 4, 5, 6], x)
    np.testing.assert_allclose(out, np.where(x > 0, expected, -expected), rtol=1e-13, atol=1e-13)


@cuda.jit
def libdevice_functions(x, i32, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0, i] = libdevice.rsqrt(x[i])
        out[1, i] = libdevice.cospi(x[i])
        out[2, i] = libdevice.exp10(x[i])
        out[3, i] = libdevice.fdim(x[i], 1.0)
        out[4, i] = libdevice.ldexp(x[i], 5)
        out[5, i] = libdevice.mulhi(i32[i], int32(1 << 20))
        out[6, i] = libdevice.nextafter(x[i], 100.0)
        out[7, i] = libdevice.normcdf(x[i])
        out[8, i] = libdevice.sad(i32[i], int32(-3), 7)
        out[9, i] = libdevice.rint(x[i] * 3.0)


def test_libdevice_functions(launch):
    x = np.random.default_rng(1).uniform(0.1, 3, 60)
    i32 = np.random.default_rng(2).integers(-(2**31), 2**31, 60).astype(np.int32)
    i32[:10] = np.arange(-5, 5)
    out = np.zeros((10, 60))
    launch(libdevice_functions, 2, 32, x, i32, out)
    wide = i32.astype(np.int64)
    normal = [0.5 * math.erfc(-v / math.sqrt(2)) for v in x]
    expected = [1 / np.sqrt(x), np.cos(np.pi * x), 10**x, np.maximum(x - 1, 0), x * 32, (wide << 20) >> 32,
                np.nextafter(x, 100), normal, out[8], np.rint(x * 3)]  # fmt: skip
    np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-14)
    near = slice(0, 10)  # elsewhere the difference overflows
    np.testing.assert_array_equal(out[8, near], abs(wide[near] + 3) + 7)


@cuda.jit
def optional(a, extra, out):
    i = cuda.grid(1)
    if i < a.size:
        if extra is None:
            out[i] = a[i]
        else:
            out[i] = a[i] + extra[i]


@pytest.mark.parametrize("given", [True, False])
def test_an_argument_that_may_be_none(launch, given):
    a, extra, out = np.arange(20.0), np.full(20, 0.5), np.zeros(20)
    launch(optional, 1, 32, a, extra if given else None, out)
    np.testing.assert_array_equal(out, a + 0.5 if given else a)


@cuda.jit
def by_mode(mode, a, out):
    i = cuda.grid(1)
    if i < a.size:
        if mode == Mode.ADD:
            out[i] = a[i] + 10
        elif mode == Mode.MULTIPLY:
            out[i] = a[i] * 10


@pytest.mark.parametrize("mode", list(Mode))
def test_enums(launch, mode):
    a, out = np.arange(20), np.zeros(20, np.int64)
    launch(by_mode, 1, 32, mode, a, out)
    np.testing.assert_array_equal(out, a + 10 if mode is Mode.ADD else a * 10)


@cuda.jit
def days_between(start, end, out):
    i = cuda.grid(1)
    if i < start.size:
        out[i] = end[i] - start[i]


def test_dates_and_durations(launch):
    start = np.array(["2024-02-28", "1969-12-30", "2026-01-01"], "datetime64[D]")
    end = np.array(["2024-03-01", "1970-01-02", "2025-12-31"], "datetime64[D]")
    out = np.zeros(3, "timedelta64[D]")
    launch(days_between, 1, 32, start, end, out)
    np.testing.assert_array_equal(out, end - start)


@cuda.jit
def relay(values, out):
    """Warps of a block pass a baton through shared memory, spinning until it is theirs."""
    baton = cuda.shared.array(1, int32)
    total = cuda.shared.array(1, int64)
    t = cuda.threadIdx.x
    if t == 0:
        baton[0] = cuda.blockDim.x // 32 - 1
        total[0] = 0
    cuda.syncthreads()
    warp = t // 32
    if t % 32 == 0:
        while cuda.atomic.add(baton, 0, 0) != warp:
            pass
        total[0] = total[0] * 3 + values[warp]
        cuda.threadfence_block()
        cuda.atomic.sub(baton, 0, 1)
    cuda.syncthreads()
    if t == 0:
        out[0] = total[0]


def test_warps_that_spin_for_each_other_all_finish(launch):
    values, out = np.arange(5, 13), np.zeros(1, np.int64)
    launch(relay, 1, 256, values, out)
    expected = 0
    for v in values[::-1]:
        expected = expected * 3 + int(v)
    assert out[0] == expected


@cuda.jit
def fences(a, out):
    i = cuda.grid(1)
    a[i] = i
    cuda.threadfence()
    cuda.threadfence_block()
    cuda.threadfence_system()
    cuda.syncwarp()
    cuda.nanosleep(32)
    out[i] = a[i] + 1


def test_fences_and_sleep_change_nothing(launch):
    a, out = np.zeros(64, np.int32), np.zeros(64, np.int32)
    launch(fences, 2, 32, a, out)
    np.testing.assert_array_equal(out, np.arange(64) + 1)


@cuda.jit
def vectors(out):
    i = cuda.grid(1)
    v = cuda.float32x4(float32(i), float32(2), float32(3), float32(4))
    w = cuda.int32x2(i, -i)
    if i < out.shape[0]:
        out[i, 0], out[i, 1], out[i, 2] = v.x * v.w, v.y + v.z, w.x - w.y


def test_vector_types(launch):
    out = np.zeros((40, 3))
    launch(vectors, 2, 32, out)
    i = np.arange(40)
    np.testing.assert_array_equal(out, np.stack([i * 4, np.full(40, 5), 2 * i], 1))


def make_scaler(factor, offsets):
    @cuda.jit
    def scaler(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] = a[i] * factor + offsets[i % 3]

    return scaler


@pytest.mark.parametrize("factor", [2, 3.5])
def test_closures_freeze_what_they_capture(launch, factor):
    a = np.arange(30.0)
    launch(make_scaler(factor, (1, 2, 3)), 1, 32, a)
    np.testing.assert_array_equal(a, np.arange(30) * factor + np.arange(30) % 3 + 1)


@cuda.jit
def many_arguments(a, b, c, d, e, f, g, h, i8, k, l, m, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i] * 2 + c[i] * 3 + d[i] * 4 + e + f * 2 + g * 3 + h + i8 + k + l + m


def test_a_dozen_arguments(launch):
    arrays = [np.arange(25, dtype=t) for t in (np.int8, np.int32, np.float32, np.float64)]
    out = np.zeros(25)
    scalars = (1, 2.5, np.float32(0.5), np.int16(7), np.int8(-1), np.uint32(9), True, 0.125)
    launch(many_arguments, 1, 32, *arrays, *scalars, out)
    i = np.arange(25)
    np.testing.assert_array_equal(out, i * 10 + 1 + 5 + 1.5 + 7 - 1 + 9 + 1 + 0.125)


@cuda.jit(device=True)
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@cuda.jit
def recursive(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = fibonacci(int64(i % 12))


def test_recursion_calls_through_the_stack(launch):
    out = np.zeros(40, np.int64)
    launch(recursive, 2, 32, out)
    sequence = [0, 1]
    while len(sequence) < 12:
        sequence.append(sequence[-1] + sequence[-2])
    assert out.tolist() == [sequence[i % 12] for i in range(40)]


@cuda.jit
def two_dimensional_shared(a, out):
    tile = cuda.shared.array((4, 8, 4), float64)
    x, y, z = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
    tile[x, y, z] = a[x, y, z]
    cuda.syncthreads()
    out[z, y, x] = tile[3 - x, 7 - y, 3 - z]


def test_three_dimensional_shared_array(launch):
    a = np.random.default_rng(3).random((4, 8, 4))
    out = np.zeros((4, 8, 4))
    launch(two_dimensional_shared, 1, (4, 8, 4), a, out)
    np.testing.assert_array_equal(out, a[::-1, ::-1, ::-1].transpose(2, 1, 0))


@cuda.jit
def grid_barrier(values, rounds):
    """Blocks advance in step: each reads what its neighbour block wrote in the round before."""
    grid = cuda.cg.this_grid()
    b = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        for r in range(rounds):
            left = values[r % 2, (b - 1) % cuda.gridDim.x]
            values[(r + 1) % 2, b] = left + 1
            grid.sync()
    else:
        for _ in range(rounds):
            grid.sync()


def test_grid_wide_barrier(launch):
    values = np.zeros((2, 4), np.int64)
    values[0] = [10, 20, 30, 40]
    launch(grid_barrier, 4, 32, values, 3)
    np.testing.assert_array_equal(values[1], np.roll([10, 20, 30, 40], 3) + 3)
