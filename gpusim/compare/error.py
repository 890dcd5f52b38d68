"""Simulated beside measured: the row of one point, the summary of one series, and its verdict.

Mental model: a row's error is signed, ``(simulated - measured) / measured``, in percent; a series is
summarised by the mean of the absolute errors (MAPE) and by the mean of the signed ones (bias), and the
verdict says in one word which way the simulator leans. A series without rows is NO-DATA: zero rows is
never success.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from gpusim.io.percent import signed_percent

#: A series whose mean absolute error is at most this many percent counts as the same as silicon.
DEFAULT_TOLERANCE_PERCENT = 10.0
#: A launch this few cycles off is not judged by percent: starting a launch alone scatters by so much. A guess.
DEFAULT_TOLERANCE_CYCLES = 50.0


class Verdict(StrEnum):
    """What a comparison found: the simulated GPU is ... than the measured one."""

    SAME = "SAME"
    FASTER = "FASTER"
    SLOWER = "SLOWER"
    AMBIGUOUS = "AMBIGUOUS"
    NO_DATA = "NO-DATA"
    UNSUPPORTED = "UNSUPPORTED"


@dataclass(frozen=True)
class ComparedPoint:
    """One point of one series on one GPU; ``error_percent`` is signed. ``fitted``: the GPU's description was set from
    this series on this GPU; else the point is held out. ``factor``: the measured value should lie between the simulated
    one over and times it (:mod:`gpusim.uncertainty`), NaN where it is not known. ``seconds`` it took to simulate."""

    gpu: str
    series: str
    point: str
    unit: str
    simulated: float
    measured: float
    fitted: bool = True
    factor: float = field(default=math.nan, compare=False)
    seconds: float = field(default=0.0, compare=False)

    @property
    def error_percent(self) -> float:
        return 100.0 * (self.simulated - self.measured) / self.measured

    @property
    def within_interval(self) -> bool | None:
        """Whether the measured value lies within the interval of the simulated one; None where that is not known."""
        if math.isnan(self.factor):
            return None
        return self.simulated / self.factor <= self.measured <= self.simulated * self.factor

    def _ends(self) -> dict[str, float]:
        return {"simulated_low": self.simulated / self.factor, "simulated_high": self.simulated * self.factor}

    def record(self) -> dict[str, str | float]:
        """The row as the JSON and CSV output shows it."""
        return {
            "gpu": self.gpu,
            "series": self.series,
            "point": self.point,
            "unit": self.unit,
            "simulated": self.simulated,
            **({} if math.isnan(self.factor) else self._ends()),
            "measured": self.measured,
            "error_percent": self.error_percent,
            "fitted": self.fitted,
        }


@dataclass(frozen=True)
class Summary:
    """One series on one GPU: how many points, both mean errors in percent, verdict and its reason; whether the GPU's
    description was set from it."""

    gpu: str
    series: str
    points: int
    mape_percent: float
    bias_percent: float
    verdict: Verdict
    reason: str
    fitted: bool = True


@dataclass(frozen=True)
class Evidence:
    """All rows that GPU descriptions were set from (``fitted``), or all others: how many, of how many series, and the
    mean of their absolute errors in percent; which share lay within its prediction interval, NaN where there was none.
    Only the error of what was held out says how well the model predicts."""

    fitted: bool
    series: int
    points: int
    mape_percent: float
    within_interval_percent: float = math.nan


def by_evidence(rows: Sequence[ComparedPoint]) -> list[Evidence]:
    """Fitted and held-out rows apart, each mean over points; a kind of which there is none is left out."""
    found = []
    for fitted in (True, False):
        some = [row for row in rows if row.fitted == fitted]
        if some:
            mape = sum(abs(row.error_percent) for row in some) / len(some)
            within = [row.within_interval for row in some if row.within_interval is not None]
            share = 100 * sum(within) / len(within) if within else math.nan
            found.append(Evidence(fitted, len({(row.gpu, row.series) for row in some}), len(some), mape, share))
    return found


def higher_is_faster(unit: str) -> bool:
    """Whether a larger value means a faster GPU: true of rates, false of times."""
    return unit.endswith("/s")


def summarise(
    gpu: str, series: str, rows: Sequence[ComparedPoint], tolerance_percent: float = DEFAULT_TOLERANCE_PERCENT
) -> Summary:
    """Mean errors and verdict of the rows of one series on one GPU (all of one unit)."""
    errors = [row.error_percent for row in rows]
    fitted = any(row.fitted for row in rows)  # one fitted point and the series is no prediction any more
    if not errors:
        reason = "no point of this series was simulated"
        return Summary(gpu, series, 0, math.nan, math.nan, Verdict.NO_DATA, reason, fitted)
    mape = sum(abs(e) for e in errors) / len(errors)
    bias = sum(errors) / len(errors)
    if mape <= tolerance_percent:
        verdict = Verdict.SAME
        reason = f"mean absolute error within {tolerance_percent:g} %"
    elif abs(bias) <= tolerance_percent:
        verdict = Verdict.AMBIGUOUS
        reason = f"errors of both signs: mean {signed_percent(bias)}, mean absolute {mape:.1f} %"
    else:
        faster = (bias > 0) == higher_is_faster(rows[0].unit)
        verdict = Verdict.FASTER if faster else Verdict.SLOWER
        reason = f"simulated is {'faster' if faster else 'slower'} than silicon by {abs(bias):.1f} % in the mean"
    return Summary(gpu, series, len(errors), mape, bias, verdict, reason, fitted)
