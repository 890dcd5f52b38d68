"""Two samples of timings as if the clock had stood still, when it was read beside each sample.

Mental model: a kernel's time goes as ``clock ** -sensitivity``: 1 where the SM clock sets the pace, 0 where memory
does, something between for most. The sensitivity of *this* kernel is seen within each run, whenever the clock moved
there: the slope of the logarithms, the runs' own levels taken off first. So a hopping or drifting clock is divided out
to the power of the sensitivity, and no further. Where the clock hardly moved within the runs the slope is not known,
and anything from 0 to 1 is possible; the verdict must then hold for both ends, which it does if the two runs had the
same clock.

Errors in reading the clock are as large before as after (analysis of covariance: Cochran, Biometrics 13, 1957, 261).
"""

from __future__ import annotations

import math

import numpy as np

#: Times further from their run's median than this many robust standard deviations pull at the slope no more than that.
WINSOR = 2.5
#: Half-width of the slope's interval, in standard errors.
REACH = 2.0
#: A clock that moves less than this (standard deviation of its logarithm) within the runs shows no slope: readings
#: themselves scatter by some hundredths of a percent (gpusim/measure/helpers.py: 200 us between steps of a timer of 32
#: ns).
LEAST_MOVEMENT = 0.0008
#: An uncertainty of the slope that can move the result by less than this (in logarithms) is none.
NEGLIGIBLE = 0.0004
_MAD_TO_DEVIATION = 1.4826
_GUESSES = (0.0, 0.25, 0.5, 0.75, 1.0)
_STEPS = 3


def at_common_clock(
    base: np.ndarray, base_mhz: np.ndarray, head: np.ndarray, head_mhz: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """``(base, head)``, float64[n] in microseconds, at the mean of both runs' median clocks: once, or twice where how
    far the kernel follows its clock is not sure enough. Clocks in MHz, one a sample, all positive."""
    clocks = [np.log(base_mhz), np.log(head_mhz)]
    levels = [float(np.median(clock)) for clock in clocks]
    low, high = clock_sensitivity([np.log(base), np.log(head)], clocks)
    moved = max(abs(levels[0] - levels[1]), *(float(np.std(clock)) for clock in clocks))
    exponents = (low, high) if (high - low) * moved > NEGLIGIBLE else ((low + high) / 2,)
    middle = sum(levels) / 2
    return [
        tuple(sample * np.exp(exponent * (clock - middle)) for sample, clock in zip((base, head), clocks, strict=True))
        for exponent in exponents
    ]


def clock_sensitivity(log_times: list[np.ndarray], log_clocks: list[np.ndarray]) -> tuple[float, float]:
    """Between what and what the exponent lies by which times follow the clock, from 0 to 1; (0, 1): not known."""
    x = np.concatenate([clock - clock.mean() for clock in log_clocks])
    if float(np.std(x)) < LEAST_MOVEMENT:
        return 0.0, 1.0
    power = float(x @ x)
    # The slope is sought where residuals are tight, so that neither interruptions nor the other clock state count as
    # outliers.
    guess = min(
        _GUESSES, key=lambda slope: sum(_spread(t + slope * c) for t, c in zip(log_times, log_clocks, strict=True))
    )
    for _ in range(_STEPS):
        left = np.concatenate([_winsorised(t + guess * c) for t, c in zip(log_times, log_clocks, strict=True)])
        guess -= float(x @ left) / power
    left = left - float(x @ left) / power * x
    error = math.sqrt(float(left @ left) / max(1, len(x) - 3) / power)
    alike = min(0.9, max(0.0, float(left[:-1] @ left[1:]) / max(float(left @ left), 1e-300)))
    reach = REACH * error * math.sqrt((1 + alike) / (1 - alike))
    low, high = (min(1.0, max(0.0, guess + step)) for step in (-reach, reach))
    return low, high


def _spread(values: np.ndarray) -> float:
    """The median distance from the median."""
    return float(np.median(np.abs(values - np.median(values))))


def _winsorised(values: np.ndarray) -> np.ndarray:
    away = values - np.median(values)
    limit = WINSOR * _MAD_TO_DEVIATION * _spread(values)
    kept = np.clip(away, -limit, limit) if limit > 0 else away
    return kept - kept.mean()
