"""Measurements of old and new, launch by launch.

Mental model: two measured rows belong together if they are of the same launch on the same GPU in the same state of the
caches. Where both kept enough samples, their distributions are compared (:mod:`gpusim.compare.statistics`), at one
clock if the clock was read; otherwise their confidence intervals must settle the question, else it is AMBIGUOUS. A row
that computed a wrong result has no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpusim.compare.error import Verdict
from gpusim.compare.statistics import LEAST_SAMPLES, SampleThresholds, compare_samples
from gpusim.io.percent import signed
from gpusim.regress.outcome import MEASURED, Outcome, against
from gpusim.regress.thresholds import Thresholds
from gpusim.silicon.row import Estimate, SiliconRow

WRONG_RESULT = "wrong_result"


def judge_rows(base: Sequence[SiliconRow], head: Sequence[SiliconRow], thresholds: Thresholds) -> list[Outcome]:
    """An outcome for each measured launch of either side, in the order of ``base``, then what only ``head`` has."""
    found = []
    for pair in _pair_rows(base, head):
        known = pair[0] or pair[1]
        assert known is not None
        state = ", ".join(filter(None, (known.cache, known.method)))
        found.append(replace(_measured(*pair, thresholds), state=state))
    return found


def _pair_rows(
    base: Sequence[SiliconRow], head: Sequence[SiliconRow]
) -> list[tuple[SiliconRow | None, SiliconRow | None]]:
    """Measurements of the same launch on the same GPU in the same state of the caches; the last of each."""
    old, new = ({_row_key(row): row for row in rows} for rows in (base, head))
    pairs: list[tuple[SiliconRow | None, SiliconRow | None]] = [(row, new.get(key)) for key, row in old.items()]
    return pairs + [(None, row) for key, row in new.items() if key not in old]


def _row_key(row: SiliconRow) -> tuple:
    return row.kernel, row.shape, row.launch, row.gpu or row.device_name, row.cache, row.method


def _measured(old: SiliconRow | None, new: SiliconRow | None, thresholds: Thresholds) -> Outcome:
    known = new or old
    assert known is not None
    estimates, unit = _estimates(old, new)
    facts = (MEASURED, known.kernel, known.shape, known.launch, known.gpu or known.device_name, unit)
    values = [estimate.median if estimate else None for estimate in estimates]
    before, after = estimates
    wrong = [side for side, row in (("BASE", old), ("HEAD", new)) if row and WRONG_RESULT in row.flags]
    if wrong:
        reason = f"{' and '.join(wrong)} computed a wrong result: that has no time"
        return Outcome(*facts, *values, Verdict.NO_DATA, reason)
    if before is None or after is None:
        side = "BASE" if old is None else "HEAD"
        reason = (
            f"{side} has no such measurement" if old is None or new is None else "no unit is measured on both sides"
        )
        return Outcome(*facts, *values, Verdict.NO_DATA, reason)
    causes = (
        ("cubin",) if old and new and old.cubin_hash and new.cubin_hash and old.cubin_hash != new.cubin_hash else ()
    )
    assert old is not None and new is not None
    clocks = _clocks(old), _clocks(new)
    read = None if None in clocks else clocks
    if (unit == "us" or read) and min(len(old.samples_us), len(new.samples_us)) >= LEAST_SAMPLES:
        rules = SampleThresholds()
        rules = replace(
            rules, least_percent=thresholds.percent, missed_percent=max(rules.missed_percent, thresholds.percent)
        )
        found = compare_samples(old.samples_us, new.samples_us, rules, clocks_mhz=read)
        return Outcome(*facts, *values, found.verdict, "; ".join((found.reason, *found.notes)), causes)
    allowance = thresholds.allowance(before.median, unit)
    least, most = after.low - before.high, after.high - before.low
    verdict, reason = against(before.median, after.median, thresholds, unit)
    if verdict == Verdict.SAME:
        settled = -allowance <= least and most <= allowance
    else:
        settled = least > allowance if verdict == Verdict.SLOWER else most < -allowance
    if not settled and (verdict != Verdict.SAME or least > 0 or most < 0):
        verdict = Verdict.AMBIGUOUS
        reason += f", but the confidence intervals allow from {signed(least, '.6g')} to {signed(most, '.6g')} {unit}"
    return Outcome(*facts, *values, verdict, reason, causes)


def _clocks(row: SiliconRow) -> Sequence[float] | None:
    """The clock of each sample: as read, else the one clock that the row states for all, else None."""
    if row.samples_mhz:
        return row.samples_mhz
    return [row.sm_clock_mhz] * len(row.samples_us) if row.sm_clock_mhz else None


def _estimates(old: SiliconRow | None, new: SiliconRow | None) -> tuple[tuple[Estimate | None, Estimate | None], str]:
    """The estimates of both in a unit that both have: cycles before time, since clocks move."""
    for unit, name in (("cycles", "cycles"), ("us", "time_us")):
        pair = tuple(getattr(row, name) if row else None for row in (old, new))
        if all(pair) or (not all((old, new)) and any(pair)):
            return pair, unit
    return (None, None), "us"
