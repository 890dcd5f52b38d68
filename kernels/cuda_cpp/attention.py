"""Attention: FlashAttention 2 for many queries, split keys for one."""

from __future__ import annotations

import math

import numpy as np

from ..case import Case, Kernel, Launch, blocks_for, require_multiples, require_positive
from .source import CudaSource

DIMS = (64, 128)


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    """softmax(q k^T / sqrt(d)) v of arrays [heads, tokens, d] in double precision."""
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def _dim(dim: int) -> None:
    if dim not in DIMS:
        raise ValueError(f"dim must be one of {', '.join(map(str, DIMS))}, not {dim}")


def make_attention(*, heads: int, tokens: int, dim: int, causal: bool, warps: int, tile: int, seed: int = 0) -> Case:
    require_positive(heads=heads, warps=warps)
    _dim(dim)
    require_multiples(tile=(tile, 16), tokens=(tokens, math.lcm(16 * warps, tile)))
    if 2 * (2 * tile + 16 * warps) * (dim + 8) > 48 << 10:
        raise ValueError(f"tile={tile}, warps={warps} and dim={dim} need more than 48 KiB of shared memory")
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((heads, tokens, dim)).astype(np.float16) for _ in range(3))
    out = np.full_like(q, np.nan)
    kernel = CudaSource("attention.cu", f"attention<{dim}, {tile}, {warps}, {str(causal).lower()}>")
    scale = np.float32(math.log2(math.e) / math.sqrt(dim))
    grid = (tokens // (16 * warps), heads)

    def check() -> None:
        np.testing.assert_allclose(out.astype(np.float64), _attention(q, k, v, causal), rtol=2e-2, atol=4e-3)

    return Case(
        launches=(Launch(kernel, grid, (32 * warps,), (q, k, v, out, np.int32(tokens), scale)),),
        check=check,
        work={
            "bytes_read": 3.0 * q.nbytes,
            "bytes_written": float(q.nbytes),
            "flops": 4.0 * heads * tokens * tokens * dim * (0.5 if causal else 1.0),
        },
    )


def make_decode(*, heads: int, context: int, dim: int, parts: int, block_threads: int, seed: int = 0) -> Case:
    require_positive(heads=heads, context=context, parts=parts)
    require_multiples(block_threads=(block_threads, 32))
    _dim(dim)
    per_part = blocks_for(context, parts)
    parts = blocks_for(context, per_part)  # none of them without a key
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((heads, dim)).astype(np.float32)
    k, v = (rng.standard_normal((heads, context, dim)).astype(np.float16) for _ in range(2))
    sums, states = np.zeros((heads, parts, dim), np.float32), np.zeros((heads, parts, 2), np.float32)
    out = np.full_like(q, np.nan)
    scale = np.float32(math.log2(math.e) / math.sqrt(dim))
    shared_bytes = 4 * (block_threads // 32) * (2 + dim)
    launches = (
        Launch(
            CudaSource("decode.cu", f"decode_parts<{dim}>"), (parts, heads), (block_threads,),
            (q, k, v, sums, states, np.int32(context), np.int32(per_part), scale), shared_bytes,
        ),
        Launch(CudaSource("decode.cu", f"decode_join<{dim}>"), (heads,), (64,), (sums, states, out, np.int32(parts))),
    )  # fmt: skip

    def check() -> None:
        np.testing.assert_allclose(out, _attention(q[:, None], k, v, causal=False)[:, 0], rtol=1e-3, atol=1e-4)

    return Case(
        launches=launches,
        check=check,
        work={
            "bytes_read": float(k.nbytes + v.nbytes),
            "bytes_written": float(out.nbytes),
            "flops": 4.0 * heads * context * dim,
        },
    )


KERNELS = {
    "cpp_attention": Kernel(
        name="cpp_attention",
        purpose="FlashAttention 2: two tensor products, exponentials and rescaling between them",
        axes={
            "heads": (1, 8, 32),
            "tokens": (128, 512, 2048),
            "dim": DIMS,
            "causal": (False, True),
            "warps": (2, 4),
            "tile": (16, 32, 64),
        },
        default={"heads": 8, "tokens": 512, "dim": 64, "causal": True, "warps": 4, "tile": 32},
        small={"heads": 1, "tokens": 64, "dim": 64, "causal": True, "warps": 2, "tile": 32},
        make=make_attention,
    ),
    "cpp_decode": Kernel(
        name="cpp_decode",
        purpose="attention of one query over a long past: keys split over blocks, a second launch joins",
        axes={
            "heads": (1, 8, 64),
            "context": (100, 2048, 16_384),
            "dim": DIMS,
            "parts": (1, 4, 32),
            "block_threads": (64, 128, 256),
        },
        default={"heads": 8, "context": 2048, "dim": 64, "parts": 16, "block_threads": 128},
        small={"heads": 2, "context": 75, "dim": 64, "parts": 3, "block_threads": 64},
        make=make_decode,
    ),
}
