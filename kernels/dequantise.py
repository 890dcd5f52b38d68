"""Weights from 8 and 4 bits to half precision: a scale a row, or a scale and a zero point a group.

int4 weights are packed eight to a 32-bit word, the first in the lowest bits, as weight-only quantisation
commonly stores them (Frantar et al., "GPTQ", 2023): value = (q - zero) x scale with q in 0 .. 15.
``gemv_w4a16`` multiplies by such a matrix without ever writing it out: the linear layer of a quantised
model that generates one token at a time.
"""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda, float32, int8, int32, types

from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive
from .precision import tolerance
from .vector import load_vector, store_vector, vector_width
from .warp import WARP, warp_sum

half = types.float16
PACKED = 8  # int4 values of a 32-bit word


@functools.cache
def _int8_kernel(width: int):
    @cuda.jit
    def dequant_int8(quantised, scales, out):
        """A block a row: ``width`` bytes by one load, as many halves by one store."""
        row = cuda.blockIdx.x
        columns = quantised.shape[1]
        scale = scales[row]
        narrow = cuda.local.array(width, int8)
        wide = cuda.local.array(width, half)
        for column in range(cuda.threadIdx.x * width, columns, cuda.blockDim.x * width):
            start = row * columns + column
            load_vector(narrow, 0, quantised, start, width)
            for i in range(width):
                wide[i] = half(float32(narrow[i]) * scale)
            store_vector(out, start, wide, 0, width)

    return dequant_int8


@cuda.jit
def dequant_int4(words, scales, zeros, group, out):
    """A thread a word: eight halves by one store. ``words`` int32[rows, columns / 8]."""
    word = cuda.grid(1)
    row = cuda.blockIdx.y
    if word >= words.shape[1]:
        return
    packed = words[row, word]
    which = word * PACKED // group
    scale, zero = float32(scales[row, which]), float32(zeros[row, which])
    values = cuda.local.array(PACKED, half)
    for i in range(PACKED):
        values[i] = half((float32(packed >> 4 * i & 15) - zero) * scale)
    store_vector(out, (row * words.shape[1] + word) * PACKED, values, 0, PACKED)


@functools.cache
def _w4a16_kernel(words_at_once: int):
    @cuda.jit
    def gemv_w4a16(words, scales, zeros, group, vector, out):
        """A warp a row; a lane takes ``words_at_once`` words by one load, all of one group."""
        lane = cuda.threadIdx.x % WARP
        row = cuda.grid(1) // WARP
        if row >= words.shape[0]:
            return
        row_words = words.shape[1]
        packed = cuda.local.array(words_at_once, int32)
        inputs = cuda.local.array(PACKED, half)
        total = float32(0)
        for start in range(lane * words_at_once, row_words, WARP * words_at_once):
            load_vector(packed, 0, words, row * row_words + start, words_at_once)
            which = start * PACKED // group
            scale, zero = float32(scales[row, which]), float32(zeros[row, which])
            part = float32(0)
            for j in range(words_at_once):
                load_vector(inputs, 0, vector, (start + j) * PACKED, PACKED)
                for i in range(PACKED):
                    part += (float32(packed[j] >> 4 * i & 15) - zero) * float32(inputs[i])
            total += part * scale
        total = warp_sum(total)
        if lane == 0:
            out[row] = half(total)

    return gemv_w4a16


def make_int8(*, rows: int, columns: int, block_threads: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns)
    require_block(block_threads)
    rng = np.random.default_rng(seed)
    quantised = rng.integers(-128, 128, (rows, columns)).astype(np.int8)
    scales = (rng.random(rows) / 64 + 1 / 512).astype(np.float32)
    out = np.zeros((rows, columns), np.float16)

    def check() -> None:
        expected = quantised * scales[:, None].astype(np.float64)
        np.testing.assert_allclose(out, expected, rtol=tolerance("float16"))

    kernel = _int8_kernel(vector_width(np.float16, columns))
    return Case(
        launches=(Launch(kernel, (rows,), (block_threads,), (quantised, scales, out)),),
        check=check,
        work={"bytes_read": float(quantised.nbytes), "bytes_written": float(out.nbytes)},
    )


