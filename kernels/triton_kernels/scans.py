"""Sums, prefixes, orders and counts: reduction with atomics, cumulative sums, a linear recurrence, sort, top-k,
histogram."""

from __future__ import annotations

from functools import partial

import numpy as np
import triton
import triton.language as tl

from ..case import Case, Kernel, Launch, require_positive


@triton.jit
def reduce_sum(x_ptr, total_ptr, n, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    """STEPS blocks a program into one sum, which one atomic adds to the total."""
    first = tl.program_id(0) * BLOCK * STEPS
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(STEPS):
        place = first + step * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + place, mask=place < n, other=0.0)
    tl.atomic_add(total_ptr, tl.sum(total, axis=0))


@triton.jit
def cumsum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """A row in blocks, each of which begins with what the ones before add up to."""
    row = tl.program_id(0)
    before = 0.0
    for first in range(0, columns, BLOCK):
        place = first + tl.arange(0, BLOCK)
        inside = place < columns
        x = tl.load(x_ptr + row * columns + place, mask=inside, other=0.0)
        tl.store(out_ptr + row * columns + place, before + tl.cumsum(x, axis=0), mask=inside)
        before += tl.sum(x, axis=0)


@triton.jit
def _after(a_first, b_first, a_second, b_second):
    """h -> a h + b, one such step after another."""
    return a_first * a_second, a_second * b_first + b_second


