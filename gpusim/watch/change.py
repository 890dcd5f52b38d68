"""A change in a history: where, how large, how sure, and what it belongs to."""

from __future__ import annotations

from dataclasses import dataclass

COMMIT = "commit"
#: The cause of a simulated value that moved although the machine code and all that is known of the method are the same.
UNRECORDED = "method that was not recorded"

#: Kinds of change: the level moved at once; it moves a little with every point; of several levels between which the
#: values switch, another share of the points lies on each.
STEP, DRIFT, SHARE = "step", "drift", "share"


@dataclass(frozen=True)
class Change:
    """``index``: first point of the new value, from 0. ``cause``: "commit" or a name of
    :data:`gpusim.watch.history.METHOD`; ``who``: the commit, or "old -> new". ``unseen``: commits between the two
    points that gave no value, any of which may be the first.

    Of measured values also ``kind``: :data:`STEP`, :data:`DRIFT` (``before`` and ``after`` are the ends of its line,
    ``last`` its last point) or :data:`SHARE`; ``confidence``: 1 less the probability that noise alone would show as
    much anywhere in the history (1: a fact);
    ``candidates``: every commit, oldest first, in which the change may lie, ``commit`` among them; empty where it is
    known."""

    series: str
    index: int
    commit: str
    before: float
    after: float
    cause: str
    who: str
    unseen: tuple[str, ...] = ()
    kind: str = STEP
    confidence: float = 1.0
    candidates: tuple[str, ...] = ()
    last: int | None = None

    @property
    def percent(self) -> float:
        """Size in percent of the value before; infinite where that is 0."""
        return percent_between(self.before, self.after)


def percent_between(before: float, after: float) -> float:
    """The change from ``before`` to ``after`` in percent of ``before``; infinite where that is 0."""
    return 100.0 * (after - before) / abs(before) if before else float("inf")


def alert_numbers(changes: list[Change]) -> list[int]:
    """The alert, from 1, of each change: one for all that have one cause, however many histories moved. Changes of
    measured histories that were combined (:mod:`gpusim.watch.group`) have one ``who`` already."""
    known: dict[tuple[str, str, tuple[str, ...]], int] = {}
    return [known.setdefault((each.cause, each.who, each.unseen), len(known) + 1) for each in changes]


def change_record(alert: int | str, change: Change, unit: str = "") -> dict[str, object]:
    """The change as a row of a table, with the number of its alert, "" where it has none, and the ``unit`` of its
    values, "" where unknown."""
    return {
        "alert": alert, "series": change.series, "commit": change.commit, "kind": change.kind, "before": change.before,
        "after": change.after, "unit": unit, "percent": change.percent, "confidence": change.confidence, "cause": change.cause, "who": change.who,
        "candidates": " ".join(change.candidates), "unseen": " ".join(change.unseen),
    }  # fmt: skip
