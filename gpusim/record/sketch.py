"""Quantiles of durations that merge: DDSketch (Masson, Rim and Lee 2019) with logarithmic bins, as the recorder's
``rows.c`` has it.

Mental model: bin ``i`` counts what lies in (gamma^(i-1), gamma^i] nanoseconds; two sketches merge by adding their
counts; a quantile is off by 1 % of its value at most, as long as the bins suffice: 64 in a process's batch, a factor of
3.6 between its shortest and longest launch if none is empty, and MOST_BINS afterwards, four and a half decades. Beyond,
neighbours are put together where it costs least: the fewer launches go to the more, over the smallest distance.
``tools/sketch_error.py`` prints what quantiles are off by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

RELATIVE_ERROR = 0.01
LOG_GAMMA = math.log((1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR))
#: Of one row of a collector; 512 bins of 2 % span four and a half decades.
MOST_BINS = 512


def bin_of(duration_ns: float) -> int:
    """The bin that counts a duration; less than 2 ns is bin 0."""
    return 0 if duration_ns < 2 else math.ceil(math.log(duration_ns) / LOG_GAMMA)


def merged(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    """Both, at most MOST_BINS bins."""
    both = dict(one)
    for index, count in other.items():
        both[index] = both.get(index, 0) + count
    return joined(both, MOST_BINS)


def joined(bins: dict[int, int], most: int) -> dict[int, int]:
    """At most ``most`` of them: those neighbours together whose joining costs least."""
    while len(bins) > most:
        order = sorted(bins)
        pairs = sorted((min(bins[low], bins[high]) * (high - low), low, high) for low, high in pairwise(order))
        gone: set[int] = set()
        for _, low, high in pairs:
            if len(bins) <= most:
                break
            if low in gone or high in gone:
                continue
            gone |= {low, high}
            fewer, more = (high, low) if bins[low] > bins[high] else (low, high)
            bins[more] += bins.pop(fewer)
    return bins


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
