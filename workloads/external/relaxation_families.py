"""A relaxation in two dimensions that others timed, as launches.

Mental model: a step writes the mean of a cell's four neighbours, and a copy behind it takes the result back; sizes,
blocks and grids are those of the program that was measured. All blocks are alike but those at an edge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from .launches import HERE, CudaKernel, Row, Timed

#: Threads of a block of the relaxation; what a thread takes -> entry, columns of a block, elements of it, their type.
_PLANE_THREADS = 256
_ELEMENTS = {
    "float": ("{}<float>", 32, 1, np.float32),
    "half": ("{}<__half>", 32, 1, np.uint16),
    "float4": ("{}<float4, 4>", 32, 4, np.float32),
    "half2": ("{}<__half2, 2>", 32, 2, np.uint16),
}
#: Kernel -> its entry, and that of vectors.
_STEPS = {"relax": ("relax", "relax_vectors"), "take_back": ("take_back", "take_vectors_back")}


def laplace(row: Row, checkout: Path | None = None) -> Timed:
    """A step over cells of ``side`` x ``side``, the border included, or the copy behind it, of an ``element`` a
    thread."""
    entry, width, lanes, kind = _ELEMENTS[str(row["element"])]
    side = int(row["side"])
    made = CudaKernel(HERE / "laplace.cu", entry.format(_STEPS[str(row["kernel"])][lanes > 1]))
    return Timed(
        made, (side // lanes // width, side // (_PLANE_THREADS // width)), (width, _PLANE_THREADS // width),
        lambda _: (side - 2, side - 2, np.zeros((side, side), kind), np.zeros((side, side), kind)), (made.source,),
        cut_axis=1, streams=True,
    )  # fmt: skip


RELAXATION_FAMILIES: Mapping[str, Callable[[Row, Path | None], Timed]] = {"laplace": laplace}
