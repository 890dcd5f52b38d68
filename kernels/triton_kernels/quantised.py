"""Matrix products with small numbers, and of gathered rows: int8 by int8, half precision by int4, mixture of experts,
convolution."""

from __future__ import annotations

from functools import partial

import numpy as np
import triton
import triton.language as tl

from ..case import Case, Kernel, Launch, require_positive

EXPERT_TILE = 16


@triton.jit
def matmul_int8(
    a_ptr, b_ptr, a_scale_ptr, b_scale_ptr, c_ptr, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    """c = (a b) with a scale for each row of a and each column of b."""
    row, column = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), tl.int32)
    for first in range(0, k, K):
        depth = first + tl.arange(0, K)
        a = tl.load(a_ptr + row[:, None] * k + depth[None, :], mask=(row[:, None] < m) & (depth[None, :] < k), other=0)
        b = tl.load(
            b_ptr + column[None, :] * k + depth[:, None], mask=(depth[:, None] < k) & (column[None, :] < n), other=0
        )
        total = tl.dot(a, b, total)
    a_scale = tl.load(a_scale_ptr + row, mask=row < m, other=0.0)
    b_scale = tl.load(b_scale_ptr + column, mask=column < n, other=0.0)
    c = total.to(tl.float32) * a_scale[:, None] * b_scale[None, :]
    tl.store(c_ptr + row[:, None] * n + column[None, :], c, mask=(row[:, None] < m) & (column[None, :] < n))


