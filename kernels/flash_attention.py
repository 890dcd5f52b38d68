"""Attention without its score matrix: tiles of keys pass by, a running maximum and sum rescale the result.

Algorithm: Dao, "FlashAttention-2", 2023 (forward pass), on single-precision FMAs. A block owns 64 queries of
one head; scores of a tile stay in registers, the probabilities pass through shared memory to the second
product. Under a causal mask, tiles right of the diagonal are never visited.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numba import cuda, float32
from numba.cuda import libdevice

from .case import Case, Kernel, Launch, blocks_for, require_choice, require_positive
from .precision import stored_type, tolerance
from .vector import load_vector, store_vector, vector_width
from .warp import ALL_LANES

QUERIES, KEYS = 64, 32  # rows and columns of a tile of scores
OWN = 4  # each thread owns 4 queries x 4 keys of scores, and 4 queries x head_dim / 8 of the result
ACROSS = KEYS // OWN  # threads, neighbouring lanes, that share a query
THREADS = QUERIES // OWN * ACROSS
PADDING = 4  # elements that keep the rows of transposed tiles off each other's banks
LOG2_E = math.log2(math.e)
#: The head sizes whose tiles fit in the 48 KiB of shared memory that a kernel may declare.
HEAD_DIMS = {"float32": (32, 64), "float16": (32, 64, 128)}


@functools.cache
def _kernel(dtype: str, head_dim: int, causal: bool):
    stored = stored_type(dtype)
    # Converted once on the way into shared memory, where single precision fits in it.
    tiled = float32 if head_dim <= 64 else stored
    width = vector_width(dtype, head_dim)
    columns = head_dim // ACROSS  # of the result, a thread; in groups of four, ACROSS groups apart
    results = OWN * columns
    query_row, key_row = QUERIES + PADDING, KEYS + PADDING

    @cuda.jit(device=True)
    def load_transposed(tile, tile_row, rows, source, first, count):
        """tile[column, row] = source[first + row, column], zero beyond ``count`` rows."""
        values = cuda.local.array(width, stored)
        for i in range(cuda.threadIdx.x, rows * head_dim // width, THREADS):
            # Neighbouring lanes take neighbouring rows: their stores fall into different banks.
            row, column = i % rows, i // rows * width
            if first + row < count:
                load_vector(values, 0, source, (first + row) * head_dim + column, width)
            else:
                for j in range(width):
                    values[j] = stored(0)
            for j in range(width):
                tile[(column + j) * tile_row + row] = tiled(values[j])

    @cuda.jit(device=True)
    def load_straight(tile, source, first, count):
        """tile[row, column] = source[first + row, column] of KEYS rows, zero beyond ``count`` rows."""
        values = cuda.local.array(width, stored)
        converted = cuda.local.array(width, tiled)
        for i in range(cuda.threadIdx.x * width, KEYS * head_dim, THREADS * width):
            if first + i // head_dim < count:
                load_vector(values, 0, source, first * head_dim + i, width)
            else:
                for j in range(width):
                    values[j] = stored(0)
            for j in range(width):
                converted[j] = tiled(values[j])
            for j in range(0, width, OWN):
                store_vector(tile, i + j, converted, j, OWN)

    @cuda.jit(device=True)
    def across_max(value):
        for step in (4, 2, 1):
            value = max(value, cuda.shfl_xor_sync(ALL_LANES, value, step))
        return value

    @cuda.jit(device=True)
    def across_sum(value):
        for step in (4, 2, 1):
            value += cuda.shfl_xor_sync(ALL_LANES, value, step)
        return value

    query_tile, key_tile, value_tile = head_dim * query_row, head_dim * key_row, KEYS * head_dim
    probability_tile = KEYS * query_row

    @cuda.jit(fastmath=True)
    def flash_attention(queries, keys, values, scale, out):
        """All [batch x head, token, head_dim]; ``scale`` includes log2(e), for powers of two."""
        q = cuda.shared.array(query_tile, tiled)
        k = cuda.shared.array(key_tile, tiled)
        v = cuda.shared.array(value_tile, tiled)
        p = cuda.shared.array(probability_tile, float32)
        left = cuda.local.array(OWN, tiled)
        right = cuda.local.array(OWN, tiled)
        weights = cuda.local.array(OWN, float32)
        scores = cuda.local.array((OWN, OWN), float32)
        result = cuda.local.array(results, float32)
        highest = cuda.local.array(OWN, float32)
        total = cuda.local.array(OWN, float32)
        head = cuda.blockIdx.y
        first_query = cuda.blockIdx.x * QUERIES
        count, key_count = queries.shape[1], keys.shape[1]
        lane, group = cuda.threadIdx.x % ACROSS, cuda.threadIdx.x // ACROSS
        load_transposed(q, query_row, QUERIES, queries[head], first_query, count)
        for i in range(OWN):
            highest[i] = float32(-1e30)
            total[i] = float32(0)
        for i in range(results):
            result[i] = float32(0)
        end = min(key_count, first_query + QUERIES) if causal else key_count
        for first_key in range(0, end, KEYS):
            cuda.syncthreads()  # the previous tile has been used
            load_transposed(k, key_row, KEYS, keys[head], first_key, key_count)
            load_straight(v, values[head], first_key, key_count)
            cuda.syncthreads()

            for i in range(OWN):
                for j in range(OWN):
                    scores[i, j] = float32(0)
            for d in range(head_dim):
                load_vector(left, 0, q, d * query_row + group * OWN, OWN)
                load_vector(right, 0, k, d * key_row + lane * OWN, OWN)
                for i in range(OWN):
                    for j in range(OWN):
                        scores[i, j] += float32(left[i]) * float32(right[j])

            for i in range(OWN):
                query = first_query + group * OWN + i
                tile_highest = highest[i]
                for j in range(OWN):
                    key = first_key + lane * OWN + j
                    if key >= key_count or (causal and key > query):
                        scores[i, j] = float32(-1e30)
                    else:
                        scores[i, j] *= scale
                    tile_highest = max(tile_highest, scores[i, j])
                tile_highest = across_max(tile_highest)
                rescale = libdevice.exp2f(highest[i] - tile_highest)
                highest[i] = tile_highest
                tile_total = float32(0)
                for j in range(OWN):
                    scores[i, j] = libdevice.exp2f(scores[i, j] - tile_highest)
                    tile_total += scores[i, j]
                    p[(lane * OWN + j) * query_row + group * OWN + i] = scores[i, j]
                total[i] = total[i] * rescale + across_sum(tile_total)
                for j in range(columns):
                    result[i * columns + j] *= rescale
            # The eight lanes that write a query's probabilities are those that read them.
            cuda.syncwarp()

            for key in range(KEYS):
                load_vector(weights, 0, p, key * query_row + group * OWN, OWN)
                for block in range(columns // OWN):
                    load_vector(right, 0, v, key * head_dim + (block * ACROSS + lane) * OWN, OWN)
                    for i in range(OWN):
                        for j in range(OWN):
                            result[i * columns + block * OWN + j] += weights[i] * float32(right[j])

        for i in range(OWN):
            query = first_query + group * OWN + i
            if query < count:
                inverse = float32(1) / total[i]
                for j in range(columns):
                    column = (j // OWN * ACROSS + lane) * OWN + j % OWN
                    out[head, query, column] = stored(result[i * columns + j] * inverse)

    return flash_attention


def make(*, batch: int, heads: int, tokens: int, head_dim: int, causal: bool, dtype: str, seed: int = 0) -> Case:
    require_positive(batch=batch, heads=heads, tokens=tokens, head_dim=head_dim)
    require_choice("dtype", dtype, HEAD_DIMS)
    require_choice(f"head_dim for {dtype}", head_dim, HEAD_DIMS[dtype])
    if batch * heads > 65_535:
        raise ValueError(f"batch x heads must be at most 65535, not {batch * heads}")
    rng = np.random.default_rng(seed)
    shape = (batch * heads, tokens, head_dim)
    queries, keys, values = (rng.standard_normal(shape).astype(dtype) for _ in range(3))
    out = np.zeros(shape, dtype)
    scale = np.float32(LOG2_E / math.sqrt(head_dim))

    def check() -> None:
        q, k, v = (each.astype(np.float64) for each in (queries, keys, values))
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(head_dim)
        if causal:
            scores[:, np.triu(np.ones((tokens, tokens), bool), 1)] = -np.inf
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        expected = weights / weights.sum(axis=2, keepdims=True) @ v
        # fastmath, and sums whose terms cancel: an absolute error beside the relative one.
        np.testing.assert_allclose(out, expected, rtol=tolerance(dtype, 1e-4), atol=2e-5)

    pairs = tokens * (tokens + 1) / 2 if causal else float(tokens) ** 2
    grid = (blocks_for(tokens, QUERIES), batch * heads)
    arguments = (queries, keys, values, scale, out)
    return Case(
        launches=(Launch(_kernel(dtype, head_dim, bool(causal)), grid, (THREADS,), arguments),),
        check=check,
        work={
            "flops": 4.0 * batch * heads * pairs * head_dim,
            "bytes_read": 3.0 * queries.nbytes,
            "bytes_written": float(out.nbytes),
        },
    )


KERNELS = {
    "flash_attention": Kernel(
        name="flash_attention",
        purpose="two chained products with an online softmax between: FMA, shared memory, shuffles, MUFU",
        axes={
            "batch": (1, 4),
            "heads": (4, 12, 32),
            "tokens": (64, 197, 512, 1024),
            "head_dim": (32, 64, 128),
            "causal": (False, True),
            "dtype": ("float32", "float16"),
        },
        default={
            "batch": 1,
            "heads": 12,
            "tokens": 512,
            "head_dim": 64,
            "causal": True,
            "dtype": "float16",
        },
        small={"batch": 1, "heads": 1, "tokens": 40, "head_dim": 32, "causal": True, "dtype": "float16"},
        make=make,
    )
}
