"""A chain of loads through a table in shared memory: the index loaded is the place of the next load.

Unlike the pointers of ``bank_conflicts``, an index becomes an address first, as in the pointer chases that others
publish: a step is a load and the shift before it.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, int32

from .case import Case, Kernel, Launch, require_block, require_positive
from .ptx import clock64

WORDS = 1024
UNROLL = 32


@cuda.jit
def shared_chase(step, rounds, ends, cycles):
    """table[i] is i + step, round and round; every thread starts at its own lane."""
    table = cuda.shared.array(WORDS, int32)
    t = cuda.threadIdx.x
    for k in range(t, WORDS, cuda.blockDim.x):
        table[k] = (k + step) % WORDS
    cuda.syncthreads()
    i = np.int32(cuda.laneid)
    begin = clock64()
    for _ in range(rounds):
        for _ in range(UNROLL):
            i = table[np.uint32(i)]
    cycles[t] = clock64() - begin
    ends[t] = i


def make(*, step: int, rounds: int, block_threads: int, seed: int = 0) -> Case:
    """``step``: words from one place to the next; 32 loads a round. ``seed`` changes nothing."""
    require_positive(step=step, rounds=rounds)
    require_block(block_threads)
    ends, cycles = np.full(block_threads, -1, np.int32), np.zeros(block_threads, np.int64)

    def check() -> None:
        start = np.arange(block_threads) % 32
        np.testing.assert_array_equal(ends, (start + rounds * UNROLL * step) % WORDS)

    loads = float(rounds * UNROLL)
    return Case(
        launches=(Launch(shared_chase, (1,), (block_threads,), (np.int32(step), rounds, ends, cycles)),),
        check=check,
        work={"steps_per_warp": loads, "warp_loads": loads * -(-block_threads // 32)},
    )


KERNELS = {
    "shared_chase": Kernel(
        name="shared_chase",
        purpose="latency of an indexed shared-memory load, address arithmetic included",
        axes={"step": (32, 64, 33), "rounds": (4, 16, 64), "block_threads": (32, 128, 1024)},
        default={"step": 32, "rounds": 64, "block_threads": 32},
        small={"step": 33, "rounds": 2, "block_threads": 48},
        make=make,
    )
}
