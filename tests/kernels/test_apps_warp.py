"""Lanes talking to lanes: shuffles, votes, matches, block-wide predicates, warp-level algorithms."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, float32, int32, uint32
from shared_launches import for_each, share

ALL = 0xFFFFFFFF
WORDS = (np.int32, np.int64, np.float32, np.float64)
FLOATS = (np.float32, np.float64)


@cuda.jit
def inclusive_scan(values, out):
    """A warp scan by shuffles up, then the warps' sums scanned by the first warp."""
    sums = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    lane, warp = t % 32, t // 32
    i = cuda.grid(1)
    value = values[i] if i < values.size else int32(0)
    offset = 1
    while offset < 32:
        other = cuda.shfl_up_sync(ALL, value, offset)
        if lane >= offset:
            value += other
        offset *= 2
    if lane == 31:
        sums[warp] = value
    cuda.syncthreads()
    if warp == 0:
        total = sums[lane] if lane < cuda.blockDim.x // 32 else int32(0)
        offset = 1
        while offset < 32:
            other = cuda.shfl_up_sync(ALL, total, offset)
            if lane >= offset:
                total += other
            offset *= 2
        sums[lane] = total
    cuda.syncthreads()
    if warp > 0:
        value += sums[warp - 1]
    if i < out.size:
        out[i] = value


@pytest.mark.parametrize("threads", [32, 256, 1024])
def test_block_scan_by_shuffles(launch, threads):
    values = np.random.default_rng(1).integers(-50, 50, threads).astype(np.int32)
    out = np.zeros_like(values)
    launch(inclusive_scan, 1, threads, values, out)
    np.testing.assert_array_equal(out, np.cumsum(values))


def shuffles(values, out):
    t = cuda.threadIdx.x
    v = values[t]
    out[0, t] = cuda.shfl_sync(ALL, v, 5)
    out[1, t] = cuda.shfl_sync(ALL, v, (t * 7) % 32)
    out[2, t] = cuda.shfl_up_sync(ALL, v, 3)
    out[3, t] = cuda.shfl_down_sync(ALL, v, 9)
    out[4, t] = cuda.shfl_xor_sync(ALL, v, 21)


@pytest.mark.parametrize("dtype", WORDS, ids=lambda t: t.__name__)
def test_every_shuffle_of_every_width(request, launch, dtype):
    def arguments(dtype):
        return (np.random.default_rng(2).standard_normal(32) * 1e6).astype(dtype), np.zeros((5, 32), dtype)

    values, out = share(request, launch, for_each(shuffles), (1, 32), WORDS, arguments, dtype)
    lane = np.arange(32)
    sources = [np.full(32, 5), lane * 7 % 32, np.where(lane < 3, lane, lane - 3),
               np.where(lane + 9 > 31, lane, lane + 9), lane ^ 21]  # fmt: skip
    np.testing.assert_array_equal(out, [values[s] for s in sources])


@cuda.jit
def votes(values, out):
    t = cuda.threadIdx.x
    big = values[t] > 50
    out[0, t] = cuda.all_sync(ALL, big)
    out[1, t] = cuda.any_sync(ALL, big)
    out[2, t] = cuda.eq_sync(ALL, big)
    out[3, t] = cuda.ballot_sync(ALL, big)
    out[4, t] = cuda.match_any_sync(ALL, values[t] % 4)
    mask, same = cuda.match_all_sync(ALL, values[t] // 1000)
    out[5, t] = mask
    out[6, t] = same
    out[7, t] = cuda.laneid
    out[8, t] = cuda.lanemask_lt()
    out[9, t] = cuda.activemask()


def test_votes_and_matches(launch):
    values = np.random.default_rng(3).integers(0, 100, 64).astype(np.int32)
    out = np.zeros((10, 64), np.int64)
    launch(votes, 1, 64, values, out)
    for warp in (slice(0, 32), slice(32, 64)):
        v = values[warp]
        big = v > 50
        ballot = sum(1 << i for i in range(32) if big[i])
        match = [sum(1 << j for j in range(32) if v[j] % 4 == x % 4) for x in v]
        assert (out[0, warp] == big.all()).all() and (out[1, warp] == big.any()).all()
        assert (out[2, warp] == (big.all() or not big.any())).all()
        assert (out[3, warp] & ALL == ballot).all()
        assert (out[4, warp] & ALL).tolist() == match
        assert (out[5, warp] & ALL == ALL).all() and (out[6, warp] == 1).all()
        assert out[7, warp].tolist() == list(range(32))
        assert (out[8, warp] & ALL).tolist() == [(1 << i) - 1 for i in range(32)]
        assert (out[9, warp] & ALL == ALL).all()


@cuda.jit
def compact(values, kept, count):
    """Keeps odd values: a lane's place is the number of keepers below it, one atomic a warp."""
    i = cuda.grid(1)
    keep = i < values.size and values[min(i, values.size - 1)] % 2 == 1
    keepers = cuda.ballot_sync(ALL, keep)
    lane = cuda.laneid
    base = 0
    if lane == 0:
        base = cuda.atomic.add(count, 0, cuda.popc(uint32(keepers)))
    base = cuda.shfl_sync(ALL, base, 0)
    below = cuda.popc(uint32(keepers) & uint32((1 << lane) - 1))
    if keep:
        kept[base + below] = values[i]


def test_stream_compaction(launch):
    values = np.random.default_rng(4).integers(0, 1000, 500).astype(np.int32)
    kept, count = np.zeros(500, np.int32), np.zeros(1, np.int32)
    launch(compact, 4, 128, values, kept, count)
    odd = values[values % 2 == 1]
    assert count[0] == odd.size
    assert sorted(kept[: odd.size].tolist()) == sorted(odd.tolist())


@cuda.jit
def block_predicates(values, out):
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    v = values[b, t]
    counted = cuda.syncthreads_count(int32(v > 3))
    everyone = cuda.syncthreads_and(int32(v > 0))
    anyone = cuda.syncthreads_or(int32(v > 8))
    out[b, t, 0] = counted
    out[b, t, 1] = everyone != 0
    out[b, t, 2] = anyone != 0


def test_barriers_that_count_and_combine(launch):
    values = np.random.default_rng(5).integers(0, 10, (4, 80)).astype(np.int32)
    values[1] = 5
    values[2] = np.minimum(values[2], 7)
    out = np.zeros((4, 80, 3), np.int32)
    launch(block_predicates, 4, 80, values, out)
    for row, got in zip(values, out, strict=True):
        assert (got == [(row > 3).sum(), (row > 0).all(), (row > 8).any()]).all()


def warp_maxima(values, best, where):
    lane = cuda.threadIdx.x % 32
    row = cuda.grid(1) // 32
    if row < values.shape[0]:
        value = values[row, lane]
        index = lane
        offset = 16
        while offset > 0:
            other = cuda.shfl_down_sync(ALL, value, offset)
            other_index = cuda.shfl_down_sync(ALL, index, offset)
            if other > value:
                value, index = other, other_index
            offset //= 2
        if lane == 0:
            best[row] = value
            where[row] = index


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.__name__)
def test_argmax_by_shuffles(request, launch, dtype):
    def arguments(dtype):
        values = np.random.default_rng(6).standard_normal((11, 32)).astype(dtype)
        return values, np.zeros(11, dtype), np.zeros(11, np.int32)

    values, best, where = share(request, launch, for_each(warp_maxima), (6, 64), FLOATS, arguments, dtype)
    np.testing.assert_array_equal(best, values.max(axis=1))
    np.testing.assert_array_equal(where, values.argmax(axis=1))


