"""All-pairs gravity: positions tiled through shared memory, an inverse square root a pair."""

from __future__ import annotations

import functools
import math

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive

SOFTENING = 1e-2


@functools.cache
def _kernel(tile: int):
    """The kernel for one block size: the tile is as long as the block."""
    softening = np.float32(SOFTENING)

    @cuda.jit
    def nbody(bodies, accelerations):
        """``bodies`` float32[n, 4] (x, y, z, mass); ``accelerations`` float32[n, 3]."""
        shared = cuda.shared.array((tile, 4), float32)
        i = cuda.grid(1)
        t = cuda.threadIdx.x
        n = bodies.shape[0]
        x = y = z = float32(0)
        if i < n:
            x, y, z = bodies[i, 0], bodies[i, 1], bodies[i, 2]
        ax = ay = az = float32(0)
        for start in range(0, n, tile):
            j = start + t
            for c in range(4):
                # A body beyond the end has no mass and pulls nobody.
                shared[t, c] = bodies[j, c] if j < n else float32(0)
            cuda.syncthreads()
            for k in range(tile):
                dx = shared[k, 0] - x
                dy = shared[k, 1] - y
                dz = shared[k, 2] - z
                inverse = float32(1) / math.sqrt(dx * dx + dy * dy + dz * dz + softening)
                pull = shared[k, 3] * inverse * inverse * inverse
                ax += dx * pull
                ay += dy * pull
                az += dz * pull
            cuda.syncthreads()
        if i < n:
            accelerations[i, 0] = ax
            accelerations[i, 1] = ay
            accelerations[i, 2] = az

    return nbody


def make(*, n: int, block_threads: int, seed: int = 0) -> Case:
    require_positive(n=n)
    require_block(block_threads)
    bodies = np.random.default_rng(seed).random((n, 4), np.float32)
    accelerations = np.zeros((n, 3), np.float32)

    def check() -> None:
        position, mass = bodies[:, :3].astype(np.float64), bodies[:, 3].astype(np.float64)
        for i in range(n):
            delta = position - position[i]
            pull = mass * ((delta**2).sum(axis=1) + np.float32(SOFTENING)) ** -1.5
            expected = (delta * pull[:, None]).sum(axis=0)
            # The terms cancel, and a pull cubes the rounding of its inverse distance.
            scale = (np.abs(delta) * pull[:, None]).sum(axis=0)
            assert np.all(np.abs(accelerations[i] - expected) <= 1e-5 * scale), (
                f"body {i}: {accelerations[i]} instead of {expected}"
            )

    grid = (blocks_for(n, block_threads),)
    pairs = float(n) * n
    return Case(
        launches=(Launch(_kernel(block_threads), grid, (block_threads,), (bodies, accelerations)),),
        check=check,
        work={"bytes_read": 16.0 * n, "bytes_written": 12.0 * n, "flops": 20.0 * pairs, "pairs": pairs},
    )


KERNELS = {
    "nbody": Kernel(
        name="nbody",
        purpose="compute-bound: FMA and reciprocal square root, shared memory read as broadcast",
        axes={"n": (256, 1024, 4096, 16_384), "block_threads": (64, 128, 256)},
        default={"n": 2048, "block_threads": 128},
        small={"n": 100, "block_threads": 64},
        make=make,
    )
}
