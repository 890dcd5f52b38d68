"""A product of E4M3 with block scales on Hopper: a scale for each 128 of a row of A, and for each 128 x 128 of B
(fp8_gemm.cu)."""

from __future__ import annotations

import numpy as np

from ..case import Case, Kernel, Launch, require_choice, require_multiples, require_positive
from .source import CudaSource
from .tensor_map import TensorMap

#: Of a step along k and of both sides of a block of B that has one scale.
_BLOCK = 128
#: Rows of a warp group.
_ROWS = 64
#: Most dynamic shared memory of a block on sm_90 (CUDA programming guide, compute capabilities).
_MOST_SHARED = 232448
_MOST_STAGES = 8


def _shared_bytes(rows: int, columns: int, stages: int, steps: int) -> int:
    staged = stages * ((rows + columns) * _BLOCK + rows * 4 + 16)
    return staged + -(-rows * columns * 2 // 128) * 128 + steps * 4 * (1 if _BLOCK % columns == 0 else 2)


def _most_stages(rows: int, columns: int, steps: int) -> int:
    return max(s for s in range(1, _MOST_STAGES + 1) if _shared_bytes(rows, columns, s, steps) <= _MOST_SHARED)


def choose_tiles(m: int, n: int, k: int, blocks: int) -> dict[str, int]:
    """``rows``, ``columns``, ``stages`` and ``cluster`` for a GPU that holds ``blocks`` at once: the tile with the
    fewest waves, of those the one that fills the last wave best, of those the narrowest; as many buffers as fit; pairs
    of blocks where m is large and n deals in pairs. Source of the rules: README of github.com/deepseek-ai/DeepGEMM,
    February 2025."""
    rows = 64 if m <= 64 else 128

    def rank(columns: int) -> tuple[int, int, int]:
        tiles = -(-m // rows) * -(-n // columns)
        return -(-tiles // blocks), -((tiles - 1) % blocks), columns

    columns = min(range(16, 129, 8), key=rank)
    cluster = 2 if m >= 1024 and n % (2 * columns) == 0 and blocks % 2 == 0 else 1
    return {"rows": rows, "columns": columns, "stages": _most_stages(rows, columns, k // _BLOCK), "cluster": cluster}


def _e4m3_values() -> np.ndarray:
    """Of all 256 codes: 4 bits of exponent with a bias of 7, 3 of fraction, no infinities."""
    code = np.arange(256)
    exponent, fraction = code >> 3 & 15, code & 7
    size = np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent - 10.0))
    values = np.where(code >= 128, -size, size)
    values[[127, 255]] = np.nan
    return values.astype(np.float32)


def _bfloat16_bits(values: np.ndarray) -> np.ndarray:
    bits = values.astype(np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)


def make_fp8_gemm(
    *, m: int, n: int, k: int, rows: int, columns: int, stages: int, cluster: int, blocks: int, seed: int = 0
) -> Case:
    require_choice("rows", rows, (64, 128))
    require_choice("columns", columns, range(16, 129, 8))
    require_choice("cluster", cluster, (1, 2))
    require_positive(stages=stages, blocks=blocks)
    require_multiples(
        m=(m, rows), n=(n, 8 if cluster == 1 else columns * cluster), k=(k, _BLOCK), blocks=(blocks, cluster)
    )
    steps, wide = k // _BLOCK, -(-n // _BLOCK)
    shared_bytes = _shared_bytes(rows, columns, stages, steps)
    if stages > _MOST_STAGES or shared_bytes > _MOST_SHARED:
        raise ValueError(f"stages must be from 1 to 8 and fit in {_MOST_SHARED} bytes of shared memory, not {stages}")
    rng = np.random.default_rng(seed)
    value = _e4m3_values()
    codes = np.flatnonzero((np.abs(value) <= 4) & (value == np.round(value))).astype(np.uint8)
    # Small whole numbers and powers of two: every sum is exact in single precision, whatever its order.
    a, b = (codes[rng.integers(0, len(codes), shape, np.uint8)] for shape in ((m, k), (n, k)))
    of_a, of_b = (np.exp2(rng.integers(-2, 3, shape)).astype(np.float32) for shape in ((steps, m), (wide, steps)))
    c = np.full((m, n), 0x7FC0, np.uint16)
    maps = (
        TensorMap(a, (rows, _BLOCK)),
        TensorMap(b, (columns, _BLOCK)),
        TensorMap(of_a, (1, rows), "none"),
        TensorMap(c, (rows, columns), "none"),
    )
    kernel = CudaSource("fp8_gemm.cu", f"fp8_gemm<{rows}, {columns}, {stages}, {cluster}>")
    tiles = m // rows * -(-n // columns)
    threads = (rows // _ROWS + 1) * 128
    args = (*maps, of_b, *map(np.int32, (m, n, k)))

    def check() -> None:
        scaled_a = value[a] * np.repeat(of_a.T, _BLOCK, axis=1)
        scaled_b = value[b] * np.repeat(np.repeat(of_b, _BLOCK, axis=0)[:n], _BLOCK, axis=1)
        np.testing.assert_array_equal(c, _bfloat16_bits(scaled_a @ scaled_b.T))

    return Case(
        launches=(Launch(kernel, (min(blocks, tiles),), (threads,), args, shared_bytes),),
        check=check,
        work={
            "bytes_read": float(a.nbytes + b.nbytes + of_a.nbytes + of_b.nbytes),
            "bytes_written": float(c.nbytes),
            "flops": 2.0 * m * n * k,
        },
    )


KERNELS = {
    "cpp_fp8_gemm": Kernel(
        name="cpp_fp8_gemm",
        purpose="Hopper's product of E4M3 with block scales, added up in registers: persistent, TMA with multicast, two consumer groups",
        axes={
            "m": (64, 128, 4096),
            "n": (2112, 4096, 7168),
            "k": (512, 2048, 7168),
            "rows": (64, 128),
            "columns": (16, 64, 112, 128),
            "stages": (4, 6, 8),
            "cluster": (1, 2),
            "blocks": (132,),
        },
        default={"m": 1024, "n": 1024, "k": 512, "rows": 128, "columns": 128, "stages": 6, "cluster": 2, "blocks": 132},
        small={"m": 128, "n": 96, "k": 384, "rows": 128, "columns": 48, "stages": 2, "cluster": 2, "blocks": 2},
        make=make_fp8_gemm,
    ),
}
