"""Attention forward on Hopper's asynchronous units (wgmma_attention.cu): products, softmax and copies overlap."""

from __future__ import annotations

import numpy as np

from ..case import Case, Kernel, Launch, require_choice, require_multiples, require_positive
from .source import CudaSource
from .tensor_map import TensorMap

#: What overlaps: neither, turns of two warp groups, a group's products with its own softmax, both.
ATTENTION_STEPS = ("serial", "turns", "overlapped", "both")
#: Queries of a block, and keys of a tile; of a warp group; halves of a panel, one row of the 128-byte swizzle.
_ROWS, _GROUP_ROWS, _PANEL = 128, 64, 64
#: Most dynamic shared memory of a block on sm_90 (CUDA programming guide, compute capabilities), less what the kernel
#: has itself.
_MOST_SHARED = 232448 - 1024


def _attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, *, causal: bool) -> np.ndarray:
    scores = q.astype(np.float32) @ k.astype(np.float32).T / np.sqrt(np.float32(q.shape[1]))
    if causal:
        scores[np.arange(len(k)) > np.arange(len(q))[:, None]] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v.astype(np.float32)


def make_attention(
    *, heads: int, queries: int, keys: int, depth: int, stages: int, causal: int, step: str, seed: int = 0
) -> Case:
    require_positive(heads=heads)
    require_choice("step", step, ATTENTION_STEPS)
    require_choice("depth", depth, (64, 128))
    require_choice("causal", causal, (0, 1))
    require_multiples(queries=(queries, _ROWS), keys=(keys, _ROWS))
    shared_bytes = (1 + 2 * stages) * _ROWS * depth * 2
    if stages < 1 or shared_bytes > _MOST_SHARED:
        raise ValueError(f"stages must be positive and fit in {_MOST_SHARED} bytes of shared memory, not {stages}")
    if causal and queries != keys:
        raise ValueError(f"causal attention has as many keys as queries, not {keys} and {queries}")
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((heads * n, depth), np.float32).astype(np.float16) for n in (queries, keys, keys))
    o = np.full((heads * queries, depth), np.nan, np.float16)
    maps = (*(TensorMap(x, (_ROWS, _PANEL)) for x in (q, k, v)), TensorMap(o, (_GROUP_ROWS, _PANEL)))
    of_kernel = f"{depth}, {stages}, {'true' if causal else 'false'}, {ATTENTION_STEPS.index(step)}"
    kernel = CudaSource("wgmma_attention.cu", f"wgmma_attention<{of_kernel}>")
    scale = np.float32(np.log2(np.e) / np.sqrt(depth))
    args = (*maps, np.int32(queries), np.int32(keys), scale)

    def check() -> None:
        parts = (x.reshape(heads, -1, depth) for x in (q, k, v))
        right = np.concatenate([_attend(*of_head, causal=bool(causal)) for of_head in zip(*parts, strict=True)])
        np.testing.assert_allclose(o, right, rtol=4e-3, atol=4e-3)

    tiles = queries // _ROWS
    pairs = tiles * (tiles + 1) // 2 if causal else tiles * (keys // _ROWS)
    return Case(
        launches=(Launch(kernel, (tiles, heads), (3 * 128,), args, shared_bytes),),
        check=check,
        work={
            "bytes_read": float(q.nbytes + k.nbytes + v.nbytes),
            "bytes_written": float(o.nbytes),
            "flops": 4.0 * heads * pairs * _ROWS * _ROWS * depth,
        },
    )


KERNELS = {
    "cpp_wgmma_attention": Kernel(
        name="cpp_wgmma_attention",
        purpose="Hopper's attention forward: TMA, two warp groups that take turns to multiply and to exponentiate",
        axes={
            "heads": (1, 16, 64),
            "queries": (128, 1024, 8192),
            "keys": (128, 1024, 8192),
            "depth": (64, 128),
            "stages": (1, 2),
            "causal": (0, 1),
            "step": ATTENTION_STEPS,
        },
        default={"heads": 16, "queries": 1024, "keys": 1024, "depth": 128, "stages": 2, "causal": 0, "step": "both"},
        small={"heads": 1, "queries": 256, "keys": 384, "depth": 64, "stages": 2, "causal": 0, "step": "both"},
        make=make_attention,
    ),
}
