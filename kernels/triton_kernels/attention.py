"""Attention: forward by online softmax, backward in three kernels, and decoding over pages.

After Dao, "FlashAttention-2: Faster attention with better parallelism and work partitioning" (2023), and Kwon et al.,
"Efficient memory management for large language model serving with PagedAttention" (2023).
"""

from __future__ import annotations

import math

import numpy as np
import triton
import triton.language as tl

from ..case import Case, Kernel, Launch, require_positive

LOG2_E = 1.4426950408889634
TILE = 32
PAGE = 16


@triton.jit
def attention(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    lse_ptr,
    tokens,
    scale,
    D: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """M queries of one head against all keys in steps of N; ``lse`` keeps the logarithm of each row's sum for
    backward."""
    head = tl.program_id(1) * tokens
    row, place = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D)
    q = tl.load(q_ptr + (head + row[:, None]) * D + place[None, :], mask=row[:, None] < tokens, other=0.0)
    largest = tl.full((M,), -1e30, tl.float32)
    total = tl.zeros((M,), tl.float32)
    out = tl.zeros((M, D), tl.float32)
    last = min((tl.program_id(0) + 1) * M, tokens) if CAUSAL else tokens
    for first in range(0, last, N):
        column = first + tl.arange(0, N)
        k = tl.load(k_ptr + (head + column[None, :]) * D + place[:, None], mask=column[None, :] < tokens, other=0.0)
        s = tl.dot(q, k) * (scale * 1.4426950408889634)
        seen = column[None, :] < tokens
        if CAUSAL:
            seen = seen & (column[None, :] <= row[:, None])
        s = tl.where(seen, s, -1e30)
        above = tl.maximum(largest, tl.max(s, axis=1))
        p = tl.exp2(s - above[:, None])
        shrunk = tl.exp2(largest - above)
        total = total * shrunk + tl.sum(p, axis=1)
        v = tl.load(v_ptr + (head + column[:, None]) * D + place[None, :], mask=column[:, None] < tokens, other=0.0)
        out = tl.dot(p.to(tl.float16), v, out * shrunk[:, None])
        largest = above
    inside = row[:, None] < tokens
    tl.store(out_ptr + (head + row[:, None]) * D + place[None, :], (out / total[:, None]).to(tl.float16), mask=inside)
    tl.store(lse_ptr + head + row, largest + tl.log2(total), mask=row < tokens)


@triton.jit
def row_products(out_ptr, dout_ptr, delta_ptr, rows, D: tl.constexpr, M: tl.constexpr):
    row, place = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D)
    inside = row[:, None] < rows
    out = tl.load(out_ptr + row[:, None] * D + place[None, :], mask=inside, other=0.0).to(tl.float32)
    dout = tl.load(dout_ptr + row[:, None] * D + place[None, :], mask=inside, other=0.0).to(tl.float32)
    tl.store(delta_ptr + row, tl.sum(out * dout, axis=1), mask=row < rows)


@triton.jit
def attention_dkdv(
    q_ptr,
    k_ptr,
    v_ptr,
    dout_ptr,
    lse_ptr,
    delta_ptr,
    dk_ptr,
    dv_ptr,
    tokens,
    scale,
    D: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
):
    """N keys and values of one head against all queries."""
    head = tl.program_id(1) * tokens
    column, place = tl.program_id(0) * N + tl.arange(0, N), tl.arange(0, D)
    own = (head + column[:, None]) * D + place[None, :]
    there = column[:, None] < tokens
    k, v = tl.load(k_ptr + own, mask=there, other=0.0), tl.load(v_ptr + own, mask=there, other=0.0)
    dk, dv = tl.zeros((N, D), tl.float32), tl.zeros((N, D), tl.float32)
    for first in range(0, tokens, M):
        row = first + tl.arange(0, M)
        other = (head + row[:, None]) * D + place[None, :]
        q = tl.load(q_ptr + other, mask=row[:, None] < tokens, other=0.0)
        dout = tl.load(dout_ptr + other, mask=row[:, None] < tokens, other=0.0)
        lse = tl.load(lse_ptr + head + row, mask=row < tokens, other=1e30)
        delta = tl.load(delta_ptr + head + row, mask=row < tokens, other=0.0)
        p = tl.exp2(tl.dot(k, tl.trans(q)) * (scale * 1.4426950408889634) - lse[None, :])
        dv = tl.dot(p.to(tl.float16), dout, dv)
        ds = p * (tl.dot(v, tl.trans(dout)) - delta[None, :])
        dk = tl.dot(ds.to(tl.float16), q, dk)
    tl.store(dk_ptr + own, dk * scale, mask=there)
    tl.store(dv_ptr + own, dv, mask=there)


