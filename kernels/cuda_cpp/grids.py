"""Regular grids: a stencil that marches through space, a convolution with its filter in constant memory, a
transposition."""

from __future__ import annotations

import numpy as np

from ..case import Case, Kernel, Launch, blocks_for, require_positive
from .source import CudaSource

_TYPES = {"float32": "float", "float64": "double", "int16": "short"}


def make_stencil3d(*, nx: int, ny: int, nz: int, block: str, seed: int = 0) -> Case:
    require_positive(nx=nx, ny=ny, nz=nz)
    blocks = {"32x4": (32, 4), "32x8": (32, 8), "64x4": (64, 4)}
    if block not in blocks:
        raise ValueError(f"block must be one of {', '.join(blocks)}, not {block}")
    bx, by = blocks[block]
    x = np.random.default_rng(seed).random((nz, ny, nx), np.float32)
    out = np.full_like(x, np.nan)
    centre, side = np.float32(0.5), np.float32(1 / 12)

    def check() -> None:
        p = np.pad(x.astype(np.float64), 1)
        near = p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1]
        near += p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:]
        np.testing.assert_allclose(out, centre * p[1:-1, 1:-1, 1:-1] + side * near, rtol=1e-5)

    kernel = CudaSource("stencil3d.cu", f"stencil3d<{bx}, {by}>")
    args = (x, out, *map(np.int32, (nx, ny, nz)), centre, side)
    return Case(
        launches=(Launch(kernel, (blocks_for(nx, bx), blocks_for(ny, by)), (bx, by), args),),
        check=check,
        work={"bytes_read": float(x.nbytes), "bytes_written": float(x.nbytes), "flops": 8.0 * x.size},
    )


def make_conv2d(*, height: int, width: int, filter_size: int, per_thread: int, seed: int = 0) -> Case:
    require_positive(height=height, width=width, per_thread=per_thread)
    if filter_size % 2 == 0 or not 1 <= filter_size <= 15:
        raise ValueError(f"filter_size must be odd and at most 15, not {filter_size}")
    if per_thread > 8:
        raise ValueError(f"per_thread must be at most 8, not {per_thread}")
    rng = np.random.default_rng(seed)
    x = rng.random((height, width), np.float32)
    weights = rng.random((filter_size, filter_size), np.float32)
    out = np.full_like(x, np.nan)
    kernel = CudaSource("conv2d.cu", f"conv2d<{filter_size}, 32, 4, {per_thread}>")

    def check() -> None:
        p = np.pad(x.astype(np.float64), filter_size // 2)
        right = np.zeros((height, width))
        for i in range(filter_size):
            for j in range(filter_size):
                right += weights[i, j] * p[i : i + height, j : j + width]
        np.testing.assert_allclose(out, right, rtol=1e-5)

    args = (x, out, np.int32(height), np.int32(width), weights.tobytes())
    return Case(
        launches=(Launch(kernel, (blocks_for(width, 32), blocks_for(height, 4 * per_thread)), (32, 4), args),),
        check=check,
        work={
            "bytes_read": float(x.nbytes),
            "bytes_written": float(x.nbytes),
            "flops": 2.0 * filter_size**2 * x.size,
        },
    )


def make_transpose(*, rows: int, columns: int, dtype: str, block_rows: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns)
    if dtype not in _TYPES:
        raise ValueError(f"dtype must be one of {', '.join(_TYPES)}, not {dtype}")
    if block_rows not in (1, 2, 4, 8, 16, 32):
        raise ValueError(f"block_rows must divide 32, not {block_rows}")
    x = np.random.default_rng(seed).integers(1, 1000, (rows, columns)).astype(dtype)
    out = np.zeros((columns, rows), dtype)
    kernel = CudaSource("transpose.cu", f"transpose<{_TYPES[dtype]}>")
    grid = (blocks_for(columns, 32), blocks_for(rows, 32))
    return Case(
        launches=(Launch(kernel, grid, (32, block_rows), (x, out, np.int32(rows), np.int32(columns))),),
        check=lambda: np.testing.assert_array_equal(out, x.T),
        work={"bytes_read": float(x.nbytes), "bytes_written": float(x.nbytes)},
    )


KERNELS = {
    "cpp_stencil3d": Kernel(
        name="cpp_stencil3d",
        purpose="marches through planes: one in shared memory with its halo, two in registers",
        axes={"nx": (64, 256), "ny": (64, 256), "nz": (16, 64), "block": ("32x4", "32x8", "64x4")},
        default={"nx": 128, "ny": 128, "nz": 32, "block": "32x8"},
        small={"nx": 40, "ny": 5, "nz": 4, "block": "32x4"},
        make=make_stencil3d,
    ),
    "cpp_conv2d": Kernel(
        name="cpp_conv2d",
        purpose="an unrolled filter passed by value: FFMA with constant operands, shared-memory reads of one tile",
        axes={"height": (64, 512), "width": (64, 512), "filter_size": (3, 7, 15), "per_thread": (1, 2, 4)},
        default={"height": 256, "width": 256, "filter_size": 7, "per_thread": 4},
        small={"height": 9, "width": 40, "filter_size": 5, "per_thread": 2},
        make=make_conv2d,
    ),
    "cpp_transpose": Kernel(
        name="cpp_transpose",
        purpose="columns swizzled by exclusive or in place of padding",
        axes={
            "rows": (100, 1024, 4096),
            "columns": (100, 1024, 4096),
            "dtype": tuple(_TYPES),
            "block_rows": (4, 8, 16),
        },
        default={"rows": 1024, "columns": 1024, "dtype": "float32", "block_rows": 8},
        small={"rows": 40, "columns": 70, "dtype": "float32", "block_rows": 8},
        make=make_transpose,
    ),
}
