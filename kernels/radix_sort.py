"""One digit of a least-significant-digit radix sort: histogram, scan, stable scatter of key-value pairs.

A block's tile is a row of warps' stretches; each lane finds its rank among equal digits of its warp by a
match, as in Onesweep (Adinets and Merrill, arXiv 2206.01784).
"""

from __future__ import annotations

import numpy as np
from numba import cuda, int32, uint32

from .block_scan import FULL_WARP, MAX_WARPS, WARP_THREADS
from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive
from .scan_block import scan_block_sums

DIGIT_BITS = 4
DIGITS = 1 << DIGIT_BITS
ITEMS = 4
NO_DIGIT = DIGITS


@cuda.jit(device=True)
def _digit(keys, i, shift):
    if i >= keys.size:
        return int32(NO_DIGIT)
    return int32((keys[i] >> uint32(shift)) & uint32(DIGITS - 1))


@cuda.jit
def count_digits(keys, shift, counts):
    """counts[digit * blocks + block]: how often the block's tile holds the digit."""
    local = cuda.shared.array(DIGITS, int32)
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    for digit in range(t, DIGITS, threads):
        local[digit] = 0
    cuda.syncthreads()
    first = cuda.blockIdx.x * threads * ITEMS
    for k in range(t, threads * ITEMS, threads):
        digit = _digit(keys, first + k, shift)
        if digit != NO_DIGIT:
            cuda.atomic.add(local, digit, 1)
    cuda.syncthreads()
    for digit in range(t, DIGITS, threads):
        counts[digit * cuda.gridDim.x + cuda.blockIdx.x] = local[digit]


@cuda.jit
def scatter_pairs(keys, values, shift, offsets, sorted_keys, sorted_values):
    """Move every pair to its place; ``offsets`` are the scanned counts."""
    places = cuda.shared.array((DIGITS, MAX_WARPS), int32)
    ranks = cuda.local.array(ITEMS, int32)
    t, threads, block = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockIdx.x
    lane, warp, warps = t % WARP_THREADS, t // WARP_THREADS, threads // WARP_THREADS
    first = (block * warps + warp) * WARP_THREADS * ITEMS + lane
    for k in range(t, DIGITS * MAX_WARPS, threads):
        places[k // MAX_WARPS, k % MAX_WARPS] = 0
    cuda.syncthreads()
    for k in range(ITEMS):
        digit = _digit(keys, first + k * WARP_THREADS, shift)
        equals = cuda.match_any_sync(FULL_WARP, digit)
        before = cuda.popc(equals & ((1 << lane) - 1))
        if digit != NO_DIGIT:
            ranks[k] = places[digit, warp] + before
        cuda.syncwarp(FULL_WARP)
        if digit != NO_DIGIT and before == 0:
            places[digit, warp] += cuda.popc(equals)
        cuda.syncwarp(FULL_WARP)
    cuda.syncthreads()
    for digit in range(t, DIGITS, threads):
        place = offsets[digit * cuda.gridDim.x + block]
        for w in range(warps):
            count = places[digit, w]
            places[digit, w] = place
            place += count
    cuda.syncthreads()
    for k in range(ITEMS):
        i = first + k * WARP_THREADS
        if i < keys.size:
            place = places[_digit(keys, i, shift), warp] + ranks[k]
            sorted_keys[place] = keys[i]
            sorted_values[place] = values[i]


def make(*, n: int, shift: int, block_threads: int, seed: int = 0) -> Case:
    """``shift``: the digit's lowest bit."""
    require_positive(n=n)
    require_block(block_threads, multiple=32)
    if not 0 <= shift <= 32 - DIGIT_BITS:
        raise ValueError(f"shift must lie from 0 to {32 - DIGIT_BITS}, not {shift}")
    keys = np.random.default_rng(seed).integers(0, 2**32, n, dtype=np.uint32)
    values = np.arange(n, dtype=np.int32)
    blocks = blocks_for(n, block_threads * ITEMS)
    counts = np.zeros(DIGITS * blocks, np.int32)
    sorted_keys, sorted_values = np.zeros(n, np.uint32), np.full(n, -1, np.int32)

    def check() -> None:
        order = np.argsort((keys >> np.uint32(shift)) & np.uint32(DIGITS - 1), kind="stable")
        np.testing.assert_array_equal(sorted_values, order)
        np.testing.assert_array_equal(sorted_keys, keys[order])

    pairs = (keys, values, shift, counts, sorted_keys, sorted_values)
    return Case(
        launches=(
            Launch(count_digits, (blocks,), (block_threads,), (keys, shift, counts)),
            Launch(scan_block_sums, (1,), (block_threads,), (counts,)),
            Launch(scatter_pairs, (blocks,), (block_threads,), pairs),
        ),
        check=check,
        work={"bytes_read": 12.0 * n, "bytes_written": 8.0 * n, "elements": float(n)},
    )


KERNELS = {
    "radix_sort_step": Kernel(
        name="radix_sort_step",
        purpose="one digit of a radix sort: shared atomics, a scan, matches within warps, scattered stores",
        axes={"n": (10_000, 2**18, 2**20), "shift": (0, 4, 28), "block_threads": (64, 128, 256, 512)},
        default={"n": 2**18, "shift": 0, "block_threads": 256},
        small={"n": 603, "shift": 4, "block_threads": 64},
        make=make,
    )
}
