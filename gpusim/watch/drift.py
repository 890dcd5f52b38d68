"""A level that moves a little with every point: one change with a beginning and an end, and not a row of steps.

Mental model: flat, then a line, then flat again; the two corners where least is left unexplained are taken. What is
left tells the noise (a history that only wanders leaves as much), and the rise is believed as a step is: where its two
ends are further apart than noise makes means. A few steps the same way look like it: of the two accounts the one with
the better information criterion holds (each step costs its height and its place, the line its slope and each corner:
Yao, "Estimating the number of change-points via Schwarz' criterion", Statistics & Probability Letters 6, 1988).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpusim.watch.kept_statistics import best_levels, t_tail
from gpusim.watch.levels import ALPHA, levels_of
from gpusim.watch.spread import LEAST_LEVEL, Spread

#: Places that are tried for each corner: finer ones differ by less than noise lets them be known.
_PLACES = 24
#: A drift takes at least so many points; a faster one is a step.
SHORTEST = 20
#: Of what the means of sixteenths of the history vary by, the line must explain so much: a level that wanders is no
#: drift.
_BLOCKS, _EXPLAINED = 16, 0.9
#: Sets of corners that could be taken for a drift without being alike, for each length of history in units of the
#: drift's.
_LOOKS = 8


@dataclass(frozen=True)
class Drift:
    """``first``, ``last``: points where the line begins and ends; ``before``, ``after``: its values there; ``p``:
    chance that noise shows as much anywhere in the history; ``line``: flat, line, flat, float64[n]."""

    first: int
    last: int
    before: float
    after: float
    p: float
    line: np.ndarray


def find_drift(values: np.ndarray, *, alpha: float = ALPHA, least: float = 0.0) -> Drift | None:
    """The drift of ``values`` (one level but for it, without outliers), None where there is none."""
    n = len(values)
    if n < 2 * SHORTEST:
        return None
    places = np.unique(np.linspace(0, n - 1, min(n, _PLACES)).astype(int))
    first, last = (each.ravel() for each in np.meshgrid(places, places))
    wanted = last - first >= SHORTEST
    first, last = first[wanted], last[wanted]
    ramps = np.clip((np.arange(n)[None, :] - first[:, None]) / (last - first)[:, None], 0.0, 1.0)
    ramps -= ramps.mean(axis=1, keepdims=True)
    power = (ramps**2).sum(axis=1)
    rises = ramps @ (values - values.mean()) / power
    best = int(np.argmax(rises**2 * power))
    line = values.mean() + rises[best] * ramps[best]
    if not _is_line(values, line):
        return None
    spread = Spread(values - line, least=least)
    if spread.sigma == 0.0:
        return None
    half = max(LEAST_LEVEL, min(n // 2, (n - (last[best] - first[best]) // 2) // 2))
    noise, freedom = spread.apart((0, half), (n - half, n))
    seen = line[n - half :].mean() - line[:half].mean()
    p = t_tail(abs(seen) / noise, freedom) * _LOOKS * n / (last[best] - first[best])
    corners = int(first[best] > 0) + int(last[best] < n - 1)
    if p > alpha or not _better_than_levels(values, line, corners, spread.independent_variance):
        return None
    return Drift(int(first[best]), int(last[best]), float(line[first[best]]), float(line[last[best]]), p, line)


def _is_line(values: np.ndarray, line: np.ndarray) -> bool:
    means = np.array([each.mean() for each in np.array_split(values, _BLOCKS)])
    left = means - np.array([each.mean() for each in np.array_split(line, _BLOCKS)])
    return bool(np.var(left) <= (1 - _EXPLAINED) * np.var(means))


def _better_than_levels(values: np.ndarray, line: np.ndarray, corners: int, variance: float) -> bool:
    """Whether ``line`` of so many ``corners`` is a better account of ``values`` than any row of steps, in noise of
    ``variance``."""
    n, each = len(values), math.log(len(values))
    places = best_levels(values / math.sqrt(variance), penalty=2 * each, least=LEAST_LEVEL)
    levels = levels_of(values, [0, *places, n])
    of_line = float(((values - line) ** 2).sum()) / variance + each * (1 + corners)
    return of_line < float(((values - levels) ** 2).sum()) / variance + 2 * each * len(places)
