"""Reductions, transposes, histograms and element-wise kernels that others timed, as launches.

Mental model: kernels whose path does not depend on data (all but the histograms) are cheap at any size, since a few of
their blocks stand for all; a histogram's time is linear in its values once its bins are hot, so that it says how a
launch of fewer values looks (``depth``).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from .launches import HERE, CudaKernel, Row, Timed, slab_of_counters

#: Elements of the reductions and products, and threads of their blocks.
_ELEMENTS, _THREADS = 32 << 20, 256
#: Of the GPU that they were measured on (A100): SMs, and threads that an SM holds.
_SMS, _SM_THREADS = 108, 2048
#: The sixth and the seventh rung take so many blocks.
_FEW_BLOCKS = 1024
_PACK_BYTES, _PACKED_WAVES = 16, 32


def reductions(row: Row, checkout: Path | None = None) -> Timed:
    """A rung of the ladder of sums, or a product of two arrays, of 32 Mi elements."""
    kernel = str(row["kernel"])
    if not kernel.startswith("reduce_"):
        return _products(kernel, str(row["dtype"]))
    rung = int(kernel.removeprefix("reduce_"))
    each = _ELEMENTS // (_FEW_BLOCKS * _THREADS)
    entry, blocks = {
        3: ("many<3, 2>", _ELEMENTS // (2 * _THREADS)),
        4: ("many<4, 2>", _ELEMENTS // (2 * _THREADS)),
        5: ("many<5, 2>", _ELEMENTS // (2 * _THREADS)),
        6: (f"many<6, {each}>", _FEW_BLOCKS),
        7: (f"shuffled<{each}>", _FEW_BLOCKS),
        8: ("packed", _SMS * _SM_THREADS // _THREADS),
    }.get(rung, (f"tree<{rung}>", _ELEMENTS // _THREADS))

    def arguments(depth: int | None) -> tuple:
        arrays = np.zeros(_ELEMENTS, np.float32), np.zeros(blocks, np.float32)
        return (*arrays, np.uint32(depth or _ELEMENTS)) if rung >= 7 else arrays

    made = CudaKernel(HERE / "reductions.cu", entry)
    # The last rung's blocks go on until the array ends: fewer of them would do as much.
    return Timed(
        made,
        (blocks,),
        (_THREADS,),
        arguments,
        (made.source,),
        cut_axis=None if rung == 8 else 0,
        depth=_ELEMENTS if rung == 8 else None,
    )


def _products(kernel: str, dtype: str) -> Timed:
    name, kind = {"float32": ("float", np.float32), "float16": ("__half", np.float16)}[dtype]

    def arrays(_: int | None) -> tuple:
        return tuple(np.zeros(_ELEMENTS, kind) for _ in range(3))

    def packed(depth: int | None) -> tuple:
        return np.int64(packs if depth is None else depth), *arrays(None)

    def pairs(depth: int | None) -> tuple:
        # Fewer elements lie in as much of memory, so that nothing is made twice.
        return *(np.zeros(_ELEMENTS, kind) for _ in range(2)), np.zeros(2, kind), np.int32(depth or _ELEMENTS)

    source = HERE / "elementwise.cu"
    if kernel == "inner_product":
        made = CudaKernel(source, "inner_product")
        blocks = _ELEMENTS // _THREADS
        return Timed(
            made, (blocks,), (_THREADS,), pairs, (source,), depth=_ELEMENTS, depth_step=_THREADS,
            grid_of=lambda depth: (depth // _THREADS,), depends_on_data=True,
        )  # fmt: skip
    if kernel == "product":
        made = CudaKernel(source, f"product<{name}>")
        return Timed(made, (_ELEMENTS // _THREADS,), (_THREADS,), arrays, (source,))
    packs = _ELEMENTS * kind().itemsize // _PACK_BYTES
    blocks = min(-(-packs // _THREADS), _SMS * _SM_THREADS // _THREADS * _PACKED_WAVES)
    made = CudaKernel(source, f"packed_product<{name}>")
    return Timed(made, (blocks,), (_THREADS,), packed, (source,), depth=packs)


def memory_ladders(row: Row, checkout: Path | None = None) -> Timed:
    """A transpose of a square matrix, or a histogram of bytes, of a benchmark of such ladders."""
    kernel = str(row["kernel"])
    if kernel.startswith("histogram"):
        return _byte_histogram(kernel, int(row["size"]))
    tile, rows, wide = int(row["tile"]), int(row["rows"]), int(row["wide"])
    n = int(row["size"])
    entry = {
        "naive": "naive",
        "tiled": f"tiled<{tile}, 0>",
        "padded": f"tiled<{tile}, 1>",
        "coarse": f"coarse<{tile}, {rows}, {wide}>",
    }[kernel]

    def arguments(depth: int | None) -> tuple:
        return np.zeros((n, n), np.float32), np.zeros((n, n), np.float32), np.int32(n)

    made = CudaKernel(HERE / "transposes.cu", entry)
    return Timed(
        made, (n // tile, n // tile), (tile // wide, rows), arguments, (made.source,), cut_axis=1, streams=True
    )


#: Blocks an SM of the byte histograms, and how many it holds, their threads and bins; SMs of the GPU that they were
#: measured on (H100).
_BYTE_BLOCKS, _RESIDENT_BLOCKS, _BYTE_THREADS, _BINS, _H100_SMS = 32, 4, 512, 256, 132


def _byte_histogram(kernel: str, size: int) -> Timed:
    """Bins in shared memory are added to the global ones at a block's end, which of many blocks with few values takes
    longer than to count them: the blocks that are resident at once count all."""
    entry = {
        "histogram_global": "in_global<unsigned char, false>",
        "histogram_shared": f"in_shared<unsigned char, {_BINS}, true>",
        "histogram_packed": f"in_shared_packed<{_BINS}>",
    }[kernel]
    blocks = _H100_SMS * (_BYTE_BLOCKS if kernel == "histogram_global" else _RESIDENT_BLOCKS)

    def arguments(depth: int | None) -> tuple:
        count = size if depth is None else depth
        values = np.random.default_rng(0).integers(0, _BINS, count, dtype=np.uint8)
        return values, np.int32(count), slab_of_counters(), np.int32(_BINS)

    made = CudaKernel(HERE / "histograms.cu", entry)
    step = blocks * _BYTE_THREADS * (_PACK_BYTES if kernel == "histogram_packed" else 1)
    return Timed(
        made, (blocks,), (_BYTE_THREADS,), arguments, (made.source,), depth=size, depth_step=step, depends_on_data=True
    )


#: Threads along each side of the matrices' blocks, and bins of the zeros' histograms.
_SIDE, _ZERO_BINS = 16, 512


def textbook(row: Row, checkout: Path | None = None) -> Timed:
    """A kernel of a textbook as a benchmark of it runs it: sums of matrices, a matrix times a vector, histograms of
    zeros."""
    kernel, rows, columns, threads = str(row["kernel"]), int(row["rows"]), int(row["columns"]), int(row["threads"])
    if kernel.startswith("histogram"):
        return _zero_histogram(kernel, rows, threads)
    source = HERE / "elementwise.cu"

    def sums(_: int | None) -> tuple:
        return *(np.zeros((rows, columns), np.float32) for _ in range(3)), np.int32(columns), np.int32(rows)

    def products(_: int | None) -> tuple:
        shapes = (rows,), (rows, columns), (columns,)
        return *(np.zeros(shape, np.uint32) for shape in shapes), np.int32(rows), np.int32(columns)

    if kernel == "matrix_vector":
        made = CudaKernel(source, "matrix_vector")
        return Timed(made, (-(-rows // threads),), (threads,), products, (source,), cut_axis=0)
    made = CudaKernel(source, f"matrix_sum<{'true' if kernel == 'sum_along' else 'false'}>")
    return Timed(made, (-(-columns // _SIDE), -(-rows // _SIDE)), (_SIDE, _SIDE), sums, (source,), cut_axis=1)


def _zero_histogram(kernel: str, size: int, threads: int) -> Timed:
    entry = {
        "histogram_global": "in_global<unsigned, true>",
        "histogram_shared": f"in_shared<unsigned, {_ZERO_BINS}, false>",
    }[kernel]

    def arguments(depth: int | None) -> tuple:
        count = size if depth is None else depth
        return np.zeros(count, np.uint32), np.int32(count), slab_of_counters(), np.int32(_ZERO_BINS)

    def grid_of(depth: int) -> tuple[int, ...]:
        return (-(-depth // threads),)

    made = CudaKernel(HERE / "histograms.cu", entry)
    return Timed(
        made, grid_of(size), (threads,), arguments, (made.source,), depth=size, depth_step=threads, grid_of=grid_of,
        depends_on_data=True,
    )  # fmt: skip


MEMORY_FAMILIES: dict[str, Callable[[Row, Path | None], Timed]] = {
    "reductions": reductions,
    "memory_ladders": memory_ladders,
    "textbook": textbook,
}
