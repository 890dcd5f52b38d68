"""Figures over a set's predictions: errors, order, and what taking the best predicted configuration costs.

Mental model: a row's error is predicted over measured time less one. Spearman's coefficient is the correlation of the
ranks, mean ranks for equal values (as scipy.stats.spearmanr; a core dependency on scipy for one line would not earn its
place). Regret is what the configuration of the least predicted time takes on silicon above the least measured one, in
per cent; regret of five, what is left of it when the five of the least predicted times are measured and the fastest of
them is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

#: Of fewer rows the best is no choice.
LEAST_CHOICE = 3
#: So many of the best predicted are measured; of fewer than four times as many rows they are no choice.
MEASURED = 5


@dataclass(frozen=True)
class Figures:
    """In per cent, but for ``rows`` and ``rank`` (-1 to 1). ``regret_percent`` None where rows are no variants of one
    problem, or fewer than three; ``regret_of_five_percent`` None of fewer than twenty; ``noise_percent``: the median
    over the rows, None where the source says none."""

    rows: int
    mape_percent: float
    signed_percent: float
    worst_percent: float
    worst_row: str
    rank: float | None
    regret_percent: float | None
    regret_of_five_percent: float | None
    noise_percent: float | None


#: The figures of a half of which no row could be predicted: the same columns, so that such a half stands in a table
#: beside others.
NO_FIGURES: dict[str, Any] = {field.name: None for field in fields(Figures)} | {"rows": 0}


def figures(
    names: Sequence[str],
    predicted_us: Sequence[float],
    measured_us: Sequence[float],
    noise_percent: Sequence[float | None],
    one_problem: bool,
) -> Figures:
    """The figures of rows in any order; at least one."""
    predicted, measured = np.asarray(predicted_us, float), np.asarray(measured_us, float)
    error = 100 * (predicted / measured - 1)
    worst = int(np.abs(error).argmax())
    choice = len(error) if one_problem else 0
    noise = [each for each in noise_percent if each is not None]
    return Figures(
        rows=len(error),
        mape_percent=float(np.abs(error).mean()),
        signed_percent=float(error.mean()),
        worst_percent=float(error[worst]),
        worst_row=names[worst],
        rank=spearman(predicted, measured),
        regret_percent=_regret(predicted, measured, 1) if choice >= LEAST_CHOICE else None,
        regret_of_five_percent=_regret(predicted, measured, MEASURED) if choice >= 4 * MEASURED else None,
        noise_percent=float(np.median(noise)) if noise else None,
    )


def _regret(predicted: np.ndarray, measured: np.ndarray, tried: int) -> float:
    """What the fastest of the ``tried`` best predicted takes above the fastest of all, in per cent."""
    best = np.argsort(predicted, kind="stable")[:tried]
    return float(100 * (measured[best].min() / measured.min() - 1))


def spearman(one: np.ndarray, other: np.ndarray) -> float | None:
    """Spearman's rank correlation; None of fewer than three rows, or where one side is all equal."""
    ranks = [_ranks(each) for each in (one, other)]
    if len(one) < 3 or any(np.ptp(each) == 0 for each in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value from 1 on; equal ones share the mean of theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[which]
