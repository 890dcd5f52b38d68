"""Position of the largest element, the first one among equals: shuffles of pairs, two launches."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int32

from .block_scan import FULL_WARP, MAX_WARPS, WARP_THREADS
from .case import Case, Kernel, Launch, require_block, require_positive

NO_INDEX = 2**31 - 1


@cuda.jit(device=True)
def _warp_best(value, index):
    """The best (value, index) of the warp, in its first lane."""
    distance = WARP_THREADS // 2
    while distance > 0:
        other_value = cuda.shfl_down_sync(FULL_WARP, value, distance)
        other_index = cuda.shfl_down_sync(FULL_WARP, index, distance)
        if other_value > value or (other_value == value and other_index < index):
            value, index = other_value, other_index
        distance //= 2
    return value, index


@cuda.jit
def argmax(values, indices, best_values, best_indices):
    """Each block's best (value, index) of ``values``; element i stands for position ``indices[i]``, or for
    i itself where ``indices`` is empty."""
    warp_values = cuda.shared.array(MAX_WARPS, float32)
    warp_indices = cuda.shared.array(MAX_WARPS, int32)
    t = cuda.threadIdx.x
    lane, warp = t % WARP_THREADS, t // WARP_THREADS
    value, index = float32(-math.inf), int32(NO_INDEX)
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        candidate = int32(i)
        if indices.size:
            candidate = indices[i]
        if values[i] > value or (values[i] == value and candidate < index):
            value, index = values[i], candidate
    value, index = _warp_best(value, index)
    if lane == 0:
        warp_values[warp], warp_indices[warp] = value, index
    cuda.syncthreads()
    if warp == 0:
        value, index = float32(-math.inf), int32(NO_INDEX)
        if lane < cuda.blockDim.x // WARP_THREADS:
            value, index = warp_values[lane], warp_indices[lane]
        value, index = _warp_best(value, index)
        if lane == 0:
            best_values[cuda.blockIdx.x], best_indices[cuda.blockIdx.x] = value, index


def make(*, n: int, distinct: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    """``distinct``: how many different values there are; few make many ties."""
    require_positive(n=n, distinct=distinct, blocks=blocks)
    require_block(block_threads, multiple=32)
    values = np.random.default_rng(seed).integers(0, distinct, n).astype(np.float32)
    block_values, block_indices = np.zeros(blocks, np.float32), np.zeros(blocks, np.int32)
    best_value, best_index = np.full(1, -1, np.float32), np.full(1, -1, np.int32)
    direct = np.zeros(0, np.int32)

    def check() -> None:
        expected = int(np.argmax(values))
        assert best_index[0] == expected, f"argmax {best_index[0]}, not {expected}"
        assert best_value[0] == values[expected]

    return Case(
        launches=(
            Launch(argmax, (blocks,), (block_threads,), (values, direct, block_values, block_indices)),
            Launch(argmax, (1,), (block_threads,), (block_values, block_indices, best_value, best_index)),
        ),
        check=check,
        work={"bytes_read": 4.0 * n, "bytes_written": 8.0, "elements": float(n)},
    )


KERNELS = {
    "argmax": Kernel(
        name="argmax",
        purpose="a reduction that carries a position: compare-and-select chains, shuffles of pairs, two launches",
        axes={
            "n": (10_000, 2**20, 2**22),
            "distinct": (1, 100, 2**24),
            "block_threads": (64, 128, 256, 512, 1024),
            "blocks": (16, 132, 264),
        },
        default={"n": 2**20, "distinct": 2**24, "block_threads": 256, "blocks": 264},
        small={"n": 3007, "distinct": 100, "block_threads": 64, "blocks": 6},
        make=make,
    )
}
