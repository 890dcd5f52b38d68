"""Rotary position embedding of queries and keys, in place, with sines and cosines from a table.

A head's elements form pairs; pair i at position p is turned by the angle p x base^(-2 i / head_dim) (Su
et al., "RoFormer", 2021). ``half`` pairs element i with i + head_dim / 2, ``interleaved`` 2 i with 2 i + 1.
"""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, require_block, require_choice, require_positive
from .division import divide
from .precision import stored_type, tolerance

BASE = 10_000.0


@functools.cache
def _kernel(pairing: str, dtype: str):
    stored = stored_type(dtype)
    interleaved = pairing == "interleaved"

    @cuda.jit(device=True)
    def turn(heads, token, pair_index, table, position, pairs):
        head, pair = divide(pair_index, pairs)
        first = 2 * pair if interleaved else pair
        second = first + 1 if interleaved else pair + pairs
        cosine, sine = table[position, pair], table[position, pairs + pair]
        x, y = float32(heads[token, head, first]), float32(heads[token, head, second])
        heads[token, head, first] = stored(x * cosine - y * sine)
        heads[token, head, second] = stored(y * cosine + x * sine)

    @cuda.jit
    def rope(positions, queries, keys, table):
        """A block a token: its threads walk over the pairs of all query heads, then of all key heads."""
        token = cuda.blockIdx.x
        position = positions[token]
        pairs = queries.shape[2] // 2
        for i in range(cuda.threadIdx.x, queries.shape[1] * pairs, cuda.blockDim.x):
            turn(queries, token, i, table, position, pairs)
        for i in range(cuda.threadIdx.x, keys.shape[1] * pairs, cuda.blockDim.x):
            turn(keys, token, i, table, position, pairs)

    return rope


def make(
    *,
    tokens: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    pairing: str,
    dtype: str,
    block_threads: int,
    seed: int = 0,
) -> Case:
    require_positive(tokens=tokens, heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    require_block(block_threads)
    require_choice("pairing", pairing, ("half", "interleaved"))
    stored_type(dtype)
    if head_dim % 2:
        raise ValueError(f"head_dim must be even, not {head_dim}")
    rng = np.random.default_rng(seed)
    longest = 4 * tokens
    angles = np.outer(np.arange(longest), BASE ** (-np.arange(0, head_dim, 2) / head_dim))
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    positions = rng.permutation(longest)[:tokens].astype(np.int64)
    queries = rng.standard_normal((tokens, heads, head_dim)).astype(dtype)
    keys = rng.standard_normal((tokens, kv_heads, head_dim)).astype(dtype)
    before = queries.copy(), keys.copy()

    def check() -> None:
        first = np.arange(head_dim // 2) * (2 if pairing == "interleaved" else 1)
        second = first + (1 if pairing == "interleaved" else head_dim // 2)
        turned_by = np.exp(1j * angles[positions])[:, None, :]
        for old, new in zip(before, (queries, keys), strict=True):
            turned = (old[..., first] + 1j * old[..., second].astype(np.float64)) * turned_by
            expected = np.empty(old.shape)
            expected[..., first], expected[..., second] = turned.real, turned.imag
            # The two products may cancel: the error is relative to the pair's length.
            np.testing.assert_allclose(new, expected, rtol=tolerance(dtype), atol=4e-6)

    turned = float(tokens * (heads + kv_heads) * head_dim)
    return Case(
        launches=(Launch(_kernel(pairing, dtype), (tokens,), (block_threads,), (positions, queries, keys, table)),),
        check=check,
        work={
            "bytes_read": turned * queries.itemsize + 4.0 * tokens * head_dim,
            "bytes_written": turned * queries.itemsize,
            "flops": 3 * turned,
        },
    )


KERNELS = {
    "rope": Kernel(
        name="rope",
        purpose="in-place update by pairs, a division an index, a small table that the caches keep",
        axes={
            "tokens": (1, 16, 256, 2048),
            "heads": (8, 32, 64),
            "kv_heads": (1, 8, 32),
            "head_dim": (64, 80, 128),
            "pairing": ("half", "interleaved"),
            "dtype": ("float32", "float16"),
            "block_threads": (64, 128, 256, 512),
        },
        default={
            "tokens": 256,
            "heads": 32,
            "kv_heads": 8,
            "head_dim": 128,
            "pairing": "half",
            "dtype": "float16",
            "block_threads": 256,
        },
        small={
            "tokens": 3,
            "heads": 4,
            "kv_heads": 2,
            "head_dim": 32,
            "pairing": "half",
            "dtype": "float16",
            "block_threads": 32,
        },
        make=make,
    )
}
