#!/usr/bin/env python3
"""What the quantiles of a recorded row are off by: ``tools/sketch_error.py``.

Draws durations of several shapes between 1 us and 1 s, sketches each with as many bins as a process's batch and a
collector's row have, and prints the relative error of quantiles, beside the number of bins that none would have to be
joined for.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from gpusim.record.sketch import MOST_BINS, bin_of, joined, quantile_ns
from gpusim.record.wire import MOST_BINS as BATCH_BINS

SHARES = (0.1, 0.5, 0.9, 0.99)
COUNT = 20_000


def shapes(draw: np.random.Generator) -> dict[str, np.ndarray]:
    """Durations in ns."""
    wide = 1e3 * np.exp(draw.random(COUNT) * np.log(1e6))
    two = np.where(draw.random(COUNT) < 0.6, 5e3, 8e4) * np.exp(draw.normal(0, 0.05, COUNT))
    return {
        "one length, 10 % spread": 1e4 * np.exp(draw.normal(0, 0.1, COUNT)),
        "one length, 50 % spread": 1e4 * np.exp(draw.normal(0, 0.5, COUNT)),
        "one length, factor 4.5 spread": 1e5 * np.exp(draw.normal(0, 1.5, COUNT)),
        "two lengths, 1 % of outliers": np.where(draw.random(COUNT) < 0.99, two, wide),
        "as many in each decade": wide,
    }


def sketched(times: np.ndarray, most: int) -> dict[int, int]:
    """As the recorder does: one duration after another."""
    bins: dict[int, int] = {}
    for time in times:
        index = bin_of(float(time))
        bins[index] = bins.get(index, 0) + 1
        joined(bins, most)
    return bins


def main() -> None:
    print(f"relative error of the quantiles, {COUNT} launches:" + "".join(f"{share:>8.0%}" for share in SHARES))
    for name, times in shapes(np.random.default_rng(1)).items():
        exact = np.quantile(times, SHARES, method="lower")
        needed = len(Counter(bin_of(float(time)) for time in times))
        for most in (BATCH_BINS, MOST_BINS):
            bins = sketched(times, most)
            errors = [abs((quantile_ns(bins, share) or 0) / value - 1) for share, value in zip(SHARES, exact)]
            print(f"  {name:32}{needed:4} bins, of {most:3}: " + "".join(f"{error:>8.1%}" for error in errors))


if __name__ == "__main__":
    main()
