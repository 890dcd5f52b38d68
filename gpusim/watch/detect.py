"""What changed in one noisy history: season, modes, steps, drifts and shares, in the order in which each can be told
from the rest.

Mental model: a history is a level, what repeats with a period, which of two modes each point fell in, and noise. Each
is taken off once it is known, and the next is looked for in what is left: the season first, then the modes (in the
values, or, where a larger step hides them, in what the steps leave), then the steps; a segment without a step may
drift; and if there are modes, the share of points in either is a history of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gpusim.watch.change import DRIFT, SHARE, STEP
from gpusim.watch.drift import find_drift
from gpusim.watch.levels import ALPHA, Step, find_steps, levels_of
from gpusim.watch.modes import SURE_CROSSINGS, modes_of
from gpusim.watch.season import season_of
from gpusim.watch.spread import LEAST_LEVEL, Spread


@dataclass(frozen=True)
class Noise:
    """What is known of a history's noise beside its values, all in their unit. ``least``: the standard deviation at
    least; ``expected`` and
    ``weight``: that of launches of its kind, and the degrees of freedom that this is worth."""

    least: float = 0.0
    expected: float = 0.0
    weight: float = 0.0

    def spread(self, values: np.ndarray) -> Spread:
        """The noise of ``values``, with this as what is known before."""
        return Spread(values, least=self.least, expected=self.expected, weight=self.weight)


@dataclass(frozen=True)
class Found:
    """A change at ``index`` (from 0; it may lie anywhere from ``low`` to ``high``), of a ``kind`` of
    :mod:`gpusim.watch.change`; ``p``: chance that noise alone shows as much anywhere in the history; ``last``: of a
    drift, its last point."""

    index: int
    low: int
    high: int
    kind: str
    p: float
    before: float
    after: float
    last: int | None = None


@dataclass(frozen=True)
class Analysis:
    """``changes``, oldest first; ``rest``: what is left of the values without season, modes and steps, in standard
    deviations, float64[n] (zeros where they are all equal)."""

    changes: tuple[Found, ...]
    rest: np.ndarray


def analyse(
    values: np.ndarray, *, noise: Noise | None = None, known: Sequence[int] = (), alpha: float = ALPHA
) -> Analysis:
    """What changed in ``values``, float64[n] without NaN. ``known``: points where another method begins, of which each
    that moved the level is among the changes. ``alpha``: chance that a history without a change gives one."""
    if len(values) < 2 * LEAST_LEVEL:
        return Analysis((), np.zeros(len(values)))
    noise = noise or Noise()
    plain = values - season_of(noise.spread(values).values)
    spread = noise.spread(plain)
    steps = find_steps(spread, alpha=alpha, known=known)
    levels = _levels(plain, steps)
    found = modes_of(plain) or modes_of(levels, noise=spread.sigma / 2, crossings=SURE_CROSSINGS)
    found = found or modes_of(plain - levels)
    shares: list[Found] = []
    if found is not None:
        upper, gap = found
        plain = plain - np.where(upper, gap, 0.0)
        spread = noise.spread(plain)
        steps = find_steps(spread, alpha=alpha, known=known)
        levels = _levels(plain, steps)
        shares = _shares(upper, values, alpha)
    changes = [Found(s.index, s.low, s.high, STEP, s.p, s.before, s.after) for s in steps]
    around = spread.around(levels)
    rest = around.values - levels
    for start, end in pairwise([0, *(step.index for step in steps), len(plain)]):
        drift = find_drift(spread.values[start:end], alpha=alpha, least=noise.least)
        if drift is not None:
            at = start + drift.first
            changes.append(Found(at, at, at, DRIFT, drift.p, drift.before, drift.after, start + drift.last))
            rest[start:end] = spread.values[start:end] - drift.line
    rest = rest / around.sigma if around.sigma > 0 else np.zeros(len(plain))
    return Analysis(tuple(sorted([*changes, *shares], key=lambda each: each.index)), rest)


def _levels(values: np.ndarray, steps: Sequence[Step]) -> np.ndarray:
    return levels_of(values, [0, *(step.index for step in steps), len(values)])


def _shares(upper: np.ndarray, values: np.ndarray, alpha: float) -> list[Found]:
    """Where the share of points in the upper mode changed; ``before`` and ``after`` are the means of ``values``
    there."""
    crossings = float(np.count_nonzero(upper[1:] != upper[:-1]))
    spread = Spread(upper.astype(float), whole=True, most_freedom=crossings)
    steps = find_steps(spread, alpha=alpha, rounds=1)  # around its levels a share has no noise of its own
    edges = [0, *(step.index for step in steps), len(upper)]
    means = [float(values[start:end].mean()) for start, end in pairwise(edges)]
    return [
        Found(step.index, step.low, step.high, SHARE, step.p, means[i], means[i + 1]) for i, step in enumerate(steps)
    ]
