"""Instruction fetch: a loop of straight-line code, longer and longer, until no cache holds it.

Four independent chains of FMAs alternate, so that a warp alone could issue nearly one instruction a cycle: what is
missing is fetch.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda

from .case import Case, Kernel, Launch, require_block, require_positive
from .pipe_ops import OPS
from .ptx import chain, clock64

CHAINS = 4
INSTRUCTION_BYTES = 16
MAX_INSTRUCTIONS = 65_536
OP = OPS["ffma"]


@cache
def _kernel(body_instructions: int):
    body = chain(OP.ptx, OP.kind, body_instructions // CHAINS, CHAINS)

    @cuda.jit
    def instruction_cache(starts, a, b, rounds, ends, cycles):
        t = cuda.grid(1)
        x = starts[0, t], starts[1, t], starts[2, t], starts[3, t]
        begin = clock64()
        for _ in range(rounds):
            x = body(x, a, b)
        cycles[t] = clock64() - begin
        ends[0, t], ends[1, t], ends[2, t], ends[3, t] = x

    return instruction_cache


def make(*, body_instructions: int, rounds: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    """``body_instructions``: FMAs in the loop's body, 16 bytes of code each."""
    require_positive(body_instructions=body_instructions, rounds=rounds, blocks=blocks)
    require_block(block_threads)
    if body_instructions % CHAINS or body_instructions > MAX_INSTRUCTIONS:
        raise ValueError(
            f"body_instructions must be a multiple of {CHAINS} up to {MAX_INSTRUCTIONS}, not {body_instructions}"
        )
    threads = block_threads * blocks
    starts = OP.starts((CHAINS, threads), np.random.default_rng(seed))
    ends, cycles = np.zeros_like(starts), np.zeros(threads, np.int64)

    def check() -> None:
        steps = rounds * body_instructions // CHAINS
        np.testing.assert_allclose(ends, OP.advance(starts, steps), rtol=OP.tolerance)

    args = (starts, OP.dtype.type(OP.a), OP.dtype.type(OP.b), rounds, ends, cycles)
    warps = -(-block_threads // 32) * blocks
    return Case(
        launches=(Launch(_kernel(body_instructions), (blocks,), (block_threads,), args),),
        check=check,
        work={
            "steps_per_warp": float(rounds * body_instructions),
            "warp_steps": float(warps * rounds * body_instructions),
            "code_bytes": float(body_instructions * INSTRUCTION_BYTES),
        },
    )


KERNELS = {
    "instruction_cache": Kernel(
        name="instruction_cache",
        purpose="cycles an instruction against the loop's code size: capacities of the instruction caches",
        axes={
            "body_instructions": (256, 512, 1024, 2048, 4096, 8192, 16_384),
            "rounds": (2, 8, 32),
            "block_threads": (32, 128, 256),
            "blocks": (1, 132),
        },
        default={"body_instructions": 2048, "rounds": 8, "block_threads": 32, "blocks": 1},
        small={"body_instructions": 600, "rounds": 2, "block_threads": 32, "blocks": 1},
        make=make,
    )
}
