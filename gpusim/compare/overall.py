"""Many compared launches in a few figures: mean errors, geometric mean, rank correlation, the worst.

Mental model: MAPE says how far off a prediction is typically; the geometric mean of simulated over measured says which
way the model leans; Spearman's rank correlation says whether the model puts launches in the right order, which is what
choosing between variants needs. Figures that a handful of points cannot carry are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusim.compare.statistics import mean_ranks

WORST = 10
#: Ranks of fewer points than this agree by chance.
LEAST_RANKED = 3


@dataclass(frozen=True)
class Overall:
    """Figures over ``launches`` pairs of cycles; percentages are of the measured cycles."""

    launches: int
    mape_percent: float
    bias_percent: float
    geometric_mean_ratio: float
    spearman: float
    within_tolerance_percent: float


def summarise_pairs(simulated: Sequence[float], measured: Sequence[float], tolerance_percent: float) -> Overall:
    """Figures over positive cycles, simulated and measured in the same order."""
    s, m = np.asarray(simulated, float), np.asarray(measured, float)
    if not len(s):
        return Overall(0, math.nan, math.nan, math.nan, math.nan, math.nan)
    errors = 100.0 * (s - m) / m
    return Overall(
        len(s),
        float(np.abs(errors).mean()),
        float(errors.mean()),
        float(np.exp(np.log(s / m).mean())),
        spearman(s, m),
        # The factor of gpusim.compare.judge, either way.
        100.0 * float((np.abs(np.log(s / m)) <= math.log1p(tolerance_percent / 100)).mean()),
    )


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's rank correlation with mean ranks for ties; NaN for too few or constant values."""
    if len(a) < LEAST_RANKED:
        return math.nan
    ranks = [mean_ranks(np.asarray(values, float))[0] for values in (a, b)]
    if any(np.ptp(r) == 0 for r in ranks):
        return math.nan
    return float(np.corrcoef(*ranks)[0, 1])
