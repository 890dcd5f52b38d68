"""What ``check=("sync",)`` finds, and what it leaves alone: barriers that a part of a warp or block comes to."""

from __future__ import annotations

import numpy as np
import pytest
from llvmlite import ir
from numba import cuda, types
from numba.cuda.extending import intrinsic

from gpusim.capturing import capture
from gpusim.errors import DeadlockError
from gpusim.trace.record import Trace

THREADS, BLOCKS = 64, 3
IN_WARP, IN_BLOCK = "Divergent thread(s) in warp", "Divergent thread(s) in block"
#: Barriers are the same instructions on both: what is found is asked of one each day, what is none of the other, and
#: nightly both of both.
FOUND_ON = ("sm_80", pytest.param("sm_90", marks=pytest.mark.nightly))
NONE_ON = (pytest.param("sm_80", marks=pytest.mark.nightly), "sm_90")


def ptx(text: str, operands: int):
    """A device function of ``operands`` 32-bit integers that runs ``text``."""
    integer = ir.IntType(32)

    def lower(context, builder, signature, values):
        kind = ir.FunctionType(ir.VoidType(), [integer] * operands)
        letters = ",".join(["r"] * operands)
        builder.call(ir.InlineAsm(kind, text, letters, side_effect=True), values)
        return context.get_dummy_value()

    if operands == 1:

        @intrinsic
        def run(typingctx, a):
            return types.void(types.int32), lower

    else:

        @intrinsic
        def run(typingctx, a, b):
            return types.void(types.int32, types.int32), lower

    return run


wait_at, wait_for, arrive = ptx("bar.sync $0;", 1), ptx("bar.sync $0, $1;", 2), ptx("bar.arrive $0, $1;", 2)


@cuda.jit
def half_a_warp(x):
    t = cuda.threadIdx.x
    if t < 16:
        cuda.syncthreads()  # +4
    x[t] = t


@cuda.jit
def one_warp(x):
    t = cuda.threadIdx.x
    if t < 32:
        cuda.syncthreads()  # +4
    x[t] = t


@cuda.jit
def a_warp_and_a_half(x):
    t = cuda.threadIdx.x
    if t < 48:
        x[t + 64] = t
        cuda.syncthreads()  # +5
        x[t + 64] += x[(t + 1) % 48 + 64]
    x[t] = t


@cuda.jit
def two_places(x):
    t = cuda.threadIdx.x
    if t < 32:
        x[t] = 1
        cuda.syncthreads()
        x[t] += x[t + 32]
    else:
        x[t] = 2
        cuda.syncthreads()
        x[t] *= x[t - 32]


