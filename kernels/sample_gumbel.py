"""Drawing the next token: the argmax of a row of logits, greedily or after adding Gumbel noise.

The largest of logit / temperature + noise is a draw from the softmax. The noise comes from Philox 4x32-10
(Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011; its constants), counted by (column / 4, row)
and keyed by the seed, so a draw depends neither on the block size nor on the order of anything.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numba import cuda, float32, int32, uint32, uint64

from .case import Case, Kernel, Launch, require_block, require_positive
from .warp import ALL_LANES, WARP

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
QUAD = 4  # numbers that one Philox call gives


@cuda.jit(device=True)
def philox(c0, c1, key0, key1, numbers):
    """Four 32-bit random numbers of counter (c0, c1, 0, 0) and key (key0, key1)."""
    c2 = uint32(0)
    c3 = uint32(0)
    for _ in range(ROUNDS):
        product0 = uint64(MULTIPLIERS[0]) * uint64(c0)
        product1 = uint64(MULTIPLIERS[1]) * uint64(c2)
        c0 = uint32(uint32(product1 >> 32) ^ c1 ^ key0)
        c1 = uint32(product1)
        c2 = uint32(uint32(product0 >> 32) ^ c3 ^ key1)
        c3 = uint32(product0)
        key0 = uint32(key0 + uint32(WEYL[0]))
        key1 = uint32(key1 + uint32(WEYL[1]))
    numbers[0] = c0
    numbers[1] = c1
    numbers[2] = c2
    numbers[3] = c3


@cuda.jit(device=True)
def gumbel(bits):
    """-log(-log(u)) with u the middle of one of 2^23 equal parts of (0, 1)."""
    u = (float32(bits >> 9) + float32(0.5)) * float32(2**-23)
    return -math.log(-math.log(u))


@functools.cache
def _kernel(greedy: bool):
    @cuda.jit
    def sample_gumbel(logits, inverse_temperature, key, tokens):
        """A block a row. Equal values: the lowest column wins."""
        best_scores = cuda.shared.array(WARP, float32)
        best_columns = cuda.shared.array(WARP, int32)
        numbers = cuda.local.array(QUAD, uint32)
        row, t = cuda.blockIdx.x, cuda.threadIdx.x
        columns = logits.shape[1]
        best = float32(-math.inf)
        place = int32(0x7FFFFFFF)
        for first in range(t * QUAD, columns, cuda.blockDim.x * QUAD):
            if not greedy:
                philox(uint32(first // QUAD), uint32(row), uint32(key), uint32(0), numbers)
            for i in range(QUAD):
                column = first + i
                if column < columns:
                    score = logits[row, column]
                    if not greedy:
                        score = score * inverse_temperature + gumbel(numbers[i])
                    if score > best:
                        best, place = score, int32(column)
        warps = cuda.blockDim.x // WARP
        for turn in range(2):  # first the lanes of each warp, then the warps
            for step in (16, 8, 4, 2, 1):
                score = cuda.shfl_xor_sync(ALL_LANES, best, step)
                column = cuda.shfl_xor_sync(ALL_LANES, place, step)
                if score > best or (score == best and column < place):
                    best, place = score, column
            if turn == 0:
                if t % WARP == 0:
                    best_scores[t // WARP] = best
                    best_columns[t // WARP] = place
                cuda.syncthreads()
                mine = t % WARP if t % WARP < warps else 0
                best, place = best_scores[mine], best_columns[mine]
        if t == 0:
            tokens[row] = place

    return sample_gumbel


def _philox(columns: np.ndarray, rows: np.ndarray, key: int) -> np.ndarray:
    """The number of each (row, column), by NumPy: uint32[rows, columns]."""
    mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    counter = [columns[None, :] // QUAD + 0 * rows[:, None], rows[:, None] + 0 * columns[None, :]]
    counter = [part.astype(np.uint64) for part in counter]
    counter += [np.zeros_like(counter[0]), np.zeros_like(counter[0])]
    keys = [np.uint64(key), np.uint64(0)]
    for _ in range(ROUNDS):
        low, high = np.uint64(MULTIPLIERS[0]) * counter[0], np.uint64(MULTIPLIERS[1]) * counter[2]
        counter = [
            (high >> shift) ^ counter[1] ^ keys[0],
            high & mask,
            (low >> shift) ^ counter[3] ^ keys[1],
            low & mask,
        ]
        keys = [(k + np.uint64(w)) & mask for k, w in zip(keys, WEYL, strict=True)]
    return np.choose(columns[None, :] % QUAD, counter)


def make(*, rows: int, vocabulary: int, temperature: float, block_threads: int, seed: int = 0) -> Case:
    """``temperature`` 0 is greedy: no noise."""
    require_positive(rows=rows, vocabulary=vocabulary)
    require_block(block_threads, multiple=WARP)
    if not 0 <= temperature <= 100:
        raise ValueError(f"temperature must lie in [0, 100], not {temperature!r}")
    logits = (2 * np.random.default_rng(seed).standard_normal((rows, vocabulary))).astype(np.float32)
    tokens = np.full(rows, -1, np.int32)
    inverse = np.float32(1 / temperature if temperature else 0)
    key = seed & 0x7FFFFFFF

    def check() -> None:
        assert tokens.min() >= 0 and tokens.max() < vocabulary, "a row has no token"
        if not temperature:
            np.testing.assert_array_equal(tokens, logits.argmax(axis=1))
            return
        bits = _philox(np.arange(vocabulary), np.arange(rows), key)
        uniform = ((bits >> np.uint64(9)).astype(np.float64) + 0.5) / 2**23
        scores = logits * float(inverse) - np.log(-np.log(uniform))
        got = np.take_along_axis(scores, tokens[:, None].astype(np.int64), axis=1)[:, 0]
        # Rounding may let the second of two nearly equal scores win.
        assert np.all(got >= scores.max(axis=1) - 1e-4), "a row's token has not the largest score"

    arguments = (logits, inverse, np.int32(key), tokens)
    return Case(
        launches=(Launch(_kernel(not temperature), (rows,), (block_threads,), arguments),),
        check=check,
        work={
            "bytes_read": 4.0 * logits.size,
            "bytes_written": 4.0 * rows,
            "random_numbers": float(logits.size) if temperature else 0.0,
        },
    )


KERNELS = {
    "sample_gumbel": Kernel(
        name="sample_gumbel",
        purpose="counter-based random numbers: wide integer multiplies and logarithms, then an argmax by shuffles",
        axes={
            "rows": (1, 16, 64, 256),
            "vocabulary": (75, 1000, 32_000, 128_256),
            "temperature": (0.0, 0.7, 1.0),
            "block_threads": (128, 256, 512, 1024),
        },
        default={"rows": 64, "vocabulary": 32_000, "temperature": 1.0, "block_threads": 512},
        small={"rows": 2, "vocabulary": 330, "temperature": 0.7, "block_threads": 64},
        make=make,
    )
}
