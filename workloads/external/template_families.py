"""A product's template in Triton that a compiler tunes, as launches: one of each row's sizes and configuration.

Mental model: the columns are what the compiler's log prints of a configuration. Triton is imported when a launch is
asked for: it is an extra, and large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .launches import HERE, Row, Timed

_SOURCES = (HERE / "template_triton.py", Path(__file__))
#: Rows of tiles of a group, in every line of the logs.
_GROUP = 8


def template_product(row: Row, checkout: Path | None = None) -> Timed:
    """C (``m`` x ``n``) = A B over ``k``, of ``dtype``; ``b``: whether B's neighbours lie along k ("k-major", as of a
    layer's weights) or along n. ``k`` is a multiple of every tile's depth in the tables. Raises ValueError for a row
    whose k is none."""
    from . import template_triton

    m, n, k = (int(row[each]) for each in ("m", "n", "k"))
    high, wide, deep = (int(row[each]) for each in ("block_m", "block_n", "block_k"))
    warps, stages = int(row["warps"]), int(row["stages"])
    if k % deep:
        raise ValueError(f"k {k} is not a multiple of block_k {deep}: the template has masks then, this one has not")
    kind = np.dtype(str(row["dtype"]))
    apart = (1, k) if row["b"] == "k-major" else (n, 1)
    kernel: Any = template_triton.product

    def arguments(depth: int | None) -> tuple:
        a, b, c = np.zeros((m, k), kind), np.zeros((k, n), kind), np.zeros((m, n), kind)
        steps = -(-(depth or k) // deep)
        return a, b, c, m, n, k, steps, *apart, high, wide, deep, _GROUP, False

    return Timed(
        partial(kernel, num_warps=warps, num_stages=stages), (-(-m // high) * -(-n // wide), 1), None, arguments, _SOURCES,
        (f"num_warps={warps}", f"num_stages={stages}"), cut_axis=0, depth=k, depth_step=deep, product=True,
    )  # fmt: skip


def layer_product(row: Row, checkout: Path | None = None) -> Timed:
    """The same of ``rows`` x ``columns`` over ``depth`` in half precision, B as a layer's weights lie."""
    sizes = {"m": row["rows"], "n": row["columns"], "k": row["depth"], "dtype": "float16", "b": "k-major"}
    return template_product({**row, **sizes}, checkout)


TEMPLATE_FAMILIES: Mapping[str, Callable[[Row, Path | None], Timed]] = {
    "layer_product": layer_product,
    "template_product": template_product,
}
