"""Global accesses of a warp in a pattern: how many sectors and lines, and what each costs."""

from __future__ import annotations

import numpy as np
from numba import cuda, int32

from .block_scan import WARP_THREADS
from .case import Case, Kernel, Launch, require_block, require_positive

#: Threads of the scattered pattern step by this prime through their span.
SCATTER = 2_654_435_761
STRIDED, OFFSET, PERMUTED, SCATTERED = range(4)
PATTERNS = {"stride": STRIDED, "offset": OFFSET, "permuted": PERMUTED, "scattered": SCATTERED}


@cuda.jit(device=True)
def _place(pattern, amount, span):
    """The thread's element within a span."""
    i = cuda.grid(1)
    if pattern == STRIDED:
        return np.uint64(i * amount)
    if pattern == OFFSET:
        return np.uint64(i + amount)
    if pattern == PERMUTED:
        lane = i % WARP_THREADS
        return np.uint64(i - lane + lane * amount % WARP_THREADS)
    return np.uint64(np.uint64(i) * np.uint64(SCATTER) % np.uint64(span))


@cuda.jit
def load(values, sums, pattern, amount, span, accesses):
    place, total = _place(pattern, amount, span), int32(0)
    for _ in range(accesses):
        total += values[place]
        place += np.uint64(span)
    sums[cuda.grid(1)] = total


@cuda.jit
def store(values, sums, pattern, amount, span, accesses):
    place, word = _place(pattern, amount, span), int32(cuda.grid(1) + 1)
    for _ in range(accesses):
        values[place] = word
        place += np.uint64(span)
    sums[cuda.grid(1)] = word


def make(
    *, access: str, pattern: str, amount: int, accesses: int, block_threads: int, blocks: int, seed: int = 0
) -> Case:
    """``amount``: elements from lane to lane (``stride``), elements from the start of the array to the first thread
    (``offset``), or the odd factor by which lanes change places (``permuted``); ``scattered`` ignores it.
    Each of the ``accesses`` of a thread goes to a span of its own, which nobody touched before."""
    require_positive(accesses=accesses, blocks=blocks)
    require_block(block_threads, multiple=WARP_THREADS)
    if access not in ("load", "store"):
        raise ValueError(f"access must be load or store, not {access!r}")
    if pattern not in PATTERNS:
        raise ValueError(f"pattern must be one of {', '.join(PATTERNS)}, not {pattern!r}")
    if amount < 0 or (pattern == "permuted" and amount % 2 == 0) or (pattern == "stride" and amount == 0):
        raise ValueError(f"amount {amount} makes no sense for the pattern {pattern}")
    threads = block_threads * blocks
    i = np.arange(threads)
    lane = i % WARP_THREADS
    places = {
        "stride": i * amount,
        "offset": i + amount,
        "permuted": i - lane + lane * amount % WARP_THREADS,
        "scattered": i * SCATTER,
    }[pattern]
    # Spans begin on a line, so that every access of a thread falls alike.
    span = threads if pattern == "scattered" else -(-int(places.max() + 1) // WARP_THREADS) * WARP_THREADS
    places = places % span
    values = np.random.default_rng(seed).integers(1, 1000, span * accesses, dtype=np.int32)
    before = values.copy()
    sums = np.zeros(threads, np.int32)

    def check() -> None:
        all_places = places[None, :] + span * np.arange(accesses)[:, None]
        if access == "load":
            np.testing.assert_array_equal(sums, before[all_places].sum(axis=0))
            np.testing.assert_array_equal(values, before)
            return
        expected = before.copy()
        expected[all_places] = i + 1
        np.testing.assert_array_equal(values, expected)
        np.testing.assert_array_equal(sums, i + 1)

    kernel = {"load": load, "store": store}[access]
    args = (values, sums, PATTERNS[pattern], amount, span, accesses)
    moved = 4.0 * threads * accesses
    return Case(
        launches=(Launch(kernel, (blocks,), (block_threads,), args),),
        check=check,
        work={
            "bytes_read" if access == "load" else "bytes_written": moved,
            "warp_accesses": float(threads // WARP_THREADS * accesses),
        },
    )


KERNELS = {
    "coalescing": Kernel(
        name="coalescing",
        purpose="sectors and lines of a warp's global access: strides, misalignment, permuted and scattered lanes",
        axes={
            "access": ("load", "store"),
            "pattern": tuple(PATTERNS),
            "amount": (1, 2, 4, 5, 8, 16, 31, 32),
            "accesses": (4, 16),
            "block_threads": (128, 256),
            "blocks": (1, 132, 264),
        },
        default={
            "access": "load",
            "pattern": "stride",
            "amount": 2,
            "accesses": 16,
            "block_threads": 256,
            "blocks": 132,
        },
        small={
            "access": "load",
            "pattern": "offset",
            "amount": 5,
            "accesses": 3,
            "block_threads": 64,
            "blocks": 2,
        },
        make=make,
    )
}
