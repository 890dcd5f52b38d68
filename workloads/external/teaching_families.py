"""Kernels of ladders for teaching, and of a training program, that others timed, as launches.

Mental model: a row names a rung; sizes and blocks are those of the program that was measured. Products say the
dimension that they sum over, so that less of it can be run; the path of all others but the encoder does not depend on
data.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from .launches import HERE, CudaKernel, Row, Timed, floats

_FAST = ("--use_fast_math",)
_THREADS = 256
#: Rung of the first ladder of products -> entry, side of a block's tile, threads, depth of a step.
_PRODUCTS = {
    "sgemm_naive": ("naive", 32, (32, 32), 32),
    "sgemm_v2": ("tiles<32>", 32, (32, 32), 32),
    "sgemm_v3": ("many<64, 64, 8, 8, 1, false>", 64, (512,), 8),
    "sgemm_v4": ("many<64, 64, 8, 8, 8, false>", 64, (64,), 8),
    "sgemm_v5": ("many<64, 64, 8, 8, 8, true>", 64, (64,), 8),
    "sgemm_v6": ("vectors<1>", 128, (256,), 8),
    "sgemm_v7": ("vectors<2>", 128, (256,), 8),
}
#: Rung of the second one, by tiles of warps -> entry, rows and columns of a block's tile, threads, depth of a step. The
#: first has the block with which most threads fit on an SM.
_WARP_PRODUCTS = {
    "sgemm_v1": ("naive", (24, 32), (32, 24), 32),
    "sgemm_v2": ("tiles<32>", (32, 32), (32, 32), 32),
    "sgemm_v3": ("scattered<256, 128, 128, 32>", (128, 128), (256,), 32),
    "sgemm_v4": ("warps<256, 128, 128, 32, 128, 16, 128, 8>", (128, 128), (256,), 32),
    "sgemm_v5": ("warps<256, 128, 64, 64, 32, 16, 32, 4>", (128, 64), (256,), 64),
    "sgemm_v6a": ("warps_by_fours<256, 128, 64, 64, 32, 16, 32, 4, false>", (128, 64), (256,), 64),
    "sgemm_v6b": ("warps_by_fours<256, 128, 128, 16, 64, 16, 32, 4, true>", (128, 128), (256,), 16),
}
#: Sums of an array: entry, elements a block of 256 threads takes.
_SUMS = {
    "sum_v2": ("halves<false>", 256),
    "sum_v3": ("halves<true>", 256),
    "sum_v4": ("lanes_first<1>", 256),
    "sum_v5": ("lanes_first<4>", 1024),
}
#: Sums of rows: entry, whether a block has a stretch of a row.
_ROW_SUMS = {
    "sum_v1": "row_a_thread",
    "sum_v3": "stretch<0, false>",
    "sum_v4a": "stretch<1, false>",
    "sum_v4b": "stretch<2, false>",
    "sum_v4c": "stretch<3, false>",
    "sum_v6": "stretch<3, true>",
}
_ROW_SUM_THREADS, _STRETCH = 128, 8192
#: Matrices turned: entry, rows and columns of the input that a block has, whether the grid's x goes along the columns.
_TURNED = {
    "transpose_v0": ("element<true, false>", None, False),
    "transpose_v1": ("element<false, false>", None, True),
    "transpose_v2": ("element<false, true>", None, True),
    "transpose_v3": ("whole_tile<32, 0, false>", (32, 32), True),
    "transpose_v4": ("whole_tile<32, 1, false>", (32, 32), True),
    "transpose_v5": ("whole_tile<32, 0, true>", (32, 32), True),
    "naive_row": ("element<false, false>", None, True),
    "naive_column": ("element<true, false>", None, False),
    "elements_16_64": ("elements<16, 64>", (16, 64), False),
    "elements_32_32": ("elements<32, 32>", (32, 32), False),
    "shared": ("looped_tile<32, 0, false>", (32, 32), True),
    "shared_padded": ("looped_tile<32, 1, false>", (32, 32), True),
    "shared_swizzled": ("looped_tile<32, 0, true>", (32, 32), True),
    "shared_unrolled": ("unrolled_tile<0, false>", (32, 32), True),
    "shared_padded_unrolled": ("unrolled_tile<1, false>", (32, 32), True),
    "shared_swizzled_unrolled": ("unrolled_tile<0, true>", (32, 32), True),
}
#: Element-wise: entry, arrays, elements a thread.
_MAPS = {
    "add": ("add", 3, 1),
    "add_strided": ("add_in_strides", 3, 1),
    "add_vector": ("add_by_fours", 3, 4),
    "sigmoid_vector": ("sigmoid_by_fours", 2, 4),
    "relu_vector": ("relu_by_fours", 2, 4),
}
#: Softmax of 4,096 x 1,024: entry, blocks, threads.
_SOFTMAX = {
    "softmax_rows": ("softmax<false, true>", 4096, 1024),
    "softmax_rows_xor": ("softmax<false, false>", 4096, 1024),
    "softmax_columns_xor": ("softmax<true, false>", 1024, 256),
}
#: Sums in strides of the grid, over 256 threads a block of four elements each.
_STRIDED = {"sum_strided": "strided<false, false>", "sum_vector": "strided<false, true>", "sum_lanes_first": "strided<true, false>"}  # fmt: skip
#: Of the language model: sequences, tokens, columns, words.
_BATCH, _TOKENS, _COLUMNS, _WORDS = 8, 1024, 768, 50257


def product(row: Row, checkout: Path | None = None) -> Timed:
    """A rung of the first ladder of square products, with factors of one and zero."""
    entry, tile, block, step = _PRODUCTS[str(row["kernel"])]
    size = int(row["size"])
    made = CudaKernel(HERE / "sgemm_rungs.cu", entry)

    def arguments(depth: int | None) -> tuple:
        a, b, c = (floats(size, size) for _ in range(3))
        return size, size if depth is None else depth, np.float32(1), a, b, np.float32(0), c

    grid = (size // tile, size // tile)
    return Timed(
        made, grid, block, arguments, (made.source,), cut_axis=1, depth=size, depth_step=step, product=True
    )  # fmt: skip


def warp_product(row: Row) -> Timed:
    """A rung of the second ladder of square products; from the third on blocks lie in one row of the grid."""
    entry, (high, wide), block, step = _WARP_PRODUCTS[str(row["kernel"])]
    size = int(row["size"])
    made = CudaKernel(HERE / "sgemm_warps.cu", entry, _FAST)

    def arguments(depth: int | None) -> tuple:
        return *(floats(size, size) for _ in range(3)), size, size if depth is None else depth

    across, down = -(-size // wide), -(-size // high)
    grid = (across, down) if len(block) == 2 else (across * down, 1)
    return Timed(
        made, grid, block, arguments, (made.source,), _FAST, cut_axis=1, depth=size, depth_step=step, product=True
    )  # fmt: skip


def turned(row: Row) -> Timed:
    """A square matrix turned; ``threads`` of a block along x and y, as text, where the row says it."""
    entry, tile, along = _TURNED[str(row["kernel"])]
    size = int(row["size"])
    block = tuple(int(each) for each in str(row.get("threads") or "32x32").split("x"))
    made = CudaKernel(HERE / "turned.cu", entry)
    rows, columns = tile or ((block[1], block[0]) if along else block)
    grid = (-(-size // columns), -(-size // rows))

    def arguments(_: int | None) -> tuple:
        return floats(size, size), floats(size, size), size, size

    return Timed(
        made, grid if along else grid[::-1], block, arguments, (made.source,), cut_axis=1, streams=True
    )  # fmt: skip


def over_array(row: Row) -> Timed:
    """An element-wise kernel or a sum of an array of ``size`` floats."""
    kernel, size = str(row["kernel"]), int(row["size"])
    if kernel in _MAPS:
        entry, arrays, each = _MAPS[kernel]
        made = CudaKernel(HERE / "maps.cu", entry)
        grid = (-(-size // (_THREADS * each)),)
        return Timed(
            made, grid, (_THREADS,), lambda _: (*(floats(size) for _ in range(arrays)), size), (made.source,),
            cut_axis=0, streams=True,
        )  # fmt: skip
    if kernel in _STRIDED:
        made = CudaKernel(HERE / "sums.cu", _STRIDED[kernel])
        grid = (size // (4 * _THREADS),)
        return Timed(made, grid, (_THREADS,), lambda _: (floats(size), size), (made.source,))
    entry, each = _SUMS[kernel]
    made = CudaKernel(HERE / "sums.cu", entry)
    blocks = -(-size // each)
    return Timed(
        made, (blocks,), (_THREADS,), lambda _: (floats(size), floats(blocks), size), (made.source,), cut_axis=0,
        shared_bytes=4 * _THREADS if "halves" in entry else 0,
    )  # fmt: skip


def over_rows(row: Row) -> Timed:
    """The sums of 64 rows of 32,000 floats, or a softmax of a matrix."""
    kernel = str(row["kernel"])
    if kernel in _SOFTMAX:
        entry, blocks, threads = _SOFTMAX[kernel]
        made = CudaKernel(HERE / "row_functions.cu", entry)
        shape = (4096, 1024)
        return Timed(
            made, (blocks,), (threads,), lambda _: (floats(*shape), floats(*shape), *shape), (made.source,), cut_axis=0
        )  # fmt: skip
    rows, columns = 64, int(row["size"]) // 64
    made = CudaKernel(HERE / "sums.cu", _ROW_SUMS[kernel], _FAST)
    stretched = kernel != "sum_v1"
    grid = (-(-columns // _STRETCH), rows) if stretched else (1,)

    def arguments(_: int | None) -> tuple:
        return floats(rows, columns), floats(rows), rows, columns, *([_STRETCH] if stretched else [])

    return Timed(
        made, grid, (_ROW_SUM_THREADS,), arguments, (made.source,), _FAST,
        shared_bytes=4 * _ROW_SUM_THREADS if stretched else 0,
    )  # fmt: skip


def teaching(row: Row, checkout: Path | None = None) -> Timed:
    """A kernel of a ladder for teaching: products, transposes, sums, softmax and element-wise ones."""
    kernel = str(row["kernel"])
    if kernel in _TURNED:
        return turned(row)
    if kernel in _MAPS or kernel in _SUMS or kernel in _STRIDED:
        return over_array(row)
    return over_rows(row) if kernel in _SOFTMAX else product(row)


def warp_ladder(row: Row, checkout: Path | None = None) -> Timed:
    """A rung of the ladders that end in tiles of warps: products, and sums of rows."""
    return warp_product(row) if str(row["kernel"]) in _WARP_PRODUCTS else over_rows(row)


def training(row: Row, checkout: Path | None = None) -> Timed:
    """Layer norm or encoder of a language model's training program, by blocks of ``threads``."""
    kernel, threads = str(row["kernel"]), int(row["threads"])
    rows = _BATCH * _TOKENS
    if kernel.startswith("layer_norm"):
        made = CudaKernel(
            HERE / "row_functions.cu", f"layer_norm<{'true' if kernel == 'layer_norm_squares' else 'false'}>", _FAST
        )
        warps = threads // 32

        def norms(_: int | None) -> tuple:
            small = floats(rows), floats(rows)
            return floats(rows, _COLUMNS), *small, floats(rows, _COLUMNS), floats(_COLUMNS), floats(_COLUMNS), rows, _COLUMNS  # fmt: skip

        return Timed(
            made, (rows // warps,), (32, warps), norms, (made.source,), _FAST, shared_bytes=(2 + warps) * _COLUMNS * 4
        )  # fmt: skip
    each = {"encode": 1, "encode_vector": 4}[kernel]
    made = CudaKernel(HERE / "maps.cu", f"encode<{each}>", _FAST)
    a_block = threads * each

    def words(depth: int | None) -> tuple:
        tokens = np.random.default_rng(0).integers(0, _WORDS, rows, dtype=np.int32)
        table, places = floats(_WORDS, _COLUMNS), floats(_TOKENS, _COLUMNS)
        return floats(rows, _COLUMNS), tokens, table, places, (depth or rows) // _TOKENS, _TOKENS, _COLUMNS

    return Timed(
        made, (rows * _COLUMNS // a_block,), (threads,), words, (made.source,), _FAST, depth=rows, depth_step=_TOKENS,
        grid_of=lambda depth: (depth * _COLUMNS // a_block,), depends_on_data=True,
    )  # fmt: skip


TEACHING_FAMILIES: dict[str, Callable[[Row, Path | None], Timed]] = {
    "teaching": teaching,
    "warp_ladder": warp_ladder,
    "training": training,
}
