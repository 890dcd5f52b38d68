"""Numerical and table work: option prices, small factorisations, a hash table, counter-based random numbers,
alignments."""

from __future__ import annotations

import math

import numpy as np

from ..case import Case, Kernel, Launch, blocks_for, require_block, require_positive
from .source import CudaSource

_MATCH, _MISMATCH, _GAP = 3, -2, -2


def make_black_scholes(*, n: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    require_positive(n=n, blocks=blocks)
    require_block(block_threads)
    rng = np.random.default_rng(seed)
    price, strike, years = (rng.uniform(*limits, n).astype(np.float32) for limits in ((5, 30), (1, 100), (0.25, 10)))
    call, put = np.full_like(price, np.nan), np.full_like(price, np.nan)
    rate, volatility = np.float32(0.02), np.float32(0.3)

    def check() -> None:
        s, k, t = (array.astype(np.float64) for array in (price, strike, years))
        d1 = (np.log(s / k) + (0.02 + 0.045) * t) / (0.3 * np.sqrt(t))
        below1, below2 = (0.5 * (1 + np.vectorize(math.erf)(d / 2**0.5)) for d in (d1, d1 - 0.3 * np.sqrt(t)))
        now = k * np.exp(-0.02 * t)
        np.testing.assert_allclose(call, s * below1 - now * below2, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(put, now * (1 - below2) - s * (1 - below1), rtol=1e-3, atol=1e-3)

    args = (price, strike, years, call, put, rate, volatility, np.int32(n))
    return Case(
        launches=(Launch(CudaSource("finance.cu", "black_scholes"), (blocks,), (block_threads,), args),),
        check=check,
        work={"bytes_read": 12.0 * n, "bytes_written": 8.0 * n, "flops": 60.0 * n},
    )


def make_cholesky(*, matrices: int, order: int, block_threads: int, seed: int = 0) -> Case:
    require_positive(matrices=matrices)
    require_block(block_threads, 32)
    if not 2 <= order <= 32:
        raise ValueError(f"order must be from 2 to 32, not {order}")
    half = np.random.default_rng(seed).standard_normal((matrices, order, order))
    whole = half @ half.transpose(0, 2, 1) + order * np.eye(order)
    out = np.full_like(whole, np.nan)
    kernel = CudaSource("cholesky.cu", f"cholesky<{order}>")
    grid = (blocks_for(32 * matrices, block_threads),)
    return Case(
        launches=(Launch(kernel, grid, (block_threads,), (whole, out, np.int32(matrices))),),
        check=lambda: np.testing.assert_allclose(out, np.linalg.cholesky(whole), rtol=1e-10, atol=1e-12),
        work={
            "bytes_read": float(whole.nbytes),
            "bytes_written": float(out.nbytes),
            "flops": matrices * order**3 / 3,
        },
    )


def make_hash_table(*, n: int, load_percent: int, block_threads: int, seed: int = 0) -> Case:
    require_positive(n=n)
    require_block(block_threads)
    if not 1 <= load_percent <= 95:
        raise ValueError(f"load_percent must be from 1 to 95, not {load_percent}")
    rng = np.random.default_rng(seed)
    keys = rng.permutation(np.unique(rng.integers(0, 1 << 31, 2 * n))[:n]).astype(np.uint32)
    n = keys.size
    values = rng.integers(0, 1 << 31, n).astype(np.uint32)
    size = 1 << math.ceil(math.log2(max(2, n * 100 / load_percent)))
    table = np.full(size, 0xFFFF_FFFF_FFFF_FFFF, np.uint64)
    asked = np.where(rng.random(n) < 0.5, keys, keys ^ np.uint32(1 << 31))  # half of them are not there
    found = np.zeros(n, np.uint32)
    right = np.where(asked == keys, values, np.uint32(0xFFFF_FFFF))
    mask, count, grid = np.uint32(size - 1), np.int32(n), (blocks_for(n, block_threads),)
    launches = (
        Launch(CudaSource("hash_table.cu", "insert"), grid, (block_threads,), (keys, values, table, mask, count)),
        Launch(CudaSource("hash_table.cu", "lookup"), grid, (block_threads,), (asked, found, table, mask, count)),
    )
    return Case(
        launches=launches,
        check=lambda: np.testing.assert_array_equal(found, right),
        work={"bytes_read": 20.0 * n, "bytes_written": 12.0 * n},
    )


def make_philox(*, draws: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    require_positive(draws=draws, blocks=blocks)
    require_block(block_threads, 32)
    inside = np.zeros(1, np.uint64)
    low = np.uint64(0xFFFF_FFFF)

    def count() -> int:
        thread, draw = (part.ravel() for part in np.meshgrid(np.arange(blocks * block_threads), np.arange(draws)))
        x, y, z, w = (part.astype(np.uint64) for part in (draw, 0 * draw, thread, 0 * draw))
        first, second = seed & 0xFFFF_FFFF, 0
        for _ in range(10):
            product0, product1 = np.uint64(0xD2511F53) * x, np.uint64(0xCD9E8D57) * z
            x, y, z, w = (
                (product1 >> np.uint64(32)) ^ y ^ np.uint64(first), product1 & low,
                (product0 >> np.uint64(32)) ^ w ^ np.uint64(second), product0 & low,
            )  # fmt: skip
            first, second = (first + 0x9E3779B9) & 0xFFFF_FFFF, (second + 0xBB67AE85) & 0xFFFF_FFFF
        words = np.concatenate([x, y, z, w])
        across, up = words & np.uint64(0xFFFF), words >> np.uint64(16)
        return int((across * across + up * up < np.uint64(1 << 32)).sum())

    args = (inside, np.uint32(seed & 0xFFFF_FFFF), np.int32(draws))
    return Case(
        launches=(Launch(CudaSource("philox.cu", "count_in_circle"), (blocks,), (block_threads,), args),),
        check=lambda: np.testing.assert_array_equal(inside, count()),
        work={"draws": 4.0 * draws * blocks * block_threads, "bytes_written": 8.0},
    )


def make_alignment(*, pairs: int, length: int, block_threads: int, seed: int = 0) -> Case:
    require_positive(pairs=pairs, length=length)
    require_block(block_threads, 32)
    rng = np.random.default_rng(seed)
    first, second = (rng.integers(0, 4, (pairs, columns)).astype(np.uint8) for columns in (length, 32))
    best = np.full(pairs, -1, np.int32)

    def check() -> None:
        scores, right = np.zeros((pairs, length + 1, 33), np.int32), np.zeros(pairs, np.int32)
        for i in range(1, length + 1):
            for j in range(1, 33):
                same = np.where(first[:, i - 1] == second[:, j - 1], _MATCH, _MISMATCH)
                here = np.maximum(0, scores[:, i - 1, j - 1] + same)
                here = np.maximum(here, np.maximum(scores[:, i - 1, j], scores[:, i, j - 1]) + _GAP)
                scores[:, i, j] = here
                right = np.maximum(right, here)
        np.testing.assert_array_equal(best, right)

    kernel = CudaSource("alignment.cu", f"alignment<{_MATCH}, {_MISMATCH}, {_GAP}>")
    args = (first, second, best, np.int32(pairs), np.int32(length))
    return Case(
        launches=(Launch(kernel, (blocks_for(32 * pairs, block_threads),), (block_threads,), args),),
        check=check,
        work={"bytes_read": float(pairs * (length + 32)), "bytes_written": 4.0 * pairs, "cells": 32.0 * pairs * length},
    )


KERNELS = {
    "cpp_black_scholes": Kernel(
        name="cpp_black_scholes",
        purpose="logarithms, exponentials, divisions and roots on streams: MUFU against DRAM",
        axes={"n": (10_000, 1 << 20), "block_threads": (128, 256), "blocks": (64, 264, 1056)},
        default={"n": 1 << 19, "block_threads": 256, "blocks": 264},
        small={"n": 500, "block_threads": 64, "blocks": 3},
        make=make_black_scholes,
    ),
    "cpp_cholesky": Kernel(
        name="cpp_cholesky",
        purpose="factors of small matrices in registers: double precision, shuffles, a serial chain of pivots",
        axes={"matrices": (100, 4096), "order": (4, 8, 16, 32), "block_threads": (32, 128)},
        default={"matrices": 1024, "order": 16, "block_threads": 128},
        small={"matrices": 3, "order": 6, "block_threads": 64},
        make=make_cholesky,
    ),
    "cpp_hash_table": Kernel(
        name="cpp_hash_table",
        purpose="64-bit compare-and-swap at random places, probes that diverge",
        axes={"n": (1000, 1 << 16, 1 << 20), "load_percent": (25, 50, 90), "block_threads": (64, 128, 256)},
        default={"n": 1 << 16, "load_percent": 50, "block_threads": 128},
        small={"n": 300, "load_percent": 90, "block_threads": 64},
        make=make_hash_table,
    ),
    "cpp_philox": Kernel(
        name="cpp_philox",
        purpose="random numbers from counters: wide integer products, no memory",
        axes={"draws": (1, 16, 64), "block_threads": (128, 256), "blocks": (16, 132, 528)},
        default={"draws": 16, "block_threads": 256, "blocks": 264},
        small={"draws": 3, "block_threads": 64, "blocks": 2},
        make=make_philox,
    ),
    "cpp_alignment": Kernel(
        name="cpp_alignment",
        purpose="Smith-Waterman: a wavefront of shuffles, integer maxima, lanes that start late",
        axes={"pairs": (100, 4096), "length": (32, 128, 512), "block_threads": (32, 128)},
        default={"pairs": 2048, "length": 128, "block_threads": 128},
        small={"pairs": 3, "length": 40, "block_threads": 64},
        make=make_alignment,
    ),
}
