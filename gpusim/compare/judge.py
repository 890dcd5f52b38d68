"""One measured row against one simulated launch: how far apart, and whether that says anything.

Mental model: the simulated cycles are exact, the measured ones lie in an interval, and the model has a known error. The
two agree (SAME) if the *whole* interval lies within the allowed factor of the simulated cycles, or within an absolute
number of cycles; they differ (FASTER, SLOWER: the simulated GPU is ... than silicon) if *no* part of it does; between
the two lies AMBIGUOUS. The allowed factor is the tolerance asked for or the model's known error on this GPU, whichever
is larger: what the calibration is known to miss is no news. The rule is symmetric: swapping the sides swaps FASTER and
SLOWER.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.compare.error import DEFAULT_TOLERANCE_CYCLES, DEFAULT_TOLERANCE_PERCENT, Verdict
from gpusim.compare.statistics import median_interval
from gpusim.io.percent import signed_percent
from gpusim.silicon.row import Estimate, SiliconRow

#: Half-width taken for a row that states no interval: nvbench, by default, is content with 0.5 % of deviation, single
#: runs under a profiler scatter by 1 to 3 % (NVIDIA/nvbench pull request 206 and issue 231). A guess between them.
ASSUMED_INTERVAL_PERCENT = 2.0
#: Flags of a row that spoil its clock, and with it the cycles that were made from a time.
CLOCK_FLAGS = ("throttled", "clock_drift")
WRONG_RESULT = "wrong_result"


@dataclass(frozen=True)
class Tolerance:
    """What counts as the same: within ``percent`` or within ``cycles``, whichever allows more."""

    percent: float = DEFAULT_TOLERANCE_PERCENT
    cycles: float = DEFAULT_TOLERANCE_CYCLES


@dataclass(frozen=True)
class KnownError:
    """What the model is known to miss by, and where that is known from."""

    percent: float
    source: str


@dataclass(frozen=True)
class Judgement:
    """``error_percent``: signed, of the simulated cycles against the measured median; ``allowed_percent``: the factor
    that counted."""

    verdict: Verdict
    reason: str
    error_percent: float
    allowed_percent: float


def measured_cycles(row: SiliconRow, clock_mhz: float) -> tuple[Estimate | None, str]:
    """SM cycles of a row with their interval, and a note on what was assumed; None where the row has no time.

    ``clock_mhz``: for rows that state a time but no clock.
    """
    if WRONG_RESULT in row.flags:
        return None, "the measured kernel computed a wrong result: it has no time"
    estimate, note = row.cycles, ""
    if estimate is None:
        clock = row.sm_clock_mhz or clock_mhz
        scale = clock  # microseconds x MHz = cycles
        if not row.sm_clock_mhz:
            note = f"no clock was recorded: {clock:.0f} MHz of the description taken"
        if row.time_us is not None:
            estimate = Estimate(row.time_us.median * scale, row.time_us.low * scale, row.time_us.high * scale)
        elif row.samples_us:
            median, low, high = median_interval(row.samples_us)
            estimate = Estimate(median * scale, low * scale, high * scale)
    if estimate is None or estimate.median <= 0:
        return None, "the row states neither cycles nor a time"
    if estimate.low == estimate.high:
        half = ASSUMED_INTERVAL_PERCENT / 100 * estimate.median
        estimate = Estimate(estimate.median, estimate.median - half, estimate.median + half)
        note = "; ".join(filter(None, (note, f"no interval was recorded: {ASSUMED_INTERVAL_PERCENT:g} % taken")))
    return estimate, note


def judge(
    simulated: float,
    measured: Estimate,
    tolerance: Tolerance,
    known: KnownError | None = None,
    flags: tuple[str, ...] = (),
) -> Judgement:
    """The verdict on positive ``simulated`` cycles against ``measured`` ones."""
    error = 100.0 * (simulated - measured.median) / measured.median
    allowed = max(tolerance.percent, known.percent if known else 0.0)
    why = (
        f"{known.percent:.1f} % is the model's known error, {known.source}"
        if known and known.percent > tolerance.percent
        else ""
    )
    factor = 1 + allowed / 100
    floor = min(simulated / factor, simulated - tolerance.cycles)
    ceiling = max(simulated * factor, simulated + tolerance.cycles)
    text = f"{signed_percent(error)} off the measured {measured.median:.0f} ({measured.low:.0f} to {measured.high:.0f}) cycles"
    # Said as the factor that it is: 10 % too slow is a factor of 1.1, but 9.1 % too fast is one, too.
    limits = f"a factor of {factor:.3f}" + (f" ({why})" if why else "")
    if floor <= measured.low and measured.high <= ceiling:
        if measured.low * factor < simulated or simulated * factor < measured.high:
            limits = f"{tolerance.cycles:g} cycles"
        return Judgement(Verdict.SAME, f"{text}: within {limits}", error, allowed)
    if floor <= measured.high and measured.low <= ceiling:
        return Judgement(Verdict.AMBIGUOUS, f"{text}: the interval reaches across {limits}", error, allowed)
    spoilt = [flag for flag in flags if flag in CLOCK_FLAGS]
    if spoilt:
        reason = f"{text}: beyond {limits}, but the row is flagged {', '.join(spoilt)}: measure again"
        return Judgement(Verdict.AMBIGUOUS, reason, error, allowed)
    verdict = Verdict.FASTER if measured.low > ceiling else Verdict.SLOWER
    return Judgement(verdict, f"{text}: all of it beyond {limits}", error, allowed)
