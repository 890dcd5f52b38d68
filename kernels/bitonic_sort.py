"""Bitonic sort: tiles in shared memory, and merges of larger pieces pair by pair in global memory."""

from __future__ import annotations

import numpy as np
from numba import cuda, int32

from .case import Case, Kernel, Launch, require_block, require_positive


@cuda.jit(device=True)
def _compare_exchange(tile, first, pair, distance, size):
    """Order the ``pair``-th pair of elements ``distance`` apart; pieces of ``size`` alternate up and down.

    ``first`` is the position of the tile's first element in the whole array."""
    low = 2 * pair - (pair & (distance - 1))
    a, b = tile[low], tile[low + distance]
    ascending = ((first + low) & size) == 0
    if (a > b) == ascending:
        tile[low] = b
        tile[low + distance] = a


@cuda.jit
def sort_tiles(values):
    """Each block sorts its tile of two elements a thread, tiles alternately up and down."""
    tile = cuda.shared.array(0, int32)
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    first = cuda.blockIdx.x * threads * 2
    tile[t], tile[t + threads] = values[first + t], values[first + t + threads]
    size = 2
    while size <= 2 * threads:
        distance = size // 2
        while distance > 0:
            cuda.syncthreads()
            _compare_exchange(tile, first, t, distance, size)
            distance //= 2
        size *= 2
    cuda.syncthreads()
    values[first + t], values[first + t + threads] = tile[t], tile[t + threads]


@cuda.jit
def merge_far(values, distance, size):
    """One step of a merge whose partners lie in different tiles."""
    _compare_exchange(values, 0, cuda.grid(1), distance, size)


@cuda.jit
def merge_tiles(values, size):
    """All further steps of the merge of pieces of ``size``: partners lie in the same tile."""
    tile = cuda.shared.array(0, int32)
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    first = cuda.blockIdx.x * threads * 2
    tile[t], tile[t + threads] = values[first + t], values[first + t + threads]
    distance = threads
    while distance > 0:
        cuda.syncthreads()
        _compare_exchange(tile, first, t, distance, size)
        distance //= 2
    cuda.syncthreads()
    values[first + t], values[first + t + threads] = tile[t], tile[t + threads]


def make(*, n: int, block_threads: int, seed: int = 0) -> Case:
    """``n`` and ``block_threads`` must be powers of two, and ``n`` at least a tile of two elements a thread."""
    require_positive(n=n)
    require_block(block_threads)
    for axis, value in (("n", n), ("block_threads", block_threads)):
        if value & (value - 1):
            raise ValueError(f"{axis} must be a power of two, not {value}")
    tile = 2 * block_threads
    if n < tile:
        raise ValueError(f"n must be at least two elements a thread, {tile}, not {n}")
    values = np.random.default_rng(seed).integers(-(2**31), 2**31, n).astype(np.int32)
    unsorted = values.copy()
    shape, shared_bytes = ((n // tile,), (block_threads,)), 4 * tile
    launches = [Launch(sort_tiles, *shape, (values,), shared_bytes=shared_bytes)]
    size = 2 * tile
    while size <= n:
        distance = size // 2
        while distance >= tile:
            launches.append(Launch(merge_far, *shape, (values, distance, size)))
            distance //= 2
        launches.append(Launch(merge_tiles, *shape, (values, size), shared_bytes=shared_bytes))
        size *= 2

    return Case(
        launches=tuple(launches),
        check=lambda: np.testing.assert_array_equal(values, np.sort(unsorted)),
        work={"bytes_read": 4.0 * n * len(launches), "bytes_written": 4.0 * n * len(launches), "elements": float(n)},
    )


KERNELS = {
    "bitonic_sort": Kernel(
        name="bitonic_sort",
        purpose="a sorting network: barriers, power-of-two strides in shared memory, many short launches",
        axes={"n": (4096, 2**16, 2**18, 2**20), "block_threads": (128, 256, 512, 1024)},
        default={"n": 2**16, "block_threads": 512},
        small={"n": 256, "block_threads": 32},
        make=make,
    )
}
