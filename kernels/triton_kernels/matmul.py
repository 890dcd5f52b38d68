"""Matrix products on tensor cores: autotuned, split over k, persistent, several in one launch."""

from __future__ import annotations

from functools import partial

import numpy as np
import triton
import triton.language as tl

from ..case import Case, Kernel, Launch, require_positive


@triton.jit
def tile_product(
    a_ptr,
    b_ptr,
    row,
    column,
    m,
    n,
    k,
    first,
    last,
    stride_a,
    stride_b,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
):
    """Rows ``row`` of a times columns ``column`` of b over k from ``first`` to before ``last``, in single precision."""
    inner = tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for start in range(first, last, K):
        depth = start + inner
        a = tl.load(
            a_ptr + row[:, None] * stride_a + depth[None, :], mask=(row[:, None] < m) & (depth[None, :] < k), other=0.0
        )
        b = tl.load(
            b_ptr + depth[:, None] * stride_b + column[None, :],
            mask=(depth[:, None] < k) & (column[None, :] < n),
            other=0.0,
        )
        total = tl.dot(a, b, total)
    return total


@triton.jit
def tile_of(program, m, n, M: tl.constexpr, N: tl.constexpr, GROUP: tl.constexpr):
    """(tile row, tile column) of a program; GROUP rows of tiles share what L2 holds of b."""
    tiles_m, tiles_n = tl.cdiv(m, M), tl.cdiv(n, N)
    group = program // (GROUP * tiles_n)
    rows = min(tiles_m - group * GROUP, GROUP)
    within = program % (GROUP * tiles_n)
    return group * GROUP + within % rows, within // rows


@triton.autotune(
    configs=[
        triton.Config({"M": m, "N": n, "K": k, "GROUP": 4}, num_warps=warps, num_stages=stages)
        for m, n, k, warps, stages in ((32, 32, 32, 2, 2), (32, 64, 32, 4, 3), (64, 64, 32, 4, 3))
    ],
    key=["m", "n", "k"],
)
@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, m, n, k, stride_a, stride_b, stride_c, slope,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """c = leaky ReLU of a b."""
    tile_m, tile_n = tile_of(tl.program_id(0), m, n, M, N, GROUP)
    row, column = tile_m * M + tl.arange(0, M), tile_n * N + tl.arange(0, N)
    c = tile_product(a_ptr, b_ptr, row, column, m, n, k, 0, k, stride_a, stride_b, M, N, K)
    c = tl.where(c >= 0, c, slope * c).to(tl.float16)
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c_ptr + row[:, None] * stride_c + column[None, :], c, mask=inside)


