"""Indexed constant memory: a chain through a table, all lanes at one place or at several.

A constant access serves one address at a time, so that lanes at different addresses take turns; the table's
size walks through the constant caches.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda

from .block_scan import WARP_THREADS
from .case import Case, Kernel, Launch, require_block, require_positive
from .ptx import clock64

WORD_BYTES = 4
MAX_TABLE_BYTES = 65_536  # of constant memory, CUDA programming guide
STEP_BYTES = 64
UNROLL = 16


def _table(table_bytes: int) -> np.ndarray:
    """table[i] is the place visited after i: 64 bytes further on, round and round."""
    words = table_bytes // WORD_BYTES
    return ((np.arange(words) + STEP_BYTES // WORD_BYTES) % words).astype(np.int32)


@cache
def _kernel(table_bytes: int):
    # The table is part of the compiled module, as constant memory is in Numba.
    contents = _table(table_bytes)

    @cuda.jit
    def constant_cache(addresses, rounds, ends, cycles):
        table = cuda.const.array_like(contents)
        t = cuda.grid(1)
        i = np.int32(cuda.laneid % addresses)
        begin = clock64()
        for _ in range(rounds):
            for _ in range(UNROLL):
                i = table[np.uint32(i)]
        cycles[t] = clock64() - begin
        ends[t] = i

    return constant_cache


def make(*, table_bytes: int, addresses: int, rounds: int, block_threads: int, seed: int = 0) -> Case:
    """``addresses``: how many different words the lanes of a warp read at a time, 1 to 32;
    each loads 16 times a round. ``seed`` changes nothing: there is nothing random."""
    require_positive(table_bytes=table_bytes, addresses=addresses, rounds=rounds)
    require_block(block_threads)
    if table_bytes % STEP_BYTES or table_bytes > MAX_TABLE_BYTES:
        raise ValueError(f"table_bytes must be a multiple of {STEP_BYTES} up to {MAX_TABLE_BYTES}, not {table_bytes}")
    if addresses > min(WARP_THREADS, table_bytes // WORD_BYTES):
        raise ValueError(f"addresses must be at most 32 and the words of the table, not {addresses}")
    ends, cycles = np.full(block_threads, -1, np.int32), np.zeros(block_threads, np.int64)

    def check() -> None:
        table, expected = _table(table_bytes), np.arange(block_threads) % WARP_THREADS % addresses
        for _ in range(rounds * UNROLL):
            expected = table[expected]
        np.testing.assert_array_equal(ends, expected)

    return Case(
        launches=(Launch(_kernel(table_bytes), (1,), (block_threads,), (addresses, rounds, ends, cycles)),),
        check=check,
        work={
            "steps_per_warp": float(rounds * UNROLL),
            "warp_loads": float(-(-block_threads // WARP_THREADS) * rounds * UNROLL),
        },
    )


KERNELS = {
    "constant_cache": Kernel(
        name="constant_cache",
        purpose="latency of indexed constant loads by footprint, and what lanes at different addresses cost",
        axes={
            "table_bytes": (1024, 2048, 8192, 32_768, 65_536),
            "addresses": (1, 2, 4, 8, 32),
            "rounds": (4, 16, 64),
            "block_threads": (32, 128, 1024),
        },
        default={"table_bytes": 1024, "addresses": 1, "rounds": 64, "block_threads": 32},
        small={"table_bytes": 256, "addresses": 4, "rounds": 3, "block_threads": 48},
        make=make,
    )
}
