"""Four ladders that one reader profiled on a laptop, as launches.

Mental model: a row names a rung; nothing depends on data. Sums, matrices that are turned and filters run whole or by
blocks, products to a part of their depth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from .launches import HERE, CudaKernel, Row, Timed, floats

_THREADS = 256
#: Elements of a sum; blocks of the one that goes over them in strides.
_ELEMENTS, _FEW_BLOCKS = 1 << 22, 92
#: Sum -> entry, elements of a thread.
_SUMS = {
    "sum_1": ("sum_in_place", 1),
    "sum_2": ("sum_held<0>", 1),
    "sum_3": ("sum_held<1>", 1),
    "sum_4": ("sum_held<2>", 1),
    "sum_5": ("sum_of_two<0>", 2),
    "sum_6": ("sum_of_two<1>", 2),
    "sum_7": ("sum_of_two<2>", 2),
}
#: Side of the matrices that are copied or turned, and of a tile; threads of a block.
_SIDE, _TILE, _TILE_THREADS = 4096, 32, (32, 8)
_MOVED = {
    "copy": "moved<false>",
    "turned_1": "moved<true>",
    "turned_2": "turned_by_tiles<0>",
    "turned_3": "turned_by_tiles<1>",
}
#: Side of the matrices that are filtered, of a block, and of the filter.
_FILTERED, _BLOCK, _FILTER = 512, 16, 7
_FILTERS = {"filter_1": "filter_down", "filter_2": "filter_along", "filter_3": "filter_constant"}
#: Product of matrices of that side -> entry, rows and columns of a block's tile, threads, depth of a step.
_PRODUCT_SIDE = 4096
_PRODUCTS = {
    "product_0": ("element<4096, false, true>", (16, 16), (16, 16), 1),
    "product_1": ("element<4096, true, true>", (16, 16), (16, 16), 1),
    "product_2": ("element<4096, true, false>", (16, 16), (16, 16), 1),
    "product_3": ("tiles<4096, 16, 16, 16, false>", (16, 16), (256,), 16),
    "product_4": ("tiles<4096, 16, 16, 16, true>", (16, 16), (256,), 16),
    "product_5": ("columns<4096, 64, 16, 64, 8>", (64, 64), (512,), 16),
    "product_6": ("patches<4096, 128, 16, 128, 8, 8, false>", (128, 128), (256,), 16),
    "product_7": ("patches<4096, 128, 16, 128, 8, 8, true>", (128, 128), (256,), 16),
    "product_8": ("warps_filling<4096>", (64, 128), (128,), 8),
    "product_9": ("warps_known<4096>", (64, 128), (128,), 8),
}


def _product(kernel: str) -> Timed:
    entry, (high, wide), block, step = _PRODUCTS[kernel]
    n = _PRODUCT_SIDE
    made = CudaKernel(HERE / "laptop_products.cu", entry)

    def arguments(depth: int | None) -> tuple:
        return *(floats(n, n) for _ in range(3)), n if depth is None else depth

    return Timed(
        made, (n // wide, n // high), block, arguments, (made.source,), cut_axis=1, depth=n, depth_step=step,
        product=True,
    )  # fmt: skip


def laptop_ladders(row: Row, checkout: Path | None = None) -> Timed:
    """A rung of the ladders: ``kernel``, its name and number."""
    kernel, source = str(row["kernel"]), HERE / "laptop_ladders.cu"
    if kernel in _PRODUCTS:
        return _product(kernel)
    if kernel in _MOVED:
        shape, tiles = (_SIDE, _SIDE), _SIDE // _TILE
        return Timed(
            CudaKernel(source, _MOVED[kernel]), (tiles, tiles), _TILE_THREADS,
            lambda _: (np.zeros(shape, np.int32), np.zeros(shape, np.int32), *shape), (source,), cut_axis=1,
            streams=True,
        )  # fmt: skip
    if kernel in _FILTERS:
        shape, blocks = (_FILTERED, _FILTERED), _FILTERED // _BLOCK
        arrays = [floats(*shape), floats(_FILTER, _FILTER), floats(*shape)]
        return Timed(
            CudaKernel(source, _FILTERS[kernel]), (blocks, blocks), (_BLOCK, _BLOCK),
            lambda _: (*(arrays[::2] if kernel == "filter_3" else arrays),), (source,),
        )  # fmt: skip
    entry, each = _SUMS.get(kernel, ("sum_in_strides", 0))
    blocks = _ELEMENTS // (each * _THREADS) if each else _FEW_BLOCKS
    return Timed(
        CudaKernel(source, entry), (blocks,), (_THREADS,),
        lambda depth: (np.zeros(_ELEMENTS, np.int32), np.zeros(_ELEMENTS, np.int32), depth or _ELEMENTS), (source,),
        cut_axis=0 if each else None, depth=None if each else _ELEMENTS, depth_step=2 * _THREADS * _FEW_BLOCKS,
    )  # fmt: skip


LAPTOP_FAMILIES: Mapping[str, Callable[[Row, Path | None], Timed]] = {"laptop_ladders": laptop_ladders}
