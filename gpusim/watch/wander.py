"""Whether a step says more of some points than that each is like the one before it: a level that wanders makes such
steps by itself.

Mental model: two accounts of the same points, each with its own correlation of neighbours (a first-order
autoregression, exact Gaussian likelihood): one level, and two levels that part at a place. In few points a step looks
like correlation and correlation like a step; only what one level cannot explain whatever its correlation is a step. How
much better the second must be is known for the worst case, a level that keeps nothing of where it was (a unit root),
with the place chosen by the data.
"""

from __future__ import annotations

import numpy as np

#: Student's t of the second account beyond which lie 5 % of wandering levels: the asymptotic critical value for a break
#: of the level at an unknown place (Zivot and Andrews, "Further evidence on the great crash, the oil-price shock, and
#: the unit-root hypothesis", Journal of Business and Economic Statistics 10, 1992, model A). White noise has passed a
#: test at 1 % before.
_CRITICAL_T = 4.80
#: Correlations of neighbours that are tried, as a column.
_PHI = np.linspace(0.0, 0.95, 20)[:, None]
#: Points of a mean (the least level), which halves the noise of each, and the least number of means: critical values
#: are those of many points, and of 25 means (100 points) a step of two standard deviations would be missed in one case
#: of ten.
_FEW, _LEAST_MEANS = 4, 50
#: Of the noise around one level, what is left at least: beyond, numbers are rounded.
_LEAST_LEFT = 1e-12


def outdoes_wander(values: np.ndarray, index: int) -> bool:
    """Whether two levels that part at ``index`` are a better account of ``values``, float64[n], than one level and
    correlated noise, of the points and, where there are enough, of means of a few: what each point has of its own hides
    how alike the levels under them are."""
    left, right = index // _FEW, (len(values) - index) // _FEW
    if not _outdoes(values, index):
        return False
    if left + right < _LEAST_MEANS or not (left and right):
        return True
    means = values[index - left * _FEW : index + right * _FEW].reshape(-1, _FEW).mean(axis=1)
    return _outdoes(means, left)


def _outdoes(values: np.ndarray, index: int) -> bool:
    n = len(values)
    one, step, rest = (_whitened(each) for each in (np.ones(n), (np.arange(n) >= index) * 1.0, values - values.mean()))
    step, rest = _without(step, one), _without(rest, one)
    single, both = (rest**2).sum(axis=1), (_without(rest, step) ** 2).sum(axis=1)
    least = _LEAST_LEFT * single[0]
    if least <= 0.0:
        return False
    determinant = -np.log(1 - _PHI[:, 0] ** 2)
    deviances = [float((n * np.log(np.maximum(left, least)) + determinant).min()) for left in (single, both)]
    return n * np.expm1((deviances[0] - deviances[1]) / n) >= _CRITICAL_T**2


def _whitened(values: np.ndarray) -> np.ndarray:
    """What each of ``values`` adds to the one before it for each correlation, all of one variance,
    float64[correlations, n]."""
    return np.concatenate([np.sqrt(1 - _PHI**2) * values[0], values[1:] - _PHI * values[:-1]], axis=1)


def _without(values: np.ndarray, part: np.ndarray) -> np.ndarray:
    """``values`` less their projection on ``part``, row by row."""
    power = np.maximum((part**2).sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return values - (values * part).sum(axis=1, keepdims=True) / power * part