@cuda.jit
def partial_warps(values, out):
    """Half of a warp shuffles among itself while the other half does something else."""
    t = cuda.threadIdx.x
    v = values[t]
    if t % 32 < 16:
        for offset in (8, 4, 2, 1):
            v += cuda.shfl_xor_sync(0x0000FFFF, v, offset)
    else:
        v = -v
        cuda.syncwarp(0xFFFF0000)
    cuda.syncwarp()
    out[t] = v


def test_shuffles_inside_a_divergent_half(launch):
    values = np.arange(64, dtype=np.int32)
    out = np.zeros_like(values)
    launch(partial_warps, 1, 64, values, out)
    halves = values.reshape(2, 2, 16)
    expected = np.stack([np.repeat(halves[:, 0].sum(axis=1, keepdims=True), 16, 1), -halves[:, 1]], 1)
    np.testing.assert_array_equal(out, expected.ravel())


@cuda.jit
def warp_dot(a, b, out):
    lane = cuda.threadIdx.x
    acc = float32(0)
    for j in range(lane, a.shape[1], 32):
        acc += a[cuda.blockIdx.x, j] * b[j]
    for offset in (16, 8, 4, 2, 1):
        acc += cuda.shfl_down_sync(ALL, acc, offset)
    if lane == 0:
        out[cuda.blockIdx.x] = acc


def test_matrix_vector_product_a_warp_a_row(launch):
    rng = np.random.default_rng(7)
    a, b = rng.random((9, 77), np.float32), rng.random(77, np.float32)
    out = np.zeros(9, np.float32)
    launch(warp_dot, 9, 32, a, b, out)
    np.testing.assert_allclose(out, a.astype(np.float64) @ b, rtol=1e-6)


@cuda.jit
def ballot_loop(values, rounds):
    """Lanes leave a loop one by one; the rest keep voting among the active ones."""
    t = cuda.threadIdx.x
    left = values[t]
    count = 0
    while left > 0:
        left -= 1
        count += 1
        if cuda.ballot_sync(cuda.activemask(), left > 0) == 0:
            break
    rounds[t] = count


def test_lanes_leave_a_loop_at_different_times(launch):
    values = np.random.default_rng(8).integers(0, 20, 32).astype(np.int32)
    rounds = np.zeros(32, np.int32)
    launch(ballot_loop, 1, 32, values, rounds)
    np.testing.assert_array_equal(rounds, values)


@cuda.jit
def selects(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        out[0, i] = cuda.selp(a[i] > b[i], a[i], b[i])
        out[1, i] = cuda.selp(a[i] % 2 == 0, b[i], int32(-1))


def test_select_intrinsic(launch):
    rng = np.random.default_rng(9)
    a, b = (rng.integers(-99, 99, 60).astype(np.int32) for _ in range(2))
    out = np.zeros((2, 60), np.int32)
    launch(selects, 2, 32, a, b, out)
    np.testing.assert_array_equal(out, [np.maximum(a, b), np.where(a % 2 == 0, b, -1)])
