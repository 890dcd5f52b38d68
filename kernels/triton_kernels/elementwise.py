"""Element by element: addition, SwiGLU, rotary embedding, dropout, gathered rows, transpose."""

from __future__ import annotations

from functools import partial

import numpy as np
import triton
import triton.language as tl

from ..case import Case, Kernel, Launch, require_positive


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    x, y = tl.load(x_ptr + place, mask=inside), tl.load(y_ptr + place, mask=inside)
    tl.store(out_ptr + place, x + y, mask=inside)


@triton.jit
def swiglu(gate_ptr, up_ptr, out_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    gate = tl.load(gate_ptr + place, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + place, mask=inside, other=0.0)
    tl.store(out_ptr + place, (gate * tl.sigmoid(gate)).to(tl.float16) * up, mask=inside)


@triton.jit
def rotary(x_ptr, cos_ptr, sin_ptr, out_ptr, heads, HALF: tl.constexpr, BLOCK: tl.constexpr):
    """A program a token and head: the first half of the head's numbers is rotated with the second."""
    token, head = tl.program_id(0), tl.program_id(1)
    place = tl.arange(0, BLOCK)
    inside = place < HALF
    base = (token * heads + head) * (2 * HALF)
    first = tl.load(x_ptr + base + place, mask=inside)
    second = tl.load(x_ptr + base + HALF + place, mask=inside)
    cos = tl.load(cos_ptr + token * HALF + place, mask=inside)
    sin = tl.load(sin_ptr + token * HALF + place, mask=inside)
    tl.store(out_ptr + base + place, first * cos - second * sin, mask=inside)
    tl.store(out_ptr + base + HALF + place, second * cos + first * sin, mask=inside)


@triton.jit
def dropout(x_ptr, out_ptr, n, probability, seed, BLOCK: tl.constexpr):
    """Which numbers stay is drawn by Philox from the seed and the place, so that backward can draw it again."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    x = tl.load(x_ptr + place, mask=inside)
    stays = tl.rand(seed, place) > probability
    tl.store(out_ptr + place, tl.where(stays, x / (1 - probability), 0.0), mask=inside)


@triton.jit
def embedding(tokens_ptr, table_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    token = tl.load(tokens_ptr + row)
    for first in range(0, columns, BLOCK):
        place = first + tl.arange(0, BLOCK)
        inside = place < columns
        tl.store(
            out_ptr + row * columns + place, tl.load(table_ptr + token * columns + place, mask=inside), mask=inside
        )


@triton.jit
def transpose(x_ptr, out_ptr, rows, columns, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    x = tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=inside)
    tl.store(out_ptr + column[:, None] * rows + row[None, :], tl.trans(x), mask=tl.trans(inside))


def philox(seed: int, place: np.ndarray) -> np.ndarray:
    """First word, uint32, of Philox 4x32 with ten rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
    2011)."""
    low = np.uint64(0xFFFFFFFF)
    words = [place.astype(np.uint64), *(np.zeros(place.shape, np.uint64) for _ in range(3))]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        b, a = np.uint64(0xCD9E8D57) * words[2], np.uint64(0xD2511F53) * words[0]
        shift = np.uint64(32)
        words = [
            (b >> shift) ^ words[1] ^ np.uint64(keys[0]),
            b & low,
            (a >> shift) ^ words[3] ^ np.uint64(keys[1]),
            a & low,
        ]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words[0].astype(np.uint32)


def make_add(*, n: int, block: int, warps: int, seed: int = 0) -> Case:
    require_positive(n=n, block=block)
    random = np.random.default_rng(seed)
    x, y, out = (random.random(n, np.float32) for _ in range(3))

    def check() -> None:
        np.testing.assert_array_equal(out, x + y)

    launch = Launch(partial(add, num_warps=warps), (triton.cdiv(n, block),), None, (x, y, out, n, block))
    return _case(launch, check, 8.0 * n, 4.0 * n, 1.0 * n)


def make_swiglu(*, n: int, block: int, warps: int, seed: int = 0) -> Case:
    require_positive(n=n, block=block)
    random = np.random.default_rng(seed)
    gate, up = (random.standard_normal(n).astype(np.float16) for _ in range(2))
    out = np.zeros_like(gate)

    def check() -> None:
        wide = gate.astype(np.float64)
        np.testing.assert_allclose(out, wide / (1 + np.exp(-wide)) * up, rtol=3e-3, atol=1e-4)

    launch = Launch(partial(swiglu, num_warps=warps), (triton.cdiv(n, block),), None, (gate, up, out, n, block))
    return _case(launch, check, 4.0 * n, 2.0 * n, 5.0 * n)


def make_rotary(*, tokens: int, heads: int, head_dim: int, seed: int = 0) -> Case:
    require_positive(tokens=tokens, heads=heads, head_dim=head_dim)
    if head_dim % 2:
        raise ValueError(f"head_dim must be even, not {head_dim}")
    half = head_dim // 2
    x = np.random.default_rng(seed).standard_normal((tokens, heads, head_dim)).astype(np.float32)
    angles = np.arange(tokens)[:, None] / 10000 ** (np.arange(half) / half)
    cos, sin, out = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32), np.zeros_like(x)

    def check() -> None:
        first, second, c, s = x[..., :half], x[..., half:], cos[:, None], sin[:, None]
        wanted = np.concatenate([first * c - second * s, second * c + first * s], axis=-1)
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5)

    args = (x, cos, sin, out, heads, half, triton.next_power_of_2(half))
    return _case(
        Launch(partial(rotary, num_warps=1), (tokens, heads), None, args),
        check,
        4.0 * x.size,
        4.0 * x.size,
        3.0 * x.size,
    )


def make_dropout(*, n: int, probability: float, block: int, seed: int = 0) -> Case:
    require_positive(n=n, block=block)
    if not 0 <= probability < 1:
        raise ValueError(f"probability must be from 0 to less than 1, not {probability}")
    x = np.random.default_rng(seed).random(n, np.float32) + 1
    out, drawn_by = np.zeros_like(x), 12345 + seed

    def check() -> None:
        signed = philox(drawn_by, np.arange(n)).view(np.int32)
        uniform = np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(4.6566127342e-10)
        stays = uniform > np.float32(probability)
        np.testing.assert_allclose(out, np.where(stays, x / (1 - probability), 0), rtol=1e-5)

    launch = Launch(dropout, (triton.cdiv(n, block),), None, (x, out, n, float(probability), drawn_by, block))
    return _case(launch, check, 4.0 * n, 4.0 * n, 2.0 * n)


def make_embedding(*, tokens: int, vocabulary: int, columns: int, seed: int = 0) -> Case:
    require_positive(tokens=tokens, vocabulary=vocabulary, columns=columns)
    random = np.random.default_rng(seed)
    table = random.standard_normal((vocabulary, columns)).astype(np.float16)
    chosen, out = random.integers(0, vocabulary, tokens), np.zeros((tokens, columns), np.float16)

    def check() -> None:
        np.testing.assert_array_equal(out, table[chosen])

    args = (chosen, table, out, columns, min(1024, triton.next_power_of_2(columns)))
    return _case(Launch(embedding, (tokens,), None, args), check, 2.0 * out.size + 8 * tokens, 2.0 * out.size, 0.0)


def make_transpose(*, rows: int, columns: int, tile: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns, tile=tile)
    x = np.random.default_rng(seed).random((rows, columns), np.float32)
    out = np.zeros((columns, rows), np.float32)

    def check() -> None:
        np.testing.assert_array_equal(out, x.T)

    grid = (triton.cdiv(rows, tile), triton.cdiv(columns, tile))
    return _case(
        Launch(transpose, grid, None, (x, out, rows, columns, tile, tile)), check, 4.0 * x.size, 4.0 * x.size, 0.0
    )


def _case(launch: Launch, check, read: float, written: float, flops: float) -> Case:
    return Case((launch,), check, {"bytes_read": read, "bytes_written": written, "flops": flops})


_FLAT = {"n": (1000, 1 << 16, 1 << 20), "block": (256, 1024, 4096), "warps": (1, 4, 8)}
_FLAT_DEFAULT = {"n": 1 << 20, "block": 1024, "warps": 4}
_FLAT_SMALL = {"n": 1000, "block": 256, "warps": 4}
KERNELS = {
    each.name: each
    for each in (
        Kernel("triton_add", "vectorised loads and stores behind a mask", _FLAT, _FLAT_DEFAULT, _FLAT_SMALL, make_add),
        Kernel(
            "triton_swiglu", "two half-precision streams, a sigmoid", _FLAT, _FLAT_DEFAULT, _FLAT_SMALL, make_swiglu
        ),
        Kernel(
            "triton_rotary",
            "a small program a token and head; two halves of a row meet",
            {"tokens": (16, 512, 2048), "heads": (8, 32), "head_dim": (64, 128)},
            {"tokens": 512, "heads": 16, "head_dim": 128},
            {"tokens": 3, "heads": 2, "head_dim": 36},
            make_rotary,
        ),
        Kernel(
            "triton_dropout",
            "ten rounds of Philox in integers for each number",
            {"n": (1000, 1 << 16, 1 << 20), "probability": (0.1, 0.5), "block": (256, 1024)},
            {"n": 1 << 20, "probability": 0.5, "block": 1024},
            {"n": 1000, "probability": 0.25, "block": 256},
            make_dropout,
        ),
        Kernel(
            "triton_embedding",
            "rows gathered by index, whole and coalesced",
            {"tokens": (16, 512, 4096), "vocabulary": (1000, 32000), "columns": (256, 1024, 4096)},
            {"tokens": 512, "vocabulary": 32000, "columns": 1024},
            {"tokens": 5, "vocabulary": 40, "columns": 150},
            make_embedding,
        ),
        Kernel(
            "triton_transpose",
            "a tile whose layout changes in shared memory",
            {"rows": (64, 1024, 4096), "columns": (64, 1000, 4096), "tile": (32, 64)},
            {"rows": 1024, "columns": 1024, "tile": 64},
            {"rows": 40, "columns": 70, "tile": 32},
            make_transpose,
        ),
    )
}
