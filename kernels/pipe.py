"""Latency and throughput of one machine instruction: chains of nothing but it.

``pipe_latency``: every warp runs one chain in which each instruction needs the result before it, so that
cycles per step are the latency from issue to dependent issue. ``pipe_throughput``: four chains a warp
and as many warps as wanted, so that cycles per step approach the issue interval of the pipe.

The slope shows best as the difference of two launches with different ``rounds``. ``cycles`` takes each
thread's difference of the SM's clock around the loop: on a GPU that is the result, and since no two
machines agree on it, no check looks at it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda

from .case import Case, Kernel, Launch, require_block, require_positive
from .pipe_ops import OPS
from .ptx import chain, clock64

#: Steps of a warp in the loop's body. Throughput needs the longer one: the loop's own instructions count.
LATENCY_STEPS, THROUGHPUT_STEPS = 32, 128
CHAINS = 4


@cache
def _one_chain(ptx: str, kind):
    steps = chain(ptx, kind, LATENCY_STEPS)

    @cuda.jit
    def pipe_latency(starts, a, b, rounds, once, ends, cycles):
        t = cuda.grid(1)
        x = starts[0, t]
        once[0, t] = steps((x,), a, b)[0]
        begin = clock64()
        for _ in range(rounds):
            x = steps((x,), a, b)[0]
        cycles[t] = clock64() - begin
        ends[0, t] = x

    return pipe_latency


@cache
def _four_chains(ptx: str, kind):
    steps = chain(ptx, kind, THROUGHPUT_STEPS // CHAINS, CHAINS)

    @cuda.jit
    def pipe_throughput(starts, a, b, rounds, once, ends, cycles):
        t = cuda.grid(1)
        x = starts[0, t], starts[1, t], starts[2, t], starts[3, t]
        once[0, t], once[1, t], once[2, t], once[3, t] = steps(x, a, b)
        begin = clock64()
        for _ in range(rounds):
            x = steps(x, a, b)
        cycles[t] = clock64() - begin
        ends[0, t], ends[1, t], ends[2, t], ends[3, t] = x

    return pipe_throughput


def _maker(build, steps: int, chains: int):
    def make(*, op: str, rounds: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
        """``block_threads`` must be whole warps: a shuffle needs all lanes."""
        require_positive(rounds=rounds, blocks=blocks)
        require_block(block_threads, multiple=32)
        if op not in OPS:
            raise ValueError(f"op must be one of {', '.join(OPS)}, not {op!r}")
        row = OPS[op]
        length = steps // chains
        starts = row.starts((chains, block_threads * blocks), np.random.default_rng(seed))
        once, ends = np.zeros_like(starts), np.zeros_like(starts)
        cycles = np.zeros(block_threads * blocks, np.int64)
        a, b = row.dtype.type(row.a), row.dtype.type(row.b)

        def check() -> None:
            compare = np.testing.assert_allclose if row.tolerance else np.testing.assert_array_equal
            bound = {"rtol": row.tolerance, "atol": row.absolute_tolerance} if row.tolerance else {}
            expected = row.advance(starts, length)
            compare(once, expected, **bound)
            expected = starts
            for _ in range(rounds):
                expected = row.advance(expected, length)
            compare(ends, expected, **bound)

        args = (starts, a, b, rounds, once, ends, cycles)
        warps = blocks * block_threads // 32
        return Case(
            launches=(Launch(build(row.ptx, row.kind), (blocks,), (block_threads,), args),),
            check=check,
            work={"steps_per_warp": float(rounds * steps), "warp_steps": float(warps * rounds * steps)},
        )

    return make


_AXES = {
    "op": tuple(OPS),
    "rounds": (16, 64, 256, 1024),
    "block_threads": (32, 64, 128, 256, 512, 1024),
    "blocks": (1, 108, 132),
}
KERNELS = {
    "pipe_latency": Kernel(
        name="pipe_latency",
        purpose="latency of one instruction of each pipe, issue to dependent issue: one dependent chain a warp",
        axes=_AXES,
        default={"op": "ffma", "rounds": 256, "block_threads": 32, "blocks": 1},
        small={"op": "ffma", "rounds": 3, "block_threads": 32, "blocks": 2},
        make=_maker(_one_chain, LATENCY_STEPS, 1),
    ),
    "pipe_throughput": Kernel(
        name="pipe_throughput",
        purpose="issue interval of each pipe: four independent chains a warp, enough warps to fill the pipe",
        axes=_AXES,
        default={"op": "ffma", "rounds": 16, "block_threads": 1024, "blocks": 1},
        small={"op": "imad", "rounds": 2, "block_threads": 64, "blocks": 2},
        make=_maker(_four_chains, THROUGHPUT_STEPS, CHAINS),
    ),
}
