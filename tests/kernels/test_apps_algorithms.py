"""Whole algorithms, several launches each: sorts, searches, graphs, transforms, random numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import cuda, float64, int32, uint32
from numba.cuda.random import (
    xoroshiro128p_dtype,
    xoroshiro128p_normal_float32,
    xoroshiro128p_uniform_float32,
    xoroshiro128p_uniform_float64,
)


@cuda.jit
def bitonic_step(values, distance, size):
    i = cuda.grid(1)
    partner = i ^ distance
    if partner > i and partner < values.size:
        a, b = values[i], values[partner]
        ascending = (i & size) == 0
        if (a > b) == ascending:
            values[i] = b
            values[partner] = a


@pytest.mark.parametrize("dtype", [np.float32, np.int64], ids=lambda t: t.__name__)
def test_bitonic_sort(launch, dtype):
    values = (np.random.default_rng(1).standard_normal(128) * 1000).astype(dtype)
    expected = np.sort(values)
    size = 2
    while size <= values.size:
        distance = size // 2
        while distance > 0:
            launch(bitonic_step, 2, 64, values, distance, size)
            distance //= 2
        size *= 2
    np.testing.assert_array_equal(values, expected)


@cuda.jit
def radix_count(keys, shift, counts):
    local = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    if t < 16:
        local[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < keys.size:
        cuda.atomic.add(local, (keys[i] >> uint32(shift)) & uint32(15), 1)
    cuda.syncthreads()
    if t < 16:
        counts[t, cuda.blockIdx.x] = local[t]


@cuda.jit
def radix_scatter(keys, shift, offsets, out):
    """Stable within a block: thread t counts the equal digits before it."""
    digits = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    digit = -1
    if i < keys.size:
        digit = int32((keys[i] >> uint32(shift)) & uint32(15))
    digits[t] = digit
    cuda.syncthreads()
    if i < keys.size:
        before = 0
        for j in range(t):
            if digits[j] == digit:
                before += 1
        out[offsets[digit, cuda.blockIdx.x] + before] = keys[i]


def test_radix_sort(launch):
    keys = np.random.default_rng(2).integers(0, 2**12, 300).astype(np.uint32)
    expected = np.sort(keys)
    for shift in (0, 4, 8):
        counts, out = np.zeros((16, 5), np.int32), np.zeros_like(keys)
        launch(radix_count, 5, 64, keys, shift, counts)
        offsets = (np.cumsum(counts) - counts.ravel()).reshape(counts.shape).astype(np.int32)
        launch(radix_scatter, 5, 64, keys, shift, offsets, out)
        keys = out
    np.testing.assert_array_equal(keys, expected)


@cuda.jit
def expand_frontier(row_start, neighbours, distance, level, changed):
    v = cuda.grid(1)
    if v < distance.size and distance[v] == level:
        for k in range(row_start[v], row_start[v + 1]):
            w = neighbours[k]
            if distance[w] == -1:
                distance[w] = level + 1
                changed[0] = 1


def test_breadth_first_search(launch):
    rng = np.random.default_rng(3)
    degree = rng.integers(0, 5, 200)
    row_start = np.concatenate(([0], np.cumsum(degree))).astype(np.int32)
    neighbours = rng.integers(0, 200, row_start[-1]).astype(np.int32)
    distance = np.full(200, -1, np.int32)
    distance[0] = 0
    level, changed = 0, np.ones(1, np.int32)
    while changed[0]:
        changed[0] = 0
        launch(expand_frontier, 4, 64, row_start, neighbours, distance, level, changed)
        level += 1
    expected, frontier, depth = {0: 0}, [0], 0
    while frontier:
        depth += 1
        reached = {int(w) for v in frontier for w in neighbours[row_start[v] : row_start[v + 1]]}
        frontier = [w for w in reached if w not in expected]
        expected.update(dict.fromkeys(frontier, depth))
    assert distance.tolist() == [expected.get(v, -1) for v in range(200)]


@cuda.jit
def fft_in_shared(signal, out):
    """A radix-2 transform of 256 points a block, bit-reversed load, eight barriers."""
    real = cuda.shared.array(256, float64)
    imaginary = cuda.shared.array(256, float64)
    t = cuda.threadIdx.x
    row = cuda.blockIdx.x
    for half in range(2):
        i = t + half * 128
        j = cuda.brev(uint32(i)) >> uint32(24)
        real[j] = signal[row, i].real
        imaginary[j] = signal[row, i].imag
    cuda.syncthreads()
    span = 1
    while span < 256:
        k = t % span
        i = (t // span) * 2 * span + k
        angle = -math.pi * k / span
        wr, wi = math.cos(angle), math.sin(angle)
        br = real[i + span] * wr - imaginary[i + span] * wi
        bi = real[i + span] * wi + imaginary[i + span] * wr
        ar, ai = real[i], imaginary[i]
        real[i], imaginary[i] = ar + br, ai + bi
        real[i + span], imaginary[i + span] = ar - br, ai - bi
        cuda.syncthreads()
        span *= 2
    out[row, t] = complex(real[t], imaginary[t])
    out[row, t + 128] = complex(real[t + 128], imaginary[t + 128])


def test_fourier_transform(launch):
    rng = np.random.default_rng(4)
    signal = rng.standard_normal((2, 256)) + 1j * rng.standard_normal((2, 256))
    out = np.zeros_like(signal)
    launch(fft_in_shared, 2, 128, signal, out)
    np.testing.assert_allclose(out, np.fft.fft(signal), rtol=1e-12, atol=1e-12)


def seeded_states(count, seed):
    """Generator states made on the host, two 64-bit words each."""
    states = np.zeros(count, xoroshiro128p_dtype)
    rng = np.random.default_rng(seed)
    states["s0"] = rng.integers(1, 2**63, count, dtype=np.uint64)
    states["s1"] = rng.integers(1, 2**63, count, dtype=np.uint64)
    return states


def xoroshiro128p(s0, s1):
    """One step of the generator (Blackman and Vigna): result and the next state."""
    mask = 2**64 - 1

    def rotate(x, by):
        return ((x << by) | (x >> (64 - by))) & mask

    result = (s0 + s1) & mask
    s1 ^= s0
    return result, (rotate(s0, 55) ^ s1 ^ (s1 << 14)) & mask, rotate(s1, 36)


@cuda.jit
def uniforms(states, out32, out64):
    i = cuda.grid(1)
    if i < states.size:
        for j in range(out32.shape[1]):
            out32[i, j] = xoroshiro128p_uniform_float32(states, i)
            out64[i, j] = xoroshiro128p_uniform_float64(states, i)


def test_random_numbers_bit_by_bit(launch):
    states = seeded_states(40, 5)
    before = states.copy()
    out32, out64 = np.zeros((40, 3), np.float32), np.zeros((40, 3))
    launch(uniforms, 2, 32, states, out32, out64)
    for i in range(40):
        s0, s1 = int(before["s0"][i]), int(before["s1"][i])
        for j in range(3):
            word, s0, s1 = xoroshiro128p(s0, s1)
            assert out32[i, j] == np.float32((word >> 11) / 2**53)
            word, s0, s1 = xoroshiro128p(s0, s1)
            assert out64[i, j] == (word >> 11) / 2**53
        assert (int(states["s0"][i]), int(states["s1"][i])) == (s0, s1)


@cuda.jit
def monte_carlo_pi(states, iterations, out):
    i = cuda.grid(1)
    if i < out.size:
        inside = 0
        for _ in range(iterations):
            x = xoroshiro128p_uniform_float32(states, i)
            y = xoroshiro128p_uniform_float32(states, i)
            if x * x + y * y <= 1.0:
                inside += 1
        out[i] = 4.0 * inside / iterations


def test_monte_carlo_estimate_of_pi(launch):
    out = np.zeros(64, np.float32)
    launch(monte_carlo_pi, 2, 32, seeded_states(64, 6), 200, out)
    assert abs(out.mean() - math.pi) < 5 * 1.64 / math.sqrt(64 * 200)
    assert len(set(out.tolist())) > 10


@cuda.jit
def normals(states, out):
    i = cuda.grid(1)
    for j in range(out.shape[1]):
        out[i, j] = xoroshiro128p_normal_float32(states, i)


def test_normal_deviates(launch):
    out = np.zeros((64, 32), np.float32)
    launch(normals, 2, 32, seeded_states(64, 7), out)
    assert abs(out.mean()) < 0.11 and abs(out.std() - 1) < 0.08 and np.isfinite(out).all()


@cuda.jit
def floyd_step(distance, k):
    i, j = cuda.grid(2)
    n = distance.shape[0]
    if i < n and j < n:
        through = distance[i, k] + distance[k, j]
        if through < distance[i, j]:
            distance[i, j] = through


def test_all_shortest_paths(launch):
    rng = np.random.default_rng(8)
    distance = np.where(rng.random((18, 18)) < 0.3, rng.integers(1, 20, (18, 18)), 10_000).astype(np.int32)
    np.fill_diagonal(distance, 0)
    expected = distance.copy()
    for k in range(18):
        launch(floyd_step, (3, 3), (8, 8), distance, k)
        expected = np.minimum(expected, expected[:, k : k + 1] + expected[k : k + 1])
    np.testing.assert_array_equal(distance, expected)


@cuda.jit
def life(board, after):
    x, y = cuda.grid(2)
    rows, columns = board.shape
    if x < rows and y < columns:
        alive = 0
        for dx in range(-1, 2):
            for dy in range(-1, 2):
                if dx != 0 or dy != 0:
                    alive += board[(x + dx) % rows, (y + dy) % columns]
        after[x, y] = alive == 3 or (board[x, y] == 1 and alive == 2)


def test_game_of_life_on_a_torus(launch):
    board = (np.random.default_rng(9).random((21, 30)) < 0.4).astype(np.uint8)
    after = np.zeros_like(board)
    launch(life, (3, 4), (8, 8), board, after)
    alive = sum(np.roll(board, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)) - board
    np.testing.assert_array_equal(after, (alive == 3) | ((board == 1) & (alive == 2)))


@cuda.jit
def heat_step(u, v, r):
    """A 2-D stencil with a halo in shared memory."""
    tile = cuda.shared.array((10, 10), float64)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.blockIdx.x * 8 + tx, cuda.blockIdx.y * 8 + ty
    n, m = u.shape
    for sy in range(ty, 10, 8):
        for sx in range(tx, 10, 8):
            gx = min(max(cuda.blockIdx.x * 8 + sx - 1, 0), n - 1)
            gy = min(max(cuda.blockIdx.y * 8 + sy - 1, 0), m - 1)
            tile[sx, sy] = u[gx, gy]
    cuda.syncthreads()
    if x < n and y < m:
        a, b = tx + 1, ty + 1
        centre = tile[a, b]
        v[x, y] = centre + r * (tile[a - 1, b] + tile[a + 1, b] + tile[a, b - 1] + tile[a, b + 1] - 4 * centre)


def test_heat_equation_with_a_shared_halo(launch):
    u = np.random.default_rng(10).random((19, 22))
    v = np.zeros_like(u)
    launch(heat_step, (3, 3), (8, 8), u, v, 0.1)
    p = np.pad(u, 1, mode="edge")
    expected = u + 0.1 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u)
    np.testing.assert_allclose(v, expected, rtol=1e-13)


@cuda.jit
def edit_distance(a, b, out):
    """One thread a pair of words, one row of the table in local memory."""
    i = cuda.grid(1)
    if i < a.shape[0]:
        row = cuda.local.array(17, int32)
        for j in range(b.shape[1] + 1):
            row[j] = j
        for k in range(a.shape[1]):
            diagonal = row[0]
            row[0] = k + 1
            for j in range(b.shape[1]):
                cost = diagonal + (0 if a[i, k] == b[i, j] else 1)
                diagonal = row[j + 1]
                row[j + 1] = min(cost, min(row[j] + 1, diagonal + 1))
        out[i] = row[b.shape[1]]


def test_edit_distances(launch):
    rng = np.random.default_rng(11)
    a, b = (rng.integers(0, 4, (40, n)).astype(np.uint8) for n in (12, 16))
    out = np.zeros(40, np.int32)
    launch(edit_distance, 2, 32, a, b, out)
    for first, second, got in zip(a.tolist(), b.tolist(), out, strict=True):
        previous = list(range(17))
        for k, x in enumerate(first):
            current = [k + 1]
            for j, y in enumerate(second):
                current.append(min(previous[j] + (x != y), current[j] + 1, previous[j + 1] + 1))
            previous = current
        assert got == previous[-1]


@cuda.jit
def lower_triangle_solve(matrix, rhs):
    """Forward substitution by one block: a barrier between the unknowns."""
    t = cuda.threadIdx.x
    n = matrix.shape[0]
    for k in range(n):
        if t == k:
            rhs[k] /= matrix[k, k]
        cuda.syncthreads()
        if t > k and t < n:
            rhs[t] -= matrix[t, k] * rhs[k]
        cuda.syncthreads()


def test_triangular_solve(launch):
    rng = np.random.default_rng(12)
    matrix = np.tril(rng.random((25, 25))) + 2 * np.eye(25)
    x = rng.random(25)
    rhs = matrix @ x
    launch(lower_triangle_solve, 1, 32, matrix, rhs)
    np.testing.assert_allclose(rhs, x, rtol=1e-12)


@cuda.jit
def nearest_centre(points, centres, label, sums, counts):
    i = cuda.grid(1)
    if i < points.shape[0]:
        best, chosen = 1e300, 0
        for c in range(centres.shape[0]):
            distance = 0.0
            for d in range(points.shape[1]):
                delta = points[i, d] - centres[c, d]
                distance += delta * delta
            if distance < best:
                best, chosen = distance, c
        label[i] = chosen
        cuda.atomic.add(counts, chosen, 1)
        for d in range(points.shape[1]):
            cuda.atomic.add(sums, (chosen, d), points[i, d])


def test_a_k_means_step(launch):
    rng = np.random.default_rng(13)
    points, centres = rng.random((150, 3)), rng.random((6, 3))
    label, sums, counts = np.zeros(150, np.int32), np.zeros((6, 3)), np.zeros(6, np.int64)
    launch(nearest_centre, 3, 64, points, centres, label, sums, counts)
    expected = ((points[:, None] - centres) ** 2).sum(2).argmin(1)
    np.testing.assert_array_equal(label, expected)
    np.testing.assert_array_equal(counts, np.bincount(expected, minlength=6))
    for c in range(6):
        np.testing.assert_allclose(sums[c], points[expected == c].sum(0), rtol=1e-12)


@cuda.jit
def merge_sorted(a, b, out):
    """Each thread places one element by a binary search in the other array."""
    i = cuda.grid(1)
    if i < a.size + b.size:
        from_a = i < a.size
        key = a[i] if from_a else b[i - a.size]
        low, high = 0, b.size if from_a else a.size
        while low < high:
            middle = (low + high) // 2
            before = b[middle] < key if from_a else a[middle] <= key
            if before:
                low = middle + 1
            else:
                high = middle
        out[low + (i if from_a else i - a.size)] = key


def test_merge_by_binary_search(launch):
    rng = np.random.default_rng(14)
    a, b = np.sort(rng.integers(0, 50, 70)), np.sort(rng.integers(0, 50, 45))
    out = np.zeros(115, np.int64)
    launch(merge_sorted, 4, 32, a, b, out)
    np.testing.assert_array_equal(out, np.sort(np.concatenate([a, b])))


@cuda.jit
def blelloch(values):
    """An exclusive scan in place: up-sweep, down-sweep, bank-conflicting strides."""
    shared = cuda.shared.array(256, int32)
    t = cuda.threadIdx.x
    shared[2 * t], shared[2 * t + 1] = values[2 * t], values[2 * t + 1]
    offset, d = 1, 128
    while d > 0:
        cuda.syncthreads()
        if t < d:
            shared[offset * (2 * t + 2) - 1] += shared[offset * (2 * t + 1) - 1]
        offset *= 2
        d //= 2
    if t == 0:
        shared[255] = 0
    d = 1
    while d < 256:
        offset //= 2
        cuda.syncthreads()
        if t < d:
            i, j = offset * (2 * t + 1) - 1, offset * (2 * t + 2) - 1
            moved = shared[i]
            shared[i] = shared[j]
            shared[j] += moved
        d *= 2
    cuda.syncthreads()
    values[2 * t], values[2 * t + 1] = shared[2 * t], shared[2 * t + 1]


def test_work_efficient_scan(launch):
    values = np.random.default_rng(15).integers(0, 100, 256).astype(np.int32)
    expected = np.cumsum(values) - values
    launch(blelloch, 1, 128, values)
    np.testing.assert_array_equal(values, expected)


@cuda.jit
def pagerank_step(row_start, sources, degree, rank, after, damping):
    v = cuda.grid(1)
    if v < rank.size:
        acc = 0.0
        for k in range(row_start[v], row_start[v + 1]):
            acc += rank[sources[k]] / degree[sources[k]]
        after[v] = (1.0 - damping) / rank.size + damping * acc


def test_pagerank(launch):
    rng = np.random.default_rng(16)
    links = (rng.random((60, 60)) < 0.1) | np.eye(60, k=1, dtype=bool) | np.eye(60, k=-59, dtype=bool)
    degree = links.sum(1)
    row_start = np.concatenate(([0], np.cumsum(links.sum(0)))).astype(np.int64)
    sources = np.ascontiguousarray(np.nonzero(links.T)[1])
    rank = np.full(60, 1 / 60)
    expected = rank.copy()
    for _ in range(3):
        after = np.zeros(60)
        launch(pagerank_step, 2, 32, row_start, sources, degree, rank, after, 0.85)
        rank = after
        expected = 0.15 / 60 + 0.85 * links.T @ (expected / degree)
    np.testing.assert_allclose(rank, expected, rtol=1e-13)
