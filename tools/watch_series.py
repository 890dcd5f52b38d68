"""Histories to try detectors on: null ones of many kinds of noise, and ones with known changes.

Mental model: a benchmark's history is a level times noise of a few tenths of a percent to several percent, and rarely
white. Sizes published: nvbench stops a measurement at a relative standard deviation of 0.5 % by default, which many
kernels never reach (docs/cli_help.md of NVIDIA/nvbench); microbenchmarks in clouds range from 0.03 % to more than 100 %
(Laaber, Scheuner and Leitner, "Software microbenchmarking in the cloud", Empirical Software Engineering 24, 2019);
services at Meta show steps far below the noise of one server, seen in the mean of many ("FBDetect", SOSP 2024);
MongoDB's tests are correlated, multi-modal and full of outliers (Daly et al., "The use of change point detection to
identify software performance regressions in a continuous integration system", ICPE 2020). All sizes here are in
standard deviations of the noise, so that the kind of noise is what is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

Draw = Callable[[np.random.Generator, int], np.ndarray]


def autoregression(random: np.random.Generator, n: int, phi: float) -> np.ndarray:
    """First-order autoregression of standard deviation 1, float64[n]."""
    noise = random.normal(0, np.sqrt(1 - phi**2), n)
    noise[0] = random.normal()
    for i in range(1, n):
        noise[i] += phi * noise[i - 1]
    return noise


def stays(random: np.random.Generator, n: int, dwell: float) -> np.ndarray:
    """In which of two modes each point lies, bool[n]; a stay in either lasts ``dwell`` points in the mean, 1: each
    point is drawn anew."""
    share = random.uniform(0.25, 0.75)
    upper = np.empty(n, bool)
    state = random.random() < share
    for i in range(n):
        change = (1 - share if state else share) if dwell <= 1 else 0.5 / dwell * (1 / (share if state else 1 - share))
        state = state != (random.random() < change)
        upper[i] = state
    return upper


def two_modes(random: np.random.Generator, n: int, gap: float, dwell: float) -> np.ndarray:
    """White noise on two levels, ``gap`` apart, with :func:`stays`."""
    upper = stays(random, n, dwell)
    return random.normal(0, 1, n) + gap * upper


def outliers(random: np.random.Generator, n: int) -> np.ndarray:
    """White noise with 5 % of points disturbed upwards, by 16 standard deviations in the mean."""
    return random.normal(0, 1, n) + (random.random(n) < 0.05) * random.exponential(16, n)


def uneven(random: np.random.Generator, n: int) -> np.ndarray:
    """Noise whose size is another one every 25 points, by a factor of 2 up or down."""
    return random.normal(0, 1, n) * np.repeat(np.exp(random.normal(0, 0.7, n // 25 + 1)), 25)[:n]


def wave(random: np.random.Generator, n: int) -> np.ndarray:
    """White noise on a slow wave of twice its size, two to ten times in the history."""
    return random.normal(0, 1, n) + 2 * np.sin(2 * np.pi * (np.arange(n) / n * random.uniform(2, 10) + random.random()))


#: Histories without any change.
NULLS: Mapping[str, Draw] = {
    "white": lambda random, n: random.normal(0, 1, n),
    "heavy tails (Student's t of 3)": lambda random, n: random.standard_t(3, n),
    "outliers": outliers,
    "AR(1), 0.3": lambda random, n: autoregression(random, n, 0.3),
    "AR(1), 0.6": lambda random, n: autoregression(random, n, 0.6),
    "AR(1), 0.8": lambda random, n: autoregression(random, n, 0.8),
    "AR(1), 0.9": lambda random, n: autoregression(random, n, 0.9),
    "two modes, each point anew": lambda random, n: two_modes(random, n, 4, 1),
    "two modes, stays of 4": lambda random, n: two_modes(random, n, 5, 4),
    "two modes, stays of 10": lambda random, n: two_modes(random, n, 5, 10),
    "week days": lambda random, n: random.normal(0, 1, n) + np.resize([0, 0, 0, 0, 0, 3, 3], n),
    "a day of 24 points": lambda random, n: random.normal(0, 1, n) + 2 * np.sin(2 * np.pi * np.arange(n) / 24),
    "slow wave": wave,
    "uneven noise": uneven,
    "noise that grows fourfold": lambda random, n: (
        random.normal(0, 1, n) * np.where(np.arange(n) < n * random.random(), 1, 4)
    ),
    "coarse clock": lambda random, n: np.round(random.normal(0, 0.4, n)),
}
#: Slow movements that are none of a commit and no repeated pattern either: to be drifts, or nothing, and not steps.
DRIFTING: Mapping[str, Draw] = {
    "drift": lambda random, n: random.normal(0, 1, n) + 0.05 * np.arange(n),
    "level that wanders": lambda random, n: 0.7 * random.normal(0, 1, n) + 0.7 * autoregression(random, n, 0.95),
}
