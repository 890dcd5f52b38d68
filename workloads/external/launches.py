"""What a family of measured kernels makes of a row: a launch.

Mental model: a :class:`Timed` is kernel, whole grid, block, and arguments made when asked for. Arrays hold zeros, which
the system gives out page by page, where a kernel's path does not depend on them; what they must hold for a right result
is the tests' business. ``depth`` says how much of the work is run, for a kernel that can do less of it: of a loop over
a common dimension, or of the elements, with as much less of the grid (``grid_of``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernels.case import Case

from .fp8_loop import Elementwise, Product

HERE = Path(__file__).parent
#: What CUDA takes at a time for small allocations: a program's first one begins it. Which bins share an atomic unit
#: depends on that.
_SLAB_BYTES = 2 << 20
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Timed:
    """``arguments(depth)`` makes the arguments, of a launch that runs ``depth`` of the common dimension or of the
    elements (None: all of it, ``depth`` of this). ``cut_axis``: the axis of the grid along which the blocks are alike,
    so that a part of them stands for all; None where none is. ``grid_of(depth)``: the grid of a launch to that depth;
    None where it is the whole one's. ``depends_on_data``: whether values decide paths or addresses. ``streams``:
    whether it goes once over arrays larger than L2, and writes as much as L2 holds. ``shared_bytes``: dynamic shared
    memory of a block. ``product``: whether ``depth`` is what a product sums over; the last array is then what it
    writes. ``cluster``: blocks of a cluster, along the first axis of the grid. ``rounds``: tiles that each block takes,
    of blocks that stay, whose grid is one wave (``arguments(depth)`` then runs so many of them); None of others.
    ``sms_alike``: whether an SM takes nothing from another, so that few of them say what all do."""

    kernel: Any
    grid: tuple[int, ...]
    block: tuple[int, ...] | None
    arguments: Callable[[int | None], tuple]
    sources: tuple[Path, ...]
    options: tuple[str, ...] = ()
    cut_axis: int | None = None
    depth: int | None = None
    depth_step: int = 1
    grid_of: Callable[[int], tuple[int, ...]] | None = None
    depends_on_data: bool = False
    streams: bool = False
    shared_bytes: int = 0
    product: bool = False
    cluster: int = 1
    rounds: int | None = None
    sms_alike: bool = False


@dataclass(frozen=True)
class CudaKernel:
    """A kernel of CUDA C++: a source file, an entry in it, and options, as the front end asks for them."""

    source: Path
    entry: str
    options: tuple[str, ...] = ()

    @property
    def __name__(self) -> str:
        return self.entry

    def __cuda_cpp__(self) -> dict[str, Any]:
        return {"source": str(self.source), "entry": self.entry, "options": self.options, "cooperative": False}


@dataclass(frozen=True)
class SuiteLaunch:
    """A row that a kernel of the suite stands for: entry ``name`` with ``shape(SMs of the GPU)``, one launch. It is run
    whole, its waves sampled. ``before(case)``: a launch that leaves its data in the caches; ``around``: what the
    measured program runs in turn with it, with which it shares the clock that the board's power leaves."""

    name: str
    shape: Callable[[int], dict[str, int]]
    sources: tuple[Path, ...]
    options: tuple[str, ...] = ()
    before: Callable[[Case], Timed] | None = None
    around: tuple[Product | Elementwise, ...] = ()


#: Writes the whole of a buffer: ``(buffer of float4, its length)``.
FLUSH = CudaKernel(HERE / "flush.cu", "flush")


def slab_of_counters() -> np.ndarray:
    """Counters (uint32) at the beginning of a slab, as of a program that allocates nothing else that is small; kernels
    know how many they use."""
    return np.zeros(_SLAB_BYTES // 4, np.uint32)


def floats(*shape: int) -> np.ndarray:
    """Zeros (float32) of this shape: what a kernel of which nothing depends on data is given."""
    return np.zeros(shape, np.float32)
