"""Reductions over a warp and over a block, as device functions of the kernels that need them."""

from __future__ import annotations

from numba import cuda, float32

WARP = 32
ALL_LANES = 0xFFFFFFFF


@cuda.jit(device=True)
def warp_sum(value):
    """The sum of ``value`` over the warp, in every lane (a butterfly of shuffles)."""
    offset = WARP // 2
    while offset > 0:
        value += cuda.shfl_xor_sync(ALL_LANES, value, offset)
        offset //= 2
    return value


@cuda.jit(device=True)
def warp_max(value):
    """The largest ``value`` of the warp, in every lane."""
    offset = WARP // 2
    while offset > 0:
        value = max(value, cuda.shfl_xor_sync(ALL_LANES, value, offset))
        offset //= 2
    return value


@cuda.jit(device=True)
def block_max(value):
    """The largest float32 of a block of whole warps, in every thread; two barriers."""
    partial = cuda.shared.array(WARP, float32)
    lane = cuda.threadIdx.x % WARP
    value = warp_max(value)
    cuda.syncthreads()  # the previous call's partial results have been read
    if lane == 0:
        partial[cuda.threadIdx.x // WARP] = value
    cuda.syncthreads()
    return warp_max(partial[lane] if lane < cuda.blockDim.x // WARP else partial[0])


@cuda.jit(device=True)
def block_sum(value):
    """The sum of a float32 over a block of whole warps, in every thread; two barriers.

    Each warp reduces by shuffles, then every warp adds up the same partial sums, so that no third
    barrier has to hand the result out.
    """
    partial = cuda.shared.array(WARP, float32)
    lane = cuda.threadIdx.x % WARP
    value = warp_sum(value)
    cuda.syncthreads()  # the previous call's partial sums have been read
    if lane == 0:
        partial[cuda.threadIdx.x // WARP] = value
    cuda.syncthreads()
    return warp_sum(partial[lane] if lane < cuda.blockDim.x // WARP else float32(0))
