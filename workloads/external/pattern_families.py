"""Small kernels, each of one access pattern, that others timed on several GPUs, as launches.

Mental model: sizes, blocks and grids are those of the program that was measured; its arrays hold zeros there too, so
that a gather reads one word (the array that it reads from has no more here), and a histogram counts all in one bin. All
blocks are alike.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from .launches import HERE, CudaKernel, Row, Timed, floats, slab_of_counters

_SOURCE = HERE / "patterns.cu"
_THREADS, _BINS = 256, 256
_FLOAT_BYTES = 4
#: Over arrays of ``size`` floats: entry, arrays, elements a thread.
_MAPS = {
    "vector_add": ("plain_add", 3, 1),
    "saxpy": ("scaled_add", 3, 1),
    "vector_add_divergent": ("divergent_add", 3, 1),
    "strided_copy_8": ("copy_by_eights", 2, 8),
}
#: Sums of a block: entry, arrays that are read.
_SUMS = {"reduce_sum": ("sum_of_two", 1), "dot_product": ("inner_of_two", 2)}
#: Over square matrices: entry, side of a block, floats of the filter.
_MATRICES = {
    "naive_transpose": ("turned_plain", 16, 0),
    "shared_transpose": ("turned_by_tiles", 32, 0),
    "conv2d_3x3": ("filtered<3, true>", 16, 9),
    "conv2d_7x7": ("filtered<7, false>", 16, 49),
}
#: Products: entry, side of a block.
_PRODUCTS = {"matmul_naive": ("product_plain", 16), "matmul_tiled": ("product_by_tiles", 32)}
_PRODUCT_STEP = 32


def patterns(row: Row, checkout: Path | None = None) -> Timed:
    """The launch of a kernel of the data set over ``size`` elements, or square matrices of that side; ``turns`` of its
    atomics."""
    kernel, size = str(row["kernel"]), int(row["size"])
    if kernel in _MAPS or kernel in _SUMS:
        return _over_arrays(kernel, size)
    if kernel in _MATRICES or kernel in _PRODUCTS:
        return _over_matrices(kernel, size)
    grid = (-(-size // _THREADS),)
    if kernel == "atomic_hotspot":
        made, turns = CudaKernel(_SOURCE, "one_word"), int(row["turns"])
        return Timed(made, grid, (_THREADS,), lambda _: (np.zeros(1, np.uint32), turns), (_SOURCE,), cut_axis=0)
    if kernel == "random_access":
        made = CudaKernel(_SOURCE, "gathered")
        return Timed(
            made, grid, (_THREADS,), lambda _: (floats(1), np.zeros(size, np.int32), floats(size), size),
            (_SOURCE,), cut_axis=0, streams=True,
        )  # fmt: skip
    made = CudaKernel(_SOURCE, "counted")
    return Timed(
        made, grid, (_THREADS,), lambda depth: (np.zeros(size, np.uint32), depth or size, slab_of_counters()),
        (_SOURCE,), depth=size, depth_step=_THREADS, grid_of=lambda depth: (depth // _THREADS,), depends_on_data=True,
        shared_bytes=4 * _BINS,
    )  # fmt: skip


def _over_arrays(kernel: str, size: int) -> Timed:
    if kernel in _SUMS:
        entry, arrays = _SUMS[kernel]
        blocks = -(-size // (2 * _THREADS))
        return Timed(
            CudaKernel(_SOURCE, entry), (blocks,), (_THREADS,),
            lambda _: (*(floats(size) for _ in range(arrays)), floats(blocks), size), (_SOURCE,), cut_axis=0,
            shared_bytes=_FLOAT_BYTES * _THREADS,
        )  # fmt: skip
    entry, arrays, each = _MAPS[kernel]
    first = (np.float32(2),) if kernel == "saxpy" else ()
    grid = (-(-size // (each * _THREADS)),)
    return Timed(
        CudaKernel(_SOURCE, entry), grid, (_THREADS,), lambda _: (*first, *(floats(size) for _ in range(arrays)), size),
        (_SOURCE,), cut_axis=0, streams=True,
    )  # fmt: skip


def _over_matrices(kernel: str, size: int) -> Timed:
    if kernel in _PRODUCTS:
        entry, side = _PRODUCTS[kernel]
        return Timed(
            CudaKernel(_SOURCE, entry), (-(-size // side),) * 2, (side, side),
            lambda depth: (*(floats(size, size) for _ in range(3)), size, depth or size), (_SOURCE,), cut_axis=1,
            depth=size, depth_step=_PRODUCT_STEP, product=True,
        )  # fmt: skip
    entry, side, weights = _MATRICES[kernel]
    filters = (floats(weights),) if weights else ()
    return Timed(
        CudaKernel(_SOURCE, entry), (-(-size // side),) * 2, (side, side),
        lambda _: (floats(size, size), *filters, floats(size, size), size, size), (_SOURCE,), cut_axis=1, streams=True,
    )  # fmt: skip


PATTERN_FAMILIES: dict[str, Callable[[Row, Path | None], Timed]] = {"patterns": patterns}
