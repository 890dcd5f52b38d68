"""Attention of one query token a sequence over pages of keys and values, which the tensor memory accelerator brings
(paged_decode.cu)."""

from __future__ import annotations

import numpy as np

from ..case import Case, Kernel, Launch, require_choice, require_positive
from .source import CudaSource
from .tensor_map import TensorMap

_THREADS = 160
#: Most shared memory of a block on compute capabilities 9.0, 10.0 and 10.3 (CUDA programming guide), less what the
#: kernel has itself.
_MOST_SHARED = 232448 - 1024
#: Warps of a block that take tokens.
_WARPS = 4


def _attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = q.astype(np.float32) @ k.astype(np.float32).T / np.sqrt(np.float32(q.shape[1]))
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v.astype(np.float32)


def make_paged_decode(
    *, sequences: int, kv_heads: int, group: int, depth: int, context: int, page: int, stages: int, splits: int, seed: int = 0
) -> Case:  # fmt: skip
    require_choice("group", group, (1, 2, 4, 8))
    require_choice("depth", depth, (64, 128))
    require_choice("page", page, (16, 32, 64, 128))
    require_choice("splits", splits, (1, 2, 4, 8))
    require_positive(sequences=sequences, kv_heads=kv_heads, context=context, stages=stages)
    shared_bytes = stages * 2 * page * depth * 2
    parts_bytes = (_WARPS + 1) * group * (depth + 2) * 4
    if stages > 8 or shared_bytes + parts_bytes > _MOST_SHARED:
        raise ValueError(f"stages must be from 1 to 8 and fit in {_MOST_SHARED} bytes of shared memory, not {stages}")
    rng = np.random.default_rng(seed)
    lengths = rng.integers(-(-context // 2), context + 1, sequences, np.int32)
    most_pages = -(-context // page)
    pages = sequences * most_pages
    table = rng.permutation(pages).astype(np.int32).reshape(sequences, most_pages)
    k, v = (rng.standard_normal((pages, kv_heads, page, depth), np.float32).astype(np.float16) for _ in range(2))
    q = rng.standard_normal((sequences, kv_heads, group, depth), np.float32).astype(np.float16)
    o = np.full_like(q, np.nan)
    maps = tuple(TensorMap(x, (1, 1, page, depth), "none") for x in (k, v))
    kernel = CudaSource("paged_decode.cu", f"paged_decode<{depth}, {group}, {page}, {stages}, {splits}>")
    scale = np.float32(np.log2(np.e) / np.sqrt(depth))

    def check() -> None:
        for sequence, length in enumerate(lengths):
            of_k, of_v = (x[table[sequence]].swapaxes(0, 1).reshape(kv_heads, -1, depth)[:, :length] for x in (k, v))
            for head in range(kv_heads):
                right = _attend(q[sequence, head], of_k[head], of_v[head])
                np.testing.assert_allclose(o[sequence, head], right, rtol=2e-3, atol=2e-3)

    args = (*maps, o, q, table, lengths, np.int32(most_pages), scale)
    tokens = float(lengths.sum()) * kv_heads
    return Case(
        launches=(Launch(kernel, (splits, kv_heads, sequences), (_THREADS,), args, shared_bytes),),
        check=check,
        work={
            "bytes_read": tokens * depth * 4 + q.nbytes,
            "bytes_written": float(o.nbytes),
            "flops": 4.0 * tokens * group * depth,
        },
    )


KERNELS = {
    "cpp_paged_decode": Kernel(
        name="cpp_paged_decode",
        purpose="attention with one query token over paged keys and values: TMA by a page table, a cluster shares out a sequence",
        axes={
            "sequences": (1, 16, 64),
            "kv_heads": (1, 8),
            "group": (1, 4, 8),
            "depth": (64, 128),
            "context": (512, 4096, 32768),
            "page": (16, 64, 128),
            "stages": (2, 4),
            "splits": (1, 2, 4, 8),
        },
        default={
            "sequences": 8, "kv_heads": 8, "group": 4, "depth": 128, "context": 2048, "page": 64, "stages": 3, "splits": 2,
        },
        small={
            "sequences": 2, "kv_heads": 1, "group": 2, "depth": 64, "context": 200, "page": 16, "stages": 2, "splits": 2,
        },
        make=make_paged_decode,
    ),
}  # fmt: skip
