"""The gap by what warps wait for, where a profiler has measured it: exact, with no residual, but of symptoms and not of
causes.

Mental model: every resident warp-cycle has one stall reason, in the model and, by sampling, under Nsight Compute. A
launch's cycles split in the proportion of its warp-cycles; the difference of the two splits, reason by reason, adds up
to the difference of the cycles. It says *where* simulated and measured warps spend their time differently (waiting for
global memory, at barriers), while :mod:`gpusim.compare.gap` asks *which cost* makes them do so.

Nsight Compute's ``smsp__average_warps_issue_stalled_<reason>_per_issue_active.ratio`` is warp-cycles with that reason
over cycles with an issue; the model's counterpart is its warp-cycles with that reason over its issues.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

SELECTED = "selected"
_METRIC = re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active\.ratio")
#: Reasons with at least this share of the simulated warp-cycles must have been measured, or there is no split.
NEEDED_SHARE = 0.02


def stall_metrics(stalls: Mapping[str, int]) -> dict[str, float]:
    """Simulated ``stalls`` (reason -> warp-cycles) under Nsight Compute's names; empty if nothing issued."""
    issues = stalls.get(SELECTED, 0)
    if not issues:
        return {}
    return {
        f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio": cycles / issues
        for reason, cycles in stalls.items()
    }


def measured_stalls(counters: Mapping[str, float]) -> dict[str, float]:
    """Reason -> warp-cycles an issue, of a profile's counters; an issuing warp counts once even where it was not asked
    for."""
    found = {}
    for name, value in counters.items():
        match = _METRIC.fullmatch(name)
        if match and not match[1].endswith("_not_issued") and value >= 0:
            found[match[1]] = value
    return {SELECTED: 1.0, **found} if found else {}


def stall_split(
    simulated_cycles: float, stalls: Mapping[str, int], measured_cycles: float, counters: Mapping[str, float]
) -> dict[str, float]:
    """Reason -> cycles of ``simulated_cycles - measured_cycles``; they add up to it. Empty where a reason that matters
    to the simulated launch was not measured."""
    measured, issued = measured_stalls(counters), sum(stalls.values())
    if not measured or not issued:
        return {}
    if any(cycles >= NEEDED_SHARE * issued and reason not in measured for reason, cycles in stalls.items()):
        return {}
    whole = sum(measured.values())
    reasons = dict.fromkeys((*stalls, *measured))
    return {
        reason: simulated_cycles * stalls.get(reason, 0) / issued - measured_cycles * measured.get(reason, 0.0) / whole
        for reason in reasons
    }
