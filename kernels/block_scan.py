"""Device functions: prefix sums over a warp and over a block, by shuffles.

Mental model: each warp adds up its lanes in five doubling steps; the warps' totals are then scanned by
the first warp. Blocks must be whole warps.
"""

from __future__ import annotations

from numba import cuda, int32

FULL_WARP = 0xFFFFFFFF
WARP_THREADS = 32
MAX_WARPS = 32


@cuda.jit(device=True)
def warp_inclusive_sum(value):
    """The sum of the int32 values of this lane and all lanes before it."""
    lane = cuda.laneid
    distance = 1
    while distance < WARP_THREADS:
        other = cuda.shfl_up_sync(FULL_WARP, value, distance)
        if lane >= distance:
            value = int32(value + other)
        distance *= 2
    return value


@cuda.jit(device=True)
def block_exclusive_sum(value, warp_totals):
    """(sum of the int32 values of all threads before this one, sum of all threads).

    ``warp_totals``: int32[MAX_WARPS] in shared memory; before the next use of it the block must synchronise.
    """
    lane, warp = cuda.threadIdx.x % WARP_THREADS, cuda.threadIdx.x // WARP_THREADS
    inclusive = warp_inclusive_sum(value)
    if lane == WARP_THREADS - 1:
        warp_totals[warp] = inclusive
    cuda.syncthreads()
    if warp == 0:
        total = int32(0)
        if lane < cuda.blockDim.x // WARP_THREADS:
            total = warp_totals[lane]
        warp_totals[lane] = warp_inclusive_sum(total)
    cuda.syncthreads()
    before = int32(inclusive - value)
    if warp > 0:
        before = int32(before + warp_totals[warp - 1])
    return before, warp_totals[MAX_WARPS - 1]
