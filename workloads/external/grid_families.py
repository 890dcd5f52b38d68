"""Kernels over regular grids that others timed, as launches: a step of a lattice Boltzmann method on many GPUs, and a
textbook's convolutions.

Mental model: sizes, blocks and grids are those of the program that was measured. All blocks are alike but those at an
edge.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from .launches import HERE, CudaKernel, Row, Timed

#: OpenCL divides to 2.5 units in the last place, which CUDA calls imprecise; its other options change nothing of this
#: kernel.
_LIKE_OPENCL = ("--prec-div=false",)
_FILTERS, _FLOAT_BYTES = HERE / "filters.cu", 4
_VELOCITIES, _LATTICE_THREADS = 19, 64
#: Format of the populations -> its number in the kernel, and its type.
_FORMATS = {"fp32": (0, np.float32), "fp16s": (1, np.uint16), "fp16c": (2, np.uint16)}


def lattice(row: Row, checkout: Path | None = None) -> Timed:
    """One step over a cube of ``side`` cells a side, none of them solid, populations in ``format``."""
    number, kind = _FORMATS[str(row["format"])]
    side = int(row["side"])
    cells = side**3
    made = CudaKernel(HERE / "lattice.cu", f"lattice<{number}, {side}>", _LIKE_OPENCL)
    return Timed(
        made, (cells // _LATTICE_THREADS,), (_LATTICE_THREADS,),
        lambda _: (np.zeros((_VELOCITIES, cells), kind), np.zeros(cells, np.uint8), np.uint64(1)), (made.source,),
        _LIKE_OPENCL, cut_axis=0, streams=True,
    )  # fmt: skip


def filters(row: Row, checkout: Path | None = None) -> Timed:
    """A filter with a mask of ``mask`` (squared for images), over ``size`` elements or an image of that side and
    ``channels``, by blocks of ``block`` threads (squared for images)."""
    kernel, size, mask, block, channels = (
        row["kernel"],
        *(int(row[name]) for name in ("size", "mask", "block", "channels")),
    )
    made = CudaKernel(_FILTERS, str(kernel))
    image, tiled = kernel.startswith("image"), kernel == "image_tiled"
    elements, width = (size * size * channels, mask * mask) if image else (size, mask)
    sizes = (mask, mask, size, size, channels) if image else (mask, size)
    blocks = -(-size // (block - mask + 1 if tiled else block))
    shared = {"row_tiled": block + mask - 1, "row_cached": block, "image_tiled": block * block}

    def arguments(_: int | None) -> tuple:
        masks = (np.zeros(width, np.float32),) if kernel.endswith("_global") else ()
        return np.zeros(elements, np.float32), *masks, np.zeros(elements, np.float32), *sizes

    return Timed(
        made, (blocks, blocks) if image else (blocks,), (block, block) if image else (block,), arguments, (_FILTERS,),
        cut_axis=1 if image else 0, streams=True, shared_bytes=_FLOAT_BYTES * shared.get(kernel, 0),
    )  # fmt: skip


GRID_FAMILIES: dict[str, Callable[[Row, Path | None], Timed]] = {"lattice": lattice, "filters": filters}
