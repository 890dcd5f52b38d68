"""How far the means of two stretches of a history lie apart by noise alone.

Mental model: were the points independent and equally noisy, a difference of means would have the standard deviation
s * sqrt(1/M + 1/m). Points of one machine are not. Three looks at the history say how much less is known:

- Neighbours resemble each other: their correlation follows from differences at lags 1 and 2 whatever steps there are
  (the variances' ratio is 1 + phi: Chakar, Lebarbier, Levy-Leduc and Robin, "A robust approach for estimating
  change-points in the mean of an AR(1) process", Bernoulli 23, 2017).
- Longer stretches wander together: the differences of means, taken everywhere in the history, are wider than that (the
  scale of a moving sum: Eichinger and Kirch, "A MOSUM procedure for the estimation of multiple random change points",
  Bernoulli 24, 2018; here by their median, so that the few places with a step do not count). A drift or a slow wave so
  becomes noise, and is no row of steps.
- Some stretches are noisier: their own variance counts, as far as a few points can say it and as much as the history's
  stretches differ (Smyth, "Linear models and empirical Bayes methods", Stat. Appl. Genet. Mol. Biol. 3, 2004).
"""

from __future__ import annotations

import numpy as np

from gpusim.watch.kept_statistics import trigamma

#: A level is at least so many points: of seven neighbours the most.
LEAST_LEVEL = 4
#: A value counts as no further than so many standard deviations off: beyond, of normal noise, lies 1 in 370.
CLIP = 3.0
#: Mean of min(z^2, CLIP^2) of a standard normal z.
_KEPT = 0.9946
#: sd / MAD of a normal distribution.
_MAD = 1.4826
#: Neighbours that are more alike than this cannot be told from a level that wanders.
MOST_PHI = 0.95
#: The correlation of fewer points than these is not known to better than 0.3.
_LEAST_CORRELATED = 20
#: So many pairs of stretches side by side must fit the history for their differences to have a scale.
_LEAST_PAIRS = 5
#: Points of a stretch whose noise is looked at by itself; the weight, as degrees of freedom, of the history's noise
#: where there are too few stretches, and where they are all alike.
_STRETCH = 10
_UNKNOWN_PRIOR, _MOST_PRIOR = 20.0, 100.0
#: A difference of neighbours says so much of a degree of freedom: differences overlap (1 / (1 + 2 * (1/2)^2), von
#: Neumann's estimator).
_FREEDOM = 2 / 3


class Spread:
    """Of one history: ``raw``, float64[n] without NaN; ``values``: the same without outliers; ``sigma``: standard
    deviation of a point (0: all are equal); ``freedom``: degrees of freedom of its square; ``phi``: correlation of
    neighbours.

    ``least``: what the standard deviation is at least (the resolution of the clock); ``expected``, ``weight``: what it
    is for launches of this kind, and how many degrees of freedom that is worth. ``whole``: no value is an outlier (they
    are 0 and 1). ``most_freedom``: where fewer points than it seems are independent. ``levels``: around which the noise
    is taken, float64[n]."""

    def __init__(
        self,
        raw: np.ndarray,
        *,
        least: float = 0.0,
        expected: float = 0.0,
        weight: float = 0.0,
        whole: bool = False,
        most_freedom: float = np.inf,
        levels: np.ndarray | None = None,
    ) -> None:
        n = len(raw)
        self.raw = raw
        self._options = {
            "least": least,
            "expected": expected,
            "weight": weight,
            "whole": whole,
            "most_freedom": most_freedom,
        }
        rest = raw if levels is None else raw - levels
        rest = rest if whole else clip_outliers(rest, scale(np.diff(rest)) / np.sqrt(2))
        self.values = rest if levels is None else rest + levels
        steps = np.diff(rest)
        one = scale(steps)
        self.phi = _correlation(rest)
        own = max(1.0, _FREEDOM * (n - 2))
        variance = (one**2 / (2 * (1 - self.phi)) * own + expected**2 * weight) / (own + weight)
        self.sigma = max(float(np.sqrt(variance)), least)
        self.freedom = min(own + weight, most_freedom)
        squares = np.minimum(steps**2, (CLIP * one) ** 2) / (2 * (1 - self.phi))
        self._squares = np.concatenate([[0.0], np.cumsum(squares)])
        self._prior = _prior_freedom(squares)
        self._sums = np.concatenate([[0.0], np.cumsum(self.values - (np.median(raw) if n else 0.0))])
        self._wider = self._look(rest) if self.sigma > 0 else np.ones(1)
        sizes = np.arange(len(self._wider))
        self._slope = max(0.0, float(np.polyfit(sizes, np.log2(self._wider), 1)[0])) if len(sizes) > 2 else 0.0

    def around(self, levels: np.ndarray) -> Spread:
        """The same history with its noise taken around known ``levels``, float64[n]: their steps widen it no longer."""
        return Spread(self.raw, levels=levels, **self._options)

    @property
    def independent_variance(self) -> float:
        """Variance of independent points whose means would be as far apart as those of many such neighbours."""
        return self.sigma**2 * (1 + self.phi) / (1 - self.phi)

    def difference(self, index: int, before: int, after: int) -> float:
        """Mean of the ``after`` points from ``index`` on less that of the ``before`` points up to it."""
        sums = self._sums
        return float((sums[index + after] - sums[index]) / after - (sums[index] - sums[index - before]) / before)

    def apart(self, one: tuple[int, int], two: tuple[int, int]) -> tuple[float, float]:
        """Standard deviation, by noise alone, of the difference of the means of two stretches (start, end), and the
        degrees of freedom of its square (Welch and Satterthwaite)."""
        parts = []
        for start, end in (one, two):
            variance, freedom = self._local(start, end)
            parts.append((variance * _mean_variance(self.phi, end - start), freedom))
        (left, left_freedom), (right, right_freedom) = parts
        freedom = (left + right) ** 2 / (left**2 / left_freedom + right**2 / right_freedom)
        wider = self.widening((one[1] - one[0] + two[1] - two[0]) / 2)
        return float(np.sqrt(left + right)) * wider, min(self.freedom, freedom)

    def _local(self, start: int, end: int) -> tuple[float, float]:
        """Variance of a point there, moderated, and its degrees of freedom."""
        own = _FREEDOM * (end - start - 1)
        seen = _FREEDOM * (self._squares[end - 1] - self._squares[start])
        return (self._prior * self.sigma**2 + seen) / (self._prior + own), self._prior + own

    def widening(self, size: float) -> float:
        """How many times further apart the means of ``size`` points lie than noise of such neighbours alone would make
        them; beyond the sizes that fit the history often enough, as it grows over those that do."""
        at = max(0.0, float(np.log2(size)))
        last = len(self._wider) - 1
        if at <= last:
            return float(np.interp(at, np.arange(last + 1), self._wider))
        return float(self._wider[-1] * 2 ** (self._slope * (at - last)))

    def _look(self, rest: np.ndarray) -> np.ndarray:
        """The widening of 1, 2, 4, ... points."""
        n, sums, size = len(rest), np.concatenate([[0.0], np.cumsum(rest - np.median(rest))]), 2
        found = [1.0]
        while 2 * size * _LEAST_PAIRS <= n:
            at = np.arange(size, n - size + 1)
            seen = _MAD * np.median(np.abs(sums[at + size] - 2 * sums[at] + sums[at - size])) / size
            found.append(max(1.0, float(seen) / (self.sigma * np.sqrt(2 * _mean_variance(self.phi, size)))))
            size *= 2
        return np.array(found)


