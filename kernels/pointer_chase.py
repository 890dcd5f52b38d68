"""Latency of a load, level by level: one thread follows absolute pointers through a buffer.

The loop body is ``p = *p``, 32 times over, with nothing between a load and the next: the loaded
value *is* the next address, as in RRZE-HPC/gpu-benches' gpu-latency, against whose published
curves this kernel stands. Numba has no pointers, so three intrinsics say what is meant in LLVM.
"""

from __future__ import annotations

import contextlib
import mmap

import numpy as np
from llvmlite import ir
from numba import cuda, types
from numba.cuda.extending import intrinsic

from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive

LINE_BYTES = 128
POINTERS_PER_LINE = LINE_BYTES // 8
UNROLL = 32
_GLOBAL_ADDRESS_SPACE = 1  # of NVVM IR


@intrinsic
def _data_address(typingctx, array):
    """The device address of an array's first element, as a uint64."""
    if not isinstance(array, types.Array):
        return None

    def lower(context, builder, signature, args):
        struct = context.make_array(signature.args[0])(context, builder, value=args[0])
        return builder.ptrtoint(struct.data, ir.IntType(64))

    return types.uint64(array), lower


@intrinsic
def _follow(typingctx, pointer):
    """The pointer reached from ``pointer`` in ``UNROLL`` dependent 8-byte global loads."""
    if not isinstance(pointer, types.Integer):
        return None

    def lower(context, builder, signature, args):
        word = ir.IntType(64)
        value = args[0]
        for _ in range(UNROLL):
            cell = builder.inttoptr(value, ir.PointerType(word, addrspace=_GLOBAL_ADDRESS_SPACE))
            value = builder.load(cell, align=8)
        return value

    return types.uint64(types.uint64), lower


@cuda.jit
def write_chain(buffer, order, laps):
    """Thread i links line ``order[i]`` to the line after it, once for every lap.

    Lap e runs over the pointers e of all lines; the last line of a lap leads to the next lap's
    first one, and the last lap's to the beginning.
    """
    i = cuda.grid(1)
    lines = order.size
    if i < lines:
        base = _data_address(buffer)
        here = order[i] * POINTERS_PER_LINE
        wraps = i + 1 == lines
        following = order[0 if wraps else i + 1]
        for lap in range(laps):
            next_lap = lap
            if wraps:
                next_lap = lap + 1 if lap + 1 < laps else 0
            buffer[here + lap] = base + np.uint64((following * POINTERS_PER_LINE + next_lap) * 8)


@cuda.jit
def write_pieces(buffer, order, piece_words):
    """Thread i links the first word of piece ``order[i]`` to that of the piece after it; the last leads to the
    first."""
    i = cuda.grid(1)
    if i < order.size:
        following = order[0 if i + 1 == order.size else i + 1]
        buffer[order[i] * piece_words] = _data_address(buffer) + np.uint64(following * piece_words * 8)


@cuda.jit
def chase(buffer, order, rounds, ends):
    """Every thread follows ``rounds * UNROLL`` pointers; ends[0], ends[1] are first and last offset."""
    base = _data_address(buffer)
    pointer = base + np.uint64(order[0] * LINE_BYTES)
    ends[0] = pointer - base
    for _ in range(rounds):
        pointer = _follow(pointer)
    ends[1] = pointer - base


def _sparse_zeros(words: int) -> np.ndarray:
    """Zeros of which few are touched, in small pages: NumPy asks for pages of 2 MiB, each of which is memory as a whole
    as soon as one word of it is written."""
    room = mmap.mmap(-1, 8 * words)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without such pages
            room.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(room, np.uint64)


def make(
    *, buffer_kib: float, loads: int, visited_lines: int, step_bytes: int, block_threads: int, seed: int = 0
) -> Case:
    """A random cyclic order of the 128-byte lines of a ``buffer_kib`` KiB buffer, chased ``loads``
    times (rounded up to whole rounds of 32) after a warm-up run of at least one lap.

    ``visited_lines`` of the lines, drawn at random, are in the chain (0: all); the others are never
    touched, so that a chain through gigabytes needs no more memory than it has lines.
    ``step_bytes`` = 128: a lap for each of a line's 16 pointers. Smaller: an order of pieces of that size, of
    which only the first pointer is followed (the published program before 2025: 64); ``visited_lines`` then counts
    pieces. All ``block_threads`` threads follow the same chain.
    """
    if step_bytes not in (32, 64, LINE_BYTES):
        raise ValueError(f"step_bytes must be 32, 64 or {LINE_BYTES}, not {step_bytes}")
    if buffer_kib * 1024 < step_bytes:
        raise ValueError(f"buffer_kib must hold at least one piece of {step_bytes} bytes")
    require_positive(loads=loads)
    require_block(block_threads)
    whole_lines = step_bytes == LINE_BYTES
    step_words = step_bytes // 8
    buffer_lines = int(buffer_kib * 1024) // step_bytes
    lines = visited_lines or buffer_lines
    if not 0 < lines <= buffer_lines:
        raise ValueError(f"visited_lines must be between 0 and the buffer's {buffer_lines}, not {visited_lines}")
    rounds = -(-loads // UNROLL)
    warm_rounds = -(-lines // UNROLL)
    longest = max(rounds, warm_rounds) * UNROLL
    laps = min(POINTERS_PER_LINE, -(-longest // lines)) if whole_lines else 1
    random = np.random.default_rng(seed)
    if lines == buffer_lines:
        order = random.permutation(lines).astype(np.int64)
    else:
        order = random.choice(buffer_lines, lines, replace=False).astype(np.int64)
    if not whole_lines:
        order -= order[0]  # the chain begins at the buffer's first piece: ``chase`` reckons its start in lines
        order %= buffer_lines
    words = buffer_lines * step_words
    buffer = np.zeros(words, np.uint64) if lines == buffer_lines else _sparse_zeros(words)
    warm_ends, ends = np.zeros(2, np.uint64), np.zeros(2, np.uint64)

    def offset_after(steps: int) -> int:
        lap, position = divmod(steps % (lines * laps), lines)
        return int(order[position]) * step_bytes + lap * 8

    def check() -> None:
        for run, got in ((warm_rounds, warm_ends), (rounds, ends)):
            np.testing.assert_array_equal(got, [offset_after(0), offset_after(run * UNROLL)])

    writer, argument = (write_chain, laps) if whole_lines else (write_pieces, step_words)
    return Case(
        launches=(
            Launch(writer, (blocks_for(lines, 128),), (128,), (buffer, order, argument), timed=False),
            Launch(chase, (1,), (block_threads,), (buffer, order, warm_rounds, warm_ends), timed=False),
            Launch(chase, (1,), (block_threads,), (buffer, order, rounds, ends)),
        ),
        check=check,
        work={"loads": float(rounds * UNROLL), "bytes_read": rounds * UNROLL * 8.0},
    )


KERNELS = {
    "pointer_chase": Kernel(
        name="pointer_chase",
        purpose="load latency of L1, near and far L2 and DRAM: one thread, one dependent chain",
        axes={
            "buffer_kib": (16, 64, 128, 256, 1024, 8192, 16384, 32768, 65536, 131072, 262144),
            "loads": (1024, 16384, 131072),
            "visited_lines": (0, 8192),
            "step_bytes": (64, 128),
            "block_threads": (1, 64),
        },
        default={"buffer_kib": 64, "loads": 16384, "visited_lines": 0, "step_bytes": 128, "block_threads": 1},
        small={"buffer_kib": 3, "loads": 200, "visited_lines": 0, "step_bytes": 128, "block_threads": 1},
        make=make,
    )
}
