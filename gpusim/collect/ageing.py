"""Retention and roll-up: minutes become hours, hours become days, and the small ones of a full minute become "other".

Mental model: the older, the coarser. Each step is one transaction that takes totals out and puts their sum back under a coarser
key, so that launches and time stay what they were. Ages are settings, not findings.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gpusim.collect.ledger import Ledger
from gpusim.collect.totals import OTHER, Total, as_other, summed

HOUR, DAY = 60, 24 * 60


@dataclass(frozen=True)
class Ages:
    """Minutes after which a total is rolled up or forgotten, and how many keys one span of time may have. All are guesses at what
    a fleet wants to look back at."""

    to_hours: int = 2 * DAY
    to_days: int = 35 * DAY
    forgotten: int = 400 * DAY
    most_keys: int = 20_000
    #: Processes send within a minute; a span this old gets nothing more of them.
    closed: int = 5


def age(ledger: Ledger, now_minute: int, ages: Ages = Ages()) -> int:
    """Roll up and forget; the number of totals that have gone."""
    gone = 0
    for span, limit in ((HOUR, ages.to_hours), (DAY, ages.to_days)):
        old = [t for t in ledger.totals(0, now_minute - limit) if t.what.minutes < span]
        if old:
            coarse = [
                _under(t, msgspec.structs.replace(t.what, minute=t.what.minute // span * span, minutes=span))
                for t in old
            ]
            by_key = summed(coarse)
            gone += len(old) - len(by_key)
            ledger.replace([t.what.digest() for t in old], by_key)
    spans: dict[tuple[int, int], list[Total]] = {}
    for total in ledger.totals(0, now_minute - ages.closed):
        spans.setdefault((total.what.minute, total.what.minutes), []).append(total)
    for totals in spans.values():
        if len(totals) > ages.most_keys:
            small = _small(totals, ages.most_keys)
            ledger.replace([t.what.digest() for t in small], summed(_under(t, as_other(t.what)) for t in small))
            gone += len(small)
    ledger.replace([], {}, [f"delete from totals where minute + minutes < {now_minute - ages.forgotten:d}"])
    return gone


def _small(totals: list[Total], most: int) -> list[Total]:
    """All but the ``most`` that took most time (without times: that were launched most); "other" rows are never small."""
    kept = [t for t in totals if t.what.kernel != OTHER]
    kept.sort(key=lambda t: (t.sum_ns, t.launches, t.what.digest()), reverse=True)
    return kept[most:]


def _under(total: Total, what: object) -> Total:
    return msgspec.structs.replace(total, what=what, bins=dict(total.bins))