@triton.jit
def matmul_int4(
    a_ptr, packed_ptr, scale_ptr, c_ptr, m, n, k, GROUP: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    """a[m, k] times weights of 4 bits: packed[k / 8, n] has eight depths a word, lowest first; a scale a GROUP of
    depths."""
    row, column = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for first in range(0, k, K):
        depth = first + inner
        a = tl.load(a_ptr + row[:, None] * k + depth[None, :], mask=row[:, None] < m, other=0.0)
        words = tl.load(packed_ptr + (depth[:, None] // 8) * n + column[None, :], mask=column[None, :] < n, other=0)
        quarter = (words >> ((inner[:, None] % 8) * 4)) & 15
        scale = tl.load(scale_ptr + (first // GROUP) * n + column, mask=column < n, other=0.0)
        b = (quarter - 8).to(tl.float16) * scale[None, :]
        total = tl.dot(a, b, total)
    tl.store(c_ptr + row[:, None] * n + column[None, :], total, mask=(row[:, None] < m) & (column[None, :] < n))


@triton.jit
def moe_matmul(
    x_ptr,
    weights_ptr,
    tokens_ptr,
    experts_ptr,
    out_ptr,
    tokens,
    n,
    k,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
):
    """A tile of M rows belongs to one expert; ``tokens_ptr`` says which token each row is, ``tokens`` for a row that is
    none."""
    tile = tl.program_id(0)
    token = tl.load(tokens_ptr + tile * M + tl.arange(0, M))
    expert = tl.load(experts_ptr + tile)
    column, inner = tl.program_id(1) * N + tl.arange(0, N), tl.arange(0, K)
    there = token < tokens
    total = tl.zeros((M, N), tl.float32)
    for first in range(0, k, K):
        depth = first + inner
        x = tl.load(x_ptr + token[:, None] * k + depth[None, :], mask=there[:, None] & (depth[None, :] < k), other=0.0)
        inside = (depth[:, None] < k) & (column[None, :] < n)
        w = tl.load(weights_ptr + expert * k * n + depth[:, None] * n + column[None, :], mask=inside, other=0.0)
        total = tl.dot(x, w, total)
    tl.store(out_ptr + token[:, None] * n + column[None, :], total, mask=there[:, None] & (column[None, :] < n))


@triton.jit
def conv2d(
    x_ptr, filters_ptr, out_ptr, channels, height, width, count, out_h, out_w,
    SIDE: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """out[pixel, filter] of x[height, width, channels]: a matrix product whose left side is gathered as it is
    needed."""
    pixel, column = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    there = pixel < out_h * out_w
    y, x = pixel // out_w, pixel % out_w
    inner = tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for tap in range(SIDE * SIDE):
        place = (y + tap // SIDE) * width + x + tap % SIDE
        for first in range(0, channels, K):
            channel = first + inner
            inside = there[:, None] & (channel[None, :] < channels)
            a = tl.load(x_ptr + place[:, None] * channels + channel[None, :], mask=inside, other=0.0)
            inside = (channel[:, None] < channels) & (column[None, :] < count)
            b = tl.load(
                filters_ptr + (tap * channels + channel[:, None]) * count + column[None, :], mask=inside, other=0.0
            )
            total = tl.dot(a, b, total)
    tl.store(out_ptr + pixel[:, None] * count + column[None, :], total, mask=there[:, None] & (column[None, :] < count))


def make_int8(*, m: int, n: int, k: int, tile: int, seed: int = 0) -> Case:
    require_positive(m=m, n=n, k=k, tile=tile)
    random = np.random.default_rng(seed)
    a, b = (random.integers(-127, 128, shape, dtype=np.int8) for shape in ((m, k), (n, k)))
    scales = [random.random(side, np.float32) / 1000 for side in (m, n)]
    c = np.zeros((m, n), np.float32)

    def check() -> None:
        wanted = (a.astype(np.int64) @ b.T.astype(np.int64)) * scales[0][:, None] * scales[1]
        np.testing.assert_allclose(c, wanted, rtol=1e-5)

    grid = (triton.cdiv(m, tile), triton.cdiv(n, tile))
    return _case(
        Launch(matmul_int8, grid, None, (a, b, *scales, c, m, n, k, tile, tile, 32)), check, a, b, c, m * n * k
    )


def make_int4(*, m: int, n: int, k: int, group: int, seed: int = 0) -> Case:
    require_positive(m=m, n=n, k=k, group=group)
    if k % group or group % 16 or group & (group - 1):
        raise ValueError(f"group must be a power of two from 16 on that divides k, not {group}")
    random = np.random.default_rng(seed)
    a = random.standard_normal((m, k)).astype(np.float16)
    quarters = random.integers(0, 16, (k, n), dtype=np.uint32)
    packed = np.zeros((k // 8, n), np.uint32)
    for place in range(8):
        packed |= quarters[place::8] << np.uint32(4 * place)
    scale = random.random((k // group, n)).astype(np.float16)
    c = np.zeros((m, n), np.float32)

    def check() -> None:
        weights = ((quarters.astype(np.float16) - np.float16(8)) * np.repeat(scale, group, axis=0)).astype(np.float32)
        np.testing.assert_allclose(c, a.astype(np.float32) @ weights, rtol=2e-3, atol=2e-2)

    args = (a, packed.view(np.int32), scale, c, m, n, k, group, 16, 32, min(group, 64))
    grid = (triton.cdiv(m, 16), triton.cdiv(n, 32))
    return _case(Launch(matmul_int4, grid, None, args), check, a, packed, c, m * n * k)


def make_moe(*, tokens: int, experts: int, n: int, k: int, seed: int = 0) -> Case:
    require_positive(tokens=tokens, experts=experts, n=n, k=k)
    random = np.random.default_rng(seed)
    x = random.standard_normal((tokens, k)).astype(np.float16)
    weights = random.standard_normal((experts, k, n)).astype(np.float16)
    routed = random.integers(0, experts, tokens)
    rows, tile_experts = [], []
    for expert in range(experts):
        own = np.flatnonzero(routed == expert)
        padded = -(-len(own) // EXPERT_TILE) * EXPERT_TILE
        rows += [*own, *[tokens] * (padded - len(own))]
        tile_experts += [expert] * (padded // EXPERT_TILE)
    out = np.zeros((tokens, n), np.float32)

    def check() -> None:
        wanted = np.einsum("tk,tkn->tn", x.astype(np.float32), weights[routed].astype(np.float32))
        np.testing.assert_allclose(out, wanted, rtol=2e-3, atol=2e-2)

    args = (
        x,
        weights,
        np.array(rows, np.int32),
        np.array(tile_experts, np.int32),
        out,
        tokens,
        n,
        k,
        EXPERT_TILE,
        32,
        32,
    )
    grid = (len(tile_experts), triton.cdiv(n, 32))
    return _case(Launch(moe_matmul, grid, None, args), check, x, weights, out, tokens * n * k)


def make_conv2d(*, size: int, channels: int, filters: int, side: int, seed: int = 0) -> Case:
    require_positive(size=size, channels=channels, filters=filters, side=side)
    if side > size:
        raise ValueError(f"side must be at most size, {size}, not {side}")
    random = np.random.default_rng(seed)
    x = random.standard_normal((size, size, channels)).astype(np.float16)
    taps = random.standard_normal((side, side, channels, filters)).astype(np.float16)
    rest = size - side + 1
    out = np.zeros((rest, rest, filters), np.float32)

    def check() -> None:
        windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float32), (side, side), axis=(0, 1))
        np.testing.assert_allclose(
            out, np.einsum("yxcij,ijcf->yxf", windows, taps.astype(np.float32)), rtol=2e-3, atol=2e-2
        )

    args = (x, taps, out, channels, size, size, filters, rest, rest, side, 32, 32, 16)
    grid = (triton.cdiv(rest * rest, 32), triton.cdiv(filters, 32))
    launch = Launch(partial(conv2d, num_stages=2), grid, None, args)
    return _case(launch, check, x, taps, out, out.size * channels * side * side)


def _case(launch: Launch, check, a: np.ndarray, b: np.ndarray, c: np.ndarray, products: int) -> Case:
    work = {"flops": 2.0 * products, "bytes_read": float(a.nbytes + b.nbytes), "bytes_written": float(c.nbytes)}
    return Case((launch,), check, work)


_SIDES = (64, 256, 1000)
KERNELS = {
    each.name: each
    for each in (
        Kernel(
            "triton_matmul_int8",
            "integer tensor cores, a scale a row and column at the end",
            {"m": _SIDES, "n": _SIDES, "k": _SIDES, "tile": (32, 64)},
            {"m": 256, "n": 256, "k": 512, "tile": 64},
            {"m": 33, "n": 20, "k": 70, "tile": 32},
            make_int8,
        ),
        Kernel(
            "triton_matmul_int4",
            "weights of four bits unpacked on the way to the tensor cores",
            {"m": (1, 16, 64), "n": _SIDES, "k": (512, 2048), "group": (32, 128)},
            {"m": 16, "n": 256, "k": 2048, "group": 128},
            {"m": 5, "n": 40, "k": 64, "group": 32},
            make_int4,
        ),
        Kernel(
            "triton_moe_matmul",
            "rows gathered by expert, a weight matrix a tile",
            {"tokens": (16, 128, 512), "experts": (4, 8, 64), "n": (64, 256), "k": (64, 256)},
            {"tokens": 128, "experts": 8, "n": 256, "k": 256},
            {"tokens": 21, "experts": 3, "n": 40, "k": 40},
            make_moe,
        ),
        Kernel(
            "triton_conv2d",
            "a convolution as a matrix product over gathered pixels",
            {"size": (8, 16, 32), "channels": (16, 64), "filters": (16, 64), "side": (1, 3, 5)},
            {"size": 32, "channels": 64, "filters": 64, "side": 3},
            {"size": 6, "channels": 10, "filters": 9, "side": 3},
            make_conv2d,
        ),
    )
}
