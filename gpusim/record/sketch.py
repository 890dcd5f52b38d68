"""Quantiles of durations that merge: DDSketch (Masson, Rim and Lee 2019) with logarithmic bins, as the recorder's ``rows.c`` has it.

Mental model: bin ``i`` counts what lies in (gamma^(i-1), gamma^i] nanoseconds; two sketches merge by adding their counts, in any
order; a quantile is off by 1 % of its value at most. Above MOST_BINS bins the lowest are put together, which only the quantiles
below them feel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

RELATIVE_ERROR = 0.01
LOG_GAMMA = math.log((1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR))
#: Of one row; 512 bins of 2 % span four and a half decades.
MOST_BINS = 512


def bin_of(duration_ns: float) -> int:
    """The bin that counts a duration; less than 2 ns is bin 0."""
    return 0 if duration_ns < 2 else math.ceil(math.log(duration_ns) / LOG_GAMMA)


def merged(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    """Both, at most MOST_BINS bins."""
    both = dict(one)
    for index, count in other.items():
        both[index] = both.get(index, 0) + count
    if len(both) > MOST_BINS:
        order = sorted(both)
        low, kept = order[: len(order) - MOST_BINS], order[len(order) - MOST_BINS :]
        both[kept[0]] += sum(both.pop(index) for index in low)
    return both


def quantile_ns(bins: Mapping[int, int], share: float) -> float | None:
    """The duration below which ``share`` of the launches lie, in ns; None of an empty sketch."""
    total = sum(bins.values())
    if not total:
        return None
    rank, seen, index = share * (total - 1), 0, 0
    for index in sorted(bins):
        seen += bins[index]
        if seen > rank:
            break
    gamma = math.exp(LOG_GAMMA)
    return 2 * math.exp(LOG_GAMMA * index) / (gamma + 1)