@triton.jit
def attention_dq(
    q_ptr,
    k_ptr,
    v_ptr,
    dout_ptr,
    lse_ptr,
    delta_ptr,
    dq_ptr,
    tokens,
    scale,
    D: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
):
    """M queries of one head against all keys."""
    head = tl.program_id(1) * tokens
    row, place = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D)
    own = (head + row[:, None]) * D + place[None, :]
    there = row[:, None] < tokens
    q, dout = tl.load(q_ptr + own, mask=there, other=0.0), tl.load(dout_ptr + own, mask=there, other=0.0)
    lse = tl.load(lse_ptr + head + row, mask=row < tokens, other=1e30)
    delta = tl.load(delta_ptr + head + row, mask=row < tokens, other=0.0)
    dq = tl.zeros((M, D), tl.float32)
    for first in range(0, tokens, N):
        column = first + tl.arange(0, N)
        other = (head + column[:, None]) * D + place[None, :]
        k = tl.load(k_ptr + other, mask=column[:, None] < tokens, other=0.0)
        v = tl.load(v_ptr + other, mask=column[:, None] < tokens, other=0.0)
        s = tl.dot(q, tl.trans(k)) * (scale * 1.4426950408889634) - lse[:, None]
        p = tl.where(column[None, :] < tokens, tl.exp2(s), 0.0)
        ds = p * (tl.dot(dout, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds.to(tl.float16), k, dq)
    tl.store(dq_ptr + own, dq * scale, mask=there)


@triton.jit
def paged_decode(
    q_ptr,
    keys_ptr,
    values_ptr,
    pages_ptr,
    lengths_ptr,
    out_ptr,
    most_pages,
    scale,
    D: tl.constexpr,
    PAGE_TOKENS: tl.constexpr,
):
    """One new token of a sequence and head against all before it, whose keys and values lie in pages anywhere."""
    sequence, head, heads = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    place, slot = tl.arange(0, D), tl.arange(0, PAGE_TOKENS)
    q = tl.load(q_ptr + (sequence * heads + head) * D + place).to(tl.float32)
    length = tl.load(lengths_ptr + sequence)
    largest, total = -1e30, 0.0
    out = tl.zeros((D,), tl.float32)
    for first in range(0, length, PAGE_TOKENS):
        page = tl.load(pages_ptr + sequence * most_pages + first // PAGE_TOKENS)
        own = ((page * PAGE_TOKENS + slot[:, None]) * heads + head) * D + place[None, :]
        there = first + slot < length
        k = tl.load(keys_ptr + own, mask=there[:, None], other=0.0).to(tl.float32)
        s = tl.where(there, tl.sum(k * q[None, :], axis=1) * scale, -1e30)
        above = tl.maximum(largest, tl.max(s, axis=0))
        p, shrunk = tl.exp(s - above), tl.exp(largest - above)
        v = tl.load(values_ptr + own, mask=there[:, None], other=0.0).to(tl.float32)
        total = total * shrunk + tl.sum(p, axis=0)
        out = out * shrunk + tl.sum(p[:, None] * v, axis=0)
        largest = above
    tl.store(out_ptr + (sequence * heads + head) * D + place, out / total)


def _heads(heads: int, tokens: int, head_dim: int, seed: int, count: int) -> list[np.ndarray]:
    require_positive(heads=heads, tokens=tokens, head_dim=head_dim)
    if head_dim < 16 or head_dim & (head_dim - 1):
        raise ValueError(f"head_dim must be a power of two from 16 on, not {head_dim}")
    random = np.random.default_rng(seed)
    return [random.standard_normal((heads, tokens, head_dim)).astype(np.float16) for _ in range(count)]


def _probabilities(q: np.ndarray, k: np.ndarray, causal: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Softmax of the scores and the logarithm, to base 2, of each row's sum, in double precision."""
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) / math.sqrt(q.shape[2])
    if causal:
        scores = np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)
    sums = np.log(np.exp(scores).sum(axis=2))
    return np.exp(scores - sums[..., None]), sums * LOG2_E


def make_attention(*, heads: int, tokens: int, head_dim: int, causal: bool, seed: int = 0) -> Case:
    q, k, v = _heads(heads, tokens, head_dim, seed, 3)
    out, lse = np.zeros_like(q), np.zeros((heads, tokens), np.float32)

    def check() -> None:
        p, sums = _probabilities(q, k, causal)
        np.testing.assert_allclose(out, p @ v.astype(np.float64), rtol=1e-2, atol=5e-3)
        np.testing.assert_allclose(lse, sums, rtol=1e-3, atol=1e-3)

    args = (q, k, v, out, lse, tokens, 1 / math.sqrt(head_dim), head_dim, TILE, TILE, bool(causal))
    work = {"flops": 4.0 * heads * tokens**2 * head_dim, "bytes_read": 3.0 * q.nbytes, "bytes_written": 1.0 * q.nbytes}
    return Case((Launch(attention, (triton.cdiv(tokens, TILE), heads), None, args),), check, work)


def make_backward(*, heads: int, tokens: int, head_dim: int, seed: int = 0) -> Case:
    q, k, v, dout = _heads(heads, tokens, head_dim, seed, 4)
    p, sums = _probabilities(q, k)
    out, lse = (p @ v.astype(np.float64)).astype(np.float16), sums.astype(np.float32)
    delta = np.zeros_like(lse)
    dq, dk, dv = (np.zeros(q.shape, np.float32) for _ in range(3))
    scale = 1 / math.sqrt(head_dim)

    def check() -> None:
        wide = dout.astype(np.float64)
        dp = wide @ v.astype(np.float64).swapaxes(1, 2)
        ds = p * (dp - (wide * (p @ v.astype(np.float64))).sum(axis=2, keepdims=True)) * scale
        for got, wanted in (
            (dv, p.swapaxes(1, 2) @ wide),
            (dk, ds.swapaxes(1, 2) @ q.astype(np.float64)),
            (dq, ds @ k.astype(np.float64)),
        ):
            np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=2e-2)

    tiles, rows = (triton.cdiv(tokens, TILE), heads), heads * tokens
    given, last = (q, k, v, dout, lse, delta), (tokens, scale, head_dim, TILE, TILE)
    launches = (
        Launch(row_products, (triton.cdiv(rows, TILE),), None, (out, dout, delta, rows, head_dim, TILE)),
        Launch(attention_dkdv, tiles, None, (*given, dk, dv, *last)),
        Launch(attention_dq, tiles, None, (*given, dq, *last)),
    )
    work = {
        "flops": 10.0 * heads * tokens**2 * head_dim,
        "bytes_read": 10.0 * q.nbytes,
        "bytes_written": 6.0 * q.nbytes,
    }
    return Case(launches, check, work)


