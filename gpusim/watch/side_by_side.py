"""Whether two commits that are measured in turn differ by a step that a history shows.

Mental model: a history compares this night with other nights, and whatever the machine was at then is in the
difference: a clock, another tenant, a placement that stays for ten nights. Measured in turn within minutes, both
commits meet the same machine. Two hypotheses are weighed, no difference and that of the history, by Wald's sequential
test ("Sequential tests of statistical hypotheses", Annals of Mathematical Statistics 16, 1945): after each pair the sum
of log-likelihood ratios says one of them, or that more pairs are needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import select

from gpusim.errors import StoreFormatError
from gpusim.io.records import parse_record
from gpusim.store.schema import documents, runs
from gpusim.store.store import Store

CONFIRMED, REFUTED, UNSETTLED = "confirmed", "refuted", "unsettled"
#: Chance of either error; pairs before the first verdict (noise is not known by less) and at most.
ERROR = 0.01
LEAST_PAIRS, MOST_PAIRS = 3, 20
#: After the most pairs the likelier hypothesis is taken (Wald's truncation), if half the step is so many standard
#: errors of the pairs' mean: else more than 7 % of such verdicts would be wrong, and there is none.
_LEAST_ERRORS = 1.5
KIND = "commits side by side"
_BOUND = math.log((1 - ERROR) / ERROR)
#: From the median of absolute differences of neighbours to the standard deviation of one value, for normal noise.
_MAD = 1.4826 / math.sqrt(2)


@dataclass(frozen=True)
class Comparison:
    """Of series number ``series``: the commits at positions ``old`` and ``new``, ``pairs`` of values of both, in the
    series' unit, and what they say of a step by ``step``: confirmed, refuted, or unsettled."""

    series: int
    old: int
    new: int
    step: float
    verdict: str
    pairs: tuple[tuple[float, float], ...] = ()

    def covers(self, number: int, first: int, last: int) -> bool:
        """Whether it speaks of a change of series ``number`` somewhere from position ``first`` to ``last``."""
        return number == self.series and self.old < first and last <= self.new


def noise_of(values: Sequence[float]) -> float:
    """The standard deviation of a history's values from one to the next, whatever its level does in between."""
    return _MAD * float(np.median(np.abs(np.diff(values)))) if len(values) > 1 else 0.0


def weigh(pairs: Sequence[tuple[float, float]], step: float, noise: float) -> str:
    """What ``pairs`` (before, after) say of a step by ``step`` where single values have the standard deviation
    ``noise`` at least."""
    count = len(pairs)
    if count < LEAST_PAIRS or step == 0.0:
        return UNSETTLED
    differences = np.array([after - before for before, after in pairs])
    variance = max(2 * noise**2, float(differences.var(ddof=1)))
    if variance == 0.0:
        return REFUTED if abs(differences[0]) < abs(step) / 2 else CONFIRMED
    ratio = step * (float(differences.sum()) - count * step / 2) / variance
    if abs(ratio) < _BOUND and (count < MOST_PAIRS or abs(step) / 2 < _LEAST_ERRORS * math.sqrt(variance / count)):
        return UNSETTLED
    return CONFIRMED if ratio > 0 else REFUTED


def read_comparisons(store: Store, plan: str) -> list[Comparison]:
    """All that runs of ``plan`` have kept, oldest first. Raises StoreFormatError for a damaged one."""
    query = (
        select(documents.c.run_id, documents.c.content)
        .join(runs, runs.c.id == documents.c.run_id)
        .where(runs.c.name == plan, runs.c.command == "watch run", documents.c.kind == KIND)
        .order_by(documents.c.id)
    )
    with store.reading() as connection:
        rows = [] if connection is None else connection.execute(query).all()
    return [parse_record(Comparison, text, f"run {run}: damaged: its {KIND}", StoreFormatError) for run, text in rows]
