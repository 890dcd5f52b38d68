"""Atomics in shared memory: rate against the number of addresses that the lanes meet on."""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda, float32, float64, int32, int64

from .case import Case, Kernel, Launch, require_block, require_positive
from .ptx import clock64

MAX_ADDRESSES = 1024
UNROLL = 8
_TYPES = {"int32": int32, "int64": int64, "float32": float32, "float64": float64}


@cache
def _kernel(dtype: str):
    kind = _TYPES[dtype]

    @cuda.jit
    def shared_atomics(sums, rounds, cycles):
        """sums[block, address]; ``sums.shape[1]`` addresses are used."""
        cells = cuda.shared.array(MAX_ADDRESSES, kind)
        t, addresses = cuda.threadIdx.x, sums.shape[1]
        for k in range(t, addresses, cuda.blockDim.x):
            cells[k] = kind(0)
        cuda.syncthreads()
        # Differs from lane to lane: the hardware has a faster way for adding one to a common address.
        cell, amount = t % addresses, kind(1 + (t & 3))
        begin = clock64()
        for _ in range(rounds):
            for _ in range(UNROLL):
                cuda.atomic.add(cells, cell, amount)
        cuda.syncthreads()
        cycles[cuda.grid(1)] = clock64() - begin
        for k in range(t, addresses, cuda.blockDim.x):
            sums[cuda.blockIdx.x, k] = cells[k]

    return shared_atomics


def make(*, dtype: str, addresses: int, rounds: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    """Thread t adds to address ``t % addresses``, eight times a round."""
    require_positive(addresses=addresses, rounds=rounds, blocks=blocks)
    require_block(block_threads)
    if dtype not in _TYPES:
        raise ValueError(f"dtype must be one of {', '.join(_TYPES)}, not {dtype!r}")
    if addresses > MAX_ADDRESSES:
        raise ValueError(f"addresses must be at most {MAX_ADDRESSES}, not {addresses}")
    sums = np.full((blocks, addresses), -1, dtype)
    cycles = np.zeros(block_threads * blocks, np.int64)
    t = np.arange(block_threads)
    # Whole numbers below 2**24: floating sums are exact in any order.
    expected = np.bincount(t % addresses, 1 + (t & 3), addresses) * rounds * UNROLL
    return Case(
        launches=(Launch(_kernel(dtype), (blocks,), (block_threads,), (sums, rounds, cycles)),),
        check=lambda: np.testing.assert_array_equal(sums, np.tile(expected, (blocks, 1))),
        work={"shared_atomics": float(blocks * block_threads * rounds * UNROLL)},
    )


KERNELS = {
    "shared_atomics": Kernel(
        name="shared_atomics",
        purpose="rate of shared-memory atomics by type and by lanes that meet on one address",
        axes={
            "dtype": tuple(_TYPES),
            "addresses": (1, 2, 4, 8, 16, 32, 64, 1024),
            "rounds": (4, 16, 64),
            "block_threads": (32, 128, 1024),
            "blocks": (1, 132),
        },
        default={"dtype": "int32", "addresses": 32, "rounds": 16, "block_threads": 128, "blocks": 1},
        small={"dtype": "float32", "addresses": 8, "rounds": 1, "block_threads": 32, "blocks": 2},
        make=make,
    )
}
