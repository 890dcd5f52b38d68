"""A claim judged: impossible, wrong, invalid, implausible or plausible, in this order, with its reasons.

Mental model: what is impossible by the lower bounds needs no trial; of a wrong result the time means nothing; of a
measurement that leaves work out neither. What is left is held against the prediction's interval, which says how far
predictions of such kernels have been off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpusim.claims.bound import UnitBound
from gpusim.claims.finding import ClaimFinding, Weight
from gpusim.uncertainty.interval import Interval


class ClaimVerdict(StrEnum):
    """What is said of a claim."""

    IMPOSSIBLE = "IMPOSSIBLE"
    WRONG = "WRONG"
    INVALID = "INVALID"
    IMPLAUSIBLE = "IMPLAUSIBLE"
    PLAUSIBLE = "PLAUSIBLE"


@dataclass(frozen=True)
class JudgedClaim:
    """``verdict`` of a claim of ``claimed_us``, and ``reason``; ``bounds`` by falling time; ``predicted_us`` with its
    ``interval``, None where nothing was simulated; ``findings``, the weightiest first. ``checked``: what a result was
    held against, empty where nothing says what is right."""

    verdict: ClaimVerdict
    reason: str
    claimed_us: float
    bounds: tuple[UnitBound, ...]
    predicted_us: float | None
    interval: Interval | None
    findings: tuple[ClaimFinding, ...]
    checked: str = ""

    @property
    def is_suspect(self) -> bool:
        """Whether it is plausible with a finding that may have an honest reason, or faster than predicted."""
        return self.verdict == ClaimVerdict.IMPLAUSIBLE or any(each.weight == Weight.SUSPECT for each in self.findings)


def judge_claim(
    claimed_us: float, bounds: Sequence[UnitBound], predicted_us: float | None, interval: Interval | None,
    findings: Sequence[ClaimFinding], checked: str = "",
) -> JudgedClaim:  # fmt: skip
    """The verdict on a claim."""
    order = list(Weight)
    ordered = tuple(sorted(findings, key=lambda finding: order.index(finding.weight)))
    verdict, reason = _verdict(claimed_us, bounds, predicted_us, interval, ordered)
    return JudgedClaim(verdict, reason, claimed_us, tuple(bounds), predicted_us, interval, ordered, checked)


def _verdict(
    claimed_us: float, bounds: Sequence[UnitBound], predicted_us: float | None, interval: Interval | None,
    findings: Sequence[ClaimFinding],
) -> tuple[ClaimVerdict, str]:  # fmt: skip
    largest = max(bounds, key=lambda bound: bound.least_us, default=None)
    if largest is not None and claimed_us < largest.least_us:
        return ClaimVerdict.IMPOSSIBLE, (
            f"{claimed_us:g} us is below what {largest.unit} alone needs, {largest.least_us:.4g} us: {largest.arithmetic}"
        )
    for weight, verdict in ((Weight.WRONG, ClaimVerdict.WRONG), (Weight.INVALID, ClaimVerdict.INVALID)):
        told = [finding.message for finding in findings if finding.weight == weight]
        if told:
            return verdict, "; ".join(told)
    if interval is None or predicted_us is None:
        return ClaimVerdict.PLAUSIBLE, "no bound forbids it; nothing was simulated"
    span = f"the prediction's {interval.level_percent:g} % interval, {interval.low_us:.4g} to {interval.high_us:.4g} us (predicted {predicted_us:.4g})"
    if claimed_us < interval.low_us:
        return ClaimVerdict.IMPLAUSIBLE, f"{claimed_us:g} us is below {span}, though no bound forbids it"
    if claimed_us > interval.high_us:
        return ClaimVerdict.PLAUSIBLE, f"{claimed_us:g} us is above {span}: slower than predicted"
    return ClaimVerdict.PLAUSIBLE, f"{claimed_us:g} us is within {span}"
