"""What is open, whose it is, and what happened lately: the rows of the page of today.

Mental model: alerts that somebody has to do something about are few, however long the history is; they, the newest
events and the newest commits are each a look at the end of an index. Lists are cut (:data:`MOST_OPEN`,
:data:`MOST_EVENTS`), with their whole counts beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from sqlalchemy import ColumnElement, Connection, Select, and_, func, not_, select

from gpusim.store.schema import alert_events, alert_series, alerts, commits, runs
from gpusim.store.store import Store
from gpusim.watch.alerts.record import SETTLED, TRIAGED
from gpusim.watch.read_history import plan_commits

MOST_OPEN, MOST_EVENTS, MOST_COMMITS = 100, 30, 30
ALERTS_A_PAGE = 100
OPEN_STATES = ("open", "triaged", "bisected", "fixed")


@dataclass(frozen=True)
class AlertLine:
    """An alert in a list; ``size_percent``: of its most-moved series, above 0 where it got slower; ``series``: how many
    moved."""

    number: int
    plan: str
    state: str
    verdict: str
    owner: str
    cause: str
    who: str
    direction: str
    opened: str
    size_percent: float
    sentence: str
    position: int
    hash: str
    author: str
    subject: str
    series: int


@dataclass(frozen=True)
class EventLine:
    """Something that happened to an alert."""

    alert: int
    time: str
    who: str
    kind: str
    before: str
    after: str
    text: str
    sentence: str


@dataclass(frozen=True)
class PlanLine:
    """A plan's newest commit that has been begun: how many of its cells are kept, how many of these have no value;
    ``run_started``: of its newest run."""

    plan: str
    hash: str
    position: int
    time: int
    subject: str
    cells: int
    refused: int
    run_started: str
    run_state: str


@dataclass(frozen=True)
class Today:
    """``open``: newest first, at most :data:`MOST_OPEN` of ``open_count``; ``by_owner``: of all that are open, with ""
    for nobody's."""

    open: Sequence[AlertLine]
    open_count: int
    slower: int
    by_owner: Sequence[tuple[str, int]]
    events: Sequence[EventLine]
    plans: Sequence[PlanLine]


def read_today(store: Store, owner: str = "") -> Today:
    """What the page of today shows; ``owner``: only alerts that are theirs ("-": nobody's)."""
    with store.reading() as connection:
        if connection is None:
            return Today((), 0, 0, (), (), ())
        rows = connection.execute(select(alerts.c.owner, alerts.c.direction, alerts.c.id).where(_is_open())).all()
        owners: Counter[str] = Counter()
        for names, _, _ in rows:
            owners.update(names.split() or [""])
        own = [row for row in rows if not owner or owner in row[0].split() or owner == "-" and not row[0].strip()]
        wanted = sorted((row[2] for row in own), reverse=True)[:MOST_OPEN]
        found = connection.execute(_lines().where(alerts.c.id.in_(wanted)).order_by(alerts.c.id.desc())).all()
        return Today(
            [AlertLine(*row) for row in found], len(own), sum(row[1] == "slower" for row in own),
            sorted(owners.items(), key=lambda item: (-item[1], item[0])), _events(connection), _plans(connection),
        )  # fmt: skip


def read_alerts(store: Store, number: int, state: str = "", plan: str = "") -> tuple[list[AlertLine], int]:
    """Page ``number`` from 1 of all alerts, newest first, and how many there are."""
    conditions: list[ColumnElement[bool]] = []
    if state:
        conditions.append(alerts.c.state == state)
    if plan:
        conditions.append(alerts.c.plan == plan)
    with store.reading() as connection:
        if connection is None:
            return [], 0
        count = connection.execute(select(func.count()).select_from(alerts).where(*conditions)).scalar_one()
        query = _lines().where(*conditions).order_by(alerts.c.id.desc())
        rows = connection.execute(query.limit(ALERTS_A_PAGE).offset((number - 1) * ALERTS_A_PAGE)).all()
    return [AlertLine(*row) for row in rows], count


def newest_alerts(store: Store, series_ids: Sequence[int]) -> dict[int, tuple[int, int, float]]:
    """Series -> (alert, position, percent) of the newest change of it that an alert names."""
    if not series_ids:
        return {}
    c = alert_series.c
    query = select(c.series_id, c.alert_id, c.position, c.before, c.after).where(c.series_id.in_(series_ids))
    found: dict[int, tuple[int, int, float]] = {}
    with store.reading() as connection:
        rows = () if connection is None else connection.execute(query.order_by(c.series_id, c.position))
        for series_id, alert, position, before, after in rows:
            found[series_id] = (alert, position, 100.0 * (after - before) / abs(before) if before else float("inf"))
    return found


def plan_names(connection: Connection) -> list[str]:
    """The plans that have a history: from one name to the next in the index, however many commits each has."""
    found: list[str] = []
    query = select(func.min(commits.c.plan))
    name = connection.execute(query).scalar()
    while name is not None:
        found.append(name)
        name = connection.execute(query.where(commits.c.plan > name)).scalar()
    return found


def _is_open() -> ColumnElement[bool]:
    settled = and_(alerts.c.state == TRIAGED, alerts.c.verdict.in_(SETTLED))
    return and_(alerts.c.state.in_(OPEN_STATES), not_(settled))


def _lines() -> Select:
    c = alerts.c
    moved = select(func.count(alert_series.c.series_id.distinct())).where(alert_series.c.alert_id == c.id)
    return select(
        c.id, c.plan, c.state, c.verdict, c.owner, c.cause, c.who, c.direction, c.opened, c.size_percent, c.sentence,
        c.position, commits.c.hash, commits.c.author, commits.c.subject, moved.scalar_subquery(),
    ).join(commits, commits.c.id == c.commit_id)  # fmt: skip


def _events(connection: Connection) -> list[EventLine]:
    c = alert_events.c
    query = (
        select(c.alert_id, c.time, c.who, c.kind, c.before, c.after, c.text, alerts.c.sentence)
        .join(alerts, alerts.c.id == c.alert_id)
        .order_by(c.id.desc())
        .limit(MOST_EVENTS)
    )
    return [EventLine(*row) for row in connection.execute(query)]


def _plans(connection: Connection) -> list[PlanLine]:
    found = []
    for plan in plan_names(connection):
        newest = plan_commits(connection, plan, 1)
        run = connection.execute(
            select(runs.c.started, runs.c.state).where(runs.c.name == plan).order_by(runs.c.id.desc()).limit(1)
        ).first()
        if newest:
            found.append(PlanLine(plan, *astuple(newest[0]), *(run or ("", ""))))
    return found
