"""The block's barrier: cycles from one to the next, by the number of warps that meet."""

from __future__ import annotations

import numpy as np
from numba import cuda, int32

from .case import Case, Kernel, Launch, require_block, require_positive
from .ptx import clock64

UNROLL = 16


@cuda.jit
def barrier(token, rounds, seen, cycles):
    """Thread 0 hands the token to the block; then nothing but barriers."""
    shared = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        shared[0] = token
    begin = clock64()
    for _ in range(rounds):
        for _ in range(UNROLL):
            cuda.syncthreads()
    cycles[cuda.grid(1)] = clock64() - begin
    seen[cuda.grid(1)] = shared[0]


def make(*, rounds: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    """Sixteen barriers a round."""
    require_positive(rounds=rounds, blocks=blocks)
    require_block(block_threads)
    token = int(np.random.default_rng(seed).integers(1, 2**31))
    seen, cycles = np.zeros(block_threads * blocks, np.int32), np.zeros(block_threads * blocks, np.int64)
    return Case(
        launches=(Launch(barrier, (blocks,), (block_threads,), (np.int32(token), rounds, seen, cycles)),),
        check=lambda: np.testing.assert_array_equal(seen, np.full_like(seen, token)),
        work={"barriers": float(rounds * UNROLL * blocks), "barriers_per_block": float(rounds * UNROLL)},
    )


KERNELS = {
    "barrier": Kernel(
        name="barrier",
        purpose="cycles of a block's barrier against its number of warps: nothing else is in the loop",
        axes={
            "rounds": (4, 16, 64, 256),
            "block_threads": (32, 64, 128, 256, 512, 1024),
            "blocks": (1, 2, 132),
        },
        default={"rounds": 64, "block_threads": 256, "blocks": 1},
        small={"rounds": 2, "block_threads": 96, "blocks": 2},
        make=make,
    )
}
