"""Where a noisy history steps from one level to another: places by an established method, and a test that each must
pass.

Mental model: an exact search for the best levels under a low penalty (PELT's cost with kernels: Celisse et al., "New
efficient algorithms for multiple change-point detection with kernels", CSDA 128, 2018; ``ruptures.KernelCPD``) names
far more places than there are steps. Then the least credible is taken out, again and again, until all that are left
could not come of noise: the means of stretches of several sizes to either side of a place differ by more than
:class:`gpusim.watch.spread.Spread` allows, with every place and size that was looked at counted (multiscale tests:
Duembgen and Spokoiny, Annals of Statistics 29, 2001; Frick, Munk and Sieling, JRSS B 76, 2014). A row of steps that a
line explains better is no step, and a level that ends within a few points where it began is an episode.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gpusim.watch.kept_statistics import best_levels, t_tail
from gpusim.watch.spread import LEAST_LEVEL, Spread
from gpusim.watch.wander import outdoes_wander

#: Chance of a false alarm in a whole history without any change: what is asked of an alert is 1 %.
ALPHA = 0.01
#: A level that is given up again after fewer points than these was an episode: a work week of nights, and a weekend.
EPISODE = 8
#: Of the two stretches whose means are compared, the longer one has at most so many times the points of the shorter:
#: more adds less than a tenth to what is known of their difference.
_WIDEST = 4
#: Differences of means that are looked at for each point of a history (about ten sizes, two shapes, alike in the main):
#: so that white noise of 30 to 1,000 points alarms in less than ALPHA of histories (tools/watch_power.py).
_LOOKS = 2
#: Means of more points than this overlap so much from place to place that there are fewer different ones.
_ALIKE = 10
#: Difference of twice the log-likelihood within which the true place lies in 99 % of cases: (1 - exp(-c / 2))^2 = 0.99
#: (Eo and Morley, "Likelihood-ratio-based confidence sets for the timing of structural breaks", Quantitative Economics
#: 6, 2015).
_PLACE_99 = 10.6
#: Known steps are taken off before the noise is looked at again, which may let smaller ones be seen, so often.
ROUNDS = 4
#: Steps are sharp whose levels lie so many standard deviations apart and have so many points, where neighbours around
#: them are no more correlated, and where there are so many: of 60 histories of noise of each kind in
#: tools/watch_series.py only waves and two modes, which are looked at by themselves, have any. (Set on synthetic
#: histories; the annotated series have none.)
SHARP, SHARP_POINTS, SHARP_PHI, SHARP_LEAST = 3.5, 12, 0.3, 3
#: Points to either side of a place, at least, that tell a step from a line.
_NEAR = 12


@dataclass(frozen=True)
class Step:
    """``index``: the first point of the new level, from 0; ``low`` and ``high``: the first and last index where that
    may be, in 99 % of cases;
    ``p``: chance that noise shows as much anywhere in the history; ``before``, ``after``: the levels."""

    index: int
    low: int
    high: int
    p: float
    before: float
    after: float


def find_steps(
    spread: Spread, *, alpha: float = ALPHA, known: Iterable[int] = (), rounds: int = ROUNDS, keep: bool = False
) -> list[Step]:
    """The steps of a history, in order. ``known``: places where another method begins: each is taken as one while the
    others are found.
    ``rounds``: how often the noise may be looked at; ``keep``: levels part at ``known`` in any case, and the steps are
    others."""
    n = len(spread.values)
    if n < 2 * LEAST_LEVEL or spread.sigma == 0.0:
        return []
    kept = sorted({place for place in known if 0 < place < n})
    places = best_levels(spread.values / spread.sigma, penalty=math.log(n), least=LEAST_LEVEL)
    free = [place for place in places if all(abs(place - each) >= LEAST_LEVEL for each in kept)]
    edges = [0, n]
    sharp = [] if keep else _sharp(spread, free)
    if sharp:
        around = spread.around(levels_of(spread.values, [0, *sharp, n]))
        spread = around if around.sigma > 0.0 else spread
    for _ in range(rounds):
        before, edges = edges, [0, *sorted([*kept, *free]), n]
        _take_out(spread, edges, alpha, set(kept))
        _put_back(spread, edges, alpha, set(kept), places)
        _drop_episodes(spread, edges)
        _take_out(spread, edges, alpha, set(kept) if keep else set())
        if edges == before or len(edges) == 2:
            break
        again = spread.around(levels_of(spread.values, edges))
        if again.sigma == 0.0:  # nothing but the steps
            break
        spread = again
    found = [_step(spread, *edges[i - 1 : i + 2]) for i in range(1, len(edges) - 1)]
    return [step for step in found if not keep or step.index not in kept]


def _sharp(spread: Spread, places: Sequence[int]) -> list[int]:
    """Those of ``places`` whose steps are beyond doubt by themselves: levels of many points, far apart for the noise
    around them. So many of them that they would make all longer stretches differ are not to count as noise when it is
    looked at first."""
    edges = [0, *places, len(spread.values)]
    near = spread.around(levels_of(spread.values, edges))
    if near.sigma == 0.0 or near.phi > SHARP_PHI:
        return []
    found = []
    for start, index, end in zip(edges, edges[1:], edges[2:]):
        apart = abs(spread.difference(index, index - start, end - index))
        clear = min(index - start, end - index) >= SHARP_POINTS and apart >= SHARP * near.sigma
        if clear and outdoes_wander(spread.values[start:end], index - start):
            found.append(index)
    return found if len(found) >= SHARP_LEAST else []


def levels_of(values: np.ndarray, edges: Sequence[int]) -> np.ndarray:
    """The mean of each stretch between ``edges``, for each of its points, float64[n]."""
    return np.concatenate([np.full(end - start, values[start:end].mean()) for start, end in pairwise(edges)])


def _take_out(spread: Spread, edges: list[int], alpha: float, kept: set[int]) -> None:
    """Take the least credible place from ``edges`` until all are credible, or ``kept``."""
    known: dict[tuple[int, int, int], float] = {}
    while True:
        worst, at = alpha, 0
        for i in range(1, len(edges) - 1):
            key = (edges[i - 1], edges[i], edges[i + 1])
            if edges[i] in kept:
                continue
            if key not in known:
                known[key] = step_chance(spread, *key)
            if known[key] > worst:
                worst, at = known[key], i
        if not at:
            return
        del edges[at]


def _put_back(spread: Spread, edges: list[int], alpha: float, kept: set[int], places: Sequence[int]) -> None:
    """Put those of ``places`` back into ``edges`` that are credible between what is left: where two were near each
    other, each may have hidden the other, and both have gone."""
    for _ in places:
        free = [place for place in places if place not in edges]
        chances = [step_chance(spread, *_around(edges, place)) for place in free]
        best = min(range(len(free)), key=chances.__getitem__, default=None)
        if best is None or chances[best] > alpha:
            return
        edges.append(free[best])
        edges.sort()
        _take_out(spread, edges, alpha, kept)


def _around(edges: Sequence[int], place: int) -> tuple[int, int, int]:
    after = bisect_right(edges, place)
    return edges[after - 1], place, edges[after]


def _drop_episodes(spread: Spread, edges: list[int]) -> None:
    """Take from ``edges`` both ends of every short level that lies between two equal ones."""
    at = 1
    while at + 2 < len(edges):
        start, first, last, end = edges[at - 1 : at + 3]
        if last - first < EPISODE and same_level(spread, (start, first), (last, end)):
            del edges[at : at + 2]
            at = 1
        else:
            at += 1


def same_level(spread: Spread, one: tuple[int, int], two: tuple[int, int]) -> bool:
    """Whether the points of two stretches (start, end) may have one level: no further apart than 1 % of such pairs
    would be."""
    sizes = [min(end - start, 4 * EPISODE) for start, end in (one, two)]
    left = spread.values[one[1] - sizes[0] : one[1]].mean()
    right = spread.values[two[0] : two[0] + sizes[1]].mean()
    noise, freedom = spread.apart((one[1] - sizes[0], one[1]), (two[0], two[0] + sizes[1]))
    return t_tail(abs(right - left) / noise, freedom) > ALPHA


def step_chance(spread: Spread, start: int, index: int, end: int) -> float:
    """The chance that noise alone shows, anywhere in the history, a step as clear as the one at ``index`` between
    ``start`` and ``end``, as a count of such places (beyond 1 it is no probability); 1 or more where a line is a better
    account, of the points around it (where other small steps do not bend the line) or of all from ``start`` to ``end``
    (where a drift shows), or a level that wanders."""
    left, right = index - start, end - index
    best = math.inf
    for size in _sizes(min(left, right)):
        for before, after in {(min(left, _WIDEST * size), size), (size, min(right, _WIDEST * size))}:
            noise, freedom = spread.apart((index - before, index), (index, index + after))
            t = abs(spread.difference(index, before, after)) / noise
            looks = _LOOKS * len(spread.values) * min(1.0, _ALIKE / size)
            best = min(best, t_tail(t, freedom) * looks)
    near = max(min(left, right), _NEAR)
    for low, high in ((max(start, index - near), min(end, index + near)), (start, end)):
        if not _no_line(spread.values[low:high], index - low):
            return max(1.0, best)
    return best if best >= 1.0 or outdoes_wander(spread.values[start:end], left) else 1.0


def _sizes(most: int) -> Iterable[int]:
    size = LEAST_LEVEL
    while size < most:
        yield size
        size = math.ceil(1.6 * size)
    if most >= LEAST_LEVEL:
        yield most


def _no_line(values: np.ndarray, index: int) -> bool:
    """Whether a step at ``index`` leaves less of ``values`` unexplained than a line through all of them."""
    n = len(values)
    x = np.arange(n) - (n - 1) / 2
    line = (x @ values) ** 2 / (x @ x)
    step = index * (n - index) / n * (values[:index].mean() - values[index:].mean()) ** 2
    return bool(step >= line)


def _step(spread: Spread, start: int, index: int, end: int) -> Step:
    values = spread.values[start:end]
    at = np.arange(1, len(values))
    sums = np.cumsum(values - values.mean())[:-1]
    explained = sums**2 * len(values) / (at * (len(values) - at))
    noise = (spread.sigma * spread.widening(min(index - start, end - index))) ** 2
    near = start + at[explained[index - start - 1] - explained <= _PLACE_99 * noise]
    p = step_chance(spread, start, index, end)
    low, high = min(index, int(near.min(initial=index))), max(index, int(near.max(initial=index)))
    return Step(index, low, high, p, float(np.median(spread.raw[start:index])), float(np.median(spread.raw[index:end])))