def make_paged(*, sequences: int, context: int, heads: int, head_dim: int, seed: int = 0) -> Case:
    require_positive(sequences=sequences, context=context)
    _heads(heads, 1, head_dim, seed, 0)
    random = np.random.default_rng(seed)
    lengths = random.integers(1, context + 1, sequences).astype(np.int32)
    most = -(-context // PAGE)
    pages = random.permutation(sequences * most).astype(np.int32).reshape(sequences, most)
    shape = (sequences * most, PAGE, heads, head_dim)
    keys, values = (random.standard_normal(shape).astype(np.float16) for _ in range(2))
    q = random.standard_normal((sequences, heads, head_dim)).astype(np.float16)
    out, scale = np.zeros(q.shape, np.float32), 1 / math.sqrt(head_dim)

    def check() -> None:
        for sequence, length in enumerate(lengths):
            k, v = (
                each[pages[sequence]].reshape(-1, heads, head_dim)[:length].astype(np.float64)
                for each in (keys, values)
            )
            scores = np.exp(np.einsum("hd,thd->th", q[sequence].astype(np.float64), k) * scale)
            np.testing.assert_allclose(
                out[sequence], np.einsum("th,thd->hd", scores / scores.sum(axis=0), v), rtol=1e-3, atol=1e-3
            )

    args = (q, keys, values, pages, lengths, out, most, scale, head_dim, PAGE)
    read = 4.0 * float(lengths.sum()) * heads * head_dim
    work = {"flops": read, "bytes_read": read, "bytes_written": float(out.nbytes)}
    return Case((Launch(paged_decode, (sequences, heads), None, args),), check, work)


KERNELS = {
    each.name: each
    for each in (
        Kernel(
            "triton_attention",
            "two products on tensor cores a step, an online softmax between them",
            {"heads": (1, 8, 32), "tokens": (64, 256, 1024), "head_dim": (32, 64, 128), "causal": (False, True)},
            {"heads": 8, "tokens": 256, "head_dim": 64, "causal": True},
            {"heads": 1, "tokens": 40, "head_dim": 16, "causal": True},
            make_attention,
        ),
        Kernel(
            "triton_attention_backward",
            "five products a tile: gradients of keys and values by columns, of queries by rows",
            {"heads": (1, 8), "tokens": (64, 256, 1024), "head_dim": (32, 64)},
            {"heads": 8, "tokens": 256, "head_dim": 64},
            {"heads": 1, "tokens": 40, "head_dim": 16},
            make_backward,
        ),
        Kernel(
            "triton_paged_decode",
            "one query against keys and values in pages, read by way of a table",
            {"sequences": (1, 16, 64), "context": (64, 1024), "heads": (4, 16), "head_dim": (64, 128)},
            {"sequences": 16, "context": 512, "heads": 8, "head_dim": 64},
            {"sequences": 2, "context": 40, "heads": 2, "head_dim": 16},
            make_paged,
        ),
    )
}
