"""Two samples of timings, and whether the second is slower, faster or the same.

Mental model: a real change of a kernel moves the *whole* distribution of its times; noise moves parts of it (a tail of
interrupted launches, another mix of clock states). So the effect is the least shift, in logarithms, among the
quantiles 10, 25, 50 and 75 %, and none if they disagree about its sign, a moving-block bootstrap, which keeps drift and
slow changes of state together, gives its interval, widened by what two runs of the same program are known to differ by.
Two thresholds turn intervals into a verdict. A change is confirmed when the interval of the *least* shift lies beyond
``least_percent``; SAME when that of the *median* holds no change of ``missed_percent`` or more; AMBIGUOUS otherwise.
Where the clock was read beside each sample, times are first brought to one clock (:mod:`gpusim.compare.clocks`); where
how far to bring them is not sure, the interval holds all that it may be.

Swapping the samples swaps FASTER and SLOWER and nothing else. What the rules achieve, with which noise, is
measured by ``tools/verdict_power.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from gpusim.compare.clocks import at_common_clock
from gpusim.compare.error import Verdict
from gpusim.errors import NoDataError
from gpusim.io.percent import signed_percent

#: Quantiles that a real change moves together. The median alone would follow a change of the mix of two clock states.
QUANTILES = (0.10, 0.25, 0.50, 0.75)
MEDIAN = QUANTILES.index(0.50)
#: Below so many samples a side there is no interval, and so no confirmed change.
LEAST_SAMPLES = 8
#: Correlation of neighbours from which on a sample counts as slowly wandering (drift, clock states).
LEAST_AUTOCORRELATION = 0.25
#: Two states of the machine are looked for in the median of so many neighbours, in samples at least so long; they are
#: clock states if at most so far apart. A split must leave no more than this share of the variance to be one.
STATE_WINDOW, LEAST_OF_STATES, STATES_PERCENT = 7, 24, 5.0
STATES_LEAVE, MODES_LEAVE = 0.2, 0.1
RESAMPLES = 400


@dataclass(frozen=True)
class SampleThresholds:
    """When a difference of two samples counts.

    ``least_percent``: smaller changes are never confirmed. ``missed_percent``: SAME promises that no change of this
    size was there. ``confidence``: one-sided, of each end of the interval. ``run_spread_percent``: standard deviation
    of one run's level about the level of many runs, for samples of separate runs (0 for interleaved ones).
    ``least_us``: shifts of the median below this many microseconds are never confirmed (a timer's step).
    """

    least_percent: float = 0.75
    missed_percent: float = 3.0
    confidence: float = 0.975
    run_spread_percent: float = 0.3
    least_us: float = 0.0


@dataclass(frozen=True)
class SampleComparison:
    """``ratio`` of the medians, head to base (1.03: three percent slower), with its interval ``low`` to ``high``;
    ``p_value`` of Mann and Whitney's test; ``notes`` on what is odd about the samples (drift, two modes, outliers)."""

    verdict: Verdict
    reason: str
    ratio: float
    low: float
    high: float
    p_value: float
    notes: tuple[str, ...]


def compare_samples(
    base: Sequence[float],
    head: Sequence[float],
    thresholds: SampleThresholds | None = None,
    *,
    interleaved: bool = False,
    clocks_mhz: tuple[Sequence[float], Sequence[float]] | None = None,
) -> SampleComparison:
    """Compare timings (microseconds, in order of measurement) of two builds of a kernel.

    ``interleaved``: the two were measured in turns, so that what the machine did meets both alike. ``clocks_mhz``: of
    base and head, the SM clock read beside each sample. Raises NoDataError for an empty sample, one with values that
    are no times, or clocks that are none.
    """
    rules = thresholds or SampleThresholds()
    a, b = (_checked(name, sample) for name, sample in (("base", base), ("head", head)))
    notes = (*(f"base: {n}" for n in anomalies(a)), *(f"head: {n}" for n in anomalies(b)))
    p_value = mann_whitney_p(a, b)
    if min(len(a), len(b)) < LEAST_SAMPLES:
        reason = f"{len(a)} and {len(b)} samples: fewer than {LEAST_SAMPLES} a side decide nothing; measure more"
        ratio = float(np.median(b) / np.median(a))
        return SampleComparison(Verdict.AMBIGUOUS, reason, ratio, 0.0, math.inf, p_value, notes)
    pairs = [(a, b)]
    if clocks_mhz is not None:
        pairs = at_common_clock(a, _clock("base", clocks_mhz[0], a), b, _clock("head", clocks_mhz[1], b))
    spread = 0.0 if interleaved else math.sqrt(2) * rules.run_spread_percent / 100
    if clocks_mhz is None and not interleaved:
        # What drifted within a run without a reading of the clock may have had another level in the other.
        spread = math.hypot(spread, _drift(a), _drift(b))
    between = NormalDist().inv_cdf(rules.confidence) * spread
    wholes, middles, effects, moved_us = zip(
        *(_intervals(*pair, between, rules.confidence) for pair in pairs), strict=True
    )
    whole, middle = ((min(i[0] for i in found), max(i[1] for i in found)) for found in (wholes, middles))
    effect = sum(effects) / len(effects)
    verdict, reason = _decide(whole, middle, min(moved_us), effect, rules)
    if clocks_mhz is not None:
        reason += "; at one clock"
    return SampleComparison(verdict, reason, math.exp(effect), math.exp(middle[0]), math.exp(middle[1]), p_value, notes)


def _intervals(
    a: np.ndarray, b: np.ndarray, between: float, confidence: float
) -> tuple[tuple[float, float], tuple[float, float], float, float]:
    """Of two samples: the intervals of the least shift and of the median's, the median's shift in logarithms and in
    microseconds."""
    shifts = _log_quantiles(b[None]) - _log_quantiles(a[None])
    autocorrelated = max(_autocorrelation(a), _autocorrelation(b)) > LEAST_AUTOCORRELATION
    resampled = _resampled(b, autocorrelated) - _resampled(a, autocorrelated)
    whole = _interval(_least_shift(shifts), _least_shift(resampled), between, confidence)
    middle = _interval(shifts[:, MEDIAN], resampled[:, MEDIAN], between, confidence)
    return whole, middle, float(shifts[0, MEDIAN]), abs(float(np.median(b) - np.median(a)))


def _clock(name: str, clocks: Sequence[float], sample: np.ndarray) -> np.ndarray:
    values = np.asarray(clocks, float)
    if values.shape != sample.shape or not (np.isfinite(values).all() and (values > 0).all()):
        raise NoDataError(f"the {name} sample's clocks are not one positive figure a sample")
    return values


def _checked(name: str, sample: Sequence[float]) -> np.ndarray:
    values = np.asarray(sample, float)
    if not len(values):
        raise NoDataError(f"the {name} sample is empty: there is nothing to compare")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise NoDataError(f"the {name} sample holds values that are no times (zero, negative or not finite)")
    return values


def _log_quantiles(samples: np.ndarray) -> np.ndarray:
    """log of the QUANTILES, float64[rows, quantiles], of float64[rows, n]."""
    return np.log(np.quantile(samples, QUANTILES, axis=1)).T


def _least_shift(shifts: np.ndarray) -> np.ndarray:
    """Of each row's shifts the least in size, 0 where they differ in sign."""
    least = np.abs(shifts).min(axis=1)
    return np.where((shifts > 0).all(axis=1), least, np.where((shifts < 0).all(axis=1), -least, 0.0))


def _interval(estimate: np.ndarray, resampled: np.ndarray, between: float, confidence: float) -> tuple[float, float]:
    """The bootstrap's interval, widened by ``between``, the half-width of what two runs differ by."""
    effect = float(estimate[0])
    below, above = np.quantile(resampled, (1 - confidence, confidence))
    # The bootstrap's own bias (a least shift lies nearer 0 than the shifts) must not exclude the estimate.
    low, high = min(effect, float(below)), max(effect, float(above))
    return effect - math.hypot(effect - low, between), effect + math.hypot(high - effect, between)


def _autocorrelation(sample: np.ndarray) -> float:
    """How much alike neighbours are: the correlation of ranks with those of the next sample."""
    ranks = np.argsort(np.argsort(sample, kind="stable"), kind="stable")
    return float(np.corrcoef(ranks[:-1], ranks[1:])[0, 1])


def _drift(sample: np.ndarray) -> float:
    """Standard deviation, in logarithms, of the course of a sample whose neighbours are alike; 0 for others."""
    return (
        float(np.std(np.log(_moving_level(sample))))
        if len(sample) >= LEAST_OF_STATES and _autocorrelation(sample) > LEAST_AUTOCORRELATION
        else 0.0
    )


def _moving_level(sample: np.ndarray) -> np.ndarray:
    """The running median of STATE_WINDOW neighbours, float64[n]."""
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(sample, STATE_WINDOW // 2, mode="edge"), STATE_WINDOW)
    return np.median(windows, axis=1)


def enough(sample: Sequence[float], target_percent: float, confidence: float = 0.95) -> bool:
    """Whether the median is known to ``target_percent``, half the width of its interval, when neighbours that are alike
    count as fewer samples than they are: the rule by which a measurement may stop."""
    values = _checked("measured", sample)
    if len(values) < LEAST_SAMPLES:
        return False
    alike = min(0.95, max(0.0, _autocorrelation(values)))
    median, low, high = median_interval(values, confidence)
    width = max(high - median, median - low) * math.sqrt((1 + alike) / (1 - alike))
    return width <= target_percent / 100 * median


def _resampled(sample: np.ndarray, autocorrelated: bool) -> np.ndarray:
    """log of the QUANTILES of RESAMPLES samples drawn from this one in blocks of neighbours, float64[RESAMPLES,
    quantiles].

    Blocks grow as the root of n; where neighbours are alike they are a quarter of the sample, for then so long a
    stretch is hardly more than one observation. Ranks are drawn instead of values: they sort several times as fast.
    """
    n = len(sample)
    order = np.argsort(sample, kind="stable")
    ranks = np.empty(n, np.int16 if n < 1 << 15 else np.int32)
    ranks[order] = np.arange(n)
    drawn = np.sort(ranks[_indices(n, max(1, n // 4 if autocorrelated else round(math.sqrt(n))))], axis=1)
    place = np.array(QUANTILES) * (n - 1)
    below = place.astype(np.intp)
    ordered = sample[order]
    low, high = ordered[drawn[:, below]], ordered[drawn[:, np.minimum(below + 1, n - 1)]]
    return np.log(low + (place - below) * (high - low))


@lru_cache(maxsize=8)
def _indices(n: int, length: int) -> np.ndarray:
    """int32[RESAMPLES, n]: random blocks of ``length`` neighbours. The seed depends on n alone: samples of equal length
    get the same indices, so that what happened to both at the same time stays together, and swapping them changes no
    figure."""
    starts = np.random.default_rng(n).integers(0, n, (RESAMPLES, -(-n // length)))
    indices = (starts[:, :, None] + np.arange(length)) % n
    return indices.reshape(RESAMPLES, -1)[:, :n].astype(np.int32)


def _decide(
    whole: tuple[float, float], middle: tuple[float, float], shift_us: float, log_ratio: float, rules: SampleThresholds
) -> tuple[Verdict, str]:
    least, missed = (math.log1p(p / 100) for p in (rules.least_percent, rules.missed_percent))
    found = f"the median is {_percent(log_ratio)} ({_percent(middle[0])} to {_percent(middle[1])})"
    if whole[0] > least or whole[1] < -least:
        if shift_us < rules.least_us:
            return Verdict.SAME, f"{found}, but {shift_us:.3g} us is below {rules.least_us:g} us"
        verdict = Verdict.SLOWER if whole[0] > least else Verdict.FASTER
        return verdict, f"{found}: the whole distribution moved, by more than {rules.least_percent:g} %"
    if -missed < middle[0] and middle[1] < missed:
        return Verdict.SAME, f"{found}: no change of {rules.missed_percent:g} % or more"
    return Verdict.AMBIGUOUS, f"{found}: neither a change nor its absence is sure; measure more, or both in turns"


def _percent(log_ratio: float) -> str:
    return signed_percent(100 * math.expm1(log_ratio), ".2f")


def _without_states(sample: np.ndarray) -> tuple[np.ndarray, float | None]:
    """The sample as if the machine had stayed in the faster of two states, and how far apart they are (None: one
    state).

    Two states are looked for only where neighbours are alike, in the running median, and no further apart than clock
    states are. Verdicts do without it: a run that shows but one state does not say which.
    """
    if len(sample) < LEAST_OF_STATES or _autocorrelation(sample) <= LEAST_AUTOCORRELATION:
        return sample, None
    course = _moving_level(sample)
    threshold = _split(np.sort(course), STATES_LEAVE)
    if threshold is None:
        return sample, None
    slow = course > threshold
    apart = float(np.median(sample[slow]) / np.median(sample[~slow]) - 1)
    if not 0 < apart <= STATES_PERCENT / 100:
        return sample, None
    return np.where(slow, sample / (1 + apart), sample), apart


def anomalies(sample: Sequence[float]) -> list[str]:
    """What a reader of a sample should know: drift, two states or modes, outliers, each with its size."""
    values = np.asarray(sample, float)
    n = len(values)
    if n < LEAST_SAMPLES:
        return []
    middle = float(np.median(values))
    found = []
    steady, apart = _without_states(values)
    threshold = _split(np.sort(steady), MODES_LEAVE)
    if apart is not None:
        found.append(f"two states {100 * apart:.1f} % apart, of the clock perhaps")
    elif threshold is not None:
        modes = np.median(values[values > threshold]) / np.median(values[values <= threshold])
        found.append(f"two modes {100 * (modes - 1):.1f} % apart")
    third = n // 3
    drift = float(np.median(steady[-third:]) / np.median(steady[:third]) - 1) if third >= 5 else 0.0
    rank = np.argsort(np.argsort(steady, kind="stable"), kind="stable")
    if threshold is None and abs(np.corrcoef(rank, np.arange(n))[0, 1]) > 0.5 and abs(drift) > 0.005:
        found.append(f"drift of {signed_percent(100 * drift)} from the first to the last third")
    low, high = np.quantile(values, (0.25, 0.75))
    limit = high + 3 * (high - low)
    far = int((values > limit).sum())
    if far:
        found.append(f"{far} outliers above {100 * limit / middle - 100:.1f} % over the median")
    return found


def _split(ordered: np.ndarray, most_left: float) -> float | None:
    """The value between two clusters, None where the sample has but one.

    The best split in two (least squares) of the inner 90 %, if it leaves no more than ``most_left`` of the variance: of
    one normal cluster it leaves 36 %, of one uniform one 25 %.
    """
    trim = len(ordered) // 20
    x = ordered[trim : len(ordered) - trim] / ordered[len(ordered) // 2] - 1
    n = len(x)
    total = float(((x - x.mean()) ** 2).sum())
    if n < LEAST_SAMPLES or total <= 0:
        return None
    sums, squares = np.cumsum(x), np.cumsum(x * x)
    k = np.arange(2, n - 1)
    left = squares[k - 1] - sums[k - 1] ** 2 / k
    right = (squares[-1] - squares[k - 1]) - (sums[-1] - sums[k - 1]) ** 2 / (n - k)
    best = int(np.argmin(left + right))
    if (left + right)[best] > most_left * total:
        return None
    return float((ordered[trim + k[best] - 1] + ordered[trim + k[best]]) / 2)


def mann_whitney_p(a: np.ndarray, b: np.ndarray) -> float:
    """Two-sided p value of Mann and Whitney's rank test (normal approximation, corrected for ties and continuity)."""
    ranks, counts = mean_ranks(np.concatenate([a, b]))
    n, m = len(a), len(b)
    u = ranks[:n].sum() - n * (n + 1) / 2
    size = n + m
    ties = float((counts.astype(float) ** 3 - counts).sum())
    variance = n * m / 12 * (size + 1 - ties / (size * (size - 1))) if size > 1 else 0.0
    if variance <= 0:
        return 1.0
    z = max(0.0, abs(float(u) - n * m / 2) - 0.5) / math.sqrt(variance)
    return 2 * NormalDist().cdf(-z)


def median_interval(sample: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float]:
    """(median, low, high): the interval between order statistics that holds the median of any distribution."""
    ordered = np.sort(_checked("measured", sample))
    n = len(ordered)
    reach = NormalDist().inv_cdf(0.5 + confidence / 2) * math.sqrt(n) / 2
    low, high = max(0, math.floor(n / 2 - reach)), min(n - 1, math.ceil(n / 2 + reach))
    return float(np.median(ordered)), float(ordered[low]), float(ordered[high])


def mean_ranks(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ranks from 1, tied values sharing their mean rank, and how often each distinct value occurs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse], counts
