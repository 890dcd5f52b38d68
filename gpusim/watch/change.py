"""A change in a simulated history: where, how large, and what it belongs to."""

from __future__ import annotations

from dataclasses import dataclass

COMMIT = "commit"
#: The cause of a simulated value that moved although the machine code and all that is known of the method are the same.
UNRECORDED = "method that was not recorded"


@dataclass(frozen=True)
class Change:
    """``index``: first point of the new value, from 0. ``cause``: "commit" or a name of :data:`gpusim.watch.history.METHOD`; ``who``: the
    commit, or "old -> new". ``unseen``: commits between the two points that gave no value, any of which may be the first."""

    series: str
    index: int
    commit: str
    before: float
    after: float
    cause: str
    who: str
    unseen: tuple[str, ...] = ()

    @property
    def percent(self) -> float:
        """Size in percent of the value before; infinite where that is 0."""
        return 100.0 * (self.after - self.before) / abs(self.before) if self.before else float("inf")


def alert_numbers(changes: list[Change]) -> list[int]:
    """The alert, from 1, of each change: one for all that have one cause, however many histories moved."""
    known: dict[tuple[str, str, tuple[str, ...]], int] = {}
    return [known.setdefault((each.cause, each.who, each.unseen), len(known) + 1) for each in changes]
