"""Device function: the sum over a block, by shuffles within warps and shared memory between them."""

from __future__ import annotations

from numba import cuda

from .block_scan import FULL_WARP, WARP_THREADS


@cuda.jit(device=True)
def block_sum(value, warp_sums):
    """The sum of all threads' floating ``value``, in the first thread alone; blocks must be whole warps.

    ``warp_sums``: 32 elements of the value's type in shared memory; before the next use of it the block
    must synchronise.
    """
    lane, warp = cuda.threadIdx.x % WARP_THREADS, cuda.threadIdx.x // WARP_THREADS
    distance = WARP_THREADS // 2
    while distance > 0:
        value += cuda.shfl_down_sync(FULL_WARP, value, distance)
        distance //= 2
    if lane == 0:
        warp_sums[warp] = value
    cuda.syncthreads()
    if warp == 0:
        value -= value
        if lane < cuda.blockDim.x // WARP_THREADS:
            value = warp_sums[lane]
        distance = WARP_THREADS // 2
        while distance > 0:
            value += cuda.shfl_down_sync(FULL_WARP, value, distance)
            distance //= 2
    return value