def scale(values: np.ndarray) -> float:
    """Standard deviation of ``values`` around 0, each counted up to :data:`CLIP` of it; 0 where there are none."""
    if not values.size:
        return 0.0
    size = np.abs(values)
    first = _MAD * float(np.median(size))
    if first == 0.0:  # more than half are equal: a coarse clock
        first = float(np.sqrt(np.mean(size**2)))
    return float(np.sqrt(np.mean(np.minimum(size, CLIP * first) ** 2) / _KEPT))


def clip_outliers(values: np.ndarray, sigma: float) -> np.ndarray:
    """``values`` no further than :data:`CLIP` * ``sigma`` from the median of the seven around each (a Hampel filter):
    up to three points that stand off and come back say little, four are a level."""
    around = 2 * LEAST_LEVEL - 1
    if len(values) < around:
        return values
    middle = np.median(np.lib.stride_tricks.sliding_window_view(values, around), axis=1)
    middle = np.pad(middle, LEAST_LEVEL - 1, mode="edge")
    return np.clip(values, middle - CLIP * sigma, middle + CLIP * sigma)


def _correlation(values: np.ndarray) -> float:
    """Of neighbours, from 0 to :data:`MOST_PHI`; where it is there beyond doubt, its upper limit of one standard error.
    The differences across the clearest step are left out: in a short history it would decide."""
    n = len(values)
    if n < _LEAST_CORRELATED:
        return 0.0
    at = np.arange(1, n)
    sums = np.cumsum(values - values.mean())[:-1]
    step = int(np.argmax(sums**2 / (at * (n - at))))  # the last point before it
    one = scale(np.delete(np.diff(values), step))
    two = scale(np.delete(values[2:] - values[:-2], [each for each in (step - 1, step) if 0 <= each < n - 2]))
    if one == 0.0:
        return 0.0
    phi = min(max((two / one) ** 2 - 1, 0.0), MOST_PHI)
    if phi > 2 / np.sqrt(n):
        phi += np.sqrt((1 - phi**2) / n)
    return float(min(phi, MOST_PHI))


def _prior_freedom(squares: np.ndarray) -> float:
    """The weight of the history's noise against that of a stretch, from how much more the variances of stretches differ
    than their few points explain: the variance of a log variance of d degrees of freedom is trigamma(d / 2)."""
    count = len(squares) // _STRETCH
    if count < _LEAST_PAIRS:
        return _UNKNOWN_PRIOR
    means = squares[: count * _STRETCH].reshape(count, _STRETCH).mean(axis=1)
    if np.any(means <= 0):
        return _UNKNOWN_PRIOR
    excess = float(np.var(np.log(means), ddof=1)) - trigamma(_FREEDOM * _STRETCH / 2)
    if excess <= 0:
        return _MOST_PRIOR
    half = (1 + np.sqrt(1 + 2 * excess)) / (2 * excess)  # trigamma(x) is near 1 / x + 1 / (2 x^2)
    return float(min(_MOST_PRIOR, 2 * half))


def _mean_variance(phi: float, count: int) -> float:
    """Variance of the mean of ``count`` points of a first-order autoregression of variance 1."""
    if phi == 0.0:
        return 1.0 / count
    return ((1 + phi) / (1 - phi) - 2 * phi * (1 - phi**count) / (count * (1 - phi) ** 2)) / count
