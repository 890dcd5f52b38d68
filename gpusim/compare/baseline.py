"""Today's comparison against an earlier one: which verdicts are new, which errors grew.

Mental model: a comparison is a list of lines, each with a key that stays the same from day to day (GPU and launch, or
GPU and published series), an error and a verdict. Divergences that the earlier run had already are known and accepted;
what is *worse* now is what a release manager must look at. Lines that only one side has are listed, since a comparison
that lost half its launches must not look clean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from gpusim.compare.error import Verdict
from gpusim.errors import UsageError
from gpusim.io.percent import signed, signed_percent
from gpusim.io.records import as_record

#: An error must grow by more than this many percent points to be worse: less is rounding of clocks and points.
WORSE_POINTS = 1.0
DIVERGING = (Verdict.FASTER, Verdict.SLOWER)


@dataclass(frozen=True)
class Line:
    """One compared thing. ``error_percent``: signed for a launch, mean absolute for a series; ``simulated``: cycles,
    NaN for a series."""

    key: str
    verdict: Verdict
    error_percent: float
    simulated: float = math.nan


class _Line(TypedDict):
    """A line as JSON; null for a figure that it does not have."""

    key: str
    verdict: Verdict
    error_percent: float | None
    simulated: float | None


@dataclass(frozen=True)
class Change:
    """A line now and then (None where that side lacks it); ``worse`` if it now diverges and did not, or by more."""

    key: str
    now: Line | None
    before: Line | None
    worse: bool
    reason: str


def against_baseline(now: Sequence[Line], before: Sequence[Line]) -> list[Change]:
    """Every line of either side, in today's order, lines that have gone last."""
    earlier = {line.key: line for line in before}
    changes = [_change(line, earlier.get(line.key)) for line in now]
    present = {line.key for line in now}
    gone = [Change(line.key, None, line, False, "is no longer compared") for line in before if line.key not in present]
    return changes + gone


def _change(now: Line, before: Line | None) -> Change:
    diverges = now.verdict in DIVERGING
    if before is None:
        return Change(now.key, now, None, diverges, f"was not compared before; is {now.verdict} now")
    if diverges and before.verdict not in DIVERGING:
        return Change(now.key, now, before, True, f"was {before.verdict}, is {now.verdict}")
    grown = abs(now.error_percent) - abs(before.error_percent)
    if diverges and grown > WORSE_POINTS:
        return Change(
            now.key,
            now,
            before,
            True,
            f"error grew from {signed(before.error_percent, '.1f')} to {signed_percent(now.error_percent)}",
        )
    moved = now.verdict != before.verdict
    return Change(now.key, now, before, False, f"was {before.verdict}, is {now.verdict}" if moved else "as before")


def lines_document(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Lines as JSON."""
    return [
        {
            "key": line.key,
            "verdict": str(line.verdict),
            "error_percent": None if math.isnan(line.error_percent) else line.error_percent,
            "simulated": None if math.isnan(line.simulated) else line.simulated,
        }
        for line in lines
    ]


def kept_lines(document: Any, where: str) -> list[Line]:
    """The lines in the document that a comparison keeps in the store. Raises UsageError naming ``where`` for anything
    else."""
    return read_lines(document.get("lines") if isinstance(document, dict) else document, where)


def read_lines(document: Any, where: str) -> list[Line]:
    """The lines that :func:`lines_document` made. Raises UsageError naming ``where`` for anything else."""
    wanted = f"{where} holds no comparison of this version (save one with gpusim compare --save)"
    return [
        Line(
            line["key"],
            line["verdict"],
            *(math.nan if value is None else value for value in (line["error_percent"], line["simulated"])),
        )
        for line in as_record(list[_Line], document, wanted, UsageError)
    ]
