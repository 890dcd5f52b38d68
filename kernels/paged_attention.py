"""Decode attention over a paged cache: one new token a sequence, keys and values in scattered pages.

The cache is an array of pages of 16 tokens; a sequence's row of the block table names its pages in order
(Kwon et al., "PagedAttention", 2023). A block serves one sequence and one key head, that is all query heads
that share it (grouped queries), so each key is read once. Long contexts are split over several blocks, whose
partial results a second launch combines (the idea of "Flash-Decoding", Dao et al., 2023).
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numba import cuda, float32
from numba.cuda import libdevice

from .case import Case, Kernel, Launch, blocks_for, require_choice, require_positive
from .precision import stored_type, tolerance
from .vector import load_vector
from .warp import WARP, warp_sum

PAGE_TOKENS = 16
WARPS = 4
OWN_TOKENS = PAGE_TOKENS // WARPS
LOWEST = -1e30
LOG2_E = math.log2(math.e)


@functools.cache
def _kernel(dtype: str, head_dim: int, group: int):
    stored = stored_type(dtype)
    width = head_dim // WARP  # elements of a head that a lane holds
    own = group * width
    loaded = OWN_TOKENS * width
    combined = WARPS * group * head_dim

    @cuda.jit
    def paged_attention_decode(queries, keys, values, tables, lengths, scale, partial, peaks, sums):
        """``queries`` [sequence, head, d]; ``keys``, ``values`` [page, token, key head, d], finite
        also where a sequence's last page has no token yet.

        Writes, a split of the context: ``partial`` [sequence, head, split, d] (not yet divided),
        ``peaks`` and ``sums`` [sequence, head, split] of its softmax, in powers of two.
        """
        warp_results = cuda.shared.array(combined, float32)
        warp_peaks = cuda.shared.array((WARPS, group), float32)
        warp_sums = cuda.shared.array((WARPS, group), float32)
        query = cuda.local.array(own, float32)
        result = cuda.local.array(own, float32)
        peak = cuda.local.array(group, float32)
        total = cuda.local.array(group, float32)
        key = cuda.local.array(loaded, stored)
        value = cuda.local.array(loaded, stored)
        score = cuda.local.array(OWN_TOKENS, float32)
        lane, warp = cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP
        key_head, sequence, split = cuda.blockIdx.x, cuda.blockIdx.y, cuda.blockIdx.z
        heads, key_heads = queries.shape[1], keys.shape[2]
        pages = (lengths[sequence] + PAGE_TOKENS - 1) // PAGE_TOKENS
        pages_per_split = (pages + cuda.gridDim.z - 1) // cuda.gridDim.z
        first_page = split * pages_per_split
        for g in range(group):
            start = (sequence * heads + key_head * group + g) * head_dim + lane * width
            load_vector(key, 0, queries, start, width)
            peak[g] = float32(LOWEST)
            total[g] = float32(0)
            for i in range(width):
                query[g * width + i] = float32(key[i]) * scale
                result[g * width + i] = float32(0)

        end_page = min(first_page + pages_per_split, pages)
        where = tables[sequence, min(first_page, pages - 1)]
        for page in range(first_page, end_page):
            # A warp takes four tokens of a page; all eight loads are on their way before the first is used.
            first_token = where * PAGE_TOKENS + warp * OWN_TOKENS
            known = lengths[sequence] - page * PAGE_TOKENS - warp * OWN_TOKENS
            for t in range(OWN_TOKENS):
                start = ((first_token + t) * key_heads + key_head) * head_dim + lane * width
                load_vector(key, t * width, keys, start, width)
                load_vector(value, t * width, values, start, width)
            where = tables[sequence, min(page + 1, end_page - 1)]
            for g in range(group):
                higher = peak[g]
                for t in range(OWN_TOKENS):
                    product = float32(0)
                    for i in range(width):
                        product += query[g * width + i] * float32(key[t * width + i])
                    product = warp_sum(product)
                    score[t] = product if t < known else float32(LOWEST)
                    higher = max(higher, score[t])
                rescale = libdevice.exp2f(peak[g] - higher)
                peak[g] = higher
                total[g] *= rescale
                for i in range(width):
                    result[g * width + i] *= rescale
                for t in range(OWN_TOKENS):
                    # No branch around the products: the values' loads would sink into it.
                    weight = libdevice.exp2f(score[t] - higher) if t < known else float32(0)
                    total[g] += weight
                    for i in range(width):
                        result[g * width + i] += weight * float32(value[t * width + i])

        for g in range(group):
            for i in range(width):
                warp_results[(warp * group + g) * head_dim + lane * width + i] = result[g * width + i]
            if lane == 0:
                warp_peaks[warp, g] = peak[g]
                warp_sums[warp, g] = total[g]
        cuda.syncthreads()
        splits = cuda.gridDim.z
        for i in range(cuda.threadIdx.x, group * head_dim, WARPS * WARP):
            g, d = i // head_dim, i % head_dim
            highest = float32(LOWEST)
            for w in range(WARPS):
                highest = max(highest, warp_peaks[w, g])
            summed = float32(0)
            weights = float32(0)
            for w in range(WARPS):
                rescale = libdevice.exp2f(warp_peaks[w, g] - highest)
                summed += warp_results[(w * group + g) * head_dim + d] * rescale
                weights += warp_sums[w, g] * rescale
            row = (sequence * heads + key_head * group + g) * splits + split
            partial[row * head_dim + d] = summed
            if d == 0:
                peaks[row] = highest
                sums[row] = weights

    return paged_attention_decode


@functools.cache
def _combine(dtype: str):
    stored = stored_type(dtype)

    @cuda.jit
    def paged_attention_combine(partial, peaks, sums, splits, out):
        """A block a head, a thread an element of it."""
        head, d = cuda.blockIdx.x, cuda.threadIdx.x
        highest = float32(LOWEST)
        for split in range(splits):
            highest = max(highest, peaks[head * splits + split])
        value = float32(0)
        weights = float32(0)
        for split in range(splits):
            row = head * splits + split
            rescale = libdevice.exp2f(peaks[row] - highest)
            value += partial[row * cuda.blockDim.x + d] * rescale
            weights += sums[row] * rescale
        out[head, d] = stored(value / weights)

    return paged_attention_combine


def make(
    *,
    sequences: int,
    context: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    splits: int,
    dtype: str,
    seed: int = 0,
) -> Case:
    """Contexts are between half of ``context`` tokens and all of it; the first is the longest."""
    require_positive(sequences=sequences, context=context, heads=heads, kv_heads=kv_heads, splits=splits)
    require_choice("head_dim", head_dim, (64, 128))
    stored_type(dtype)
    group = heads // kv_heads
    if heads % kv_heads or group > 8:
        raise ValueError(f"heads must be a multiple of kv_heads, up to 8 times: {heads}, {kv_heads}")
    if max(sequences, splits) > 65_535:
        raise ValueError(f"sequences and splits must be at most 65535, not {sequences}, {splits}")
    rng = np.random.default_rng(seed)
    lengths = rng.integers(max(1, context // 2), context + 1, sequences).astype(np.int32)
    lengths[0] = context
    per_sequence = blocks_for(context, PAGE_TOKENS)
    tables = rng.permutation(sequences * per_sequence).astype(np.int32).reshape(sequences, per_sequence)
    shape = (sequences * per_sequence, PAGE_TOKENS, kv_heads, head_dim)
    keys, values = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    queries = rng.standard_normal((sequences, heads, head_dim)).astype(dtype)
    out = np.zeros((sequences * heads, head_dim), dtype)
    rows = sequences * heads * splits
    partial = np.zeros(rows * head_dim, np.float32)
    peaks, sums = np.zeros((2, rows), np.float32)
    scale = np.float32(LOG2_E / math.sqrt(head_dim))

    def check() -> None:
        for sequence, length in enumerate(lengths):
            k, v = (
                cache[tables[sequence]].reshape(-1, kv_heads, head_dim)[:length].astype(np.float64)
                for cache in (keys, values)
            )
            k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
            scores = np.einsum("hd,thd->ht", queries[sequence].astype(np.float64), k) / math.sqrt(head_dim)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            expected = np.einsum("ht,thd->hd", weights, v)
            got = out[sequence * heads : (sequence + 1) * heads]
            np.testing.assert_allclose(got, expected, rtol=tolerance(dtype, 1e-4), atol=2e-5)

    attend = (queries, keys, values, tables, lengths, scale, partial, peaks, sums)
    combine = (partial, peaks, sums, splits, out)
    read = 2.0 * lengths.sum() * kv_heads * head_dim * keys.itemsize
    return Case(
        launches=(
            Launch(_kernel(dtype, head_dim, group), (kv_heads, sequences, splits), (WARPS * WARP,), attend),
            Launch(_combine(dtype), (sequences * heads,), (head_dim,), combine),
        ),
        check=check,
        work={
            "bytes_read": read,
            "bytes_written": float(out.nbytes),
            "flops": 4.0 * lengths.sum() * heads * head_dim,
        },
    )


KERNELS = {
    "paged_attention_decode": Kernel(
        name="paged_attention_decode",
        purpose="streaming a cache through a table of pages: dependent loads, ragged lengths, shuffles a token",
        axes={
            "sequences": (1, 8, 64),
            "context": (100, 512, 2048, 8192),
            "heads": (8, 32),
            "kv_heads": (4, 8, 32),
            "head_dim": (64, 128),
            "splits": (1, 4, 16),
            "dtype": ("float32", "float16"),
        },
        default={
            "sequences": 8,
            "context": 1024,
            "heads": 32,
            "kv_heads": 8,
            "head_dim": 128,
            "splits": 8,
            "dtype": "float16",
        },
        small={
            "sequences": 2,
            "context": 37,
            "heads": 4,
            "kv_heads": 2,
            "head_dim": 64,
            "splits": 2,
            "dtype": "float16",
        },
        make=make,
    )
}
