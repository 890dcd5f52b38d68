"""Triton kernels of the kinds that its tutorials teach, for `tools/triton_forms.py`; they are compiled, not launched.

Mental model: each kind stands for what makes its machine code different: pipelined and persistent products, descriptors
(TMA), warp specialisation, scaled products of narrow floats, attention forward and backward, locks, random numbers,
libdevice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import triton
import triton.language as tl
from triton.language.extra import libdevice


@dataclass(frozen=True)
class Kind:
    """A kernel, the types of its parameters as Triton writes them ("constexpr" for constants), their values, and
    options."""

    kernel: Any
    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)


@triton.jit
def softmax(out, x, rows, columns, pitch, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    place = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        given = tl.load(x + row * pitch + place, mask=place < columns, other=-float("inf"))
        raised = tl.exp(given - tl.max(given, axis=0))
        tl.store(out + row * pitch + place, raised / tl.sum(raised, axis=0), mask=place < columns)


@triton.jit
def dropout(out, x, n, keep, seed, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    drawn = tl.rand(seed, place)
    kept = tl.load(x + place, mask=place < n)
    tl.store(out + place, tl.where(drawn < keep, kept / keep, 0.0), mask=place < n)


@triton.jit
def arcsine(out, x, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + place, libdevice.asin(tl.load(x + place, mask=place < n)), mask=place < n)


@triton.jit
def norm(out, x, weight, bias, mean, scale, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    square = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        place = start + tl.arange(0, BLOCK)
        given = tl.load(x + row * columns + place, mask=place < columns, other=0.0).to(tl.float32)
        total += given
        square += given * given
    middle = tl.sum(total, axis=0) / columns
    factor = tl.rsqrt(tl.sum(square, axis=0) / columns - middle * middle + 1e-5)
    tl.store(mean + row, middle)
    tl.store(scale + row, factor)
    for start in range(0, columns, BLOCK):
        place = start + tl.arange(0, BLOCK)
        given = tl.load(x + row * columns + place, mask=place < columns, other=0.0).to(tl.float32)
        w, b = tl.load(weight + place, mask=place < columns), tl.load(bias + place, mask=place < columns)
        tl.store(out + row * columns + place, (given - middle) * factor * w + b, mask=place < columns)


@triton.jit
def norm_backward(dx, dy, partial, x, weight, mean, scale, locks, columns, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    held = place < columns
    given = tl.load(x + row * columns + place, mask=held, other=0.0).to(tl.float32)
    slope = tl.load(dy + row * columns + place, mask=held, other=0.0).to(tl.float32)
    w = tl.load(weight + place, mask=held, other=0.0).to(tl.float32)
    factor = tl.load(scale + row)
    centred = (given - tl.load(mean + row)) * factor
    weighted = w * slope
    both = tl.sum(centred * weighted, axis=0) / columns
    tl.store(
        dx + row * columns + place,
        (weighted - (centred * both + tl.sum(weighted, axis=0) / columns)) * factor,
        mask=held,
    )
    lock = locks + row % GROUPS
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    begun = lock + GROUPS
    sums = partial + row % GROUPS * columns + place
    step = slope * centred
    if tl.load(begun) == 0:
        tl.atomic_xchg(begun, 1)
    else:
        step += tl.load(sums, mask=held)
    tl.store(sums, step, mask=held)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def product(c, a, b, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, ACTIVATED: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    sums = tl.zeros((M, N), tl.float32)
    for i in range(0, tl.cdiv(k, K)):
        left = k - i * K
        x = tl.load(a + rows[:, None] * k + depth[None, :] + i * K, mask=depth[None, :] < left, other=0.0)
        y = tl.load(b + (depth[:, None] + i * K) * n + columns[None, :], mask=depth[:, None] < left, other=0.0)
        sums = tl.dot(x, y, sums)
    if ACTIVATED:
        sums = tl.where(sums >= 0, sums, 0.01 * sums)
    held = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], sums.to(c.dtype.element_ty), mask=held)


@triton.jit
def persistent(
    c, a, b, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, SPECIAL: tl.constexpr, FLAT: tl.constexpr
):
    of_a = tl.make_tensor_descriptor(a, [m, k], [k, 1], [M, K])
    of_b = tl.make_tensor_descriptor(b, [n, k], [k, 1], [N, K])
    of_c = tl.make_tensor_descriptor(c, [m, n], [n, 1], [M, N // 2])
    across = tl.cdiv(n, N)
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(m, M) * across, tl.num_programs(0), flatten=FLAT, warp_specialize=SPECIAL
    ):
        row, column = tile // across * M, tile % across * N
        sums = tl.zeros((M, N), tl.float32)
        for i in range(tl.cdiv(k, K)):
            sums = tl.dot(of_a.load([row, i * K]), of_b.load([column, i * K]).T, sums)
        halves = tl.permute(tl.reshape(sums, (M, 2, N // 2)), (0, 2, 1))
        one, other = tl.split(halves)
        of_c.store([row, column], one.to(c.dtype.element_ty))
        of_c.store([row, column + N // 2], other.to(c.dtype.element_ty))


@triton.jit
def grouped(pointers, sizes, groups, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    tile = tl.program_id(0)
    before = 0
    for group in range(groups):
        m, n, k = tl.load(sizes + 3 * group), tl.load(sizes + 3 * group + 1), tl.load(sizes + 3 * group + 2)
        a = tl.load(pointers + 3 * group).to(tl.pointer_type(tl.float16))
        b = tl.load(pointers + 3 * group + 1).to(tl.pointer_type(tl.float16))
        c = tl.load(pointers + 3 * group + 2).to(tl.pointer_type(tl.float16))
        across = tl.cdiv(n, N)
        tiles = tl.cdiv(m, M) * across
        of_a = tl.make_tensor_descriptor(a, [m, k], [k, 1], [M, K])
        of_b = tl.make_tensor_descriptor(b, [n, k], [k, 1], [N, K])
        of_c = tl.make_tensor_descriptor(c, [m, n], [n, 1], [M, N])
        while tile >= before and tile < before + tiles:
            row, column = (tile - before) // across * M, (tile - before) % across * N
            sums = tl.zeros((M, N), tl.float32)
            for i in range(tl.cdiv(k, K)):
                sums += tl.dot(of_a.load([row, i * K]), of_b.load([column, i * K]).T)
            of_c.store([row, column], sums.to(tl.float16))
            tile += tl.num_programs(0)
        before += tiles


@triton.jit
def attention(
    out, lse, q, k, v, factor, length, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, CAUSAL: tl.constexpr, SPECIAL: tl.constexpr
):  # fmt: skip
    head, first = tl.program_id(1) * length, tl.program_id(0) * M
    total = length * tl.num_programs(1)
    of_q = tl.make_tensor_descriptor(q, [total, D], [D, 1], [M, D])
    of_k = tl.make_tensor_descriptor(k, [total, D], [D, 1], [N, D])
    of_v = tl.make_tensor_descriptor(v, [total, D], [D, 1], [N, D])
    of_o = tl.make_tensor_descriptor(out, [total, D], [D, 1], [M, D])
    rows = first + tl.arange(0, M)
    most = tl.full([M], -float("inf"), tl.float32)
    weight = tl.full([M], 1.0, tl.float32)
    sums = tl.zeros([M, D], tl.float32)
    query = of_q.load([head + first, 0])
    last = first + M if CAUSAL else length
    for start in tl.range(0, last, N, warp_specialize=SPECIAL):
        score = tl.dot(query, of_k.load([head + start, 0]).T) * factor
        if CAUSAL:
            score += tl.where(rows[:, None] >= start + tl.arange(0, N)[None, :], 0, -1.0e6)
        higher = tl.maximum(most, tl.max(score, 1))
        p = tl.math.exp2(score - higher[:, None])
        old = tl.math.exp2(most - higher)
        weight = weight * old + tl.sum(p, 1)
        sums = tl.dot(p.to(q.dtype.element_ty), of_v.load([head + start, 0]), sums * old[:, None])
        most = higher
    tl.store(lse + head + rows, most + tl.math.log2(weight))
    of_o.store([head + first, 0], (sums / weight[:, None]).to(out.dtype.element_ty))


@triton.jit
def attention_backward(
    dk, dv, q, k, v, do, lse, delta, factor, length, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr
):
    columns, depth = tl.program_id(0) * N + tl.arange(0, N), tl.arange(0, D)
    key = tl.load(k + columns[:, None] * D + depth[None, :])
    value = tl.load(v + columns[:, None] * D + depth[None, :])
    of_k, of_v = tl.zeros([N, D], tl.float32), tl.zeros([N, D], tl.float32)
    for start in range(0, length, M):
        rows = start + tl.arange(0, M)
        turned = tl.load(q + rows[None, :] * D + depth[:, None])
        p = tl.math.exp2(tl.dot(key, turned) * factor - tl.load(lse + rows)[None, :])
        p = tl.where(rows[None, :] >= columns[:, None], p, 0.0)
        slope = tl.load(do + rows[:, None] * D + depth[None, :])
        of_v += tl.dot(p.to(tl.float16), slope)
        ds = p * (tl.dot(value, tl.trans(slope)) - tl.load(delta + rows)[None, :])
        of_k += tl.dot(ds.to(tl.float16), tl.trans(turned))
    tl.store(dv + columns[:, None] * D + depth[None, :], of_v.to(tl.float16))
    tl.store(dk + columns[:, None] * D + depth[None, :], (of_k * factor).to(tl.float16))


@triton.jit
def scaled(
    c, a, b, of_a, of_b, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr, A: tl.constexpr,
    B: tl.constexpr, A_EACH: tl.constexpr, B_EACH: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    rows, columns = tl.program_id(0) * M, tl.program_id(1) * N
    map_a = tl.make_tensor_descriptor(a, [m, k // A_EACH], [k // A_EACH, 1], [M, K // A_EACH])
    map_b = tl.make_tensor_descriptor(b, [n, k // B_EACH], [k // B_EACH, 1], [N, K // B_EACH])
    sums = tl.zeros((M, N), tl.float32)
    down, over = tl.arange(0, M // 128 * (K // GROUP // 4) * 512), tl.arange(0, N // 128 * (K // GROUP // 4) * 512)
    for i in tl.range(0, tl.cdiv(k, K), num_stages=STAGES):
        x, y = map_a.load([rows, i * (K // A_EACH)]), map_b.load([columns, i * (K // B_EACH)])
        s = tl.load(of_a + i * 512 * (K // GROUP // 4) + down).reshape(M // 128, K // GROUP // 4, 32, 4, 4)
        t = tl.load(of_b + i * 512 * (K // GROUP // 4) + over).reshape(N // 128, K // GROUP // 4, 32, 4, 4)
        s = s.trans(0, 3, 2, 1, 4).reshape(M, K // GROUP)
        t = t.trans(0, 3, 2, 1, 4).reshape(N, K // GROUP)
        sums = tl.dot_scaled(x, s, A, y.T, t, B, sums)
    place = (rows + tl.arange(0, M))[:, None] * n + (columns + tl.arange(0, N))[None, :]
    tl.store(c + place, sums.to(tl.float16))


def _signature(kernel: Any, constants: Mapping[str, Any], **types: str) -> dict[str, str]:
    return {name: "constexpr" if name in constants else types.get(name, "i32") for name in kernel.arg_names}


def _kind(kernel: Any, constants: Mapping[str, Any], options: Mapping[str, Any], **types: str) -> Kind:
    return Kind(kernel, _signature(kernel, constants, **types), constants, options)


_FLOATS = dict.fromkeys(("x", "out", "weight", "bias", "mean", "scale", "dx", "dy", "partial"), "*fp32")
_TILE = {"M": 128, "N": 128, "K": 64}
_EIGHT = {"num_warps": 8, "num_stages": 3}


def _product(kind: str, **options: int) -> Kind:
    constants = _TILE | {"ACTIVATED": True}
    return _kind(product, constants, _EIGHT | options, a=f"*{kind}", b=f"*{kind}", c="*fp16")


def _persistent(kind: str, special: bool, warps: int, columns: int = 128, result: str = "fp16") -> Kind:
    constants = {"M": 128, "N": columns, "K": 64, "SPECIAL": special, "FLAT": not special}
    options = {"num_warps": warps, "num_stages": 3}
    return _kind(persistent, constants, options, a=f"*{kind}", b=f"*{kind}", c=f"*{result}")


def _attention(kind: str, causal: bool, special: bool, depth: int = 64) -> Kind:
    constants = {"D": depth, "M": 128, "N": 64, "CAUSAL": causal, "SPECIAL": special}
    types = dict.fromkeys(("q", "k", "v", "out"), f"*{kind}") | {"lse": "*fp32", "factor": "fp32"}
    return _kind(attention, constants, {"num_warps": 4, "num_stages": 3}, **types)


def _scaled(a: str, b: str, group: int, of: str = "u8") -> Kind:
    each = {"e2m1": 2, "e4m3": 1, "e5m2": 1}
    held = {"e2m1": "*u8", "e4m3": "*fp8e4nv", "e5m2": "*fp8e5"}
    constants = {
        "M": 128, "N": 128, "K": 256 if a == b == "e2m1" else 128, "GROUP": group, "A": a, "B": b, "A_EACH": each[a],
        "B_EACH": each[b], "STAGES": 2,
    }  # fmt: skip
    return _kind(scaled, constants, {"num_warps": 4}, a=held[a], b=held[b], of_a=f"*{of}", of_b=f"*{of}", c="*fp16")


KINDS: dict[str, Kind] = {
    "softmax": _kind(softmax, {"BLOCK": 1024, "STAGES": 4}, {"num_warps": 8}, **_FLOATS),
    "dropout": _kind(dropout, {"BLOCK": 1024}, {}, keep="fp32", **_FLOATS),
    "libdevice": _kind(arcsine, {"BLOCK": 1024}, {}, **_FLOATS),
    "norm": _kind(norm, {"BLOCK": 1024}, {}, **(_FLOATS | {"x": "*fp16", "out": "*fp16"})),
    "norm_backward": _kind(norm_backward, {"BLOCK": 1024, "GROUPS": 64}, {}, locks="*i32", **_FLOATS),
    "product_fp16": _product("fp16"),
    "product_fp8": _product("fp8e5"),
    "product_fp32": _product("fp32", num_stages=2),
    "product_cluster": _product("fp16", num_ctas=2),
    "persistent_fp16": _persistent("fp16", special=False, warps=8),
    "persistent_fp8": _persistent("fp8e4nv", special=False, warps=8, result="fp8e4nv"),
    "persistent_special": _persistent("fp16", special=True, warps=4),
    "persistent_special_wide": _persistent("fp16", special=True, warps=8, columns=256),
    "grouped": _kind(grouped, _TILE, {"num_warps": 4}, pointers="*i64", sizes="*i32"),
    "attention_fp16": _attention("fp16", causal=False, special=False),
    "attention_causal": _attention("fp16", causal=True, special=False, depth=128),
    "attention_fp8": _attention("fp8e5", causal=False, special=False),
    "attention_special": _attention("fp16", causal=False, special=True),
    "attention_special_causal": _attention("fp16", causal=True, special=True, depth=128),
    "attention_backward": _kind(
        attention_backward, {"D": 64, "M": 32, "N": 128}, {"num_warps": 4, "num_stages": 3}, lse="*fp32", delta="*fp32", factor="fp32",
        **dict.fromkeys(("dk", "dv", "q", "k", "v", "do"), "*fp16"),
    ),
    "scaled_mxfp8": _scaled("e4m3", "e4m3", 32),
    "scaled_mxfp4": _scaled("e2m1", "e2m1", 32),
    "scaled_nvfp4": _scaled("e2m1", "e2m1", 16, "fp8e4nv"),
    "scaled_mixed": _scaled("e4m3", "e2m1", 32),
}  # fmt: skip
