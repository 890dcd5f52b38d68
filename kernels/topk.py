"""The k largest of each row, sorted: radix selection of the k-th, then a bitonic sort of the winners.

A block a row. Floats become unsigned integers of the same order; four passes over the row count the digits
of the values that still agree with the k-th, from the highest byte down (Alabi et al., "Fast k-selection
algorithms for graphics processing units", 2012). A fifth pass collects what lies above.
"""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda, int32, uint32
from numba.cuda import libdevice

from .case import Case, Kernel, Launch, require_block, require_choice, require_positive
from .warp import ALL_LANES, WARP

DIGIT_BITS = 8
BINS = 1 << DIGIT_BITS
BINS_A_LANE = BINS // WARP
MAX_K = 1024


@cuda.jit(device=True)
def ordered_bits(value):
    """Bits of a float32 as an unsigned integer of the same order: negative ones inverted, others above."""
    bits = uint32(libdevice.float_as_int(value))
    return uint32(~bits) if bits >> 31 else uint32(bits | uint32(0x80000000))


@cuda.jit(device=True)
def float_of(bits):
    plain = uint32(bits & uint32(0x7FFFFFFF)) if bits >> 31 else uint32(~bits)
    return libdevice.int_as_float(int32(plain))


@cuda.jit(device=True)
def choose_bin(counts, lane, prefix_and_rest):
    """One warp finds the bin of the k-th largest value and counts what lies above it.

    ``prefix_and_rest``: the digits found so far, and how many values are still to be taken; both updated.
    """
    rest = prefix_and_rest[1]
    own = int32(0)
    for i in range(BINS_A_LANE):  # lane 0 has the highest bins
        own += counts[BINS - 1 - (lane * BINS_A_LANE + i)]
    running = own
    step = 1
    while step < WARP:
        below = cuda.shfl_up_sync(ALL_LANES, running, step)
        if lane >= step:
            running += below
        step *= 2
    above = running - own
    if above < rest and rest <= running:
        for i in range(BINS_A_LANE):
            digit = BINS - 1 - (lane * BINS_A_LANE + i)
            count = counts[digit]
            if above < rest and rest <= above + count:
                prefix_and_rest[0] = int32(uint32(prefix_and_rest[0]) << DIGIT_BITS | uint32(digit))
                prefix_and_rest[1] = rest - above
            above += count


@functools.cache
def _kernel(capacity: int):
    """The kernel for up to ``capacity`` winners, a power of two: the sort's length."""

    @cuda.jit
    def topk(x, k, values, indices):
        counts = cuda.shared.array(BINS, int32)
        prefix_and_rest = cuda.shared.array(2, int32)
        taken = cuda.shared.array(2, int32)  # winners above the k-th value, and equal to it
        keys = cuda.shared.array(capacity, uint32)
        places = cuda.shared.array(capacity, int32)
        row, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
        columns = x.shape[1]
        if t == 0:
            prefix_and_rest[0] = 0
            prefix_and_rest[1] = k
            taken[0] = 0
            taken[1] = 0
        for i in range(t, capacity, threads):
            keys[i] = 0
            places[i] = -1
        for turn in range(32 // DIGIT_BITS):
            shift = 32 - DIGIT_BITS * (turn + 1)
            for i in range(t, BINS, threads):
                counts[i] = 0
            cuda.syncthreads()
            prefix = uint32(prefix_and_rest[0])
            for j in range(t, columns, threads):
                bits = ordered_bits(x[row, j])
                # In 64 bits, so that a shift by 32 leaves nothing: at first every value agrees.
                if (bits >> shift) >> DIGIT_BITS == prefix:
                    cuda.atomic.add(counts, int32((bits >> shift) & (BINS - 1)), 1)
            cuda.syncthreads()
            if t < WARP:
                choose_bin(counts, t, prefix_and_rest)
            cuda.syncthreads()

        kth, equal = uint32(prefix_and_rest[0]), prefix_and_rest[1]
        for j in range(t, columns, threads):
            bits = ordered_bits(x[row, j])
            place = int32(-1)
            if bits > kth:
                place = cuda.atomic.add(taken, 0, 1)
            elif bits == kth:
                order = cuda.atomic.add(taken, 1, 1)
                if order < equal:
                    place = k - equal + order
            if place >= 0:
                keys[place] = bits
                places[place] = j
        cuda.syncthreads()

        length = 2
        while length <= capacity:
            step = length // 2
            while step > 0:
                for i in range(t, capacity, threads):
                    other = i ^ step
                    if other > i and (keys[i] < keys[other]) == (i & length == 0):
                        keys[i], keys[other] = keys[other], keys[i]
                        places[i], places[other] = places[other], places[i]
                cuda.syncthreads()
                step //= 2
            length *= 2
        for i in range(t, k, threads):
            values[row, i] = float_of(keys[i])
            indices[row, i] = places[i]

    return topk


def make(*, rows: int, columns: int, k: int, distribution: str, block_threads: int, seed: int = 0) -> Case:
    """``distribution``: "normal", or "ties" (many equal values, so that atomics collide on few bins)."""
    require_positive(rows=rows, columns=columns, k=k)
    require_block(block_threads, multiple=WARP)
    require_choice("distribution", distribution, ("normal", "ties"))
    if k > min(columns, MAX_K):
        raise ValueError(f"k must be at most columns and {MAX_K}, not {k}")
    x = np.random.default_rng(seed).standard_normal((rows, columns), np.float32)
    if distribution == "ties":
        x = np.round(x)
    values = np.zeros((rows, k), np.float32)
    indices = np.full((rows, k), -1, np.int32)

    def check() -> None:
        assert indices.min() >= 0, "some winners were not written"
        np.testing.assert_array_equal(values, -np.sort(-x, axis=1)[:, :k])
        np.testing.assert_array_equal(np.take_along_axis(x, indices, axis=1), values)
        # Equal values may come in any order, but no element twice.
        assert all(len(set(row)) == k for row in indices.tolist()), "an element was taken twice"

    capacity = 1 << (k - 1).bit_length()
    return Case(
        launches=(Launch(_kernel(capacity), (rows,), (block_threads,), (x, k, values, indices)),),
        check=check,
        work={
            "bytes_read": 4.0 * x.size,
            "bytes_written": 8.0 * rows * k,
            "shared_atomics": float(x.size),
        },
    )


KERNELS = {
    "topk": Kernel(
        name="topk",
        purpose="data-dependent selection: shared atomics, five passes from L1 or L2, warp scan, bitonic sort",
        axes={
            "rows": (1, 16, 128),
            "columns": (100, 1024, 32_000, 128_256),
            "k": (1, 8, 50, 256),
            "distribution": ("normal", "ties"),
            "block_threads": (128, 256, 512, 1024),
        },
        default={
            "rows": 64,
            "columns": 32_000,
            "k": 50,
            "distribution": "normal",
            "block_threads": 512,
        },
        small={"rows": 2, "columns": 300, "k": 13, "distribution": "normal", "block_threads": 64},
        make=make,
    )
}
