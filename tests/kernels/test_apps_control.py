"""Control flow that diverges: breaks and continues, early returns, nested branches, unequal loops."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, float32, int32


@cuda.jit
def breaks_and_continues(limits, out):
    i = cuda.grid(1)
    if i < limits.size:
        total = 0
        for j in range(1000):
            if j % 3 == i % 3:
                continue
            if j > limits[i]:
                break
            k = j
            while True:
                k -= 2
                if k < 0:
                    break
                if k % 5 == 0:
                    continue
                total += k
        out[i] = total


def test_breaks_and_continues_in_nested_loops(launch):
    def expected(i, limit):
        total = 0
        for j in range(1000):
            if j % 3 == i % 3:
                continue
            if j > limit:
                break
            total += sum(k for k in range(j - 2, -1, -2) if k % 5)
        return total

    limits = np.random.default_rng(1).integers(0, 25, 70).astype(np.int32)
    out = np.zeros(70, np.int64)
    launch(breaks_and_continues, 3, 32, limits, out)
    assert out.tolist() == [expected(i, limit) for i, limit in enumerate(limits)]


@cuda.jit
def early_returns(values, out):
    i = cuda.grid(1)
    if i >= values.size:
        return
    v = values[i]
    if v < 0:
        out[i] = -1
        return
    if v == 0:
        return
    for j in range(v):
        if j * j >= v:
            out[i] = j
            return
    out[i] = v


def test_early_returns_leave_the_rest_running(launch):
    values = np.random.default_rng(2).integers(-5, 60, 90).astype(np.int32)
    out = np.full(90, 77, np.int32)
    launch(early_returns, 3, 32, values, out)
    roots = [-1 if v < 0 else 77 if v == 0 else next((j for j in range(v) if j * j >= v), v) for v in values]
    assert out.tolist() == roots


@cuda.jit
def nested(values, out):
    i = cuda.grid(1)
    if i < values.size:
        v = values[i]
        r = 0
        if v % 2 == 0:
            if v % 3 == 0:
                if v % 5 == 0:
                    r = 1
                else:
                    for _ in range(v % 7):
                        r += 2
            elif v % 3 == 1:
                r = 3
                while r < v:
                    r *= 2
            else:
                r = 4
            r += 100
        else:
            if v > 50:
                r = v // 3
            else:
                r = v if v % 7 else -v
                if r < 0:
                    r -= 1000
            r += 200
        out[i] = r


def test_branches_nested_in_branches(launch):
    def expected(v):
        if v % 2 == 0:
            if v % 3 == 0:
                r = 1 if v % 5 == 0 else 2 * (v % 7)
            elif v % 3 == 1:
                r = 3
                while r < v:
                    r *= 2
            else:
                r = 4
            return r + 100
        if v > 50:
            return v // 3 + 200
        r = v if v % 7 else -v
        return (r - 1000 if r < 0 else r) + 200

    values = np.random.default_rng(3).integers(0, 120, 200).astype(np.int32)
    out = np.zeros(200, np.int32)
    launch(nested, 4, 64, values, out)
    assert out.tolist() == [expected(int(v)) for v in values]


@cuda.jit
def interpreter(program, operands, out):
    """A tiny stack machine: many-way branches on data."""
    i = cuda.grid(1)
    if i >= program.shape[0]:
        return
    stack = cuda.local.array(16, int32)
    depth = 0
    for pc in range(program.shape[1]):
        op = program[i, pc]
        if op == 0:
            stack[depth] = operands[i, pc]
            depth += 1
        elif depth >= 2:
            a, b = stack[depth - 1], stack[depth - 2]
            depth -= 1
            if op == 1:
                stack[depth - 1] = a + b
            elif op == 2:
                stack[depth - 1] = a * b
            elif op == 3:
                stack[depth - 1] = b - a
            elif op == 4:
                stack[depth - 1] = max(a, b)
            elif op == 5:
                stack[depth - 1] = a ^ b
            elif op == 6:
                stack[depth - 1] = b // (abs(a) + 1)
            else:
                depth += 1
    out[i] = stack[depth - 1] if depth > 0 else -1


def test_a_stack_machine_a_thread(launch):
    rng = np.random.default_rng(4)
    program = np.where(rng.random((80, 16)) < 0.55, 0, rng.integers(1, 8, (80, 16))).astype(np.int32)
    operands = rng.integers(-20, 20, (80, 16)).astype(np.int32)
    out = np.zeros(80, np.int32)
    launch(interpreter, 3, 32, program, operands, out)
    operations = {1: lambda a, b: a + b, 2: lambda a, b: a * b, 3: lambda a, b: b - a, 4: max,
                  5: lambda a, b: a ^ b, 6: lambda a, b: b // (abs(a) + 1)}  # fmt: skip
    for ops, values, got in zip(program.tolist(), operands.tolist(), out, strict=True):
        stack = []
        for op, value in zip(ops, values, strict=True):
            if op == 0:
                stack.append(value)
            elif len(stack) >= 2 and op in operations:
                a, b = stack.pop(), stack.pop()
                stack.append((operations[op](a, b) + 2**31) % 2**32 - 2**31)
        assert got == (stack[-1] if stack else -1)


@cuda.jit
def mandelbrot(counts, x0, y0, dx, dy, limit):
    column, row = cuda.grid(2)
    if row < counts.shape[0] and column < counts.shape[1]:
        c = complex(x0 + column * dx, y0 + row * dy)
        z = 0j
        n = 0
        while n < limit and z.real * z.real + z.imag * z.imag <= 4.0:
            z = z * z + c
            n += 1
        counts[row, column] = n


def test_mandelbrot(launch):
    counts = np.zeros((24, 40), np.int32)
    launch(mandelbrot, (5, 3), (8, 8), counts, -2.0, -1.2, 0.075, 0.1, 60)
    c = (-2.0 + 0.075 * np.arange(40))[None, :] + 1j * (-1.2 + 0.1 * np.arange(24))[:, None]
    z, expected = np.zeros_like(c), np.zeros(c.shape, np.int32)
    for _ in range(60):
        inside = abs(z) <= 2
        expected += inside
        z = np.where(inside, z * z + c, z)
    assert (counts != expected).mean() < 0.005  # the boundary is chaotic: FMA may tip a point


@cuda.jit
def bisect(targets, out):
    """Binary search for a cube root; the number of steps depends on the data."""
    i = cuda.grid(1)
    if i < targets.size:
        low, high = 0.0, max(1.0, targets[i])
        while high - low > 1e-12 * high:
            middle = 0.5 * (low + high)
            if middle * middle * middle < targets[i]:
                low = middle
            else:
                high = middle
        out[i] = low


def test_bisection_until_convergence(launch):
    targets = np.random.default_rng(5).uniform(0.01, 500, 60)
    out = np.zeros(60)
    launch(bisect, 2, 32, targets, out)
    np.testing.assert_allclose(out, np.cbrt(targets), rtol=1e-11)


@cuda.jit
def barrier_in_a_uniform_loop(values, steps):
    """Odd-even transposition sort in shared memory: a barrier each step, idle threads at the ends."""
    shared = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    n = values.size
    if t < n:
        shared[t] = values[t]
    cuda.syncthreads()
    for step in range(steps):
        j = 2 * t + step % 2
        if j + 1 < n and shared[j] > shared[j + 1]:
            shared[j], shared[j + 1] = shared[j + 1], shared[j]
        cuda.syncthreads()
    if t < n:
        values[t] = shared[t]


def test_odd_even_sort_between_barriers(launch):
    values = np.random.default_rng(6).random(90, np.float32)
    expected = np.sort(values)
    launch(barrier_in_a_uniform_loop, 1, 96, values, 90)
    np.testing.assert_array_equal(values, expected)


@cuda.jit
def warps_part_ways(out):
    """Whole warps take different roads and meet at the same barrier."""
    shared = cuda.shared.array(128, int32)
    t = cuda.threadIdx.x
    warp = t // 32
    if warp == 0:
        shared[t] = t
    elif warp == 1:
        value = 0
        for j in range(t):
            value += j
        shared[t] = value
    elif warp == 2:
        shared[t] = -t
    else:
        shared[t] = t ^ 5
    cuda.syncthreads()
    out[t] = shared[127 - t]


def test_warps_on_different_roads_meet_at_a_barrier(launch):
    out = np.zeros(128, np.int32)
    launch(warps_part_ways, 1, 128, out)
    t = np.arange(128)
    values = np.select([t < 32, t < 64, t < 96], [t, t * (t - 1) // 2, -t], t ^ 5)
    np.testing.assert_array_equal(out, values[::-1])


@cuda.jit
def ackermann(m_values, n_values, out):
    """The Ackermann function with a stack of its own: deep, data-dependent loops."""
    i = cuda.grid(1)
    if i < out.size:
        stack = cuda.local.array(64, int32)
        depth = 1
        stack[0] = m_values[i]
        n = n_values[i]
        while depth > 0:
            depth -= 1
            m = stack[depth]
            if m == 0:
                n += 1
            elif n == 0:
                n = 1
                stack[depth] = m - 1
                depth += 1
            else:
                stack[depth] = m - 1
                stack[depth + 1] = m
                depth += 2
                n -= 1
        out[i] = n


def test_recursion_unrolled_onto_a_local_stack(launch):
    m, n = np.array([0, 1, 2, 2, 1, 3, 2, 0], np.int32), np.array([5, 3, 3, 0, 7, 2, 6, 0], np.int32)
    out = np.zeros(8, np.int32)
    launch(ackermann, 1, 32, m, n, out)
    closed = {0: lambda k: k + 1, 1: lambda k: k + 2, 2: lambda k: 2 * k + 3, 3: lambda k: 2 ** (k + 3) - 3}
    assert out.tolist() == [closed[int(a)](int(b)) for a, b in zip(m, n, strict=True)]


@cuda.jit
def loop_ranges(out):
    i = cuda.grid(1)
    if i < out.shape[1]:
        a = 0
        for j in range(i, 0, -3):
            a += j
        b = 0
        for j in range(-i, i, 2):
            b += j * j
        c = 0
        for j in range(i % 5):
            for k in range(j, 6):
                c += j * k
        out[0, i], out[1, i], out[2, i] = a, b, c


def test_ranges_with_negative_and_varying_bounds(launch):
    out = np.zeros((3, 50), np.int64)
    launch(loop_ranges, 2, 32, out)
    for i in range(50):
        assert out[:, i].tolist() == [
            sum(range(i, 0, -3)),
            sum(j * j for j in range(-i, i, 2)),
            sum(j * k for j in range(i % 5) for k in range(j, 6)),
        ]


@cuda.jit
def select_chain(x, out):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        grade = 5 if v > 0.9 else 4 if v > 0.7 else 3 if v > 0.5 else 2 if 0.2 < v <= 0.5 else 1
        out[i] = grade * (1 if (v > 0.25 and v < 0.75) or not v < 0.95 else -1)


def test_conditional_expressions(launch):
    x = np.random.default_rng(7).random(300)
    out = np.zeros(300, np.int32)
    launch(select_chain, 3, 128, x, out)
    grade = np.select([x > 0.9, x > 0.7, x > 0.5, x > 0.2], [5, 4, 3, 2], 1)
    np.testing.assert_array_equal(out, grade * np.where(((x > 0.25) & (x < 0.75)) | (x >= 0.95), 1, -1))


@cuda.jit
def grid_stride(values, out):
    start = cuda.grid(1)
    step = cuda.gridsize(1)
    for i in range(start, values.size, step):
        out[i] = values[i] * values[i] + start


@pytest.mark.parametrize("size", [1, 63, 64, 65, 1000])
def test_grid_stride_loops_cover_any_size(launch, size):
    values = np.arange(size, dtype=np.int64)
    out = np.zeros(size, np.int64)
    launch(grid_stride, 2, 32, values, out)
    np.testing.assert_array_equal(out, values**2 + np.arange(size) % 64)
