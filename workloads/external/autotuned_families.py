"""Products that PyTorch's compiler tuned, each choice a launch.

Mental model: a row is a shape and a choice of tile, depth of a step, stages of the pipeline and warps. Triton is
imported when a launch is asked for: it is an extra, and large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .launches import HERE, Row, Timed

_SOURCES = (HERE / "products_triton.py", Path(__file__))
#: Rows of tiles that are dealt out together (``GROUP_M`` of every printed choice).
_GROUP = 8


def autotuned_mm(row: Row, checkout: Path | None = None) -> Timed:
    """``rows`` x ``columns`` summed over ``depth``, in half precision, by tiles of ``block_m`` x ``block_n``."""
    from . import products_triton

    kernel: Any = products_triton.autotuned_mm
    m, n, k, block_m, block_n, block_k, stages, warps = (
        int(row[name]) for name in ("rows", "columns", "depth", "block_m", "block_n", "block_k", "stages", "warps")
    )

    def arguments(_: int | None) -> tuple:
        a, b, c = (np.zeros(shape, np.float16) for shape in ((m, k), (n, k), (m, n)))
        return a, b, c, m, n, k, block_m, block_n, block_k, _GROUP

    grid = (-(-m // block_m) * -(-n // block_n),)
    return Timed(
        partial(kernel, num_warps=warps, num_stages=stages), grid, None, arguments, _SOURCES,
        (f"num_warps={warps}", f"num_stages={stages}"), cut_axis=0, product=True,
    )  # fmt: skip


AUTOTUNED_FAMILIES: Mapping[str, Callable[[Row, Path | None], Timed]] = {"autotuned_mm": autotuned_mm}
