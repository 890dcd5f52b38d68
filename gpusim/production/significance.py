"""Whether two recordings differ by more than chance would have it.

Mental model: three questions with a test each, and Holm's correction over all that are asked together, so that the
chance of one false answer among them is alpha. Is a kernel's share of the launches another? A G-test on launches of it
and of the rest. Do its launches take another time? A Mann-Whitney test on the sketches' bins, whose width of 2 % makes
ties, which the test corrects for. Both take launches as independent, which those of one program are not quite: where
both recordings have DEVICES devices (of their ranks) or more, the devices are what is drawn instead, and Welch's t-test
asks whether their mean times (as logarithms) or their shares differ.

Sources: Sokal and Rohlf, Biometry, ch. 17 (G-test); Mann and Whitney 1947, with the normal approximation and the
correction for ties of Lehmann, Nonparametrics (1975), section 1.3; Welch 1947; Holm 1979.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scipy import stats

#: Devices on each side from which on they are what is drawn. guess: with two, a t-test tells next to nothing
DEVICES = 3
#: Fewer timed launches on a side have no distribution.
LEAST_LAUNCHES = 5


def share_p(part: tuple[float, float], whole: tuple[float, float]) -> float | None:
    """The G-test's p that ``part`` of ``whole`` launches has one share in both; None where there is nothing to tell."""
    rest = (whole[0] - part[0], whole[1] - part[1])
    if min(whole) <= 0 or sum(part) <= 0:
        return None
    if sum(rest) <= 0:
        return 1.0
    result: Any = stats.chi2_contingency([part, rest], lambda_="log-likelihood")
    return float(result.pvalue)


def durations_p(before: Mapping[int, int], after: Mapping[int, int]) -> float | None:
    """The Mann-Whitney test's two-sided p for two sketches; None with too few launches."""
    first, second = sum(before.values()), sum(after.values())
    if min(first, second) < LEAST_LAUNCHES:
        return None
    seen, ranks, ties = 0, 0.0, 0.0
    every = first + second
    for index in sorted({*before, *after}):
        mine, both = before.get(index, 0), before.get(index, 0) + after.get(index, 0)
        ranks += mine * (seen + (both + 1) / 2)
        ties += float(both) ** 3 - both
        seen += both
    statistic = ranks - first * (first + 1) / 2
    variance = first * second / 12 * ((every + 1) - ties / (every * (every - 1)))
    if variance <= 0:
        return 1.0
    distance = max(abs(statistic - first * second / 2) - 0.5, 0.0)
    return float(2 * stats.norm.sf(distance / math.sqrt(variance)))


def devices_p(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Welch's p that devices have one mean in both; None with too few of them."""
    if min(len(before), len(after)) < DEVICES:
        return None
    if len({*before, *after}) == 1:
        return 1.0
    if len(set(before)) == 1 and len(set(after)) == 1:
        return 0.0  # two constants that differ
    result: Any = stats.ttest_ind(before, after, equal_var=False)
    return float(result.pvalue)


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Each p so adjusted that all below alpha hold together at alpha; None stays, and counts for nothing."""
    asked = sorted((p, at) for at, p in enumerate(values) if p is not None)
    adjusted: list[float | None] = [None] * len(values)
    least = 0.0
    for done, (p, at) in enumerate(asked):
        least = max(least, min(1.0, p * (len(asked) - done)))
        adjusted[at] = least
    return adjusted
