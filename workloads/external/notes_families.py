"""Kernels of a collection of notes on CUDA, that were timed on an L20, as launches: norms and softmax of rows, and
products.

Mental model: a row names a kernel, of which the last part says what a thread reads (``f16x8_pack``: eight halves in one
load), and the shape. A row of a matrix is a block, so that its columns set the threads. Nothing depends on data;
products say the dimension that they sum over, so that less of it can be run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from .launches import HERE, CudaKernel, Row, Timed

_FAST = ("--use_fast_math",)
_ROWS, _PRODUCTS = HERE / "notes_rows.cu", HERE / "notes_products.cu"
#: What a thread has: type of an element, of a word that is read, elements.
_HELD = {
    "f32": ("float", "float", 1),
    "f32x4": ("float", "float4", 4),
    "f16": ("half", "half", 1),
    "f16x2": ("half", "half2", 2),
    "f16x8": ("half", "half2", 8),
    "f16x8_pack": ("half", "float4", 8),
}
#: Kernels of products: entry, rows and columns of a block's tile, threads, depth of a step, type.
_TILED = {
    "sgemm_naive": ("naive<float>", (32, 32), (32, 32), 32, np.float32),
    "sgemm_tiles": ("tiles", (32, 32), (32, 32), 32, np.float32),
    "sgemm_8x8": ("many", (128, 128), (16, 16), 8, np.float32),
    "sgemm_8x8_turned": ("turned<1>", (128, 128), (16, 16), 8, np.float32),
    "sgemm_8x8_two_stages": ("turned<2>", (128, 128), (16, 16), 8, np.float32),
    "hgemm_naive": ("naive<half>", (32, 32), (32, 32), 32, np.float16),
    "hgemm_fragments": ("fragments", (16, 16), (32,), 16, np.float16),
    "hgemm_fragments_4x2": ("fragment_tiles<1, 1>", (64, 32), (256,), 16, np.float16),
    "hgemm_fragments_4x2_2x4": ("fragment_tiles<2, 4>", (128, 128), (256,), 16, np.float16),
}


def _entry(operation: str, held: str, sums: str, columns: int) -> tuple[str, int]:
    """An entry of the row-wise kernels, and its threads. ``operation``: what the row's kernel begins with."""
    element, word, each = _HELD[held]
    threads = columns // each
    if operation == "online_softmax":
        return f"online_softmax<{threads}>", threads
    what = {"softmax": "false", "safe_softmax": "true"}.get(operation)
    if what is not None:
        return f"softmax<{element}, {word}, {each}, {what}, {threads}>", threads
    return f"{operation}<{element}, {word}, {each}, {sums}, {threads}>", threads


def over_rows(row: Row) -> Timed:
    """A norm or a softmax of each row: ``kernel`` is ``operation:held:sums``, of sums "half" or "float"."""
    operation, held, sums = str(row["kernel"]).split(":")
    rows, columns = int(row["rows"]), int(row["columns"])
    entry, threads = _entry(operation, held, sums, columns)
    made = CudaKernel(_ROWS, entry, _FAST)
    element = np.float16 if held.startswith("f16") else np.float32

    def arguments(_: int | None) -> tuple:
        both = np.zeros((rows, columns), element), np.zeros((rows, columns), element)
        if "softmax" in operation:
            return *both, rows * columns
        one = np.float32(1)
        return *both, one, *((np.float32(0),) if operation == "layer_norm" else ()), rows, columns

    return Timed(made, (rows,), (threads,), arguments, (_ROWS,), _FAST, cut_axis=0, streams=True)


def product(row: Row) -> Timed:
    """``rows`` x ``columns`` elements, each a sum over ``depth``."""
    entry, (high, wide), block, step, element = _TILED[str(row["kernel"])]
    rows, columns, pitch = (int(row[name]) for name in ("rows", "columns", "depth"))
    made = CudaKernel(_PRODUCTS, entry, _FAST)

    def arguments(depth: int | None) -> tuple:
        shapes = (rows, pitch), (pitch, columns), (rows, columns)
        return *(np.zeros(shape, element) for shape in shapes), rows, columns, pitch, pitch if depth is None else depth

    grid = (columns // wide, rows // high)
    return Timed(
        made, grid, block, arguments, (_PRODUCTS,), _FAST, cut_axis=1, depth=pitch, depth_step=step, product=True
    )  # fmt: skip


def notes(row: Row, checkout: Path | None = None) -> Timed:
    """A kernel of the collection."""
    return product(row) if str(row["kernel"]) in _TILED else over_rows(row)


NOTES_FAMILIES: dict[str, Callable[[Row, Path | None], Timed]] = {"notes": notes}
