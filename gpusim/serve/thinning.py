"""Long series with as many points as a drawing can show.

Mental model: points whose places fall in one column of pixels are drawn over each other; the first, the last, the least
and the greatest of them leave the same pixels as all (M4: Jugel et al., "M4: a visualization-oriented time series data
aggregation", PVLDB 7, 2014), and a band between two lines the same with the least of the lower and the greatest of the
upper one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: Columns of a pixel of the drawing: a page shows it a little wider, on screens of two dots a pixel.
_COLUMNS = 2


def thin_line(xs: Sequence[float], ys: Sequence[float]) -> tuple[list[float], list[float]]:
    """The points of a line, ``xs`` rising, that are seen."""
    x, y, starts = _by_column(xs, ys)
    if len(starts) * 4 >= len(x):
        return list(xs), list(ys)
    ends = np.append(starts[1:], len(x))
    kept = {int(each) for start, end in zip(starts, ends, strict=True)
            for each in (start, start + y[start:end].argmin(), start + y[start:end].argmax(), end - 1)}  # fmt: skip
    at = sorted(kept)
    return x[at].tolist(), y[at].tolist()


def thin_band(
    xs: Sequence[float], low: Sequence[float], high: Sequence[float]
) -> tuple[list[float], list[float], list[float]]:
    """The same of what lies between two lines."""
    x, lower, starts = _by_column(xs, low)
    if len(starts) * 2 >= len(x):
        return list(xs), list(low), list(high)
    upper = np.maximum.reduceat(np.asarray(high, float), starts)
    return x[starts].tolist(), np.minimum.reduceat(lower, starts).tolist(), upper.tolist()


def _by_column(xs: Sequence[float], ys: Sequence[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both as arrays, and where each column begins."""
    x, y = np.asarray(xs, float), np.asarray(ys, float)
    starts = np.flatnonzero(np.diff(np.floor(x * _COLUMNS), prepend=-np.inf))
    return x, y, starts
