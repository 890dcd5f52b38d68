"""Triton kernels that others timed, as launches: operators of a library on an H20, and a tutorial's sum of vectors on
several GPUs.

Mental model: sizes, tiles and warps are what the library's own rules make of a shape. Triton is imported when a launch
is asked for: it is an extra, and large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .launches import HERE, Row, Timed

_SOURCES = (HERE / "gems_triton.py", Path(__file__))
#: Elements of a program of the tutorial's sum; of a tile of an element-wise operator; and the programs such a launch
#: has at most.
_SUM_BLOCK, _TILE, _MOST_PROGRAMS = 1024, 512, 65536
#: Warps of a program where the library asks for none, and of a scan of rows longer than 2,048.
_WARPS, _WIDE_WARPS, _WIDE = 4, 8, 2048


def _any(kernel: Any) -> Any:
    """A kernel with Triton's options as keywords, which its type does not show."""
    return kernel


def tutorial_sum(row: Row, checkout: Path | None = None) -> Timed:
    """The sum of two vectors of ``size`` floats."""
    from . import gems_triton

    size, kernel = int(row["size"]), _any(gems_triton.vector_add)

    def arguments(_: int | None) -> tuple:
        x, y, out = (np.zeros(size, np.float32) for _ in range(3))
        return x, y, out, size, _SUM_BLOCK

    grid = (-(-size // _SUM_BLOCK),)
    return Timed(
        partial(kernel, num_warps=_WARPS), grid, None, arguments, _SOURCES, cut_axis=0, streams=True,
    )  # fmt: skip


def gems_rows(row: Row, checkout: Path | None = None) -> Timed:
    """An operator over ``rows`` x ``columns`` elements of ``dtype``."""
    import ml_dtypes
    import triton

    from . import gems_triton

    name, rows, columns = str(row["kernel"]), int(row["rows"]), int(row["columns"])
    kinds = {"float16": np.float16, "float32": np.float32, "bfloat16": ml_dtypes.bfloat16}
    kind = np.dtype(kinds[str(row["dtype"])])
    block, elements = triton.next_power_of_2(columns), rows * columns
    tiles = -(-elements // _TILE)
    programs = min(_MOST_PROGRAMS, tiles)
    each = -(-tiles // programs)

    def logcumsumexp(_: int | None) -> tuple:
        return np.zeros((rows, columns), kind), np.zeros((rows, columns), kind), columns, block

    def fused_rms_norm(_: int | None) -> tuple:
        x, out = np.zeros((rows, columns), kind), np.zeros((rows, columns), kind)
        return out, np.zeros(rows, np.float32), x, np.zeros(columns, kind), columns, columns, 1e-5, block

    def add_relu(_: int | None) -> tuple:
        return np.zeros(elements, kind), np.zeros(elements, kind), elements, each, _TILE, each == 1

    arguments: Callable[[int | None], tuple]
    kernel, arguments, grid, warps = {
        "logcumsumexp": (gems_triton.logcumsumexp, logcumsumexp, rows, _WIDE_WARPS if block > _WIDE else _WARPS),
        "fused_rms_norm": (gems_triton.fused_rms_norm, fused_rms_norm, rows, _WARPS),
        "add_relu": (gems_triton.add_relu, add_relu, programs, _WARPS),
    }[name]
    return Timed(
        partial(kernel, num_warps=warps), (grid,), None, arguments, _SOURCES, (f"num_warps={warps}",), cut_axis=0, streams=True,
    )  # fmt: skip


GEMS_FAMILIES: Mapping[str, Callable[[Row, Path | None], Timed]] = {
    "gems_rows": gems_rows,
    "tutorial_sum": tutorial_sum,
}
