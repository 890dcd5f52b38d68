"""Products of a matrix and a vector, forces between particles, and a course's exercises, that others timed, as
launches.

Mental model: nothing depends on data. A quantised matrix holds bytes, two elements each where they have four bits; a
row of threads is a row of it. Of particles each pair is worked out, as a matrix that is summed afterwards or by tiles
(``depth``: how many of the others are summed over). Of exercises whose blocks go on until an array ends the launch of a
shorter array is the same grid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from .launches import HERE, CudaKernel, Row, Timed, floats

#: Bits of an element: entry, type of what the matrix is kept in, elements in one of these, whether it has a scale and a
#: zero point.
_BITS = {
    16: ("in_halves", np.float16, 1, False),
    8: ("in_eight_bits", np.int8, 1, True),
    4: ("in_four_bits", np.uint8, 2, True),
}
#: Side of a block of the matrix of forces; threads of all other blocks, which are the particles of a tile too; floats
#: of an element of a force.
_SIDE, _THREADS, _PARTS = 16, 256, 4
_FAST = ("--use_fast_math",)


def vector_products(row: Row, checkout: Path | None = None) -> Timed:
    """A square matrix of elements of ``bits`` times a vector, by rows of ``wide`` threads, ``high`` of them a block."""
    bits, n, wide, high = (int(row[name]) for name in ("bits", "size", "wide", "high"))
    entry, kind, held, quantised = _BITS[bits]
    made = CudaKernel(HERE / "vector_products.cu", entry)

    def arguments(depth: int | None) -> tuple:
        scaled = (np.float16(0.5), np.float16(3)) if quantised else ()
        arrays = np.zeros((n, n // held), kind), np.zeros(n, np.float16), np.zeros(n, np.float16)
        return *arrays, np.uint32(n), *scaled, np.uint32(n // wide)

    return Timed(made, (1, n // high), (wide, high), arguments, (made.source,), cut_axis=1, streams=True)


def particles(row: Row, checkout: Path | None = None) -> Timed:
    """A kernel of a step of ``count`` charged particles; ``fast``: whether by fast arithmetic."""
    kernel, count = str(row["kernel"]), int(row["count"])
    options = _FAST if row["fast"] == "yes" else ()
    made = CudaKernel(HERE / "particles.cu", kernel, options)
    blocks = -(-count // _THREADS)

    def of_each() -> list[np.ndarray]:
        return [floats(count) for _ in range(7)]

    if kernel == "forces":
        # Its blocks go on until the matrix ends, so that fewer of them have fewer rows to do.
        side = -(-count // _SIDE)
        return Timed(
            made, (side, side), (_SIDE, _SIDE),
            lambda depth: (*of_each(), floats(count, count, _PARTS), np.uint64(depth or count), np.uint64(count)),
            (made.source,), options, depth=count if side > 2 else None, depth_step=_SIDE,
            grid_of=lambda rows: (side, -(-rows // _SIDE)), depends_on_data=side > 2, streams=True,
        )  # fmt: skip
    if kernel == "sums_of_rows":
        return Timed(
            made, (count,), (_THREADS,),
            lambda _: (floats(count, count, _PARTS), floats(count, _PARTS), np.uint64(count), np.uint64(count)),
            (made.source,), options, cut_axis=0, streams=True, shared_bytes=4 * _PARTS * _THREADS,
        )  # fmt: skip
    if kernel == "forces_by_tiles":
        return Timed(
            made, (blocks, 1), (_THREADS,),
            lambda depth: (*of_each(), floats(count, _PARTS), np.uint64(count), np.uint64(depth or count)),
            (made.source,), options, cut_axis=0, depth=count, depth_step=_THREADS, product=True,
        )  # fmt: skip
    return Timed(
        made, (blocks,), (_THREADS,), lambda _: (*of_each(), floats(count, 3), np.float32(0.1), np.uint64(count)),
        (made.source,), options,
    )  # fmt: skip


def exercises(row: Row, checkout: Path | None = None) -> Timed:
    """An exercise of the course over ``size`` elements, or rows of a matrix; ``blocks`` of ``threads``."""
    kernel, size, blocks, threads = str(row["kernel"]), int(row["size"]), int(row["blocks"]), int(row["threads"])
    made = CudaKernel(HERE / "exercises.cu", kernel)

    if kernel == "added":
        arrays = [floats(size) for _ in range(3)]
        return Timed(
            made, (blocks,), (threads,), lambda depth: (*arrays, np.int32(depth or size)), (made.source,), depth=size,
            depth_step=blocks * threads, depends_on_data=True,
        )  # fmt: skip
    if kernel in ("of_rows", "of_columns"):
        return Timed(
            made, (blocks, 1), (threads,),
            lambda depth: (floats(size, size), floats(size), np.uint64(size), np.uint64(depth or size)), (made.source,),
            cut_axis=0, depth=size, depth_step=32, product=True,
        )  # fmt: skip
    return Timed(
        made, (blocks,), (threads,), lambda depth: (floats(size), floats(1), np.uint64(depth or size)), (made.source,),
        cut_axis=0 if kernel == "by_atomics" else None, depth=None if kernel == "by_atomics" else size,
    )  # fmt: skip


VECTOR_FAMILIES: Mapping[str, Callable[[Row, Path | None], Timed]] = {
    "vector_products": vector_products,
    "particles": particles,
    "exercises": exercises,
}
