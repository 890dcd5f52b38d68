"""Random sparse matrices in compressed rows, which the sparse kernels share."""

from __future__ import annotations

import numpy as np

from .case import require_positive


def random_rows(
    rows: int, mean_row_length: int, skew: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(row_start int32[rows + 1], columns int32[nonzeros]) of a square matrix.

    Row lengths are all ``mean_row_length`` for ``skew`` 0, from a geometric law (few long rows, many
    short ones, empty ones too) for 1, mixed in between. Columns are drawn evenly, so that one may occur
    twice in a row. Raises ValueError for a shape that makes no sense.
    """
    require_positive(rows=rows, mean_row_length=mean_row_length)
    if not 0 <= skew <= 1:
        raise ValueError(f"skew must lie in [0, 1], not {skew!r}")
    long_tailed = rng.geometric(1 / (mean_row_length + 1), rows) - 1
    lengths = np.where(rng.random(rows) < skew, long_tailed, mean_row_length)
    row_start = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return row_start, rng.integers(0, rows, int(row_start[-1])).astype(np.int32)


def times(row_start: np.ndarray, columns: np.ndarray, values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The matrix times ``x`` in double precision."""
    rows = row_start.size - 1
    row_of = np.repeat(np.arange(rows), np.diff(row_start))
    return np.bincount(row_of, values.astype(np.float64) * x[columns], minlength=rows)
