"""Ladders of products and of attention, a tuned convolution, rows of a Triton library, and products with block scales.

Mental model: a family takes a row's columns and gives a :class:`Timed` (:mod:`workloads.external.launches`), or a
launch of the suite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kernels.case import Case
from kernels.cuda_cpp.hopper_fp8 import choose_tiles
from workloads.external.fp8_loop import operators_around

from .launches import HERE, CudaKernel, Row, SuiteLaunch, Timed

#: Casts to E4M3, sixteen elements a thread, four a load, as PyTorch's element-wise kernels go: ``(from, to, fours)``.
CAST = CudaKernel(HERE / "cast.cu", "cast")
_CAST_THREADS, _CAST_EACH = 128, 16
_CONVOLUTION = ("block_size_x", "block_size_y", "tile_size_x", "tile_size_y", "read_only", "use_padding")
_IMAGE, _FILTER = 4096, 15


def convolution(row: Row, checkout: Path | None = None) -> Timed:
    """The tuned convolution; from a checkout its own file, with every parameter as a macro, as the autotuner passes
    it."""
    bx, by, tx, ty, read_only, padding = (int(row[name]) for name in _CONVOLUTION)
    side = _IMAGE + _FILTER // 2 * 2

    def arguments(depth: int | None) -> tuple:
        output, image = np.zeros((_IMAGE, _IMAGE), np.float32), np.zeros((side, side), np.float32)
        return (output, image) if checkout is None else (output, image, None)

    if checkout is None:
        options: tuple[str, ...] = ()
        flags = ", ".join("true" if each else "false" for each in (read_only, padding))
        kernel = CudaKernel(HERE / "convolution.cu", f"convolution<{bx}, {by}, {tx}, {ty}, {flags}>")
    else:
        macros = {name: row[name] for name in _CONVOLUTION}
        macros |= {"use_shmem": 1, "use_cmem": 1, "filter_height": _FILTER, "filter_width": _FILTER}
        options = (*(f"-D{name}={value}" for name, value in macros.items()), "-std=c++11")
        kernel = CudaKernel(checkout / "convolution_milo.cu", "convolution_kernel", options)
    grid = (-(-_IMAGE // (bx * tx)), -(-_IMAGE // (by * ty)))
    return Timed(kernel, grid, (bx, by), arguments, (kernel.source,), options, cut_axis=1)


#: Rung -> entry, rows and columns of a block's tile, threads, and the axis of the grid that is the slower one.
_RUNGS = {
    "1": ("naive", 32, (32, 32), 32),
    "2": ("coalesced", 32, (1024,), 32),
    "3": ("shared_tiles", 32, (1024,), 32),
    "6": ("vectorised", 128, (256,), 8),
}


def sgemm_ladder(row: Row, checkout: Path | None = None) -> Timed:
    """A rung of the ladder of square products."""
    entry, tile, block, step = _RUNGS[str(row["rung"])]
    size = int(row["size"])

    def arguments(depth: int | None) -> tuple:
        a, b, c = (np.zeros((size, size), np.float32) for _ in range(3))
        return size, size if depth is None else depth, np.float32(0.5), a, b, np.float32(3.0), c

    kernel = CudaKernel(HERE / "sgemm_ladder.cu", entry)
    grid = (size // tile, size // tile)
    return Timed(kernel, grid, block, arguments, (kernel.source,), cut_axis=1, depth=size, depth_step=step)


#: Rung of the ladder of tensor-core products -> entry, rows and columns of a block's tile, whether B lies transposed.
_TENSOR_RUNGS = {
    "1.0": ("naive<1>", 32, False),
    "1.1": ("naive<2>", 64, False),
    "2.0": ("permuted<false>", 64, True),
    "2.1": ("permuted<true>", 64, True),
    "3.0": ("staged<2>", 64, True),
    "3.1": ("staged<4>", 128, True),
}


def mma_ladder(row: Row, checkout: Path | None = None) -> Timed:
    """A rung of the ladder of square products in half precision with single-precision sums."""
    entry, tile, _ = _TENSOR_RUNGS[str(row["rung"])]
    size = int(row["size"])

    def arguments(depth: int | None) -> tuple:
        a, b = (np.zeros((size, size), np.float16) for _ in range(2))
        return a, b, np.zeros((size, size), np.float32), size, size if depth is None else depth

    kernel = CudaKernel(HERE / "mma_ladder.cu", entry)
    grid = (size // tile, size // tile)
    return Timed(kernel, grid, (16, 16), arguments, (kernel.source,), cut_axis=1, depth=size, depth_step=32)


#: Step of the ablation of tensor-core products -> rows and columns of a warp's tile, slabs in shared memory, vectors of
#: 16 bytes, exchanged pieces.
_STEPS = {
    "base": (32, 32, 1, False, False),
    "swizzle": (32, 32, 1, False, True),
    "vectors": (32, 32, 1, True, True),
    "pipeline": (32, 32, 2, True, True),
    "warp tile": (64, 64, 2, True, True),
}
_STEP_TILE, _STEP_SLAB = 128, 32


def mma_steps(row: Row, checkout: Path | None = None) -> Timed:
    """A step of the ablation of a square product in half precision with single-precision sums."""
    rows, columns, stages, vectors, exchanged = _STEPS[str(row["step"])]
    size = int(row["size"])

    def arguments(depth: int | None) -> tuple:
        a, b = (np.zeros((size, size), np.float16) for _ in range(2))
        return a, b, np.zeros((size, size), np.float32), size, size if depth is None else depth

    flags = ", ".join("true" if each else "false" for each in (vectors, exchanged))
    kernel = CudaKernel(HERE / "mma_steps.cu", f"steps<{rows}, {columns}, {stages}, {flags}>")
    grid = (size // _STEP_TILE, size // _STEP_TILE)
    threads = (_STEP_TILE // rows) * (_STEP_TILE // columns) * 32
    return Timed(kernel, grid, (threads,), arguments, (kernel.source,), cut_axis=1, depth=size, depth_step=_STEP_SLAB)


#: Rung of the ladder of attention -> queries of a block, keys of a step, exchanged pieces, how keys and values are
#: loaded, four fragments a load, keys' and values' buffers.
_ATTENTION_RUNGS = {
    "v1": (128, 64, False, 0, False, 2),
    "v2": (64, 64, True, 0, False, 2),
    "v3": (64, 32, True, 1, False, 4),
    "v4": (64, 32, True, 1, True, 4),
    "v5": (64, 64, True, 2, True, 3),
}
_ATTENTION_WIDE, _ATTENTION_THREADS = 128, 128


def attention_ladder(row: Row, checkout: Path | None = None) -> Timed:
    """A rung of attention over ``heads`` (of all sequences), ``queries`` and ``keys`` a head, without a mask; what it
    sums over are the keys. Arrays hold the bits of bfloat16, which NumPy lacks."""
    high, step, exchanged, loads, four, buffers = _ATTENTION_RUNGS[str(row["rung"])]
    heads, queries, keys = (int(row[name]) for name in ("heads", "queries", "keys"))

    def arguments(depth: int | None) -> tuple:
        shapes = ((heads, count, _ATTENTION_WIDE) for count in (queries, keys, keys, queries))
        return *(np.zeros(shape, np.uint16) for shape in shapes), queries, keys, depth or keys

    flags = [str(flag).lower() for flag in (exchanged, four)]
    kernel = CudaKernel(HERE / "attention.cu", f"attention<{high}, {step}, {flags[0]}, {loads}, {flags[1]}>")
    grid = (heads * -(-queries // high), 1)
    return Timed(
        kernel, grid, (_ATTENTION_THREADS,), arguments, (kernel.source,), cut_axis=0, depth=keys, depth_step=step,
        product=True, shared_bytes=buffers * step * _ATTENTION_WIDE * 2,
    )  # fmt: skip


def _warps_of_a_row(block: int) -> int:
    """As the library sets them: more for longer rows."""
    return 32 if block >= 32768 else 16 if block >= 8192 else 8 if block >= 2048 else 4


def triton_rows(row: Row, checkout: Path | None = None) -> Timed:
    """A forward kernel of the Triton library. Imported here: Triton is an extra, and large."""
    import ml_dtypes
    import triton

    from . import rows_triton

    name, rows, columns = str(row["kernel"]), int(row["rows"]), int(row["columns"])
    kind = np.dtype(np.float32 if row["dtype"] == "float32" else ml_dtypes.bfloat16)
    block = triton.next_power_of_2(columns)
    norm_warps = _warps_of_a_row(block)

    def rms_norm(depth: int | None) -> tuple:
        x, y, weight = np.zeros((rows, columns), kind), np.zeros((rows, columns), kind), np.zeros(columns, kind)
        return y, columns, x, columns, weight, np.zeros(rows, np.float32), columns, 1e-6, 0.0, block

    def layer_norm(depth: int | None) -> tuple:
        x, y, weight, bias = (np.zeros(shape, kind) for shape in ((rows, columns), (rows, columns), columns, columns))
        return y, columns, x, columns, weight, bias, np.zeros(rows, kind), np.zeros(rows, kind), columns, 1e-6, block

    def embedding(depth: int | None) -> tuple:
        vocabulary = int(row["vocabulary"])
        index = np.random.default_rng(0).integers(0, vocabulary, rows, dtype=np.int64)
        return np.zeros((vocabulary, columns), kind), index, np.zeros((rows, columns), kind), rows, columns, *tile

    def rope(depth: int | None) -> tuple:
        heads, shared_heads = 32, 8
        width = columns // heads
        q, k = np.zeros((rows, heads, width), kind), np.zeros((rows, shared_heads, width), kind)
        cos, sin = np.zeros((rows, width), kind), np.zeros((rows, width), kind)
        padded = tuple(map(triton.next_power_of_2, (heads, shared_heads, width)))
        sizes = (q, heads * width, k, shared_heads * width, cos, width, sin, width, rows)
        return *sizes, heads, shared_heads, width, *padded

    tile = tuple(triton.next_power_of_2(min(128, columns)) for _ in range(2))
    entries: dict[str, tuple[Any, Callable, tuple[int, ...], int]] = {
        "rms_norm": (rows_triton.rms_norm, rms_norm, (rows,), norm_warps),
        "layer_norm": (rows_triton.layer_norm, layer_norm, (rows,), norm_warps),
        "embedding": (rows_triton.embedding, embedding, (-(-rows // tile[0]), -(-columns // tile[1])), 4),
        "rope": (rows_triton.rope, rope, (rows,), 4),
    }
    kernel, arguments, grid, warps = entries[name]
    return Timed(
        partial(kernel, num_warps=warps), grid, None, arguments, (HERE / "rows_triton.py",), (f"num_warps={warps}",)
    )


def scaled_products(row: Row, checkout: Path | None = None) -> SuiteLaunch:
    """A product of E4M3 with block scales, by the suite's own kernel, with the tile that the measured library's rules
    choose."""
    m, n, k = (int(row[name]) for name in "mnk")
    folder = HERE.parents[1] / "kernels" / "cuda_cpp"

    def shape(sm_count: int) -> dict[str, int]:
        return {"m": m, "n": n, "k": k, "blocks": sm_count} | choose_tiles(m, n, k, sm_count)

    sources = tuple(folder / name for name in ("fp8_gemm.cu", "hopper_fp8.py", "wgmma.cuh", "hopper.cuh"))
    sources += (HERE / "cast.cu", HERE / "fp8_loop.py", Path(__file__))
    return SuiteLaunch(
        "cpp_fp8_gemm", shape, sources, before=cast_of_b, around=operators_around(m, n, k),
    )  # fmt: skip


def cast_of_b(case: Case) -> Timed:
    """The last large launch in front of a product of :func:`scaled_products`: B cast from single precision, as the
    measured program does for each repetition."""
    b = case.launches[0].args[1].data
    args = (np.zeros(b.size, np.float32), b.reshape(-1).view(np.uint32), b.size // 4)
    blocks = -(-b.size // (_CAST_THREADS * _CAST_EACH))
    return Timed(CAST, (blocks,), (_CAST_THREADS,), lambda _: args, (CAST.source,))


PRODUCT_FAMILIES: Mapping[str, Callable[[Row, Path | None], Timed | SuiteLaunch]] = {
    "convolution": convolution,
    "sgemm_ladder": sgemm_ladder,
    "mma_ladder": mma_ladder,
    "mma_steps": mma_steps,
    "attention_ladder": attention_ladder,
    "triton_rows": triton_rows,
    "scaled_products": scaled_products,
}
