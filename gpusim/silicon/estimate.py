"""A median and how sure it is, without assuming what the noise looks like.

Mental model: kernel times have a long right tail, so the middle of the sorted samples says more than their mean, and
its interval runs between two of the samples themselves: the number of samples below the true median is binomial
(n, 1/2), whatever their distribution (David and Nagaraja, Order Statistics, 7.1).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
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


def relative_half_width(samples: Sequence[float]) -> float:
    """Half the interval of the samples' median over the median; infinite for a median of 0.

    Samples in the order in which they were taken: where neighbours resemble each other (a clock that hops, a drift),
    there are fewer independent ones than samples, and the interval is widened by the variance inflation of a
    first-order autoregression, sqrt((1 + r) / (1 - r)) with the lag-1 correlation r (Wilks, Statistical Methods,
    5.2.4)."""
    estimate = median_estimate(samples)
    if not estimate.median:
        return math.inf
    correlation = min(0.95, max(0.0, _lag_1(samples)))
    widening = math.sqrt((1 + correlation) / (1 - correlation))
    return widening * (estimate.high - estimate.low) / 2 / estimate.median


def _lag_1(samples: Sequence[float]) -> float:
    """Correlation of neighbours, by ranks so that one outlier does not decide it."""
    if len(samples) < 3 or min(samples) == max(samples):
        return 0.0
    ordered = sorted(samples)
    rank = [(bisect_left(ordered, sample) + bisect_right(ordered, sample)) / 2 - len(samples) / 2 for sample in samples]
    power = sum(value * value for value in rank)
    return sum(a * b for a, b in pairwise(rank)) / power
