"""A fence of the GPU's scope: cycles from one to the next, by the warps that make one at once and by what other warps
load meanwhile."""

from __future__ import annotations

import numpy as np
from numba import cuda, int32

from .case import Case, Kernel, Launch, require_block, require_positive
from .ptx import clock64

UNROLL = 4
LINE_WORDS = 32


@cuda.jit
def fence(values, rounds, fencing, lines, seen, cycles):
    """The first ``fencing`` warps make fences, the others load a new line of ``values`` each round, as do those with
    ``lines``, and wait for it."""
    thread, warp = cuda.grid(1), cuda.threadIdx.x // 32
    warps = cuda.gridDim.x * (cuda.blockDim.x // 32)
    at = (thread // 32) * LINE_WORDS + cuda.threadIdx.x % 32
    total = int32(0)
    cuda.syncthreads()
    begin = clock64()
    for _ in range(rounds):
        for _ in range(UNROLL):
            if lines or warp >= fencing:
                total += values[at]
                at += warps * LINE_WORDS
            if warp < fencing:
                cuda.threadfence()
    cycles[thread] = clock64() - begin
    seen[thread] = total


def make(*, rounds: int, block_threads: int, fencing: int, lines: int, blocks: int, seed: int = 0) -> Case:
    """Four fences a round; ``lines`` 1: a load before each."""
    require_positive(rounds=rounds, blocks=blocks, fencing=fencing)
    require_block(block_threads)
    if block_threads % 32 or lines not in (0, 1):
        raise ValueError(f"block_threads is of whole warps, lines is 0 or 1, not {block_threads} and {lines}")
    threads, steps = block_threads * blocks, rounds * UNROLL
    values = np.random.default_rng(seed).integers(0, 100, threads * steps).astype(np.int32)
    seen, cycles = np.zeros(threads, np.int32), np.zeros(threads, np.int64)
    loads = np.logical_or(lines, np.arange(threads) % block_threads // 32 >= fencing)
    expected = np.where(loads, values.reshape(steps, threads).sum(axis=0), 0)
    arguments = (values, rounds, fencing, lines, seen, cycles)
    return Case(
        launches=(Launch(fence, (blocks,), (block_threads,), arguments),),
        check=lambda: np.testing.assert_array_equal(seen, expected),
        work={"fences": float(steps * min(fencing, block_threads // 32) * blocks)},
    )


KERNELS = {
    "fence": Kernel(
        name="fence",
        purpose="cycles of a fence of the GPU's scope against the warps that make one at once, and beside loads of other warps of the SM",
        axes={
            "rounds": (4, 16, 64),
            "block_threads": (32, 64, 128, 256),
            "fencing": (1, 2, 4),
            "lines": (0, 1),
            "blocks": (1, 2, 132),
        },
        default={"rounds": 16, "block_threads": 128, "fencing": 4, "lines": 0, "blocks": 1},
        small={"rounds": 2, "block_threads": 64, "fencing": 1, "lines": 1, "blocks": 2},
        make=make,
    )
}