@triton.jit
def recurrence(a_ptr, b_ptr, h_ptr, steps, channels, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """h[t] = a[t] h[t - 1] + b[t] for each channel, by an associative scan over time."""
    time = tl.arange(0, BLOCK_T)
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    place = time[:, None] * channels + channel[None, :]
    inside = (time[:, None] < steps) & (channel[None, :] < channels)
    a = tl.load(a_ptr + place, mask=inside, other=1.0)
    b = tl.load(b_ptr + place, mask=inside, other=0.0)
    _, h = tl.associative_scan((a, b), 0, _after)
    tl.store(h_ptr + place, h, mask=inside)


@triton.jit
def sort_rows(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    row, place = tl.program_id(0), tl.arange(0, COLUMNS)
    tl.store(out_ptr + row * COLUMNS + place, tl.sort(tl.load(x_ptr + row * COLUMNS + place)))


@triton.jit
def top_k(x_ptr, out_ptr, columns, K: tl.constexpr, BLOCK: tl.constexpr):
    row, place = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + place, mask=place < columns, other=-float("inf"))
    tl.store(out_ptr + row * K + tl.arange(0, K), tl.topk(x, K))


@triton.jit
def histogram(x_ptr, counts_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    """Counts of a block in shared memory, added to all by one atomic a bin."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    counts = tl.histogram(tl.load(x_ptr + place, mask=inside, other=0), BINS, mask=inside)
    tl.atomic_add(counts_ptr + tl.arange(0, BINS), counts)


def make_reduce_sum(*, n: int, block: int, steps: int, seed: int = 0) -> Case:
    require_positive(n=n, block=block, steps=steps)
    x = np.random.default_rng(seed).random(n, np.float32)
    total = np.zeros(1, np.float32)

    def check() -> None:
        np.testing.assert_allclose(total[0], x.sum(dtype=np.float64), rtol=1e-5)

    launch = Launch(reduce_sum, (triton.cdiv(n, block * steps),), None, (x, total, n, block, steps))
    return _case(launch, check, 4.0 * n, 4.0, 1.0 * n)


def make_cumsum(*, rows: int, columns: int, block: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns, block=block)
    x = np.random.default_rng(seed).random((rows, columns), np.float32)
    out = np.zeros_like(x)

    def check() -> None:
        np.testing.assert_allclose(out, x.cumsum(axis=1, dtype=np.float64), rtol=1e-5)

    return _case(
        Launch(cumsum, (rows,), None, (x, out, columns, block)), check, 4.0 * x.size, 4.0 * x.size, 2.0 * x.size
    )


def make_recurrence(*, steps: int, channels: int, tile: int, seed: int = 0) -> Case:
    require_positive(steps=steps, channels=channels, tile=tile)
    random = np.random.default_rng(seed)
    a = random.uniform(0.5, 1, (steps, channels)).astype(np.float32)
    b = random.standard_normal((steps, channels)).astype(np.float32)
    h = np.zeros_like(a)

    def check() -> None:
        wanted, state = np.zeros(a.shape), np.zeros(channels)
        for t in range(steps):
            wanted[t] = state = a[t] * state + b[t]
        np.testing.assert_allclose(h, wanted, rtol=1e-4, atol=1e-4)

    args = (a, b, h, steps, channels, triton.next_power_of_2(steps), tile)
    return _case(
        Launch(recurrence, (triton.cdiv(channels, tile),), None, args), check, 8.0 * a.size, 4.0 * a.size, 2.0 * a.size
    )


def make_sort(*, rows: int, columns: int, warps: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns)
    if columns & (columns - 1):
        raise ValueError(f"columns must be a power of two, not {columns}")
    x = np.random.default_rng(seed).integers(-999, 999, (rows, columns), dtype=np.int32)
    out = np.zeros_like(x)

    def check() -> None:
        np.testing.assert_array_equal(out, np.sort(x, axis=1))

    launch = Launch(partial(sort_rows, num_warps=warps), (rows,), None, (x, out, columns))
    return _case(launch, check, 4.0 * x.size, 4.0 * x.size, 0.0)


def make_topk(*, rows: int, columns: int, k: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns, k=k)
    if k & (k - 1) or k > columns:
        raise ValueError(f"k must be a power of two up to columns, not {k}")
    x = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
    out = np.zeros((rows, k), np.float32)

    def check() -> None:
        np.testing.assert_array_equal(out, -np.sort(-x, axis=1)[:, :k])

    args = (x, out, columns, k, triton.next_power_of_2(columns))
    return _case(Launch(top_k, (rows,), None, args), check, 4.0 * x.size, 4.0 * out.size, 0.0)


def make_histogram(*, n: int, bins: int, block: int, seed: int = 0) -> Case:
    require_positive(n=n, bins=bins, block=block)
    if bins & (bins - 1):
        raise ValueError(f"bins must be a power of two, not {bins}")
    x = (np.random.default_rng(seed).random(n) ** 2 * bins).astype(np.int32)
    counts = np.zeros(bins, np.int32)

    def check() -> None:
        np.testing.assert_array_equal(counts, np.bincount(x, minlength=bins))

    return _case(
        Launch(histogram, (triton.cdiv(n, block),), None, (x, counts, n, bins, block)), check, 4.0 * n, 4.0 * bins, 0.0
    )


def _case(launch: Launch, check, read: float, written: float, flops: float) -> Case:
    return Case((launch,), check, {"bytes_read": read, "bytes_written": written, "flops": flops})


KERNELS = {
    each.name: each
    for each in (
        Kernel(
            "triton_reduce_sum",
            "sums in registers, a tree over the block, one atomic a program",
            {"n": (1000, 1 << 16, 1 << 20), "block": (256, 1024), "steps": (1, 4, 16)},
            {"n": 1 << 20, "block": 1024, "steps": 8},
            {"n": 1900, "block": 256, "steps": 3},
            make_reduce_sum,
        ),
        Kernel(
            "triton_cumsum",
            "scans of a block by shuffles and shared memory, one after another along a row",
            {"rows": (16, 256), "columns": (1000, 4096), "block": (256, 1024)},
            {"rows": 256, "columns": 4096, "block": 1024},
            {"rows": 2, "columns": 300, "block": 128},
            make_cumsum,
        ),
        Kernel(
            "triton_recurrence",
            "an associative scan of pairs, as state space models have it",
            {"steps": (64, 256), "channels": (128, 1024), "tile": (4, 16)},
            {"steps": 256, "channels": 1024, "tile": 8},
            {"steps": 29, "channels": 10, "tile": 8},
            make_recurrence,
        ),
        Kernel(
            "triton_sort",
            "a bitonic network over a row in registers, by shuffles and shared memory",
            {"rows": (16, 256), "columns": (64, 256, 1024), "warps": (1, 4)},
            {"rows": 256, "columns": 512, "warps": 4},
            {"rows": 2, "columns": 64, "warps": 1},
            make_sort,
        ),
        Kernel(
            "triton_topk",
            "a bitonic network that keeps the k largest of each half",
            {"rows": (16, 256), "columns": (100, 256, 1024), "k": (4, 16)},
            {"rows": 256, "columns": 512, "k": 8},
            {"rows": 2, "columns": 100, "k": 4},
            make_topk,
        ),
        Kernel(
            "triton_histogram",
            "counts in shared memory by atomics and ballots, then one atomic a bin",
            {"n": (1000, 1 << 16, 1 << 20), "bins": (32, 256), "block": (256, 1024)},
            {"n": 1 << 18, "bins": 256, "block": 1024},
            {"n": 900, "bins": 32, "block": 256},
            make_histogram,
        ),
    )
}
