"""Atomics at L2 with nobody contending: rate against how a warp's lanes spread over sectors and lines."""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda

from .block_scan import WARP_THREADS
from .case import Case, Kernel, Launch, require_block, require_positive

DTYPES = ("int32", "int64", "float32", "float64")
#: Places of a thread, one update each a round, so that one slice of L2 does not get all of a warp's atomics.
PLACES = 4


@cache
def _kernel(returning: bool):
    @cuda.jit
    def l2_atomics(cells, span, stride, rounds, negatives):
        """Cells of thread t: ``place * span + t * stride``."""
        i = cuda.grid(1)
        amount = cells.dtype.type(1 + (i & 3))
        count = 0
        first = i * stride
        for _ in range(rounds):
            for place in range(PLACES):
                before = cuda.atomic.add(cells, np.uint64(place * span + first), amount)
                if returning:
                    count += before < 0  # never; but the value must come back for it
        negatives[i] = count

    return l2_atomics


def make(
    *,
    dtype: str,
    returning: bool,
    stride: int,
    rounds: int,
    block_threads: int,
    blocks: int,
    seed: int = 0,
) -> Case:
    """``stride``: elements from thread to thread; 0 lets all lanes of all warps meet on one element.
    ``returning``: the kernel uses the value before (ATOMG); otherwise it does not (RED)."""
    require_positive(rounds=rounds, blocks=blocks)
    require_block(block_threads)
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
    if stride < 0:
        raise ValueError(f"stride must not be negative, not {stride}")
    threads = block_threads * blocks
    # Places begin on a line.
    span = -(-max(1, threads * stride) // WARP_THREADS) * WARP_THREADS
    start = np.random.default_rng(seed).integers(0, 100, PLACES * span)
    cells = start.astype(dtype)
    negatives = np.full(threads, -1, np.int32)

    def check() -> None:
        expected, i = start.copy(), np.arange(threads)
        for place in range(PLACES):
            np.add.at(expected, place * span + i * stride, rounds * (1 + (i & 3)))
        # Whole numbers below 2**24: floating sums are exact in any order.
        np.testing.assert_array_equal(cells, expected)
        assert (negatives == 0).all()

    args = (cells, span, stride, rounds, negatives)
    return Case(
        launches=(Launch(_kernel(bool(returning)), (blocks,), (block_threads,), args),),
        check=check,
        work={"atomics": float(threads * rounds * PLACES)},
    )


KERNELS = {
    "l2_atomics": Kernel(
        name="l2_atomics",
        purpose="rate of global atomics at L2, with and without the value back, by sectors and lines a warp touches",
        axes={
            "dtype": DTYPES,
            "returning": (False, True),
            "stride": (0, 1, 2, 8, 32),
            "rounds": (1, 4, 16),
            "block_threads": (32, 128, 256),
            "blocks": (1, 132, 264),
        },
        default={
            "dtype": "int32",
            "returning": False,
            "stride": 1,
            "rounds": 4,
            "block_threads": 256,
            "blocks": 132,
        },
        small={
            "dtype": "float32",
            "returning": True,
            "stride": 8,
            "rounds": 2,
            "block_threads": 64,
            "blocks": 2,
        },
        make=make,
    )
}
