"""Values that switch to and fro between two levels: two clocks, two hosts, a lucky and an unlucky placement.

Mental model: the best cut of the values in two groups (Otsu, "A threshold selection method from gray-level histograms",
1979) leaves a gap, and the history crosses it again and again. A single crossing is a step, and one there and back are
two; with more it is a mode, and going over to the other one is no change. What may change is each mode's level, and the
share of points in either.
"""

from __future__ import annotations

import numpy as np

#: Distance of the groups' means in standard deviations within them: two normal modes are seen as two from 4 on; the
#: halves of one normal distribution lie 2.6 apart, of an even one 3.5.
GAP = 3.6
#: Crossings of the gap that make it one (a step and an outlier to either side of it are five), and the least share of
#: points on either side: fewer are outliers.
CROSSINGS, LEAST_SHARE = 5, 0.1
#: Crossings that are enough where each is a step beyond doubt.
SURE_CROSSINGS = 3
#: Of the gap, what a crossing jumps: one mode's point to the other's, less noise.
LEAST_JUMP = 0.7


def modes_of(
    values: np.ndarray, *, noise: float = np.inf, crossings: int = CROSSINGS
) -> tuple[np.ndarray, float] | None:
    """Which points lie in the upper mode, bool[n], and how far that lies above the lower one; None where there are no
    two, with a standard deviation of at most ``noise``, or the gap is crossed less than ``crossings`` times."""
    n = len(values)
    if n < 10:
        return None
    ordered = np.sort(values)
    at = np.arange(1, n)
    sums = np.cumsum(ordered - ordered.mean())[:-1]
    cut = int(np.argmax(sums**2 / (at * (n - at)))) + 1
    low, high = ordered[:cut], ordered[cut:]
    within = float(np.sqrt((low.var() * len(low) + high.var() * len(high)) / n))
    gap = float(high.mean() - low.mean())
    if min(cut, n - cut) < LEAST_SHARE * n or gap <= GAP * within or within > noise:
        return None
    upper = values >= high[0]
    height = (values - low.mean()) / gap
    clear = np.flatnonzero(np.abs(height - 0.5) >= 0.25)  # between the modes lies noise, and is no crossing
    crossed = clear[1:][np.diff(height[clear] > 0.5)]
    jumps = np.abs(values[crossed] - values[crossed - 1])
    if len(jumps) < crossings or np.median(jumps) < LEAST_JUMP * gap:  # few, or it wanders from one to the other
        return None
    return upper, gap