@triton.jit
def matmul_split_k(a_ptr, b_ptr, c_ptr, m, n, k, depth, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Each program of an output tile takes ``depth`` of k and adds its share by atomics."""
    row, column = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    first = tl.program_id(2) * depth
    c = tile_product(a_ptr, b_ptr, row, column, m, n, k, first, min(first + depth, k), k, n, M, N, K)
    tl.atomic_add(c_ptr + row[:, None] * n + column[None, :], c, mask=(row[:, None] < m) & (column[None, :] < n))


@triton.jit
def matmul_persistent(
    a_ptr, b_ptr, c_ptr, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr
):
    """A program takes one output tile after another until none is left."""
    tiles = tl.cdiv(m, M) * tl.cdiv(n, N)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, m, n, M, N, GROUP)
        row, column = tile_m * M + tl.arange(0, M), tile_n * N + tl.arange(0, N)
        c = tile_product(a_ptr, b_ptr, row, column, m, n, k, 0, k, k, n, M, N, K).to(tl.float16)
        tl.store(c_ptr + row[:, None] * n + column[None, :], c, mask=(row[:, None] < m) & (column[None, :] < n))


@triton.jit
def grouped_matmul(a_ptr, b_ptr, c_ptr, sizes_ptr, problems, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Products of several sizes: ``sizes`` has m, n, k and the first elements of a, b and c of each. Programs take
    tiles of all."""
    tile, before = tl.program_id(0), 0
    for problem in range(problems):
        m, n, k = (
            tl.load(sizes_ptr + 6 * problem),
            tl.load(sizes_ptr + 6 * problem + 1),
            tl.load(sizes_ptr + 6 * problem + 2),
        )
        a, b, c = (
            a_ptr + tl.load(sizes_ptr + 6 * problem + 3),
            b_ptr + tl.load(sizes_ptr + 6 * problem + 4),
            c_ptr + tl.load(sizes_ptr + 6 * problem + 5),
        )
        tiles_n = tl.cdiv(n, N)
        tiles = tl.cdiv(m, M) * tiles_n
        while tile < before + tiles:
            own = tile - before
            row, column = (own // tiles_n) * M + tl.arange(0, M), (own % tiles_n) * N + tl.arange(0, N)
            product = tile_product(a, b, row, column, m, n, k, 0, k, k, n, M, N, K).to(tl.float16)
            tl.store(c + row[:, None] * n + column[None, :], product, mask=(row[:, None] < m) & (column[None, :] < n))
            tile += tl.num_programs(0)
        before += tiles


def _operands(m: int, n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    require_positive(m=m, n=n, k=k)
    random = np.random.default_rng(seed)
    return random.standard_normal((m, k)).astype(np.float16), random.standard_normal((k, n)).astype(np.float16)


def _close(c: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(c, wanted, rtol=5e-3, atol=5e-2)


def _work(m: int, n: int, k: int, c: np.ndarray) -> dict[str, float]:
    return {"flops": 2.0 * m * n * k, "bytes_read": 2.0 * (m * k + k * n), "bytes_written": float(c.nbytes)}


def make_matmul(*, m: int, n: int, k: int, seed: int = 0) -> Case:
    a, b = _operands(m, n, k, seed)
    c = np.zeros((m, n), np.float16)

    def check() -> None:
        wanted = a.astype(np.float32) @ b.astype(np.float32)
        _close(c, np.where(wanted >= 0, wanted, 0.01 * wanted))

    def grid(meta):
        return (triton.cdiv(m, meta["M"]) * triton.cdiv(n, meta["N"]),)

    return Case((Launch(matmul, grid, None, (a, b, c, m, n, k, k, n, n, 0.01)),), check, _work(m, n, k, c))


def make_split_k(*, m: int, n: int, k: int, splits: int, seed: int = 0) -> Case:
    a, b = _operands(m, n, k, seed)
    require_positive(splits=splits)
    c = np.zeros((m, n), np.float32)

    def check() -> None:
        _close(c, a.astype(np.float32) @ b.astype(np.float32))

    depth = 32 * triton.cdiv(triton.cdiv(k, splits), 32)
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32), triton.cdiv(k, depth))
    return Case((Launch(matmul_split_k, grid, None, (a, b, c, m, n, k, depth, 32, 32, 32)),), check, _work(m, n, k, c))


def make_persistent(*, m: int, n: int, k: int, programs: int, tile: int, seed: int = 0) -> Case:
    a, b = _operands(m, n, k, seed)
    require_positive(programs=programs, tile=tile)
    c = np.zeros((m, n), np.float16)

    def check() -> None:
        _close(c, a.astype(np.float32) @ b.astype(np.float32))

    launch = Launch(partial(matmul_persistent, num_stages=3), (programs,), None, (a, b, c, m, n, k, tile, tile, 32, 4))
    return Case((launch,), check, _work(m, n, k, c))


def make_grouped(*, problems: int, rows: int, columns: int, depth: int, programs: int, seed: int = 0) -> Case:
    require_positive(problems=problems, rows=rows, columns=columns, depth=depth, programs=programs)
    random = np.random.default_rng(seed)
    shapes = [(int(random.integers(1, rows + 1)), columns, depth) for _ in range(problems)]
    pairs = [_operands(*shape, seed + i) for i, shape in enumerate(shapes)]
    a, b = (np.concatenate([pair[side].ravel() for pair in pairs]) for side in (0, 1))
    c, sizes, starts = np.zeros(sum(m * n for m, n, _ in shapes), np.float16), [], [0, 0, 0]
    for m, n, k in shapes:
        sizes.append([m, n, k, *starts])
        starts = [starts[0] + m * k, starts[1] + k * n, starts[2] + m * n]

    def check() -> None:
        wanted = [(left.astype(np.float32) @ right.astype(np.float32)).ravel() for left, right in pairs]
        _close(c, np.concatenate(wanted))

    args = (a, b, c, np.array(sizes, np.int32), problems, 32, 32, 32)
    flops = 2.0 * sum(m * n * k for m, n, k in shapes)
    work = {"flops": flops, "bytes_read": float(a.nbytes + b.nbytes), "bytes_written": float(c.nbytes)}
    return Case((Launch(grouped_matmul, (programs,), None, args),), check, work)


_SIDES = (64, 256, 1000, 2048)
KERNELS = {
    each.name: each
    for each in (
        Kernel(
            "triton_matmul",
            "autotuned over tiles, warps and stages; half precision into single on tensor cores, a pipeline of asynchronous copies",
            {"m": _SIDES, "n": _SIDES, "k": _SIDES},
            {"m": 256, "n": 256, "k": 256},
            {"m": 40, "n": 33, "k": 50},
            make_matmul,
        ),
        Kernel(
            "triton_matmul_split_k",
            "programs share an output tile and meet by atomics",
            {"m": (16, 64, 256), "n": _SIDES, "k": (512, 4096), "splits": (1, 4, 16)},
            {"m": 64, "n": 256, "k": 4096, "splits": 8},
            {"m": 17, "n": 40, "k": 100, "splits": 2},
            make_split_k,
        ),
        Kernel(
            "triton_matmul_persistent",
            "a fixed number of programs that take tiles in turn",
            {"m": _SIDES, "n": _SIDES, "k": _SIDES, "programs": (64, 108, 132), "tile": (32, 64)},
            {"m": 512, "n": 512, "k": 256, "programs": 108, "tile": 64},
            {"m": 40, "n": 70, "k": 40, "programs": 2, "tile": 32},
            make_persistent,
        ),
        Kernel(
            "triton_grouped_matmul",
            "products of several sizes in one launch, their places read from memory",
            {"problems": (2, 8), "rows": (32, 256), "columns": (64, 256), "depth": (64, 256), "programs": (64, 108)},
            {"problems": 8, "rows": 256, "columns": 256, "depth": 256, "programs": 108},
            {"problems": 2, "rows": 40, "columns": 32, "depth": 32, "programs": 2},
            make_grouped,
        ),
    )
}
