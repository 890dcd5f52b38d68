"""Atomics of each kind and type, in global and shared memory, and what is built from them."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, float32, float64, int32, int64, uint32
from shared_launches import for_each, share

INTEGERS = (np.int32, np.uint32, np.int64, np.uint64)
UNSIGNED = (np.uint32, np.uint64)
FLOATS = (np.float32, np.float64)
NUMBERS = (*INTEGERS, *FLOATS)


def each(types):
    """The test for each type; one launch has them all."""
    return pytest.mark.parametrize("dtype", types, ids=lambda t: t.__name__)


def sums_and_extremes(values, where, out):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(out, (0, where[i]), values[i])
        cuda.atomic.sub(out, (1, where[i]), values[i])
        cuda.atomic.max(out, (2, where[i]), values[i])
        cuda.atomic.min(out, (3, where[i]), values[i])


@each(NUMBERS)
def test_global_atomics_combine_every_update(request, launch, dtype):
    def arguments(dtype):
        rng = np.random.default_rng(1)
        values = rng.integers(0, 1000, 500).astype(dtype)
        if np.issubdtype(dtype, np.signedinteger) or np.issubdtype(dtype, np.floating):
            values -= dtype(500)
        return values, rng.integers(0, 8, 500).astype(np.int32), np.full((4, 8), 100, dtype)

    values, where, out = share(request, launch, for_each(sums_and_extremes), (4, 128), NUMBERS, arguments, dtype)
    with np.errstate(over="ignore"):
        for bin_ in range(8):
            mine = values[where == bin_]
            assert out[0, bin_] == dtype(100) + mine.sum(dtype=dtype)
            assert out[1, bin_] == dtype(100) - mine.sum(dtype=dtype)
            assert out[2, bin_] == max(mine.max(), dtype(100))
            assert out[3, bin_] == min(mine.min(), dtype(100))


def bitwise(values, out):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.and_(out, 0, values[i])
        cuda.atomic.or_(out, 1, values[i])
        cuda.atomic.xor(out, 2, values[i])


@each(INTEGERS)
def test_bitwise_atomics(request, launch, dtype):
    def arguments(dtype):
        rng = np.random.default_rng(2)
        values = rng.integers(0, np.iinfo(dtype).max, 77, dtype=np.uint64 if dtype is np.uint64 else np.int64)
        out = np.array([-1 if np.iinfo(dtype).min < 0 else np.iinfo(dtype).max, 0, 0], dtype)
        return values.astype(dtype) | dtype(0x55), out

    values, out = share(request, launch, for_each(bitwise), (3, 32), INTEGERS, arguments, dtype)
    for got, op in zip(out, (np.bitwise_and, np.bitwise_or, np.bitwise_xor), strict=True):
        assert got == op.reduce(values)


def exchanges(slots, seen):
    i = cuda.grid(1)
    if i < seen.size:
        seen[i] = cuda.atomic.exch(slots, 0, seen.dtype.type(i + 1))


@each(INTEGERS)
def test_exchange_hands_every_value_on_once(request, launch, dtype):
    def arguments(dtype):
        return np.zeros(1, dtype), np.zeros(100, dtype)

    slots, seen = share(request, launch, for_each(exchanges), (4, 32), INTEGERS, arguments, dtype)
    assert sorted([*seen.tolist(), int(slots[0])]) == list(range(101))


def wrapped_counters(up, down, seen):
    i = cuda.grid(1)
    if i < seen.size:
        seen[i] = cuda.atomic.inc(up, 0, 9)
        cuda.atomic.dec(down, 0, 6)


@each(UNSIGNED)
def test_counters_that_wrap(request, launch, dtype):
    def arguments(dtype):
        return np.zeros(1, dtype), np.array([3], dtype), np.zeros(64, dtype)

    up, down, seen = share(request, launch, for_each(wrapped_counters), (2, 32), UNSIGNED, arguments, dtype)
    assert up[0] == 64 % 10
    assert np.bincount(seen.astype(int), minlength=10).tolist() == [7] * 4 + [6] * 6
    value = 3
    for _ in range(64):
        value = 6 if value == 0 or value > 6 else value - 1
    assert down[0] == value


def swaps(slots, expected, replacement, old):
    i = cuda.grid(1)
    if i < old.size:
        old[i] = cuda.atomic.cas(slots, i, expected[i], replacement[i])


@each(INTEGERS)
def test_compare_and_swap(request, launch, dtype):
    def arguments(dtype):
        rng = np.random.default_rng(3)
        slots, expected = (rng.integers(0, 2, 90).astype(dtype) for _ in range(2))
        return slots, expected, np.arange(10, 100).astype(dtype), np.zeros(90, dtype)

    before = arguments(dtype)[0]
    slots, expected, replacement, old = share(request, launch, for_each(swaps), (3, 32), INTEGERS, arguments, dtype)
    np.testing.assert_array_equal(old, before)
    np.testing.assert_array_equal(slots, np.where(before == expected, replacement, before))


@cuda.jit
def first_comer(slot, winner):
    i = cuda.grid(1)
    if cuda.atomic.compare_and_swap(slot, -1, i) == -1:
        winner[0] = i


def test_one_thread_alone_wins_a_compare_and_swap(launch):
    slot, winner = np.full(1, -1, np.int32), np.full(1, -1, np.int32)
    launch(first_comer, 4, 64, slot, winner)
    assert 0 <= slot[0] == winner[0]


@cuda.jit
def shared_statistics(values, out):
    total = cuda.shared.array(1, float64)
    low = cuda.shared.array(1, int32)
    high = cuda.shared.array(1, int32)
    bits = cuda.shared.array(1, uint32)
    count = cuda.shared.array(1, int64)
    small = cuda.shared.array(1, float32)
    t = cuda.threadIdx.x
    if t == 0:
        total[0], low[0], high[0], bits[0], count[0], small[0] = 0, 1 << 30, -(1 << 30), 0, 0, 0
    cuda.syncthreads()
    v = values[t]
    cuda.atomic.add(total, 0, v * 0.5)
    cuda.atomic.min(low, 0, v)
    cuda.atomic.max(high, 0, v)
    cuda.atomic.or_(bits, 0, uint32(1) << uint32(v & 31))
    cuda.atomic.add(count, 0, 1)
    cuda.atomic.add(small, 0, float32(1))
    cuda.syncthreads()
    if t == 0:
        out[0], out[1], out[2] = total[0], low[0], high[0]
        out[3], out[4], out[5] = bits[0], count[0], small[0]


def test_shared_memory_atomics_of_every_type(launch):
    values = np.random.default_rng(5).integers(-1000, 1000, 160).astype(np.int32)
    out = np.zeros(6)
    launch(shared_statistics, 1, 160, values, out)
    bits = np.bitwise_or.reduce(1 << (values & 31).astype(np.int64))
    assert out.tolist() == [values.sum() * 0.5, values.min(), values.max(), bits, 160, 160]


def float_extremes(values, out):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.max(out, 0, values[i])
        cuda.atomic.min(out, 1, values[i])
        cuda.atomic.nanmax(out, 2, values[i])
        cuda.atomic.nanmin(out, 3, values[i])


@each(FLOATS)
def test_float_extremes_by_compare_and_swap_loops(request, launch, dtype):
    def arguments(dtype):
        return np.random.default_rng(6).standard_normal(100).astype(dtype) * 10, np.zeros(4, dtype)

    values, out = share(request, launch, for_each(float_extremes), (2, 64), FLOATS, arguments, dtype)
    assert out.tolist() == [values.max(), values.min(), values.max(), values.min()]


@cuda.jit
def increment_under_lock(lock, counter):
    """A spin lock; lanes of one warp compete, so it finishes only if each makes progress."""
    done = False
    while not done:
        if cuda.atomic.cas(lock, 0, 0, 1) == 0:
            cuda.threadfence()
            counter[0] += 1
            cuda.threadfence()
            cuda.atomic.exch(lock, 0, 0)
            done = True


def test_a_spin_lock_between_lanes_makes_progress(launch):
    lock, counter = np.zeros(1, np.int32), np.zeros(1, np.int64)
    launch(increment_under_lock, 2, 64, lock, counter)
    assert counter[0] == 128 and lock[0] == 0


@cuda.jit
def insert(keys, table, values):
    """Open addressing: a slot is claimed by compare-and-swap, its value is a sum."""
    i = cuda.grid(1)
    if i < keys.size:
        key = keys[i]
        slot = (key * 40503) % table.size
        while True:
            found = cuda.atomic.cas(table, slot, -1, key)
            if found == -1 or found == key:
                cuda.atomic.add(values, slot, 1)
                break
            slot = (slot + 1) % table.size


def test_hash_table_counts_keys(launch):
    keys = np.random.default_rng(7).integers(0, 60, 300).astype(np.int32)
    table, values = np.full(127, -1, np.int32), np.zeros(127, np.int32)
    launch(insert, 3, 128, keys, table, values)
    unique, counts = np.unique(keys, return_counts=True)
    assert dict(zip(table[table >= 0].tolist(), values[table >= 0].tolist(), strict=True)) == dict(
        zip(unique.tolist(), counts.tolist(), strict=True)
    )


@cuda.jit
def sum_with_last_block(values, partial, ticket, total):
    """Blocks leave partial sums; the block that draws the last ticket adds them up."""
    scratch = cuda.shared.array(64, float64)
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    scratch[t] = values[i] if i < values.size else 0.0
    cuda.syncthreads()
    half = 32
    while half > 0:
        if t < half:
            scratch[t] += scratch[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        partial[cuda.blockIdx.x] = scratch[0]
        cuda.threadfence()
        last[0] = cuda.atomic.add(ticket, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] and t == 0:
        acc = 0.0
        for b in range(cuda.gridDim.x):
            acc += partial[b]
        total[0] = acc


def test_the_last_block_finishes_a_reduction(launch):
    values = np.random.default_rng(8).random(500)
    partial, ticket, total = np.zeros(8), np.zeros(1, np.int32), np.zeros(1)
    launch(sum_with_last_block, 8, 64, values, partial, ticket, total)
    np.testing.assert_allclose(total[0], values.sum(), rtol=1e-13)


def returned_values(counter, seen):
    i = cuda.grid(1)
    if i < seen.size:
        seen[i] = cuda.atomic.add(counter, 0, 2)


@each(INTEGERS)
def test_an_atomic_returns_the_value_before_it(request, launch, dtype):
    def arguments(dtype):
        return np.zeros(1, dtype), np.zeros(70, dtype)

    counter, seen = share(request, launch, for_each(returned_values), (3, 32), INTEGERS, arguments, dtype)
    assert sorted(seen.tolist()) == list(range(0, 140, 2)) and counter[0] == 140
