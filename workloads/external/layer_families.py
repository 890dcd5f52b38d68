"""Steps of a language model's layers that others timed, as launches: norms of rows, gates, residuals, sums of columns.

Mental model: a row names a kernel and its block; sizes are those of the program that was measured. Nothing depends on
data. Sums of columns say how many rows they go down, so that fewer can be run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from .launches import HERE, CudaKernel, Row, Timed

_FAST = ("--use_fast_math",)
#: Rows and columns of a layer's activations; columns that are summed (a wider layer's).
_ROWS, _COLUMNS, _WIDE = 8 * 1024, 768, 3072
_WARP, _EIGHT = 32, 8
#: Rows that a warp goes down in one turn of its loop as it is compiled: 16 loads under way, each lane a row.
_DOWN = 16 * _WARP
#: Norm of a short or a long row: entry, threads of a block, rows that a block has, whether the width is an argument.
_NORMS = {
    "by_warp_of_4": ("by_warp_of_two<128>", 128, 4, False),
    "by_warp_of_16": ("by_warp<512>", 512, 16, True),
    "by_block_of_512": ("by_block_of_two<512>", 512, 1, False),
    "by_block_of_256": ("by_block<256, 6>", 256, 1, True),
}


def _floats(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def layer_steps(row: Row, checkout: Path | None = None) -> Timed:
    """A step of a training program, by blocks of ``threads``."""
    kernel, threads = str(row["kernel"]), int(row["threads"])
    made = CudaKernel(HERE / "layer_steps.cu", kernel, _FAST)
    count = _ROWS * _COLUMNS
    if kernel.startswith("rms_norm"):
        a_block = threads if kernel == "rms_norm_a_thread" else threads // _WARP
        return Timed(
            made, (_ROWS // a_block,), (threads,),
            lambda _: (_floats(count), _floats(count), _floats(_COLUMNS), _floats(_COLUMNS), _ROWS, _COLUMNS),
            (made.source,), _FAST, cut_axis=0,
        )  # fmt: skip
    if kernel.startswith("gate"):
        a_block = threads * (_EIGHT if kernel.endswith("eights") else 1)
        arrays = 5 if "back" in kernel else 3
        return Timed(
            made, (-(-count // a_block),), (threads,), lambda _: (*(np.zeros(count, np.uint16) for _ in range(arrays)), count),
            (made.source,), _FAST, cut_axis=0,
        )  # fmt: skip
    if kernel == "residual":
        return Timed(
            made, (count // threads,), (threads,), lambda _: (*(_floats(count) for _ in range(3)), count), (made.source,), _FAST,
            cut_axis=0, streams=True,
        )  # fmt: skip
    if kernel == "residual_by_strides":
        # Its blocks go on until the arrays end, twice: fewer of them have fewer elements to do.
        a_block = 2 * threads
        return Timed(
            made, (count // a_block,), (threads,), lambda depth: (*(_floats(count) for _ in range(3)), depth or count), (made.source,), _FAST,
            depth=count, depth_step=a_block, grid_of=lambda depth: (depth // a_block,), depends_on_data=True, streams=True,
        )  # fmt: skip
    return _column_sums(kernel, threads)


def _column_sums(kernel: str, threads: int) -> Timed:
    made = CudaKernel(HERE / "column_sums.cu", kernel, _FAST)
    by_block = kernel == "columns_a_block"
    blocks = _WIDE // _WARP if by_block else _WIDE * _WARP // threads
    return Timed(
        made, (blocks, 1), (threads,),
        lambda depth: (_floats(_ROWS, _WIDE), _floats(_WIDE), depth or _ROWS, _WIDE),
        (made.source,), _FAST, cut_axis=0, depth=_ROWS, depth_step=threads if by_block else _DOWN, product=True,
        shared_bytes=4 * threads if by_block else 0,
    )  # fmt: skip


def row_norms(row: Row, checkout: Path | None = None) -> Timed:
    """Norms of ``rows`` rows of ``width`` elements in BF16."""
    width, rows = int(row["width"]), int(row["rows"])
    entry, threads, a_block, tells_width = _NORMS[str(row["kernel"])]
    made = CudaKernel(HERE / "row_norms.cu", entry)

    def arguments(_: int | None) -> tuple:
        arrays = [np.zeros(size, np.uint16) for size in (rows * width, width, rows * width)]
        return *arrays, *((width,) if tells_width else ()), np.int64(rows), np.float32(1e-6)

    return Timed(made, (-(-rows // a_block),), (threads,), arguments, (made.source,), cut_axis=0)


LAYER_FAMILIES: Mapping[str, Callable[[Row, Path | None], Timed]] = {"layer_steps": layer_steps, "row_norms": row_norms}
