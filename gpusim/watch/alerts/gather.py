"""What the history of a plan shows now, read for its alerts: every step of the series that have new points.

Mental model: a night adds a point to each series; reading a year for it would be a waste. So a series is read from the
commit before the first one that was run, or from where an alert that speaks of it begins, if that is earlier and not
long ago.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, func, select

from gpusim.store.schema import alert_events, alert_marks, alert_series, alerts, commits, points, series
from gpusim.store.store import Store
from gpusim.watch.alerts.record import SLOWER, VERIFIED
from gpusim.watch.alerts.step import Step, make_steps, walk
from gpusim.watch.change import COMMIT, UNRECORDED, Change
from gpusim.watch.changes import all_changes
from gpusim.watch.read_history import ALL_DIGITS, MEASURED, HistoryPoint, history_of, list_series, read_points
from gpusim.watch.side_by_side import REFUTED, Comparison, read_comparisons

#: An alert whose series moved so many commits ago is no reason to read as far back: one that waits, and one that was
#: mended, whose return would be another alert after that.
LOOK_BACK_COMMITS, LOOK_BACK_MENDED = 500, 100
#: A measured series is judged by so many of its newest values.
MOST_MEASUREMENTS = 3000
#: On a server two runs' points get their numbers in one order and appear in another; so many of them are looked at
#: again.
SLACK_POINTS = 10_000


@dataclass(frozen=True)
class Found:
    """``steps``: of each series that was looked at, in order; ``begins``: the position from which on it was."""

    steps: dict[int, list[Step]]
    begins: dict[int, int]


def find_steps(store: Store, plan: str, since: int | None) -> Found:
    """The steps of the series of ``plan`` that have points from position ``since`` on, of all where that is None. If a
    measured series is among them, all measured ones are looked at, for one tells of another's noise and cause."""
    positions = _commits(store, plan)
    wanted = None if since is None else _touched(store, plan, since)
    begun = _begun(store, plan, max(positions.values(), default=0))
    known = list_series(store, plan)
    measured = any(key.mode == MEASURED and (wanted is None or key.id in wanted) for key in known)
    points: dict[int, list[HistoryPoint]] = {}
    for key in known:
        if key.mode == MEASURED:
            points[key.id] = read_points(store, key.id, newest=MOST_MEASUREMENTS) if measured else []
        elif wanted is None or key.id in wanted:
            start = None if since is None else min(since, begun.get(key.id, since))
            points[key.id] = walk(read_points(store, key.id, every_method=True, since=start))
    used = {key.id: key for key in known if points.get(key.id)}
    changes: dict[str, list[Change]] = {}
    histories = [history_of(key, points[n], name=str(n), digits=ALL_DIGITS) for n, key in used.items()]
    judged = [each for each in read_comparisons(store, plan) if each.verdict == REFUTED] if measured else []
    for change in all_changes(histories):
        changes.setdefault(change.series, []).append(_as_judged(change, points[int(change.series)], judged, positions))
    steps = {
        number: make_steps(key, points[number], changes.get(str(number), []), positions) for number, key in used.items()
    }
    return Found(steps, {number: points[number][0].position for number in used})


def _as_judged(
    change: Change, points: Sequence[HistoryPoint], judged: Sequence[Comparison], positions: Mapping[str, int]
) -> Change:
    """``change``, or, where its commits were measured side by side and do not differ, the same as nobody's doing."""
    if change.cause != COMMIT:
        return change
    within = [positions[commit] for commit in change.candidates if commit in positions]
    within.append(points[change.index].position)
    for each in judged:
        if each.covers(int(change.series), min(within), max(within)):
            said = f"measured side by side {len(each.pairs)} times, the commits around {change.commit} do not differ"
            return replace(change, cause=UNRECORDED, who=said, candidates=())
    return change


def unjudged_since(store: Store, plan: str) -> int | None:
    """The lowest position at which ``plan`` has got a point since its history was judged last; None where it never
    was."""
    with store.reading() as connection:
        if connection is None:
            return None
        mark = connection.execute(select(alert_marks.c.point_id).where(alert_marks.c.plan == plan)).scalar()
        if mark is None:
            return None
        query = (
            select(func.min(points.c.position))
            .join(series, series.c.id == points.c.series_id)
            .where(series.c.plan == plan, points.c.id > mark - SLACK_POINTS)
        )
        found = connection.execute(query).scalar()
        last = select(func.max(commits.c.position)).where(commits.c.plan == plan)
        return found if found is not None else connection.execute(last).scalar()


def store_mark(connection: Connection) -> tuple[int, ...]:
    """What is another number after whatever an alert depends on was written."""
    columns = (points.c.id, alert_events.c.id, alert_series.c.id)
    return tuple(connection.execute(select(func.coalesce(func.max(column), 0))).scalar_one() for column in columns)


def _commits(store: Store, plan: str) -> dict[str, int]:
    """Hash -> position, in order."""
    query = select(commits.c.hash, commits.c.position).where(commits.c.plan == plan).order_by(commits.c.position)
    with store.reading() as connection:
        return {} if connection is None else {hash_: position for hash_, position in connection.execute(query)}


def _touched(store: Store, plan: str, since: int) -> set[int]:
    query = (
        select(points.c.series_id.distinct())
        .join(series, series.c.id == points.c.series_id)
        .where(series.c.plan == plan, points.c.position >= since)
    )
    with store.reading() as connection:
        return set() if connection is None else set(connection.execute(query).scalars())


def _begun(store: Store, plan: str, newest: int) -> dict[int, int]:
    """Series -> the position before its first change that an alert speaks of."""
    mended = alerts.c.state == VERIFIED
    before = alert_series.c.before_position
    query = (
        select(alert_series.c.series_id, func.min(before))
        .join(alerts, alerts.c.id == alert_series.c.alert_id)
        .where(
            alerts.c.plan == plan,
            alerts.c.direction == SLOWER,
            (before >= newest - LOOK_BACK_MENDED) | ~mended & (before >= newest - LOOK_BACK_COMMITS),
        )
        .group_by(alert_series.c.series_id)
    )
    with store.reading() as connection:
        return {} if connection is None else {number: position for number, position in connection.execute(query)}
