"""Forward kernels of a public library of Triton kernels for training, after its description: a program a row, or a tile
of a table.

Mental model: RMS norm and layer norm keep a row in registers and write the reciprocal root (and the mean) beside it;
the embedding copies tiles of 128 rows by up to 128 columns; rotary embedding turns all heads of a token in place.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def rms_norm(y_ptr, y_pitch, x_ptr, x_pitch, weight_ptr, rstd_ptr, columns, eps, offset, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    inside = place < columns
    x = tl.load(x_ptr + row * x_pitch + place, mask=inside, other=0)
    kind = x.dtype
    weight = tl.load(weight_ptr + place, mask=inside, other=0)
    x = x.to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / columns + eps)
    tl.store(rstd_ptr + row, rstd)
    tl.store(y_ptr + row * y_pitch + place, (x * rstd).to(kind) * (offset + weight), mask=inside)


@triton.jit
def layer_norm(
    y_ptr, y_pitch, x_ptr, x_pitch, weight_ptr, bias_ptr, mean_ptr, rstd_ptr, columns, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    inside = place < columns
    x = tl.load(x_ptr + row * x_pitch + place, mask=inside, other=0)
    weight = tl.load(weight_ptr + place, mask=inside, other=0)
    bias = tl.load(bias_ptr + place, mask=inside, other=0)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    tl.store(y_ptr + row * y_pitch + place, (x - mean) * rstd * weight + bias, mask=inside)


@triton.jit
def embedding(table_ptr, index_ptr, out_ptr, n, columns: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    here = row < n
    index = tl.load(index_ptr + row, mask=here, other=0)
    inside = here[:, None] & (column < columns)[None, :]
    values = tl.load(table_ptr + index[:, None] * columns + column[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + row[:, None] * columns + column[None, :], values, mask=inside)


@triton.jit
def _turned(x_ptr, first, second, inside, cos, sin):
    one = tl.load(x_ptr + first, mask=inside, other=0).to(sin.dtype)
    two = tl.load(x_ptr + second, mask=inside, other=0).to(sin.dtype)
    tl.store(x_ptr + first, one * cos - two * sin, mask=inside)
    tl.store(x_ptr + second, two * cos + one * sin, mask=inside)


@triton.jit
def rope(
    q_ptr, q_pitch, k_ptr, k_pitch, cos_ptr, cos_pitch, sin_ptr, sin_pitch, tokens,
    Q_HEADS: tl.constexpr, K_HEADS: tl.constexpr, WIDTH: tl.constexpr,
    PADDED_Q: tl.constexpr, PADDED_K: tl.constexpr, PADDED_WIDTH: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    half = tl.arange(0, PADDED_WIDTH // 2)
    at = token % tokens
    cos = tl.load(cos_ptr + at * cos_pitch + half, mask=half < WIDTH // 2, other=0)
    sin = tl.load(sin_ptr + at * sin_pitch + half, mask=half < WIDTH // 2, other=0)
    q_place = tl.arange(0, PADDED_Q)[:, None] * WIDTH + half[None, :]
    k_place = tl.arange(0, PADDED_K)[:, None] * WIDTH + half[None, :]
    q_inside = (tl.arange(0, PADDED_Q)[:, None] < Q_HEADS) & (half[None, :] < WIDTH // 2)
    k_inside = (tl.arange(0, PADDED_K)[:, None] < K_HEADS) & (half[None, :] < WIDTH // 2)
    _turned(q_ptr + token * q_pitch, q_place, q_place + WIDTH // 2, q_inside, cos, sin)
    _turned(k_ptr + token * k_pitch, k_place, k_place + WIDTH // 2, k_inside, cos, sin)
