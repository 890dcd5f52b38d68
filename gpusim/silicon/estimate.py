"""A median and how sure it is, without assuming what the noise looks like.

Mental model: kernel times have a long right tail, so the middle of the sorted samples says more than their mean, and
its interval runs between two of the samples themselves: the number of samples below the true median is binomial
(n, 1/2), whatever their distribution (David and Nagaraja, Order Statistics, 7.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from gpusim.silicon.row import Estimate

CONFIDENCE = 0.95


def median_estimate(samples: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Median of ``samples`` (at least one) with its order-statistics interval of at least ``confidence``; with fewer
    samples than that takes (5 for 0.95 is too few, 6 are enough), the interval is their whole range."""
    ordered = sorted(samples)
    n = len(ordered)
    if not n:
        raise ValueError("no samples")
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    rank = _rank(n, confidence)
    return Estimate(middle, ordered[rank], ordered[n - 1 - rank])


def _rank(n: int, confidence: float) -> int:
    """Largest r such that [x_r, x_(n-1-r)] (counted from 0) holds the median with at least ``confidence``."""
    tail_allowed = (1 - confidence) / 2
    tail, probability, rank = 0.0, 0.5**n if n < 1000 else 0.0, 0
    if n >= 1000:  # 2**-n is too small for a float: the normal form, on the safe side by one
        return max(0, math.floor(n / 2 + NormalDist().inv_cdf(tail_allowed) * math.sqrt(n) / 2) - 1)
    for r in range(n // 2):
        tail += probability
        if tail > tail_allowed:
            break
        rank = r
        probability *= (n - r) / (r + 1)
    return rank


def relative_half_width(estimate: Estimate) -> float:
    """Half the interval over the median; infinite for a median of 0."""
    return (estimate.high - estimate.low) / 2 / estimate.median if estimate.median else math.inf
