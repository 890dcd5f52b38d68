"""What can never end is reported with who waits where; what only has to wait, ends."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, int32

from gpusim.capturing import capture
from gpusim.emulator import block_scheduler
from gpusim.errors import DeadlockError, InstructionLimitError


@pytest.fixture
def short_turns(monkeypatch):
    """Blocks take turns early, so that nobody has to spin for millions of instructions."""
    monkeypatch.setattr(block_scheduler, "_SLICE_TOGETHER", 2000)
    monkeypatch.setattr("gpusim.emulator.state.BLOCK_SLICE", 20_000)


def line(kernel, offset: int) -> str:
    return f"test_deadlocks.py:{kernel.py_func.__code__.co_firstlineno + offset}"


def message(error, kernel, *args, grid=1, block=64, **options) -> str:
    before = [np.copy(value) for value in args if isinstance(value, np.ndarray)]
    with pytest.raises(error) as caught:
        capture(kernel, grid, block, args, gpu="sm_90", **options)
    after = [value for value in args if isinstance(value, np.ndarray)]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    text = str(caught.value)
    assert "\n" not in text and kernel.py_func.__name__ in text
    return text


@cuda.jit
def half_at_the_barrier(out, n):
    t = cuda.threadIdx.x
    if t < n:
        cuda.syncthreads()
        for k in range(t):
            out[t] += out[k]
    out[t] += 1
    cuda.syncthreads()
    out[t] += out[31 - t % 32]


def test_a_barrier_that_stays_short_says_how_many_have_come():
    text = message(DeadlockError, half_at_the_barrier, np.zeros(96, np.int32), 16, block=96)
    assert "deadlock in block (0, 0, 0)" in text
    assert "for barrier 0, at which 80 of 96 threads have arrived" in text
    assert "warps 1, 2 wait at" in text and line(half_at_the_barrier, 8) in text
    assert "warp 0 lanes 0xffff0000 waits at" in text and "BSYNC" in text


@cuda.jit
def flag_in_shared_memory(out):
    flag = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        flag[0] = 0
    cuda.syncthreads()
    if t >= 32:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
    cuda.syncthreads()
    if t == 0:
        flag[0] = 1  # too late: the others never come to the barrier before
    out[t] = flag[0]


def test_a_warp_that_spins_for_one_at_a_barrier_is_a_livelock(short_turns):
    text = message(DeadlockError, flag_in_shared_memory, np.zeros(64, np.int32))
    assert "livelock: all 1 resident blocks only repeat themselves and no memory changes" in text
    assert "warp 0 waits at" in text and "32 of 64 threads have arrived" in text
    assert "warp 1" in text and line(flag_in_shared_memory, 8) in text


@cuda.jit
def each_for_the_other(flags, out):
    b = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        while cuda.atomic.add(flags, 1 - b, 0) == 0:
            pass
        cuda.atomic.add(flags, b, 1)
    cuda.syncthreads()
    out[cuda.grid(1)] = 1


def test_blocks_that_spin_for_each_other_are_a_livelock(short_turns):
    text = message(DeadlockError, each_for_the_other, np.zeros(2, np.int32), np.zeros(128, np.int32), grid=2)
    assert "livelock: all 2 resident blocks" in text
    assert "block (0, 0, 0)" in text and "block (1, 0, 0)" in text and line(each_for_the_other, 4) in text


@cuda.jit
def one_leaves(values):
    grid = cuda.cg.this_grid()
    if cuda.blockIdx.x == 2:
        return
    grid.sync()
    values[cuda.grid(1)] += 1


def test_a_grid_barrier_that_a_block_never_comes_to_is_a_deadlock():
    text = message(DeadlockError, one_leaves, np.zeros(4 * 64, np.int32), grid=4)
    assert "deadlock at the grid-wide barrier: 3 blocks wait, 1 block has ended without coming to it" in text
    assert "block (3, 0, 0)" in text and "warps 0, 1 wait at" in text and "for all blocks of the grid" in text


@cuda.jit
def counting_spin(flag):
    turns = 0
    while cuda.atomic.add(flag, 0, 0) == 0:
        turns += 1
    flag[1] = turns


def test_a_poll_that_counts_ends_at_once_where_nobody_is_left_to_write():
    text = message(DeadlockError, counting_spin, np.zeros(2, np.int32), block=32, instruction_limit=300_000)
    assert "all 1 resident blocks only repeat themselves" in text
    assert "warp 0" in text and line(counting_spin, 3) in text


@cuda.jit
def bounded_spin(flag):
    turns = 0
    while cuda.atomic.add(flag, 0, 0) == 0 and turns < flag[1]:
        turns += 1
    flag[2] = turns


def test_a_spin_that_gives_up_in_the_end_meets_the_limit_which_says_where_it_spins(short_turns):
    flag = np.array([0, 1 << 30, 0], np.int32)
    text = message(InstructionLimitError, bounded_spin, flag, block=32, instruction_limit=300_000)
    assert "300000 warp instructions" in text and "raise instruction_limit" in text
    assert "warp 0" in text and line(bounded_spin, 3) in text


@cuda.jit
def last_block_adds_up(values, partial, ticket, out):
    last = cuda.shared.array(1, int32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    if t == 0:
        total = 0
        for k in range(64):
            total += values[b * 64 + k]
        partial[b] = total
        cuda.threadfence()
        last[0] = cuda.atomic.add(ticket, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] and t == 0:
        total = 0
        for k in range(cuda.gridDim.x):
            total += partial[k]
        out[0] = total


@cuda.jit
def waits_for_the_one_before(flags, out):
    b = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        while b > 0 and cuda.atomic.add(flags, b - 1, 0) == 0:
            pass
        out[b] = out[b - 1] + 1 if b else 1
        cuda.threadfence()
        cuda.atomic.add(flags, b, 1)


@cuda.jit
def waits_for_the_one_behind(flags, out):
    b = cuda.gridDim.x - 1 - cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        while b > 0 and cuda.atomic.add(flags, b - 1, 0) == 0:
            pass
        out[b] = out[b - 1] + 1 if b else 1
        cuda.threadfence()
        cuda.atomic.add(flags, b, 1)


@cuda.jit
def meets_often(values, turns):
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    for _ in range(turns):
        left = values[i - 1] if i > 0 else 1
        grid.sync()
        values[i] += left
        grid.sync()


def test_last_block_done_ends():
    values, partial = np.arange(640, dtype=np.int64), np.zeros(10, np.int64)
    ticket, out = np.zeros(1, np.int32), np.zeros(1, np.int64)
    capture(last_block_adds_up, 10, 64, (values, partial, ticket, out), gpu="sm_90")
    assert out[0] == values.sum()


@pytest.mark.parametrize("kernel", [waits_for_the_one_before, waits_for_the_one_behind])
def test_chains_of_blocks_end_in_either_order(kernel, short_turns):
    out = np.zeros(8, np.int32)
    capture(kernel, 8, 32, (np.zeros(8, np.int32), out), gpu="sm_90")
    assert (out == np.arange(1, 9)).all()


def test_grid_barriers_end_whatever_the_length_of_a_turn(short_turns):
    values = np.ones(4 * 64, np.int64)
    expected = np.ones(4 * 64, np.int64)
    for _ in range(20):
        expected += np.concatenate(([1], expected[:-1]))
    capture(meets_often, 4, 64, (values, 20), gpu="sm_90")
    assert (values == expected).all()