def _quantised(rng, rows: int, columns: int, group: int):
    """Random words, scales and zero points, and the float64 matrix that they stand for."""
    require_positive(rows=rows, columns=columns, group=group)
    if group % PACKED or columns % group:
        raise ValueError(f"columns must be a multiple of group, and group of {PACKED}: {columns}, {group}")
    values = rng.integers(0, 16, (rows, columns))
    shifts = 4 * np.arange(PACKED)
    words = (values.reshape(rows, -1, PACKED) << shifts).sum(axis=2).astype(np.uint32).view(np.int32)
    scales = (rng.random((rows, columns // group)) / 16 + 1 / 64).astype(np.float16)
    zeros = rng.integers(0, 16, scales.shape).astype(np.float16)

    def spread(each: np.ndarray) -> np.ndarray:
        return np.repeat(each.astype(np.float64), group, axis=1)

    return words, scales, zeros, (values - spread(zeros)) * spread(scales)


def make_int4(*, rows: int, columns: int, group: int, block_threads: int, seed: int = 0) -> Case:
    words, scales, zeros, expected = _quantised(np.random.default_rng(seed), rows, columns, group)
    require_block(block_threads)
    if rows > 65_535:
        raise ValueError(f"rows must be at most 65535, not {rows}")
    out = np.zeros((rows, columns), np.float16)
    grid = (blocks_for(columns // PACKED, block_threads), rows)
    return Case(
        launches=(Launch(dequant_int4, grid, (block_threads,), (words, scales, zeros, group, out)),),
        check=lambda: np.testing.assert_allclose(out, expected, rtol=tolerance("float16")),
        work={
            "bytes_read": float(words.nbytes + 2 * scales.nbytes),
            "bytes_written": float(out.nbytes),
        },
    )


def make_w4a16(*, rows: int, columns: int, group: int, block_threads: int, seed: int = 0) -> Case:
    rng = np.random.default_rng(seed)
    words, scales, zeros, matrix = _quantised(rng, rows, columns, group)
    require_block(block_threads, multiple=WARP)
    vector = (rng.standard_normal(columns) / 8).astype(np.float16)
    out = np.zeros(rows, np.float16)

    def check() -> None:
        wide = vector.astype(np.float64)
        # Terms cancel: the error is relative to the sum of their sizes, and one rounding to a half.
        bound = 1e-5 * (np.abs(matrix) @ np.abs(wide)) + tolerance("float16") * np.abs(matrix @ wide)
        assert np.all(np.abs(out - matrix @ wide) <= bound), "a row's product is off"
        assert out.any(), "nothing was written"

    kernel = _w4a16_kernel(vector_width(np.int32, columns // PACKED, group // PACKED))
    grid = (blocks_for(rows * WARP, block_threads),)
    return Case(
        launches=(Launch(kernel, grid, (block_threads,), (words, scales, zeros, group, vector, out)),),
        check=check,
        work={
            "bytes_read": float(words.nbytes + 2 * scales.nbytes + vector.nbytes),
            "bytes_written": float(out.nbytes),
            "flops": 2.0 * rows * columns,
        },
    )


_GROUPED = {
    "rows": (16, 1024, 4096),
    "columns": (256, 1024, 4096),
    "group": (32, 64, 128),
    "block_threads": (64, 128, 256),
}

KERNELS = {
    "dequant_int8": Kernel(
        name="dequant_int8",
        purpose="eight bytes in and sixteen out an access; byte extraction and conversions between",
        axes={
            "rows": (16, 1024, 4096),
            "columns": (100, 1024, 4096),
            "block_threads": (64, 128, 256),
        },
        default={"rows": 1024, "columns": 4096, "block_threads": 128},
        small={"rows": 3, "columns": 656, "block_threads": 32},
        make=make_int8,
    ),
    "dequant_int4": Kernel(
        name="dequant_int4",
        purpose="shifts, masks and conversions for four times the bytes read: ALU beside the stores",
        axes=_GROUPED,
        default={"rows": 1024, "columns": 4096, "group": 128, "block_threads": 128},
        small={"rows": 3, "columns": 384, "group": 64, "block_threads": 32},
        make=make_int4,
    ),
    "gemv_w4a16": Kernel(
        name="gemv_w4a16",
        purpose="a quarter of the traffic of a half-precision product for unpacking: which of them limits",
        axes=_GROUPED,
        default={"rows": 2048, "columns": 4096, "group": 128, "block_threads": 128},
        small={"rows": 5, "columns": 384, "group": 64, "block_threads": 64},
        make=make_w4a16,
    ),
}
