"""A product of 4-bit floats on Blackwell, with a scale for each 16 along k of a row (nvf4_gemm.cu)."""

from __future__ import annotations

import numpy as np

from ..case import Case, Kernel, Launch, require_multiples, require_positive
from .source import CudaSource
from .tensor_map import TensorMap

#: Rows and columns of a tile, rows of a warp; elements of a step along k, bytes of a row of it, elements that share a
#: scale.
_TILE, _WARP_ROWS, _DEPTH, _ROW_BYTES, _GROUP = 128, 32, 256, 128, 16
_THREADS = 192
#: Bytes of a step's scales of 128 rows, and those from which four warps store, two panels each.
_SCALES, _PANELS = _TILE * _DEPTH // _GROUP, 4 * 2 * _WARP_ROWS * 128
#: Most dynamic shared memory of a block on sm_100 (CUDA programming guide, compute capabilities), less what the kernel
#: has itself.
_MOST_SHARED = 232448 - 1024
#: Of the eight codes without a sign (Open Compute Project, Microscaling Formats 1.0: E2M1).
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def _e2m1_values() -> np.ndarray:
    """Of all 16 codes."""
    return np.array([*_E2M1, *(-value for value in _E2M1)], np.float32)


def _as_taken(scales: np.ndarray) -> np.ndarray:
    """uint8[rows / 128, k / 64, 32, 4, 4] of [rows, k / 16]: 16 bytes are rows l, l + 32, l + 64, l + 96, four along k
    of each."""
    rows, groups = scales.shape
    return np.ascontiguousarray(scales.reshape(rows // _TILE, 4, 32, groups // 4, 4).transpose(0, 3, 2, 1, 4))


def make_nvf4_gemm(*, m: int, n: int, k: int, stages: int, blocks: int, seed: int = 0) -> Case:
    require_positive(stages=stages, blocks=blocks)
    require_multiples(m=(m, _TILE), n=(n, _TILE), k=(k, _DEPTH))
    shared_bytes = stages * 2 * (_TILE * _ROW_BYTES + _SCALES) + _PANELS
    if stages > 8 or shared_bytes > _MOST_SHARED:
        raise ValueError(f"stages must be from 1 to 8 and fit in {_MOST_SHARED} bytes of shared memory, not {stages}")
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 256, (rows, k // 2), np.uint8) for rows in (m, n))
    # Powers of two: every sum is exact in single precision, whatever its order.
    powers_a, powers_b = (rng.integers(-2, 2, (rows, k // _GROUP)) for rows in (m, n))
    c = np.full((m, n), np.nan, np.float16)
    maps = (
        TensorMap(a, (_TILE, _ROW_BYTES)),
        TensorMap(b, (_TILE, _ROW_BYTES)),
        TensorMap(c, (_WARP_ROWS, 64)),
    )
    # E4M3 has four bits of exponent with a bias of 7 above three of fraction.
    scales = tuple(_as_taken((powers + 7 << 3).astype(np.uint8)) for powers in (powers_a, powers_b))
    kernel = CudaSource("nvf4_gemm.cu", f"nvf4_gemm<{stages}>")

    def check() -> None:
        value = _e2m1_values()
        left, right = (
            np.stack([value[codes & 15], value[codes >> 4]], axis=2).reshape(len(codes), k)
            * np.repeat(np.exp2(powers, dtype=np.float32), _GROUP, axis=1)
            for codes, powers in ((a, powers_a), (b, powers_b))
        )
        np.testing.assert_array_equal(c, (left @ right.T).astype(np.float16))

    args = (*maps, *scales, *map(np.int32, (m, n, k)))
    return Case(
        launches=(Launch(kernel, (min(blocks, m // _TILE * (n // _TILE)),), (_THREADS,), args, shared_bytes),),
        check=check,
        work={
            "bytes_read": float(a.nbytes + b.nbytes + sum(each.nbytes for each in scales)),
            "bytes_written": float(c.nbytes),
            "flops": 2.0 * m * n * k,
        },
    )


KERNELS = {
    "cpp_nvf4_gemm": Kernel(
        name="cpp_nvf4_gemm",
        purpose="a product of 4-bit floats with a scale for each 16 along k on Blackwell: TMA, scales in tensor memory",
        axes={
            "m": (128, 2048, 8192),
            "n": (128, 2048, 8192),
            "k": (1024, 4096, 8192),
            "stages": (2, 3, 4, 5),
            "blocks": (148,),
        },
        default={"m": 2048, "n": 2048, "k": 1024, "stages": 4, "blocks": 148},
        small={"m": 128, "n": 384, "k": 768, "stages": 2, "blocks": 1},
        make=make_nvf4_gemm,
    ),
}
