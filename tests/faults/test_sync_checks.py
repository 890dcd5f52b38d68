"""What ``check=("sync",)`` finds, and what it leaves alone: barriers that a part of a warp or block comes to."""

from __future__ import annotations

import enum
import inspect

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


class Part(enum.IntEnum):
    """What a launch of ``one_part`` runs: the kernels of these tests are branches of one, compiled and listed once."""

    HALF_A_WARP = 0
    ONE_WARP = 1
    A_WARP_AND_A_HALF = 2
    TWO_PLACES = 3
    UNLIKE_TURNS = 4
    LEAVES_EARLY = 5
    EVERY_SECOND_LEAVES = 6
    IN_A_LOOP = 7
    LEAVES_THE_LOOP_EARLY = 8
    NOT_IN_ITS_MASK = 9
    WARP_IN_A_BRANCH = 10
    HALVES_OF_A_WARP = 11
    PRODUCER_AND_CONSUMER = 12
    COUNTS_DIFFER = 13
    NEVER_FULL = 14
    ODD_COUNT = 15
    ODD_NUMBER = 16
    IN_REGISTERS = 17


@cuda.jit
def one_part(part, x, n, number):
    t = cuda.threadIdx.x
    if part == Part.HALF_A_WARP:
        if t < 16:
            cuda.syncthreads()  # +2
        x[t] = t
    elif part == Part.ONE_WARP:
        if t < 32:
            cuda.syncthreads()  # +2
        x[t] = t
    elif part == Part.A_WARP_AND_A_HALF:
        if t < 48:
            x[t + 64] = t
            cuda.syncthreads()  # +3
            x[t + 64] += x[(t + 1) % 48 + 64]
        x[t] = t
    elif part == Part.TWO_PLACES:
        if t < 32:
            x[t] = 1
            cuda.syncthreads()
            x[t] += x[t + 32]
        else:
            x[t] = 2
            cuda.syncthreads()
            x[t] *= x[t - 32]
    elif part == Part.UNLIKE_TURNS:
        total = 0
        for i in range(t // 32 + 1):
            total += x[(t + i) % 64]
            cuda.syncthreads()  # +4
        x[t] = total
    elif part == Part.LEAVES_EARLY:
        if t >= 24:
            return
        x[t] = 1
        cuda.syncthreads()
        x[t] += x[23 - t]
    elif part == Part.EVERY_SECOND_LEAVES:
        if t % 2:
            x[t] = 3
            return
        x[t] = 1
        cuda.syncthreads()
        x[t] += x[62 - t]
    elif part == Part.IN_A_LOOP:
        for _ in range(7):
            x[t] += 1
            cuda.syncthreads()
            if t < 16:
                x[t] += x[63 - t]
            cuda.syncthreads()
    elif part == Part.LEAVES_THE_LOOP_EARLY:
        while True:
            if x[t] + t // 32 >= n:
                return
            x[t] += 1
            cuda.syncthreads()
    elif part == Part.NOT_IN_ITS_MASK:
        cuda.syncwarp(0x0000FFFF if t < 40 else 0xFFFFFFFF)
        x[t] = 1
    elif part == Part.WARP_IN_A_BRANCH:
        if t % 2:
            x[t] = x[t] * 2
            cuda.syncwarp()
            x[t] = x[t ^ 2] * 2
        x[t] += 1
    elif part == Part.HALVES_OF_A_WARP:
        x[t] = t
        if t % 32 < 16:
            cuda.syncwarp(0x0000FFFF)
            x[t] += x[t ^ 1]
        else:
            cuda.syncwarp(0xFFFF0000)
            x[t] += x[t ^ 2]
    elif part == Part.PRODUCER_AND_CONSUMER:
        if t < 32:
            x[t] = t
            arrive(1, 64)
        else:
            wait_for(1, 64)
            x[t] = x[t - 32]
    elif part == Part.COUNTS_DIFFER:
        if t < 32:
            wait_for(1, n)
            x[t] = 1
        else:
            wait_for(1, 64)
            x[t] = 2
    elif part == Part.NEVER_FULL:
        if t < 32:
            wait_for(2, 64)
        x[t] = t
    elif part == Part.ODD_COUNT:
        wait_for(1, n)
        x[t] = 1
    elif part == Part.ODD_NUMBER:
        wait_at(number)
        x[t] = 1
    elif part == Part.IN_REGISTERS:
        if t < n:
            x[t] = 1
            wait_for(number, n)
            x[t] += x[n - 1 - t]


@cuda.jit
def most_of_the_grid(x):
    if cuda.blockIdx.x < 2:
        cuda.cg.this_grid().sync()
    x[cuda.threadIdx.x] = 1


def trace(part, n=0, number=0, gpu="sm_90", check=("sync",), out=None) -> Trace:
    """Of a launch that runs ``part`` alone."""
    out = np.zeros(2 * THREADS, np.int32) if out is None else out
    arguments = (np.int32(part), out, np.int32(n), np.int32(number))
    return capture(one_part, BLOCKS, THREADS, arguments, gpu=gpu, check=check)


def line(part: Part, offset: int) -> str:
    """How a place ends that is ``offset`` lines behind the one where ``part`` begins."""
    lines, first = inspect.getsourcelines(one_part.py_func)
    (begin,) = (i for i, text in enumerate(lines) if text.endswith(f"part == Part.{part.name}:\n"))
    return f"test_sync_checks.py:{first + begin + offset})"


def name(value) -> str | None:
    return value.name.lower() if isinstance(value, Part) else None


@pytest.mark.parametrize("gpu", FOUND_ON)
@pytest.mark.parametrize(
    "part, what, offset, threads",
    [
        (Part.HALF_A_WARP, IN_WARP, 2, 16),
        (Part.ONE_WARP, IN_BLOCK, 2, 32),
        (Part.A_WARP_AND_A_HALF, IN_WARP, 3, 48),
        (Part.TWO_PLACES, IN_BLOCK, None, 32),
        (Part.UNLIKE_TURNS, IN_BLOCK, 4, 32),
        (Part.WARP_IN_A_BRANCH, IN_WARP, None, 32),
    ],
    ids=name,
)
def test_a_barrier_that_not_all_come_to_is_found_with_its_line(part, what, offset, threads, gpu):
    (found,) = trace(part, gpu=gpu).findings
    assert (found.tool, found.what) == ("synccheck", what)
    assert offset is None or found.where.endswith(line(part, offset))
    assert threads is None or found.count == threads * BLOCKS, found


@pytest.mark.parametrize("gpu", NONE_ON)
@pytest.mark.parametrize(
    "part, args",
    [
        (Part.LEAVES_EARLY, ()),
        (Part.EVERY_SECOND_LEAVES, ()),
        (Part.IN_A_LOOP, ()),
        (Part.LEAVES_THE_LOOP_EARLY, (3,)),
        (Part.HALVES_OF_A_WARP, ()),
        (Part.PRODUCER_AND_CONSUMER, ()),
        (Part.IN_REGISTERS, (32, 5)),
    ],
    ids=name,
)
def test_threads_that_have_left_and_barriers_of_a_part_are_no_findings(part, args, gpu):
    assert trace(part, *args, gpu=gpu).findings == ()


def test_a_thread_outside_its_own_mask_is_an_invalid_argument():
    (found,) = trace(Part.NOT_IN_ITS_MASK).findings
    assert found.what == "Invalid arguments" and "WARPSYNC" in found.where and "lacks the thread" in found.detail
    assert found.thread == (16, 0, 0)


def test_counts_that_do_not_match_name_both_sides():
    found = next(f for f in trace(Part.COUNTS_DIFFER, 32).findings if f.what == "Invalid arguments")
    assert found.detail == "barrier 1 for 32 threads here, for 64 there" and found.count == 32 * BLOCKS
    assert found.where.endswith(line(Part.COUNTS_DIFFER, 2)) and found.other_where.endswith(line(Part.COUNTS_DIFFER, 5))
    assert (found.thread, found.other_thread) == ((0, 0, 0), (32, 0, 0))


@pytest.mark.parametrize(
    "part, args, detail",
    [
        (Part.ODD_COUNT, (48,), "barrier 1 with 48 threads, which is no multiple of 32"),
        (Part.ODD_COUNT, (96,), "barrier 1 with 96 threads, the block has 64"),
        (Part.ODD_NUMBER, (0, 17), "barrier 17, there are 0 to 15"),
    ],
    ids=name,
)
def test_counts_and_numbers_that_no_barrier_has_are_invalid_arguments(part, args, detail):
    found = trace(part, *args).findings[0]
    assert found.what == "Invalid arguments" and found.detail == detail and found.count == THREADS * BLOCKS


def test_a_block_that_is_stuck_is_a_finding_and_the_others_run():
    out = np.zeros(2 * THREADS, np.int32)
    with pytest.raises(DeadlockError):
        trace(Part.NEVER_FULL, check=(), out=out)
    captured = trace(Part.NEVER_FULL, out=out)
    (found,) = captured.findings
    assert (found.what, found.count, found.thread) == (IN_BLOCK, 32 * BLOCKS, (0, 0, 0))
    assert found.detail == "32 of the 64 threads come that barrier 2 waits for"
    assert (out[32:64] == np.arange(32, 64)).all() and not out[:32].any()
    assert sum(chunk.blocks for chunk in captured.chunk_list) == BLOCKS


def test_a_grid_wide_barrier_that_a_block_does_not_come_to_is_a_finding():
    launch = most_of_the_grid, BLOCKS, THREADS, (np.zeros(THREADS, np.int32),)
    with pytest.raises(DeadlockError):
        capture(*launch, gpu="sm_90")
    (found,) = capture(*launch, gpu="sm_90", check=("sync",)).findings
    assert found.what == "Divergent thread(s) in grid" and found.count == 2 * THREADS
