"""The inner part of register-blocked matrix products, shared by the kernels that are one underneath.

Mental model: a block owns an m x n tile of C and walks along k in slices. A slice of A and one of B are
fetched from global memory into registers while the block still multiplies the previous slices out of
shared memory, so one barrier a slice suffices (two shared buffers). Each thread keeps thread_m x thread_n
sums in registers; per step of k it reads thread_m + thread_n values from shared memory for as many FMAs
as their product. Both slices lie in shared memory with k outermost, so those reads are vectors. Where
operands come from is the caller's: a device function that fetches a few neighbouring elements.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from numba import cuda, float32

from .vector import load_vector

QUAD = 4  # float32 elements of a 16-byte shared-memory access
#: Elements between the rows of a slice beyond its length: keeps rows 16-byte aligned, off each other's banks.
PADDING = 4


@dataclass(frozen=True)
class Tile:
    """m x n sums a block, k elements a slice, thread_m x thread_n sums a thread (multiples of 4)."""

    m: int
    n: int
    k: int
    thread_m: int
    thread_n: int

    @property
    def threads_m(self) -> int:
        return self.m // self.thread_m

    @property
    def threads_n(self) -> int:
        return self.n // self.thread_n

    @property
    def threads(self) -> int:
        return self.threads_m * self.threads_n

    # A thread owns groups of four neighbouring rows (and columns), as far apart as all threads' groups
    # take: reading them, neighbouring threads touch neighbouring 16 bytes of shared memory, which is free
    # of bank conflicts. Row i of thread t is i // 4 * row_stride + t * 4 + i % 4.

    @property
    def row_stride(self) -> int:
        return self.m * QUAD // self.thread_m

    @property
    def column_stride(self) -> int:
        return self.n * QUAD // self.thread_n


#: Tiles by their width, as an axis names them: a block of 256 threads, or of 64 for small matrices.
TILES = {128: Tile(128, 128, 8, 8, 8), 64: Tile(64, 64, 16, 4, 4), 32: Tile(32, 32, 16, 4, 4)}


@functools.cache
def multiply_slice(tile: Tile):
    """Device function (a, b, first_step, thread_row, thread_column, sums): multiply a slice from shared memory.

    ``a`` is float32[2, k, m + PADDING], ``b`` float32[2, k, n + PADDING], ``first_step`` 0 or k (the second
    buffer), ``sums`` a local float32[thread_m * thread_n], row by row.
    """
    m, n = tile.thread_m, tile.thread_n
    a_row, b_row = tile.m + PADDING, tile.n + PADDING
    row_stride, column_stride = tile.row_stride, tile.column_stride

    @cuda.jit(device=True)
    def one_step(a, b, step, thread_row, thread_column, sums):
        left = cuda.local.array(m, float32)
        right = cuda.local.array(n, float32)
        for group in range(m // QUAD):
            row = group * row_stride + thread_row * QUAD
            load_vector(left, group * QUAD, a, step * a_row + row, QUAD)
        for group in range(n // QUAD):
            column = group * column_stride + thread_column * QUAD
            load_vector(right, group * QUAD, b, step * b_row + column, QUAD)
        for i in range(m):
            for j in range(n):
                sums[i * n + j] += left[i] * right[j]

    return _unrolled(one_step, tile.k)


def _unrolled(body, steps: int):
    """A device function that calls ``body`` for ``steps`` (a power of two) steps from the given one on.

    A loop would do, but the compiler only unrolls loops up to a size well below a slice's FMAs, and a
    loop's step is no constant offset in the shared loads' addresses.
    """
    if steps == 1:
        return body
    if steps == 2:
        part, rest = body, 1

        @cuda.jit(device=True)
        def both(a, b, step, thread_row, thread_column, sums):
            part(a, b, step, thread_row, thread_column, sums)
            part(a, b, step + rest, thread_row, thread_column, sums)

        return both
    part, rest = _unrolled(body, steps // 4), steps // 4

    @cuda.jit(device=True)
    def four(a, b, step, thread_row, thread_column, sums):
        part(a, b, step, thread_row, thread_column, sums)
        part(a, b, step + rest, thread_row, thread_column, sums)
        part(a, b, step + 2 * rest, thread_row, thread_column, sums)
        part(a, b, step + 3 * rest, thread_row, thread_column, sums)

    return four


@functools.cache
def accumulator(tile: Tile, fetch_a, a_along_k: bool, a_width: int, fetch_b, b_along_k: bool, b_width: int):
    """Device function (a, b, first_row, first_column, k_begin, k_end, sums): add A[:, k] x B[k, :] to ``sums``.

    ``fetch_a(a, row, k, k_end, values)`` fills a local float32[a_width] with the elements from (row, k) on,
    along k if ``a_along_k`` and along the rows otherwise, and zeros outside the matrix or from ``k_end`` on;
    ``fetch_b(b, column, k, k_end, values)`` likewise. The whole block must call it.
    """
    k, threads = tile.k, tile.threads
    stage_a = _stage(tile.m, k, threads, a_along_k, a_width)
    stage_b = _stage(tile.n, k, threads, b_along_k, b_width)
    gather_a, gather_b = _gather(stage_a, fetch_a), _gather(stage_b, fetch_b)
    scatter_a, scatter_b = _scatter(stage_a), _scatter(stage_b)
    a_values, b_values = stage_a.rounds * a_width, stage_b.rounds * b_width
    multiply = multiply_slice(tile)
    a_shape, b_shape = (2, k, tile.m + PADDING), (2, k, tile.n + PADDING)
    threads_n = tile.threads_n

    @cuda.jit(device=True)
    def accumulate(a, b, first_row, first_column, k_begin, k_end, sums):
        a_slices = cuda.shared.array(a_shape, float32)
        b_slices = cuda.shared.array(b_shape, float32)
        a_fetched = cuda.local.array(a_values, float32)
        b_fetched = cuda.local.array(b_values, float32)
        thread = cuda.threadIdx.x
        thread_row, thread_column = thread // threads_n, thread % threads_n
        gather_a(a, first_row, k_begin, k_end, a_fetched)
        gather_b(b, first_column, k_begin, k_end, b_fetched)
        scatter_a(a_slices, 0, a_fetched)
        scatter_b(b_slices, 0, b_fetched)
        cuda.syncthreads()
        buffer = 0
        for start in range(k_begin, k_end, k):
            more = start + k < k_end
            if more:
                gather_a(a, first_row, start + k, k_end, a_fetched)
                gather_b(b, first_column, start + k, k_end, b_fetched)
            multiply(a_slices, b_slices, buffer * k, thread_row, thread_column, sums)
            if more:
                buffer ^= 1
                scatter_a(a_slices, buffer, a_fetched)
                scatter_b(b_slices, buffer, b_fetched)
                cuda.syncthreads()

    return accumulate


@dataclass(frozen=True)
class _Stage:
    """How a block's threads share out a slice of length x k elements, ``width`` at a time."""

    length: int
    k: int
    threads: int
    along_k: bool
    width: int

    @property
    def rounds(self) -> int:
        return self.length * self.k // (self.threads * self.width)


