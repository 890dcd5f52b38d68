"""Sums over rows of production: launches, time, and the distribution of durations.

Mental model: an amount is the sum of rows in whatever order. Time is by weight (a launch that stands for ten counts ten
times). Where a source tells no times, shares are of launches, and :class:`Amount` of a whole says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpusim.production.columns import NamedTotal, key_of
from gpusim.record.sketch import merged, quantile_ns


@dataclass
class Amount:
    """``bins``: durations of the timed launches (:mod:`gpusim.record.sketch`), each launch once; ``sum_ns`` of
    these."""

    launches: float = 0.0
    time_ns: float = 0.0
    timed: int = 0
    sum_ns: int = 0
    bins: dict[int, int] = field(default_factory=dict)

    def add(self, row: NamedTotal) -> None:
        """Count a row."""
        total = row.total
        self.launches += total.weighted_launches
        self.time_ns += total.weighted_ns
        self.timed += total.timed
        self.sum_ns += total.sum_ns
        if total.bins:
            self.bins = merged(self.bins, total.bins)

    @property
    def mean_ns(self) -> float | None:
        """Of a timed launch."""
        return self.sum_ns / self.timed if self.timed else None

    def quantile_us(self, share: float) -> float | None:
        """The duration that ``share`` of the timed launches do not exceed; 1 % off at most."""
        found = quantile_ns(self.bins, share)
        return None if found is None else found / 1000


def amount_of(rows: Iterable[NamedTotal]) -> Amount:
    """All rows together."""
    amount = Amount()
    for row in rows:
        amount.add(row)
    return amount


def grouped(rows: Iterable[NamedTotal], columns: Sequence[str]) -> dict[tuple[str, ...], Amount]:
    """By the texts in ``columns``."""
    found: dict[tuple[str, ...], Amount] = {}
    for row in rows:
        found.setdefault(key_of(row, columns), Amount()).add(row)
    return found


def share_percent(part: Amount, whole: Amount) -> float:
    """Of the time; of the launches where no time is known."""
    if whole.time_ns > 0:
        return 100.0 * part.time_ns / whole.time_ns
    return 100.0 * part.launches / whole.launches if whole.launches else 0.0
