"""A step: a change of one series between two points, with all that an alert needs of it.

Mental model: the points of a series are walked in the order of their commits. Where two methods gave values at one
commit (the model was changed and the night run again), the walk first goes on by the method that it came with and then
crosses to the new one there: so the commit's own change and the method's are two steps, each with its own cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpusim.watch.change import COMMIT, DRIFT, UNRECORDED, Change
from gpusim.watch.read_history import MEASURED, HistoryPoint, SeriesKey, plain_method

#: What moves no kernel, only what is known of it: nobody can mend a kernel for it.
MEANS = ("gpu_hash", "model", "gpusim", "host", "device", "clock", "timer", UNRECORDED)


@dataclass(frozen=True)
class Step:
    """From ``old`` to ``new``, points of ``series``, the ``order``-th step of it, found as ``change``. ``before`` and
    ``after`` are the levels; ``key``: of the cause, the same for all series that it moved; ``who``: the commit, or "old
    -> new" of the method; ``commit`` and ``position``: of the commit that is named, which of a measured series need not
    be the new point's. ``unseen``: others that it may be."""

    series: SeriesKey
    order: int
    old: HistoryPoint
    new: HistoryPoint
    before: float
    after: float
    cause: str
    who: str
    key: str
    commit: str
    position: int
    change: Change
    unseen: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether its values have no noise."""
        return self.series.mode != MEASURED

    @property
    def ratio(self) -> float:
        """The value after as a multiple of that before."""
        return self.after / self.before if self.before else float("inf")

    @property
    def percent(self) -> float:
        """Its size in percent of the value before; positive is slower."""
        return 100.0 * (self.ratio - 1.0)


def walk(points: Sequence[HistoryPoint]) -> list[HistoryPoint]:
    """The points of every method, in the order in which they are compared. ``points``: by position, of one by age."""
    by_position: dict[int, dict[str, HistoryPoint]] = {}
    for point in points:
        by_position.setdefault(point.position, {})[point.method] = point
    found: list[HistoryPoint] = []
    for methods in by_position.values():
        newest = list(methods.values())[-1]
        came_with = found[-1].method if found else newest.method
        if came_with in methods and came_with != newest.method:
            found.append(methods[came_with])
        found.append(newest)
    return found


def make_steps(
    key: SeriesKey, points: Sequence[HistoryPoint], changes: Iterable[Change], commits: Mapping[str, int]
) -> list[Step]:
    """The steps of a series, in order. ``commits``: hash -> position of the plan's."""
    found = []
    for order, change in enumerate(sorted(changes, key=lambda change: change.index)):
        old, new = points[change.index - 1], points[change.index]
        named = change.who if change.cause == COMMIT and change.who in commits else new.commit
        between = tuple(c for c, p in commits.items() if old.position < p < new.position)
        unseen = tuple(commit for commit in change.candidates if commit != named) or between
        found.append(
            Step(
                key, order, old, new, change.before, change.after, change.cause,
                named if change.cause == COMMIT else change.who, cause_key(change, named, old, new),
                named, commits.get(named, new.position), change, unseen,
            )
        )  # fmt: skip
    return found


def cause_key(change: Change, named: str, old: HistoryPoint, new: HistoryPoint) -> str:
    """What is the same for all series that one cause moved. A new gpusim brings its model and its descriptions of GPUs:
    one cause."""
    cause = change.cause
    if cause in (COMMIT, UNRECORDED):
        return f"{cause} {named}"
    if cause == DRIFT:  # its last commit is another one every night
        return f"{cause} {change.who.split(' to ')[0]}"
    if cause != "gpu_hash":
        return change.who
    before, after = plain_method(old), plain_method(new)
    changed = [name for name, value in after.items() if value and before[name] and before[name] != value]
    changed.remove(cause)
    return "; ".join(f"{name} {before[name]} -> {after[name]}" for name in changed) or change.who
