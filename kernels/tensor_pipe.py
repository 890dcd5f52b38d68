"""Latency and rate of warp-wide products (mma.sync): chains of nothing but one shape of them.

One chain adds each product to the sum before it, so that cycles per step are the latency from issue to dependent
issue; several chains a warp and many warps show how long a product keeps the tensor core.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda

from .case import Case, Kernel, Launch, require_block, require_positive
from .matrix_ptx import PRODUCTS, multiply
from .ptx import clock64

UNROLL = 16
CHAINS = 4
#: shape -> (PTX name, a word of ones, depth of the product)
SHAPES = {
    "m16n8k8_f16": ("m16n8k8.row.col.f32.f16.f16.f32", 0x3C00_3C00, 8),
    "m16n8k16_f16": ("m16n8k16.row.col.f32.f16.f16.f32", 0x3C00_3C00, 16),
    "m8n8k16_s8": ("m8n8k16.row.col.s32.s8.s8.s32", 0x0101_0101, 16),
    "m16n8k32_s8": ("m16n8k32.row.col.s32.s8.s8.s32", 0x0101_0101, 32),
}


@cache
def _kernel(product: str, chains: int):
    """Sums of products of a matrix ``ones`` with itself; the sums of the first chain are kept."""
    _, sums, rows, columns = PRODUCTS[product]
    mma = multiply(product)

    def operand(words: int):
        if words == 1:
            return cuda.jit(device=True)(lambda word: (word,))
        if words == 2:
            return cuda.jit(device=True)(lambda word: (word, word))
        return cuda.jit(device=True)(lambda word: (word, word, word, word))

    a_of, b_of = operand(rows), operand(columns)
    two = sums == 2
    four = chains == 4

    @cuda.jit
    def tensor_pipe(ones, zero, rounds, ends, cycles):
        t = cuda.grid(1)
        a, b = a_of(ones), b_of(ones)
        s0 = (zero, zero) if two else (zero, zero, zero, zero)
        s1 = s2 = s3 = s0
        begin = clock64()
        for _ in range(rounds):
            for _ in range(UNROLL):
                s0 = mma(s0, a, b)
                if four:
                    s1, s2, s3 = mma(s1, a, b), mma(s2, a, b), mma(s3, a, b)
        cycles[t] = clock64() - begin
        ends[0, t], ends[1, t], ends[2, t], ends[3, t] = s0[0], s1[0], s2[1], s3[1]

    return tensor_pipe


def make(*, shape: str, chains: int, rounds: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    """``chains``: 1 for latency, 4 for the rate; 16 steps of each a round. ``seed`` changes nothing: all factors are
    one, and the sums count the products."""
    require_positive(rounds=rounds, blocks=blocks)
    require_block(block_threads, multiple=32)
    if shape not in SHAPES:
        raise ValueError(f"shape must be one of {', '.join(SHAPES)}, not {shape!r}")
    if chains not in (1, CHAINS):
        raise ValueError(f"chains must be 1 or {CHAINS}, not {chains}")
    product, ones, depth = SHAPES[shape]
    dtype = np.dtype(str(PRODUCTS[product][0]))
    threads = block_threads * blocks
    ends, cycles = np.full((CHAINS, threads), -1, dtype), np.zeros(threads, np.int64)

    def check() -> None:
        expected = np.zeros_like(ends)
        expected[:chains] = rounds * UNROLL * depth
        np.testing.assert_array_equal(ends, expected)

    args = (np.uint32(ones), dtype.type(0), rounds, ends, cycles)
    steps = float(rounds * UNROLL * chains)
    return Case(
        launches=(Launch(_kernel(product, chains), (blocks,), (block_threads,), args),),
        check=check,
        work={"steps_per_warp": steps, "warp_steps": steps * threads // 32},
    )


KERNELS = {
    "tensor_pipe": Kernel(
        name="tensor_pipe",
        purpose="latency (one chain) and rate (four chains, many warps) of mma.sync, by shape",
        axes={
            "shape": tuple(SHAPES),
            "chains": (1, CHAINS),
            "rounds": (4, 16, 64),
            "block_threads": (32, 128, 512),
            "blocks": (1, 132),
        },
        default={"shape": "m16n8k16_f16", "chains": 1, "rounds": 16, "block_threads": 32, "blocks": 1},
        small={"shape": "m16n8k8_f16", "chains": 4, "rounds": 2, "block_threads": 64, "blocks": 2},
        make=make,
    )
}
