"""Retention and roll-up: minutes become hours, hours become days, and the small ones of a full minute become "other".

Mental model: the older, the coarser. Each step is one transaction that takes totals out and puts their sum back under a
coarser key, so that launches and time stay what they were. Ages are settings, not findings.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gpusim.collect.ledger import Ledger
from gpusim.collect.totals import OTHER, Total, as_other, summed

HOUR, DAY = 60, 24 * 60
#: A part of the most keys by which a span may exceed them: its rows "other" are not to make it read again and again.
SLACK = 8


@dataclass(frozen=True)
class Ages:
    """Minutes after which a total is rolled up or forgotten, and how many keys one span of time may have. All are
    guesses at what a fleet wants to look back at."""

    to_hours: int = 2 * DAY
    to_days: int = 35 * DAY
    forgotten: int = 400 * DAY
    most_keys: int = 20_000
    #: Processes send within a minute; a span this old gets nothing more of them.
    closed: int = 5


def age(ledger: Ledger, now_minute: int, ages: Ages = Ages()) -> int:
    """Roll up and forget; the number of totals that have gone. Only what changes is read, a coarse span at a time."""
    gone = 0
    for length, limit in ((HOUR, ages.to_hours), (DAY, ages.to_days)):
        for finer in (each for each in ledger.lengths() if each < length):
            for start in sorted({minute // length * length for minute in ledger.spans(finer, now_minute - limit)}):
                old = ledger.span(finer, start, min(start + length - 1, now_minute - limit))
                by_key = summed(_under(t, msgspec.structs.replace(t.what, minute=start, minutes=length)) for t in old)
                ledger.replace([t.what.digest() for t in old], by_key)
                gone += len(old) - len(by_key)
    for length in ledger.lengths():
        for start in ledger.spans(length, now_minute - ages.closed, ages.most_keys + ages.most_keys // SLACK):
            small = _small(ledger.span(length, start, start), ages.most_keys)
            ledger.replace([t.what.digest() for t in small], summed(_under(t, as_other(t.what)) for t in small))
            gone += len(small)
    ledger.forget(now_minute - ages.forgotten)
    return gone


def _small(totals: list[Total], most: int) -> list[Total]:
    """All but the ``most`` that took most time (without times: that were launched most); "other" rows are never
    small."""
    kept = [t for t in totals if t.what.kernel != OTHER]
    kept.sort(key=lambda t: (t.weighted_ns, t.weighted_launches, t.what.digest()), reverse=True)
    return kept[most:]


def _under(total: Total, what: object) -> Total:
    return msgspec.structs.replace(total, what=what, bins=dict(total.bins))