@functools.cache
def _stage(length: int, k: int, threads: int, along_k: bool, width: int) -> _Stage:
    stage = _Stage(length, k, threads, along_k, width)
    fast = k if along_k else length
    if fast % width or length * k % (threads * width):
        raise ValueError(f"{threads} threads cannot share out {length} x {k} elements by {width}")
    return stage


def _gather(stage: _Stage, fetch):
    width, rounds, threads, along_k, fast = _geometry(stage)

    @cuda.jit(device=True)
    def gather(source, first, k_start, k_end, fetched):
        values = cuda.local.array(width, float32)
        for turn in range(rounds):
            index = cuda.threadIdx.x + turn * threads
            slow, quick = index // fast, index % fast * width
            if along_k:
                fetch(source, first + slow, k_start + quick, k_end, values)
            else:
                fetch(source, first + quick, k_start + slow, k_end, values)
            for i in range(width):
                fetched[turn * width + i] = values[i]

    return gather


def _scatter(stage: _Stage):
    width, rounds, threads, along_k, fast = _geometry(stage)

    @cuda.jit(device=True)
    def scatter(slices, buffer, fetched):
        for turn in range(rounds):
            index = cuda.threadIdx.x + turn * threads
            slow, quick = index // fast, index % fast * width
            for i in range(width):
                if along_k:
                    slices[buffer, quick + i, slow] = fetched[turn * width + i]
                else:
                    slices[buffer, slow, quick + i] = fetched[turn * width + i]

    return scatter


def _geometry(stage: _Stage) -> tuple[int, int, int, bool, int]:
    """width, rounds, threads, along_k, and the vectors along the faster direction."""
    fast = (stage.k if stage.along_k else stage.length) // stage.width
    return stage.width, stage.rounds, stage.threads, stage.along_k, fast
