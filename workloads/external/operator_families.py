"""Operators of a language model that another wrote by hand and timed on a laptop, as launches.

Mental model: a row names an operator and what it works on: rows and their width, of products the rows of the first
factor and the common dimension, of attention tokens and the keys of each. Nothing depends on data. A block has a row,
some of them, or a tile; products and attention say how much of what they sum over is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from .launches import HERE, CudaKernel, Row, Timed, floats

_FAST = ("--use_fast_math",)
_THREADS, _FOUR, _LANES = 256, 4, 32
#: Sinkhorn's rounds, and elements of a matrix; threads of a row of the cross entropy; elements that a thread rotates.
_ROUNDS, _MATRIX, _ROW_THREADS, _ROTATED = 20, 16, 1024, 8
#: Side of the product's tile and its depth; rows, columns and depth of the gated product's tile; columns of it all.
_SIDE, _DEEP, _HIGH, _WIDE, _DEEPER, _GATED = 128, 64, 128, 64, 128, 3584
#: Of attention: heads, groups of heads that share keys, width of a head, keys at a time.
_HEADS, _GROUPS, _WIDTH, _KEYS = 128, 8, 128, 128
_PAD = 8


def _halves(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.uint16)


def operators(row: Row, checkout: Path | None = None) -> Timed:
    """An operator over ``rows`` of ``width``."""
    kernel, rows, width = str(row["kernel"]), int(row["rows"]), int(row["width"])
    return _PRODUCTS.get(kernel, of_rows)(kernel, rows, width)


def of_rows(kernel: str, rows: int, width: int) -> Timed:
    """An operator that takes rows one by one."""
    fast = _FAST if kernel in ("sinkhorn", "sinkhorn_back", "cross_entropy") else ()
    entry = {
        "add": f"add<{_THREADS * _FOUR}>", "layer_norm": f"norm<{width}, true>", "rms_norm": f"norm<{width}, false>",
        "row_sums": f"row_sums<{width}>", "sinkhorn_back": f"sinkhorn_back<{_ROUNDS}>",
    }.get(kernel, kernel)  # fmt: skip
    made = CudaKernel(HERE / "operators.cu", entry, fast)

    def launch(
        grid: tuple[int, ...], arguments: Callable[[], tuple], shared_bytes: int = 0, threads: int = _THREADS
    ) -> Timed:
        return Timed(
            made, grid, (threads,), lambda _: arguments(), (made.source,), fast, cut_axis=1 if kernel in ("add", "rotate") else 0,
            streams=kernel not in ("cross_entropy", "sinkhorn", "sinkhorn_back"), shared_bytes=shared_bytes,
        )  # fmt: skip

    def some(count: int) -> tuple[np.ndarray, ...]:
        return tuple(floats(rows, width) for _ in range(count))

    sizes = np.int32(rows), np.int32(width)
    if kernel == "add":
        return launch((-(-width // (_THREADS * _FOUR)), rows), lambda: (*some(3), np.int32(width)))
    if kernel in ("layer_norm", "rms_norm"):
        return launch((rows,), lambda: (*some(1), floats(width), *some(1)))
    if kernel == "row_sums":
        return launch((rows // _FOUR,), lambda: (*some(1), floats(rows)))
    if kernel == "rotate":
        tokens = _THREADS // (width // _ROTATED)
        arguments = (_halves(rows, width), _halves(rows, width), np.int32(width), np.int32(rows), np.float32(1e4))
        return launch((1, -(-rows // tokens), 1), lambda: arguments, 4 * width)
    if kernel == "layer_norm_back":
        return launch((rows,), lambda: (*some(4), floats(width), floats(rows), floats(rows), *sizes), 8 * width)
    if kernel == "rms_norm_back":
        return launch((rows,), lambda: (*some(4), floats(width), floats(rows), *sizes))
    least = np.float32(1e-6)
    if kernel == "sinkhorn":
        return launch((rows // _THREADS,), lambda: (*some(1), sizes[0], np.int32(_ROUNDS), least))
    if kernel == "sinkhorn_back":
        return launch((2 * rows // _THREADS,), lambda: (*some(3), sizes[0], least))
    labels = np.zeros(rows, np.int32)
    return launch((rows,), lambda: (*some(1), labels, floats(rows), *sizes), threads=_ROW_THREADS)


def product(kernel: str, rows: int, width: int) -> Timed:
    """A square product of halves."""
    made = CudaKernel(HERE / "operators_tensor.cu", "product")
    return Timed(
        made, (rows // _SIDE, rows // _SIDE), (_THREADS // 2,),
        lambda depth: (
            _halves(rows, width), _halves(rows, width), floats(rows, rows), *map(np.int32, (rows, rows, width, depth or width)),
        ),
        (made.source,), depth=width, depth_step=_DEEP, product=True, shared_bytes=2 * (2 * _SIDE) * (_DEEP + _PAD),
    )  # fmt: skip


def gated_product(kernel: str, rows: int, width: int) -> Timed:
    """Two products of bfloat16 of which one gates the other."""
    made = CudaKernel(HERE / "operators_tensor.cu", kernel, _FAST)
    return Timed(
        made, (rows // _HIGH, _GATED // _WIDE), (2 * _THREADS,),
        lambda depth: (
            _halves(rows, width), _halves(2 * _GATED, width), floats(rows, _GATED), *map(np.int32, (width, _GATED, depth or width)),
        ),
        (made.source,), _FAST, depth=width, depth_step=_DEEPER, product=True,
        shared_bytes=2 * (_HIGH + 2 * _WIDE) * (_DEEPER + _PAD),
    )  # fmt: skip


def decode(kernel: str, rows: int, width: int) -> Timed:
    """Attention of ``rows`` tokens to ``width`` keys each."""
    made = CudaKernel(HERE / "operators_tensor.cu", kernel, _FAST)
    held = _HEADS // _GROUPS
    cache = (rows, width, _GROUPS, _WIDTH)
    room = 2 * (held * (_KEYS + _PAD) + _KEYS * (_WIDTH + _PAD))
    return Timed(
        made, (_GROUPS, rows), (_THREADS,),
        lambda depth: (
            _halves(rows, _HEADS, _WIDTH), _halves(*cache), _halves(*cache), np.float32(_WIDTH**-0.5), _halves(rows, _HEADS, _WIDTH),
            floats(rows, _HEADS, _WIDTH), *map(np.int32, (rows, width, _HEADS, _GROUPS, _WIDTH, depth or width)),
        ),
        (made.source,), _FAST, depth=width, depth_step=_KEYS, product=True, shared_bytes=4 * 4 * held + room,
    )  # fmt: skip


_PRODUCTS: Mapping[str, Callable[[str, int, int], Timed]] = {
    "product": product, "gated_product": gated_product, "decode": decode,
}  # fmt: skip
OPERATOR_FAMILIES: Mapping[str, Callable[[Row, Path | None], Timed]] = {"operators": operators}
