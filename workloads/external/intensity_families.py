"""Arithmetic of any intensity between loads that others timed, as launches.

Mental model: all blocks are alike and read what no other reads, once; from a few steps an element on the pipes bound
the launch rather than DRAM, from how many on depends on the element's type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from .launches import HERE, CudaKernel, Row, Timed

#: Elements that a launch reads, of 128 or 256 MiB; threads of a block, and elements of one of its threads.
_ELEMENTS, _THREADS, _EACH = 32 << 20, 256, 8 * 4
#: Element -> what the compiler calls it, steps that are written out together, an array's type, the seed.
_KINDS = {
    "float": ("float", 128, np.float32, np.float32(1)),
    "double": ("double", 128, np.float64, np.float64(1)),
    "half2": ("__half2", 128, np.uint32, np.uint32(0x3C003C00)),
    "int": ("int", 4, np.int32, np.int32(1)),
}


def mixed_intensity(row: Row, checkout: Path | None = None) -> Timed:
    """``steps`` of a multiplication and an addition for each ``element`` that is read."""
    name, together, kind, seed = _KINDS[str(row["element"])]
    made = CudaKernel(HERE / "mixed_intensity.cu", f"mixed<{name}, {int(row['steps'])}, {together}>")
    return Timed(
        made, (_ELEMENTS // (_THREADS * _EACH),), (_THREADS,), lambda _: (seed, np.zeros(_ELEMENTS, kind)),
        (made.source,), cut_axis=0, streams=True,
    )  # fmt: skip


INTENSITY_FAMILIES: Mapping[str, Callable[[Row, Path | None], Timed]] = {"mixed_intensity": mixed_intensity}
