"""What is used of SciPy and ruptures, imported when a measured history is first looked at.

Mental model: both together take a second to import (ruptures asks for ``scipy.stats``), which who watches simulated
histories alone, or only opens a page, need not wait for.
"""

from __future__ import annotations

import importlib

import numpy as np


def t_tail(t: float, freedom: float) -> float:
    """Probability that Student's t of ``freedom`` degrees lies beyond ``t`` (at least 0) on either side."""
    return 2.0 * float(_special().stdtr(freedom, -t))


def f_tail(f: float, above: float, below: float) -> float:
    """Probability that Fisher's F of ``above`` and ``below`` degrees of freedom lies beyond ``f``."""
    return float(_special().fdtrc(above, below, f))


def trigamma(x: float) -> float:
    """The second derivative of log gamma."""
    return float(_special().polygamma(1, x))


def best_levels(values: np.ndarray, *, penalty: float, least: int) -> list[int]:
    """First points, but that of the history, of the stretches of at least ``least`` points that minimise the squared
    distance of ``values`` from their stretch's mean plus ``penalty`` a stretch (exactly: ``ruptures.KernelCPD``, PELT
    in C)."""
    ruptures = importlib.import_module("ruptures")
    search = ruptures.KernelCPD(kernel="linear", min_size=least).fit(values.reshape(-1, 1))
    return [int(place) for place in search.predict(pen=penalty)[:-1]]


def _special():
    return importlib.import_module("scipy.special")
