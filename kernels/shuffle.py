"""Warp shuffles: latency of one in a chain, rate of several chains, in each of the four modes."""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda, types

from .block_scan import WARP_THREADS
from .case import Case, Kernel, Launch, require_block, require_positive
from .ptx import chain, clock64

UNROLL = 32
#: mode -> PTX; $3 is the source lane, distance or mask.
_STATEMENTS = {
    "idx": "shfl.sync.idx.b32 $0, $1, $3, 31, -1;",
    "up": "shfl.sync.up.b32 $0, $1, $3, 0, -1;",
    "down": "shfl.sync.down.b32 $0, $1, $3, 31, -1;",
    "xor": "shfl.sync.bfly.b32 $0, $1, $3, 31, -1;",
}


def _partners(mode: str, amount: int) -> np.ndarray:
    """Which lane each lane takes its value from; lanes whose partner is none keep their own."""
    lane = np.arange(WARP_THREADS)
    wanted = {"idx": (lane + amount) % WARP_THREADS, "up": lane - amount, "down": lane + amount, "xor": lane ^ amount}
    return np.where((wanted[mode] >= 0) & (wanted[mode] < WARP_THREADS), wanted[mode], lane)


@cache
def _kernel(mode: str, chains: int):
    # A source lane common to all would make every shuffle but the first idempotent, and ptxas drops those.
    rotate = mode == "idx"
    one = chain(_STATEMENTS[mode], types.uint32, UNROLL)
    four = chain(_STATEMENTS[mode], types.uint32, UNROLL // 4, 4)

    @cuda.jit
    def shuffle(starts, amount, rounds, ends, cycles):
        t = cuda.grid(1)
        x = starts[0, t], starts[1, t], starts[2, t], starts[3, t]
        y = (starts[0, t],)
        if rotate:
            amount = np.uint32((cuda.laneid + amount) % WARP_THREADS)
        begin = clock64()
        for _ in range(rounds):
            if chains == 1:
                y = one(y, amount, amount)
            else:
                x = four(x, amount, amount)
        cycles[t] = clock64() - begin
        ends[0, t], ends[1, t], ends[2, t], ends[3, t] = x
        if chains == 1:
            ends[0, t] = y[0]

    return shuffle


def make(*, mode: str, amount: int, chains: int, rounds: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    """``amount``: the distance (idx, around the warp; up; down) or the mask (xor), 0 to 31; ``chains``: 1 for latency,
    4 for throughput. 32 shuffles a warp and round."""
    require_positive(rounds=rounds, blocks=blocks)
    require_block(block_threads, multiple=WARP_THREADS)
    if mode not in _STATEMENTS:
        raise ValueError(f"mode must be one of {', '.join(_STATEMENTS)}, not {mode!r}")
    if not 0 <= amount < WARP_THREADS:
        raise ValueError(f"amount must lie from 0 to 31, not {amount}")
    if chains not in (1, 4):
        raise ValueError(f"chains must be 1 or 4, not {chains}")
    threads = block_threads * blocks
    starts = np.random.default_rng(seed).integers(1, 2**32, (4, threads), dtype=np.uint32)
    ends, cycles = np.zeros_like(starts), np.zeros(threads, np.int64)

    def check() -> None:
        expected = starts.reshape(4, -1, WARP_THREADS).copy()
        partners = _partners(mode, amount)
        for _ in range(rounds * UNROLL // chains):
            expected[:chains] = expected[:chains][..., partners]
        np.testing.assert_array_equal(ends, expected.reshape(4, -1))

    args = (starts, np.uint32(amount), rounds, ends, cycles)
    steps = float(rounds * UNROLL)
    return Case(
        launches=(Launch(_kernel(mode, chains), (blocks,), (block_threads,), args),),
        check=check,
        work={"steps_per_warp": steps, "warp_steps": steps * threads // WARP_THREADS},
    )


KERNELS = {
    "shuffle": Kernel(
        name="shuffle",
        purpose="latency (one chain) and rate (four chains, many warps) of warp shuffles, by mode",
        axes={
            "mode": tuple(_STATEMENTS),
            "amount": (1, 3, 16),
            "chains": (1, 4),
            "rounds": (16, 64, 256),
            "block_threads": (32, 256, 1024),
            "blocks": (1, 132),
        },
        default={
            "mode": "xor",
            "amount": 1,
            "chains": 1,
            "rounds": 64,
            "block_threads": 32,
            "blocks": 1,
        },
        small={"mode": "up", "amount": 3, "chains": 1, "rounds": 2, "block_threads": 64, "blocks": 2},
        make=make,
    )
}
