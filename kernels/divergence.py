"""Branch divergence: the lanes of a warp take several paths of equal length, one after another."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

from .block_scan import WARP_THREADS
from .case import Case, Kernel, Launch, require_block, require_positive
from .ptx import clock64

UNROLL = 16
FACTOR = np.float32(0.75)


@cuda.jit
def divergence(values, paths, rounds, results, cycles):
    """Lane l takes path ``l % paths``: a chain of FMAs with that path's addend."""
    t = cuda.grid(1)
    x = values[t]
    own = cuda.laneid % paths
    begin = clock64()
    for path in range(paths):
        if own == path:
            addend = float32(path)
            for _ in range(rounds):
                for _ in range(UNROLL):
                    x = x * FACTOR + addend
    cycles[t] = clock64() - begin
    results[t] = x


def make(*, paths: int, rounds: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    """``paths``: 1 (all lanes together) to 32 (each lane alone); each path is 16 FMAs a round."""
    require_positive(paths=paths, rounds=rounds, blocks=blocks)
    require_block(block_threads)
    if paths > WARP_THREADS:
        raise ValueError(f"paths must be at most {WARP_THREADS}, not {paths}")
    threads = block_threads * blocks
    values = np.random.default_rng(seed).random(threads, np.float32)
    results, cycles = np.full(threads, -1, np.float32), np.zeros(threads, np.int64)

    def check() -> None:
        own = np.arange(threads) % block_threads % WARP_THREADS % paths
        expected = values.astype(np.float64)
        for _ in range(rounds * UNROLL):
            expected = expected * 0.75 + own
        np.testing.assert_allclose(results, expected, rtol=1e-5)

    return Case(
        launches=(Launch(divergence, (blocks,), (block_threads,), (values, paths, rounds, results, cycles)),),
        check=check,
        work={"flops": 2.0 * threads * rounds * UNROLL, "paths_per_warp": float(paths)},
    )


KERNELS = {
    "divergence": Kernel(
        name="divergence",
        purpose="cost of divergent branches: time against the number of paths that a warp's lanes take",
        axes={
            "paths": (1, 2, 4, 8, 16, 32),
            "rounds": (4, 16, 64),
            "block_threads": (32, 128, 256),
            "blocks": (1, 132),
        },
        default={"paths": 4, "rounds": 16, "block_threads": 32, "blocks": 1},
        small={"paths": 3, "rounds": 2, "block_threads": 48, "blocks": 2},
        make=make,
    )
}
