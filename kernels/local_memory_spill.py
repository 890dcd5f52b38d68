"""Register spills: more live values than the compiler may keep in registers, the rest in local memory.

All ``live_values`` of a thread pass through every round, so that none can be dropped; with fewer registers than
that, ptxas stores and reloads the difference (STL, LDL), which L1 serves.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda, types
from numba.cuda.extending import intrinsic

from .case import Case, Kernel, Launch, require_block, require_positive
from .pipe_ops import OPS
from .ptx import chain, clock64

OP = OPS["ffma"]
MAX_LIVE_VALUES = 200
REGISTER_LIMITS = 0, 24, 32, 48, 64, 128, 168, 255


def _fan_out(width: int):
    """``run(value, step)``: the tuple (value, value + step, value + step + step, ...)."""
    several = types.UniTuple(types.float32, width)

    def lower(context, builder, signature, args):
        value, result = args[0], context.get_constant_undef(several)
        for k in range(width):
            result = builder.insert_value(result, value, k)
            value = builder.fadd(value, args[1])
        return result

    @intrinsic
    def run(typingctx, value, step):
        return several(types.float32, types.float32), lower

    return run


def _total(width: int):
    """``run(values)``: their sum, in order."""
    several = types.UniTuple(types.float32, width)

    def lower(context, builder, signature, args):
        total = builder.extract_value(args[0], 0)
        for k in range(1, width):
            total = builder.fadd(total, builder.extract_value(args[0], k))
        return total

    @intrinsic
    def run(typingctx, values):
        return types.float32(several), lower

    return run


@cache
def _kernel(live_values: int, max_registers: int):
    fan_out, total = _fan_out(live_values), _total(live_values)
    body = chain(OP.ptx, OP.kind, 1, live_values)

    @cuda.jit(max_registers=max_registers or None)
    def local_memory_spill(starts, a, b, rounds, sums, cycles):
        t = cuda.grid(1)
        x = fan_out(starts[t], a)
        begin = clock64()
        for _ in range(rounds):
            x = body(x, a, b)
        cycles[t] = clock64() - begin
        sums[t] = total(x)

    return local_memory_spill


def make(*, live_values: int, max_registers: int, rounds: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    """``max_registers``: the compiler's limit a thread; 0 leaves it to the compiler, which then spills nothing."""
    require_positive(live_values=live_values, rounds=rounds, blocks=blocks)
    require_block(block_threads)
    if live_values > MAX_LIVE_VALUES:
        raise ValueError(f"live_values must be at most {MAX_LIVE_VALUES}, not {live_values}")
    if max_registers not in REGISTER_LIMITS:
        raise ValueError(f"max_registers must be one of {REGISTER_LIMITS}, not {max_registers}")
    threads = block_threads * blocks
    starts = OP.starts((threads,), np.random.default_rng(seed))
    sums, cycles = np.full(threads, -1, np.float32), np.zeros(threads, np.int64)

    def check() -> None:
        values = starts.astype(np.float64) + OP.a * np.arange(live_values)[:, None]
        for _ in range(rounds):
            values = values * OP.a + OP.b
        np.testing.assert_allclose(sums, values.sum(axis=0), rtol=1e-5)

    args = (starts, OP.dtype.type(OP.a), OP.dtype.type(OP.b), rounds, sums, cycles)
    return Case(
        launches=(Launch(_kernel(live_values, max_registers), (blocks,), (block_threads,), args),),
        check=check,
        work={"flops": 2.0 * threads * live_values * rounds},
    )


KERNELS = {
    "local_memory_spill": Kernel(
        name="local_memory_spill",
        purpose="what spilled registers cost: local-memory stores and reloads in a loop that needs too many values",
        axes={
            "live_values": (16, 32, 64, 128),
            "max_registers": REGISTER_LIMITS,
            "rounds": (4, 16, 64),
            "block_threads": (32, 128, 256),
            "blocks": (1, 132, 264),
        },
        default={
            "live_values": 64,
            "max_registers": 32,
            "rounds": 16,
            "block_threads": 128,
            "blocks": 132,
        },
        small={"live_values": 40, "max_registers": 24, "rounds": 3, "block_threads": 48, "blocks": 2},
        make=make,
    )
}
