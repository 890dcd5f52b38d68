"""Price of a European call by Monte Carlo: Philox random numbers made in the kernel.

Philox 4x32-10 is a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
2011, whence the constants): thread and draw number go in, four random words come out.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, float64, uint32, uint64

from .block_reduce import block_sum
from .block_scan import MAX_WARPS
from .case import Case, Kernel, Launch, require_block, require_positive

ROUNDS = 10
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
MULTIPLIER_0, MULTIPLIER_1 = (np.uint64(m) for m in MULTIPLIERS)
KEY_STEP_0, KEY_STEP_1 = (np.uint32(k) for k in KEY_STEPS)
SPOT, STRIKE, RATE, VOLATILITY, YEARS = 100.0, 105.0, 0.03, 0.25, 1.0
DRIFT = np.float32((RATE - VOLATILITY**2 / 2) * YEARS)
SPREAD = np.float32(VOLATILITY * math.sqrt(YEARS))
START, EXERCISE = np.float32(SPOT), np.float32(STRIKE)
TWO_PI, TO_UNIT = np.float32(2 * math.pi), np.float32(2.0**-24)


@cuda.jit(device=True)
def _philox(counter_0, counter_1, key_0, key_1):
    """Four random words for a counter of two words."""
    c0, c1, c2, c3 = counter_0, counter_1, uint32(0), uint32(0)
    for _ in range(ROUNDS):
        product_0, product_1 = uint64(c0) * MULTIPLIER_0, uint64(c2) * MULTIPLIER_1
        c0 = uint32(product_1 >> uint64(32)) ^ c1 ^ key_0
        c2 = uint32(product_0 >> uint64(32)) ^ c3 ^ key_1
        c1, c3 = uint32(product_1), uint32(product_0)
        key_0, key_1 = uint32(key_0 + KEY_STEP_0), uint32(key_1 + KEY_STEP_1)
    return c0, c1, c2, c3


@cuda.jit(device=True)
def _uniform(word):
    """A float32 in (0, 1) of the word's upper 24 bits."""
    return (float32(word >> uint32(8)) + float32(0.5)) * TO_UNIT


@cuda.jit(device=True)
def _payoffs(word_0, word_1):
    """The payoffs of two paths, by Box and Muller's pair of normal deviates."""
    radius = math.sqrt(float32(-2) * math.log(_uniform(word_0)))
    angle = TWO_PI * _uniform(word_1)
    high = START * math.exp(DRIFT + SPREAD * radius * math.cos(angle)) - EXERCISE
    low = START * math.exp(DRIFT + SPREAD * radius * math.sin(angle)) - EXERCISE
    return max(high, float32(0)) + max(low, float32(0))


@cuda.jit
def monte_carlo(seed, draws, block_sums):
    """Four paths a draw; each block leaves the sum of its payoffs."""
    warp_sums = cuda.shared.array(MAX_WARPS, float64)
    total = float32(0)
    for draw in range(draws):
        w0, w1, w2, w3 = _philox(uint32(cuda.grid(1)), uint32(draw), seed, uint32(0))
        total += _payoffs(w0, w1) + _payoffs(w2, w3)
    total_of_block = block_sum(float64(total), warp_sums)
    if cuda.threadIdx.x == 0:
        block_sums[cuda.blockIdx.x] = total_of_block


def _philox_words(threads: np.ndarray, draw: int, seed: int) -> list[np.ndarray]:
    """The same words for all threads at once, in 64-bit arithmetic."""
    low = np.uint64(0xFFFFFFFF)
    c = [threads.astype(np.uint64), np.full(threads.shape, draw, np.uint64)]
    c += [np.zeros_like(c[0]), np.zeros_like(c[0])]
    for r in range(ROUNDS):
        keys = [np.uint64((seed * (k == 0) + r * step) % 2**32) for k, step in enumerate(KEY_STEPS)]
        p0, p1 = c[0] * np.uint64(MULTIPLIERS[0]), c[2] * np.uint64(MULTIPLIERS[1])
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ keys[0], p1 & low, (p0 >> np.uint64(32)) ^ c[3] ^ keys[1], p0 & low]
    return c


def make(*, draws: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    """``draws``: draws a thread, four paths each."""
    require_positive(draws=draws, blocks=blocks)
    require_block(block_threads, multiple=32)
    key = int(np.random.default_rng(seed).integers(0, 2**32))
    block_sums = np.zeros(blocks, np.float64)

    def check() -> None:
        threads = np.arange(blocks * block_threads)
        total = np.zeros(threads.size)
        for draw in range(draws):
            u = [(np.floor(w / 256) + 0.5) * 2.0**-24 for w in _philox_words(threads, draw, key)]
            for first, second in ((u[0], u[1]), (u[2], u[3])):
                radius, angle = np.sqrt(-2 * np.log(first)), 2 * np.pi * second
                for normal in (radius * np.cos(angle), radius * np.sin(angle)):
                    drift = (RATE - VOLATILITY**2 / 2) * YEARS
                    price = SPOT * np.exp(drift + VOLATILITY * math.sqrt(YEARS) * normal)
                    total += np.maximum(price - STRIKE, 0)
        np.testing.assert_allclose(block_sums, total.reshape(blocks, -1).sum(axis=1), rtol=1e-5)

    paths = 4.0 * draws * block_threads * blocks
    return Case(
        launches=(Launch(monte_carlo, (blocks,), (block_threads,), (np.uint32(key), draws, block_sums)),),
        check=check,
        work={"paths": paths, "bytes_read": 0.0, "bytes_written": 8.0 * blocks},
    )


KERNELS = {
    "monte_carlo": Kernel(
        name="monte_carlo",
        purpose="arithmetic alone: wide integer multiplies of Philox, then logarithm, sine, cosine, exponential",
        axes={"draws": (4, 16, 64, 256), "block_threads": (64, 128, 256, 512), "blocks": (16, 132, 528)},
        default={"draws": 16, "block_threads": 256, "blocks": 132},
        small={"draws": 2, "block_threads": 64, "blocks": 2},
        make=make,
    )
}