@cuda.jit
def unlike_turns(x):
    t = cuda.threadIdx.x
    total = 0
    for i in range(t // 32 + 1):
        total += x[(t + i) % 64]
        cuda.syncthreads()  # +6
    x[t] = total


@cuda.jit
def leaves_early(x):
    t = cuda.threadIdx.x
    if t >= 24:
        return
    x[t] = 1
    cuda.syncthreads()
    x[t] += x[23 - t]


@cuda.jit
def every_second_leaves(x):
    t = cuda.threadIdx.x
    if t % 2:
        x[t] = 3
        return
    x[t] = 1
    cuda.syncthreads()
    x[t] += x[62 - t]


@cuda.jit
def in_a_loop(x):
    t = cuda.threadIdx.x
    for _ in range(7):
        x[t] += 1
        cuda.syncthreads()
        if t < 16:
            x[t] += x[63 - t]
        cuda.syncthreads()


@cuda.jit
def leaves_the_loop_early(x, n):
    t = cuda.threadIdx.x
    while True:
        if x[t] + t // 32 >= n:
            return
        x[t] += 1
        cuda.syncthreads()


@cuda.jit
def not_in_its_mask(x):
    t = cuda.threadIdx.x
    cuda.syncwarp(0x0000FFFF if t < 40 else 0xFFFFFFFF)
    x[t] = 1


@cuda.jit
def warp_in_a_branch(x):
    t = cuda.threadIdx.x
    if t % 2:
        x[t] = x[t] * 2
        cuda.syncwarp()
        x[t] = x[t ^ 2] * 2
    x[t] += 1


@cuda.jit
def halves_of_a_warp(x):
    t = cuda.threadIdx.x
    x[t] = t
    if t % 32 < 16:
        cuda.syncwarp(0x0000FFFF)
        x[t] += x[t ^ 1]
    else:
        cuda.syncwarp(0xFFFF0000)
        x[t] += x[t ^ 2]


@cuda.jit
def producer_and_consumer(x):
    t = cuda.threadIdx.x
    if t < 32:
        x[t] = t
        arrive(1, 64)
    else:
        wait_for(1, 64)
        x[t] = x[t - 32]


@cuda.jit
def counts_differ(x, n):
    t = cuda.threadIdx.x
    if t < 32:
        wait_for(1, n)
        x[t] = 1
    else:
        wait_for(1, 64)
        x[t] = 2


@cuda.jit
def never_full(x):
    t = cuda.threadIdx.x
    if t < 32:
        wait_for(2, 64)
    x[t] = t


@cuda.jit
def odd_count(x, n):
    wait_for(1, n)
    x[cuda.threadIdx.x] = 1


@cuda.jit
def odd_number(x, number):
    wait_at(number)
    x[cuda.threadIdx.x] = 1


@cuda.jit
def in_registers(x, n, number):
    t = cuda.threadIdx.x
    if t < n:
        x[t] = 1
        wait_for(number, n)
        x[t] += x[n - 1 - t]


@cuda.jit
def most_of_the_grid(x):
    if cuda.blockIdx.x < 2:
        cuda.cg.this_grid().sync()
    x[cuda.threadIdx.x] = 1


def trace(kernel, *more, gpu="sm_90", check=("sync",)) -> Trace:
    return capture(kernel, BLOCKS, THREADS, (np.zeros(2 * THREADS, np.int32), *more), gpu=gpu, check=check)


def line(kernel, offset: int) -> str:
    return f"test_sync_checks.py:{kernel.py_func.__code__.co_firstlineno + offset})"


@pytest.mark.parametrize("gpu", FOUND_ON)
@pytest.mark.parametrize(
    "kernel, what, offset, threads",
    [
        (half_a_warp, IN_WARP, 4, 16),
        (one_warp, IN_BLOCK, 4, 32),
        (a_warp_and_a_half, IN_WARP, 5, 48),
        (two_places, IN_BLOCK, None, 32),
        (unlike_turns, IN_BLOCK, 6, 32),
        (warp_in_a_branch, IN_WARP, None, 32),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_barrier_that_not_all_come_to_is_found_with_its_line(kernel, what, offset, threads, gpu):
    (found,) = trace(kernel, gpu=gpu).findings
    assert (found.tool, found.what) == ("synccheck", what)
    assert offset is None or found.where.endswith(line(kernel, offset))
    assert threads is None or found.count == threads * BLOCKS, found


@pytest.mark.parametrize("gpu", NONE_ON)
@pytest.mark.parametrize(
    "kernel, args",
    [
        (leaves_early, ()),
        (every_second_leaves, ()),
        (in_a_loop, ()),
        (leaves_the_loop_early, (3,)),
        (halves_of_a_warp, ()),
        (producer_and_consumer, ()),
        (in_registers, (32, 5)),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_threads_that_have_left_and_barriers_of_a_part_are_no_findings(kernel, args, gpu):
    assert trace(kernel, *args, gpu=gpu).findings == ()


def test_a_thread_outside_its_own_mask_is_an_invalid_argument():
    (found,) = trace(not_in_its_mask).findings
    assert found.what == "Invalid arguments" and "WARPSYNC" in found.where and "lacks the thread" in found.detail
    assert found.thread == (16, 0, 0)


def test_counts_that_do_not_match_name_both_sides():
    found = next(f for f in trace(counts_differ, 32).findings if f.what == "Invalid arguments")
    assert found.detail == "barrier 1 for 32 threads here, for 64 there" and found.count == 32 * BLOCKS
    assert found.where.endswith(line(counts_differ, 4)) and found.other_where.endswith(line(counts_differ, 7))
    assert (found.thread, found.other_thread) == ((0, 0, 0), (32, 0, 0))


@pytest.mark.parametrize(
    "kernel, value, detail",
    [
        (odd_count, 48, "barrier 1 with 48 threads, which is no multiple of 32"),
        (odd_count, 96, "barrier 1 with 96 threads, the block has 64"),
        (odd_number, 17, "barrier 17, there are 0 to 15"),
    ],
)
def test_counts_and_numbers_that_no_barrier_has_are_invalid_arguments(kernel, value, detail):
    found = trace(kernel, np.int32(value)).findings[0]
    assert found.what == "Invalid arguments" and found.detail == detail and found.count == THREADS * BLOCKS


def test_a_block_that_is_stuck_is_a_finding_and_the_others_run():
    out = np.zeros(2 * THREADS, np.int32)
    with pytest.raises(DeadlockError):
        capture(never_full, BLOCKS, THREADS, (out,), gpu="sm_90")
    captured = capture(never_full, BLOCKS, THREADS, (out,), gpu="sm_90", check=("sync",))
    (found,) = captured.findings
    assert (found.what, found.count, found.thread) == (IN_BLOCK, 32 * BLOCKS, (0, 0, 0))
    assert found.detail == "32 of the 64 threads come that barrier 2 waits for"
    assert (out[32:64] == np.arange(32, 64)).all() and not out[:32].any()
    assert sum(chunk.blocks for chunk in captured.chunk_list) == BLOCKS


def test_a_grid_wide_barrier_that_a_block_does_not_come_to_is_a_finding():
    with pytest.raises(DeadlockError):
        trace(most_of_the_grid, check=())
    (found,) = trace(most_of_the_grid).findings
    assert found.what == "Divergent thread(s) in grid" and found.count == 2 * THREADS
