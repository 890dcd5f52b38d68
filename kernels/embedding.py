"""An embedding table's two directions: gather rows for tokens; scatter-add their gradients by atomics."""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive
from .precision import stored_type
from .vector import copy_vector, vector_width
from .warp import WARP

#: Gradients that a lane loads before it adds the first.
UNROLL = 4


@functools.cache
def _gather(width: int):
    @cuda.jit
    def embedding_gather(tokens, table, out):
        """A warp a token, lanes along the row."""
        lane = cuda.threadIdx.x % WARP
        token = cuda.grid(1) // WARP
        columns = table.shape[1]
        if token >= tokens.size:
            return
        row = tokens[token]
        for column in range(lane * width, columns, WARP * width):
            copy_vector(out, token * columns + column, table, row * columns + column, width)

    return embedding_gather


@cuda.jit
def scatter_add(tokens, gradients, table):
    """A warp a token, lanes along the row: a warp's atomics fall into as few sectors as they can."""
    lane = cuda.threadIdx.x % WARP
    token = cuda.grid(1) // WARP
    if token >= tokens.size:
        return
    row = tokens[token]
    columns = table.shape[1]
    values = cuda.local.array(UNROLL, float32)
    for first in range(lane, columns, WARP * UNROLL):
        # All loads before the first addition: the compiler must not move them over it.
        for i in range(UNROLL):
            column = first + i * WARP
            if column < columns:
                values[i] = float32(gradients[token, column])
        for i in range(UNROLL):
            column = first + i * WARP
            if column < columns:
                cuda.atomic.add(table, (row, column), values[i])


def _tokens(rng, tokens: int, vocabulary: int, skew: float) -> np.ndarray:
    """Token numbers whose frequency falls as rank^-skew (Zipf's law at 1); 0 is uniform."""
    frequency = np.arange(1, vocabulary + 1, dtype=np.float64) ** -skew
    return rng.choice(vocabulary, tokens, p=frequency / frequency.sum()).astype(np.int64)


def _check_shape(tokens, vocabulary, columns, skew, dtype, block_threads) -> None:
    require_positive(tokens=tokens, vocabulary=vocabulary, columns=columns)
    require_block(block_threads, multiple=WARP)
    stored_type(dtype)
    if not 0 <= skew <= 4:
        raise ValueError(f"skew must lie in [0, 4], not {skew!r}")


def make_gather(
    *,
    tokens: int,
    vocabulary: int,
    columns: int,
    skew: float,
    dtype: str,
    block_threads: int,
    seed: int = 0,
) -> Case:
    _check_shape(tokens, vocabulary, columns, skew, dtype, block_threads)
    rng = np.random.default_rng(seed)
    chosen = _tokens(rng, tokens, vocabulary, skew)
    table = rng.standard_normal((vocabulary, columns)).astype(dtype)
    out = np.zeros((tokens, columns), dtype)
    kernel = _gather(vector_width(dtype, columns))
    grid = (blocks_for(tokens * WARP, block_threads),)
    moved = float(out.nbytes)
    return Case(
        launches=(Launch(kernel, grid, (block_threads,), (chosen, table, out)),),
        check=lambda: np.testing.assert_array_equal(out, table[chosen]),
        work={"bytes_read": moved + 8.0 * tokens, "bytes_written": moved, "rows": float(tokens)},
    )


def make_scatter(
    *,
    tokens: int,
    vocabulary: int,
    columns: int,
    skew: float,
    dtype: str,
    block_threads: int,
    seed: int = 0,
) -> Case:
    """``dtype`` is the gradients'; the table that they are added to is float32."""
    _check_shape(tokens, vocabulary, columns, skew, dtype, block_threads)
    rng = np.random.default_rng(seed)
    chosen = _tokens(rng, tokens, vocabulary, skew)
    gradients = rng.standard_normal((tokens, columns)).astype(dtype)
    table = np.zeros((vocabulary, columns), np.float32)

    def check() -> None:
        expected, sizes = np.zeros((2, vocabulary, columns))
        np.add.at(expected, chosen, gradients.astype(np.float64))
        np.add.at(sizes, chosen, np.abs(gradients.astype(np.float64)))
        # Additions come in any order: the error is relative to the sum of the terms' sizes.
        assert np.all(np.abs(table - expected) <= 1e-5 * sizes), "a row's sum is off"

    grid = (blocks_for(tokens * WARP, block_threads),)
    return Case(
        launches=(Launch(scatter_add, grid, (block_threads,), (chosen, gradients, table)),),
        check=check,
        work={
            "bytes_read": float(gradients.nbytes) + 8.0 * tokens,
            "bytes_written": 4.0 * tokens * columns,
            "atomics": float(tokens * columns),
        },
    )


_AXES = {
    "tokens": (16, 512, 4096),
    "vocabulary": (64, 1024, 32_000),
    "columns": (75, 256, 1024, 4096),
    "skew": (0.0, 1.0, 2.0),
    "dtype": ("float32", "float16"),
    "block_threads": (64, 128, 256),
}
_SMALL = {
    "tokens": 13,
    "vocabulary": 20,
    "columns": 72,
    "skew": 1.0,
    "dtype": "float16",
    "block_threads": 64,
}

KERNELS = {
    "embedding_gather": Kernel(
        name="embedding_gather",
        purpose="rows at random addresses, whole sectors each; how much popular rows gain from L2",
        axes=_AXES,
        default={
            "tokens": 4096,
            "vocabulary": 16_384,
            "columns": 1024,
            "skew": 1.0,
            "dtype": "float16",
            "block_threads": 128,
        },
        small=_SMALL,
        make=make_gather,
    ),
    "scatter_add": Kernel(
        name="scatter_add",
        purpose="floating-point reductions in L2 that collide as often as tokens repeat",
        axes=_AXES,
        default={
            "tokens": 1024,
            "vocabulary": 4096,
            "columns": 512,
            "skew": 1.0,
            "dtype": "float32",
            "block_threads": 128,
        },
        small=_SMALL,
        make=make_scatter,
    ),
}
