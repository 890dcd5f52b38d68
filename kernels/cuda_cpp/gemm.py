"""Matrix products: single precision from registers, tensor cores fed by cp.async and ldmatrix, bytes, four-bit
weights."""

from __future__ import annotations

import numpy as np

from ..case import Case, Kernel, Launch, blocks_for, require_multiples, require_positive
from .source import CudaSource

#: Rows, columns and depth of a block's tile, results a thread.
SGEMM_TILES = {"32x32x8": (32, 32, 8, 4, 4), "64x64x8": (64, 64, 8, 8, 4), "128x128x8": (128, 128, 8, 8, 8)}
#: Rows, columns and depth of a block's tile, warps down and across.
HGEMM_TILES = {"32x32x32": (32, 32, 32, 2, 2), "64x64x32": (64, 64, 32, 2, 2), "128x128x32": (128, 128, 32, 2, 4)}


def _tile(tiles: dict[str, tuple[int, ...]], name: str) -> tuple[int, ...]:
    if name not in tiles:
        raise ValueError(f"tile must be one of {', '.join(tiles)}, not {name}")
    return tiles[name]


def make_sgemm(*, m: int, n: int, k: int, tile: str, seed: int = 0) -> Case:
    bm, bn, bk, tm, tn = _tile(SGEMM_TILES, tile)
    require_multiples(m=(m, bm), n=(n, bn), k=(k, bk))
    rng = np.random.default_rng(seed)
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    c = np.zeros((m, n), np.float32)
    kernel = CudaSource("sgemm.cu", f"sgemm<{bm}, {bn}, {bk}, {tm}, {tn}>")
    args = (a, b, c, *map(np.int32, (m, n, k)))
    return Case(
        launches=(Launch(kernel, (n // bn, m // bm), (bm // tm * (bn // tn),), args),),
        check=lambda: np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-4),
        work={"bytes_read": float(a.nbytes + b.nbytes), "bytes_written": float(c.nbytes), "flops": 2.0 * m * n * k},
    )


def make_hgemm(*, m: int, n: int, k: int, tile: str, stages: int, seed: int = 0) -> Case:
    bm, bn, bk, down, across = _tile(HGEMM_TILES, tile)
    require_multiples(m=(m, bm), n=(n, bn), k=(k, bk))
    if not 2 <= stages <= 5:
        raise ValueError(f"stages must be from 2 to 5, not {stages}")
    rng = np.random.default_rng(seed)
    a, b = ((rng.random(shape) - 0.5).astype(np.float16) for shape in ((m, k), (n, k)))
    c = np.full((m, n), np.nan, np.float32)
    kernel = CudaSource("hgemm.cu", f"hgemm<{bm}, {bn}, {bk}, {stages}, {down}, {across}>")
    args = (a, b, c, *map(np.int32, (m, n, k)))
    shared_bytes = 2 * stages * (bm + bn) * (bk + 8)
    right = a.astype(np.float64) @ b.astype(np.float64).T
    return Case(
        launches=(Launch(kernel, (n // bn, m // bm), (32 * down * across,), args, shared_bytes),),
        check=lambda: np.testing.assert_allclose(c, right, rtol=1e-3, atol=2e-4 * k**0.5),
        work={"bytes_read": float(a.nbytes + b.nbytes), "bytes_written": float(c.nbytes), "flops": 2.0 * m * n * k},
    )


def make_igemm(*, m: int, n: int, k: int, columns: int, warps: int, seed: int = 0) -> Case:
    require_positive(columns=columns, warps=warps)
    require_multiples(m=(m, 16), n=(n, 8 * columns), k=(k, 32))
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (n, k)))
    c = np.full((m, n), -1, np.int32)
    kernel = CudaSource("igemm.cu", f"igemm<{columns}>")
    grid = (n // (8 * columns), blocks_for(m, 16 * warps))
    right = a.astype(np.int64) @ b.astype(np.int64).T
    return Case(
        launches=(Launch(kernel, grid, (32 * warps,), (a, b, c, *map(np.int32, (m, n, k)))),),
        check=lambda: np.testing.assert_array_equal(c, right),
        work={"bytes_read": float(a.nbytes + b.nbytes), "bytes_written": float(c.nbytes), "flops": 2.0 * m * n * k},
    )


def make_w4a16(*, m: int, n: int, k: int, group: int, warps: int, seed: int = 0) -> Case:
    require_positive(warps=warps)
    require_multiples(group=(group, 16), m=(m, 16), n=(n, 8), k=(k, group))
    rng = np.random.default_rng(seed)
    x = (rng.random((m, k)) - 0.5).astype(np.float16)
    weights = rng.integers(0, 16, (n, k)).astype(np.uint32)
    scales = (rng.random((n, k // group)) * 0.1 + 0.01).astype(np.float16)
    order = np.array([0, 2, 4, 6, 1, 3, 5, 7])
    words = (weights.reshape(n, k // 8, 8)[:, :, order] << (4 * np.arange(8, dtype=np.uint32))).sum(-1, dtype=np.uint32)
    c = np.full((m, n), np.nan, np.float32)
    halves = ((weights.astype(np.int32) - 8).astype(np.float16) * np.repeat(scales, group, axis=1)).astype(np.float64)
    right = x.astype(np.float64) @ halves.T
    kernel = CudaSource("gemm_w4a16.cu", f"gemm_w4a16<{group}>")
    args = (x, words, scales, c, *map(np.int32, (m, n, k)))
    return Case(
        launches=(Launch(kernel, (blocks_for(n, 8 * warps), m // 16), (32 * warps,), args),),
        check=lambda: np.testing.assert_allclose(c, right, rtol=1e-3, atol=2e-4 * k**0.5),
        work={
            "bytes_read": float(x.nbytes + words.nbytes + scales.nbytes),
            "bytes_written": float(c.nbytes),
            "flops": 2.0 * m * n * k,
        },
    )


KERNELS = {
    "cpp_sgemm": Kernel(
        name="cpp_sgemm",
        purpose="templated SGEMM: register tiles, 128-bit loads, two buffers in shared memory",
        axes={"m": (128, 512, 2048), "n": (128, 512, 2048), "k": (64, 512, 2048), "tile": tuple(SGEMM_TILES)},
        default={"m": 512, "n": 512, "k": 256, "tile": "64x64x8"},
        small={"m": 64, "n": 32, "k": 16, "tile": "32x32x8"},
        make=make_sgemm,
    ),
    "cpp_hgemm": Kernel(
        name="cpp_hgemm",
        purpose="tensor cores: a pipeline of cp.async tiles, ldmatrix, mma.m16n8k16",
        axes={
            "m": (128, 512, 2048),
            "n": (128, 512, 2048),
            "k": (128, 512, 2048),
            "tile": tuple(HGEMM_TILES),
            "stages": (2, 3, 4),
        },
        default={"m": 512, "n": 512, "k": 512, "tile": "64x64x32", "stages": 3},
        small={"m": 32, "n": 64, "k": 96, "tile": "32x32x32", "stages": 3},
        make=make_hgemm,
    ),
    "cpp_igemm": Kernel(
        name="cpp_igemm",
        purpose="tensor cores on bytes, fragments from L1",
        axes={"m": (64, 512), "n": (64, 512), "k": (64, 512), "columns": (1, 2, 4), "warps": (1, 4)},
        default={"m": 256, "n": 256, "k": 256, "columns": 4, "warps": 4},
        small={"m": 32, "n": 32, "k": 64, "columns": 2, "warps": 1},
        make=make_igemm,
    ),
    "cpp_gemm_w4a16": Kernel(
        name="cpp_gemm_w4a16",
        purpose="four-bit weights: LOP3 and HSUB2 make halves of nibbles for the tensor cores",
        axes={"m": (16, 64), "n": (512, 4096), "k": (512, 4096), "group": (64, 128), "warps": (1, 4)},
        default={"m": 16, "n": 1024, "k": 1024, "group": 128, "warps": 4},
        small={"m": 16, "n": 24, "k": 128, "group": 64, "warps": 2},
        make=make_w4a16,
    ),
}
