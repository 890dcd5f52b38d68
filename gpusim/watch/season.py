"""What repeats in a history with a period: week days, the hours of a day.

Mental model: take a moving mean over one period away, and what is left has the same values at the same phase if there
is a season. The period that explains most is believed if noise would explain as much in fewer than :data:`CHANCE` of
histories; then the median of each phase is taken off (classical decomposition: Hyndman and Athanasopoulos, Forecasting,
3.4, with medians, so that steps and outliers do not bend it).
"""

from __future__ import annotations

import numpy as np

from gpusim.watch.kept_statistics import f_tail

#: A season is believed beyond this, all periods that were tried counted.
CHANCE = 1e-4
#: The longest period that is tried, in points, and how often a period must fit.
LONGEST, CYCLES = 60, 5


def season_of(values: np.ndarray) -> np.ndarray:
    """What repeats, float64[n] of mean 0; zeros where nothing is known to. ``values``: float64[n] without outliers."""
    n = len(values)
    best, least = 0, CHANCE
    for period in range(2, min(LONGEST, n // CYCLES) + 1):
        p = _chance(_detrended(values, period), period) * LONGEST
        if p < least:
            best, least = period, p
    if not best:
        return np.zeros(n)
    rest = _detrended(values, best)
    phases = np.array([np.nanmedian(rest[phase::best]) for phase in range(best)])
    return np.resize(phases - phases.mean(), n)


def _detrended(values: np.ndarray, period: int) -> np.ndarray:
    """``values`` less their mean over one period around each, NaN at the ends, where there is none."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    means = (sums[period:] - sums[:-period]) / period
    if period % 2 == 0:
        means = (means[1:] + means[:-1]) / 2
    left = (len(values) - len(means)) // 2
    return values - np.pad(means, (left, len(values) - len(means) - left), constant_values=np.nan)


def _chance(rest: np.ndarray, period: int) -> float:
    """Of an analysis of variance over the phases, on ranks (Kruskal and Wallis), so that outliers do not decide."""
    phase = np.flatnonzero(~np.isnan(rest)) % period
    rest = rest[~np.isnan(rest)]
    n = len(rest)
    ranks = np.argsort(np.argsort(rest)) - (n - 1) / 2
    total = float(ranks @ ranks)
    counts = np.bincount(phase, minlength=period)
    between = float((np.bincount(phase, weights=ranks, minlength=period) ** 2 / counts).sum())
    if total <= between:
        return 0.0
    return f_tail((between / (period - 1)) / ((total - between) / (n - period)), period - 1, n - period)
