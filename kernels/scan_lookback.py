"""Prefix sum in one pass with decoupled look-back: a block waits for the blocks before it.

The algorithm of Merrill and Garland ("Single-pass parallel prefix scan with decoupled look-back", NVIDIA
NVR-2016-002). A tile publishes first its own sum, then, once it knows what lies before it, the sum
up to its end. A warp looks back over 32 tiles at a time, adding own sums until it meets a
running one. Tiles are handed out by a counter, so a tile waits only for blocks that have begun.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, int32, uint64

from .block_scan import FULL_WARP, MAX_WARPS, WARP_THREADS, block_exclusive_sum
from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive

ITEMS = 4
#: What a tile's state word says in its high half; the low half is the sum.
NOTHING, OWN_SUM, RUNNING_SUM = 0, 1, 2


@cuda.jit(device=True)
def _publish(states, tile, kind, total):
    """Kind and sum in one 64-bit word, so that no reader sees one without the other."""
    cuda.atomic.exch(states, tile, (uint64(kind) << uint64(32)) | uint64(total))


@cuda.jit(device=True)
def _state_of(states, tile):
    if tile < 0:
        return uint64(RUNNING_SUM) << uint64(32)
    return cuda.ldcv(states, tile)  # past the L1 cache, which does not see other SMs' writes


@cuda.jit(device=True)
def _look_back(states, tile):
    """The sum of all tiles before ``tile``, found by one warp."""
    before = int32(0)
    nearest = tile - 1
    while True:
        mine = nearest - cuda.laneid
        word = _state_of(states, mine)
        while cuda.any_sync(FULL_WARP, (word >> uint64(32)) == uint64(NOTHING)):
            word = _state_of(states, mine)
        running = cuda.ballot_sync(FULL_WARP, (word >> uint64(32)) == uint64(RUNNING_SUM))
        value = int32(word & uint64(0xFFFFFFFF))
        if running != 0 and cuda.laneid >= cuda.ffs(running):
            value = int32(0)  # lies before the nearest running sum, which contains it
        distance = WARP_THREADS // 2
        while distance > 0:
            value = int32(value + cuda.shfl_xor_sync(FULL_WARP, value, distance))
            distance //= 2
        before = int32(before + value)
        if running != 0:
            return before
        nearest -= WARP_THREADS


@cuda.jit
def scan_lookback(values, sums, ticket, states):
    tile_sums = cuda.shared.array(0, int32)
    warp_totals = cuda.shared.array(MAX_WARPS, int32)
    broadcast = cuda.shared.array(2, int32)
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    if t == 0:
        broadcast[0] = cuda.atomic.add(ticket, 0, 1)
    cuda.syncthreads()
    tile = broadcast[0]
    first = tile * threads * ITEMS
    for k in range(t, threads * ITEMS, threads):  # coalesced in, then four neighbours a thread
        value = int32(0)
        if first + k < values.size:
            value = values[first + k]
        tile_sums[k] = value
    cuda.syncthreads()
    own = int32(0)
    for k in range(ITEMS):
        own = int32(own + tile_sums[t * ITEMS + k])
    before, total = block_exclusive_sum(own, warp_totals)
    if t < WARP_THREADS:
        before_tile = int32(0)
        if tile > 0:
            if t == 0:
                _publish(states, tile, OWN_SUM, total)
            before_tile = _look_back(states, tile)
        if t == 0:
            _publish(states, tile, RUNNING_SUM, before_tile + total)
            broadcast[1] = before_tile
    cuda.syncthreads()
    running = int32(broadcast[1] + before)
    for k in range(ITEMS):
        running = int32(running + tile_sums[t * ITEMS + k])
        tile_sums[t * ITEMS + k] = running
    cuda.syncthreads()
    for k in range(t, threads * ITEMS, threads):
        if first + k < sums.size:
            sums[first + k] = tile_sums[k]


def make(*, n: int, block_threads: int, seed: int = 0) -> Case:
    require_positive(n=n)
    require_block(block_threads, multiple=32)
    values = np.random.default_rng(seed).integers(1, 100, n, dtype=np.int32)
    sums = np.zeros(n, np.int32)
    tiles = blocks_for(n, block_threads * ITEMS)
    ticket, states = np.zeros(1, np.int32), np.zeros(tiles, np.uint64)
    args = (values, sums, ticket, states)
    return Case(
        launches=(Launch(scan_lookback, (tiles,), (block_threads,), args, shared_bytes=4 * ITEMS * block_threads),),
        check=lambda: np.testing.assert_array_equal(sums, np.cumsum(values, dtype=np.int32)),
        work={"bytes_read": 4.0 * n, "bytes_written": 4.0 * n, "elements": float(n)},
    )


KERNELS = {
    "scan_lookback": Kernel(
        name="scan_lookback",
        purpose="single-pass prefix sum: blocks that spin on the state words of the blocks before them",
        axes={"n": (10_000, 2**18, 2**20, 2**22), "block_threads": (64, 128, 256, 512)},
        default={"n": 2**20, "block_threads": 256},
        small={"n": 1300, "block_threads": 64},
        make=make,
    )
}
