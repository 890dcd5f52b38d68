"""How much of production's time lies in the region of a finding of ``gpusim explore``.

Mental model: a finding is about one kernel of the suite, and its rule is a region of that kernel's shapes. A launch of
production lies in it where its case (:mod:`gpusim.production.suite_cases`) is that kernel and its shape satisfies the
rule. Where the rule asks for an axis that production does not tell, the launch may or may not lie inside, and counts
for the upper bound alone: a divergence covers between two shares of the time.

The rule is read from its text, as :mod:`gpusim.explore.region` writes it. Raises FindingFileError for a text that is
none.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpusim.errors import FindingFileError
from gpusim.explore.finding import Finding
from gpusim.explore.region import Statement
from gpusim.production.amounts import Amount, amount_of, share_percent
from gpusim.production.coverage_holes import Standing
from gpusim.production.suite_cases import SuiteCase

MOST_RULE = 10_000
_EVERY_SHAPE = "every shape"


@dataclass(frozen=True)
class TimeInside:
    """Percent of production's time: surely inside the region, and at most."""

    least_percent: float
    most_percent: float

    def __str__(self) -> str:
        if self.most_percent - self.least_percent < 5e-4:
            return f"{self.least_percent:.3g} %"
        return f"{self.least_percent:.3g} to {self.most_percent:.3g} %"


def time_inside(finding: Finding, found: Sequence[Standing]) -> TimeInside:
    """The share of production's time that the finding's region covers."""
    rules = rules_of(finding.rule)
    whole, inside, perhaps = amount_of(each.row for each in found), Amount(), Amount()
    for each in found:
        if isinstance(each.case, SuiteCase) and each.case.kernel == finding.kernel:
            answer = _holds(rules, each.case)
            if answer is not False:
                perhaps.add(each.row)
            if answer:
                inside.add(each.row)
    return TimeInside(share_percent(inside, whole), share_percent(perhaps, whole))


def rules_of(text: str) -> tuple[tuple[Statement, ...], ...]:
    """The conjunctions of which one must hold, of a region's text (``n % 32 != 0 and rows < 64 or ...: -5 % to +3
    %``)."""
    rule = text.rpartition(": ")[0] or text
    if len(rule) > MOST_RULE:
        raise FindingFileError(f"a rule of {len(rule)} characters: at most {MOST_RULE}")
    return tuple(
        () if part == _EVERY_SHAPE else tuple(_statement(each) for each in part.split(" and "))
        for part in rule.split(" or ")
    )


def _statement(text: str) -> Statement:
    words = text.split(" ", 2)
    if len(words) == 3 and words[1] == "%":
        divisor, _, compared = words[2].partition(" ")
        if divisor.isdecimal() and len(divisor) < 20 and int(divisor) and compared in ("== 0", "!= 0"):
            return Statement(words[0], f"%{compared[:2]}", int(divisor))
    elif len(words) == 3 and words[1] in ("<", ">=", "==", "!="):
        try:
            value = ast.literal_eval(words[2])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            value = None
        if isinstance(value, (int, float, str)):
            return Statement(words[0], words[1], value)
    raise FindingFileError(f"{text[:80]!r} is no statement about an axis, as the rule of a finding has them")


def _holds(rules: Sequence[Sequence[Statement]], case: SuiteCase) -> bool | None:
    """Whether the shape lies inside; None where what is known of it does not say."""
    # A grid tells the elements up to a block, and nothing of rows and columns.
    numbers = case.basis == "operator"
    known = {axis: value for axis, value in case.shape.items() if numbers or not isinstance(value, (int, float))}
    answers = [_all([_answer(each, known) for each in rule]) for rule in rules]
    return True if True in answers else None if None in answers else False


def _all(answers: Sequence[bool | None]) -> bool | None:
    return False if False in answers else None if None in answers else True


def _answer(statement: Statement, shape: Mapping[str, Any]) -> bool | None:
    value = shape.get(statement.axis)
    if value is None:
        return None
    number = isinstance(value, (int, float))
    if statement.op not in ("==", "!=") and not (number and isinstance(statement.value, (int, float))):
        return None
    return statement.holds(shape)
