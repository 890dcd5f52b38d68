"""Alerts read back from the store.

Mental model: a reader asks and changes nothing; a store without alerts answers with none. Raises UnknownAlertError for
a number that no alert has, StoreFormatError for a damaged one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select

from gpusim.errors import StoreFormatError, UnknownAlertError
from gpusim.io.records import as_record, parse_record
from gpusim.store.schema import alert_events as events_table
from gpusim.store.schema import alert_series as series_table
from gpusim.store.schema import alerts, commits, series
from gpusim.store.store import Store
from gpusim.watch.alerts.record import Alert, AlertEvent, AlertSeries
from gpusim.watch.read_history import SeriesKey

#: Columns of a series that an alert's series has too.
_NAMES = ("kernel", "shape", "launch", "gpu", "toolchain", "mode", "unit", "file")


def list_alerts(
    store: Store, plan: str | None = None, states: Sequence[str] = (), owner: str | None = None
) -> list[Alert]:
    """The alerts of ``plan`` (of all without one) in ``states`` (in any without one) that are ``owner``'s, newest
    first."""
    conditions: list[ColumnElement[bool]] = []
    if plan is not None:
        conditions.append(alerts.c.plan == plan)
    if states:
        conditions.append(alerts.c.state.in_(list(states)))
    with store.reading() as connection:
        if connection is None:
            return []
        found = [_alert(row) for row in connection.execute(_query(conditions).order_by(alerts.c.id.desc())).mappings()]
    return [each for each in found if owner is None or owner in each.owner.split()]


def read_alert(store: Store, number: int) -> Alert:
    """The alert of that number."""
    with store.reading() as connection:
        return find_alert(connection, number, store.name)


def find_alert(connection: Connection | None, number: int, name: str) -> Alert:
    """:func:`read_alert` within a transaction of the store ``name``."""
    # No database's integer is longer than 64 bits.
    row = None
    if connection is not None and 0 < number < 1 << 63:
        row = connection.execute(_query([alerts.c.id == number])).mappings().first()
    if row is None:
        raise UnknownAlertError(f"{name} holds no alert {number}; see gpusim alerts list --all")
    return _alert(row)


def alert_series(store: Store, number: int) -> list[AlertSeries]:
    """The series of an alert, the most-moved first."""
    with store.reading() as connection:
        find_alert(connection, number, store.name)
        assert connection is not None
        return _series_of(connection, number)


def plan_alert_series(store: Store, plan: str) -> dict[int, list[AlertSeries]]:
    """The series of every alert of ``plan`` by the alert's number, the most-moved first: one query for all."""
    query = _series_query().where(series.c.plan == plan)
    found: dict[int, list[AlertSeries]] = {}
    with store.reading() as connection:
        for row in () if connection is None else connection.execute(query).mappings():
            found.setdefault(row["alert_id"], []).append(_series(row))
    return {number: _most_moved_first(moved) for number, moved in found.items()}


def _series_query() -> Select:
    return (
        select(series_table, *(series.c[name] for name in _NAMES), series.c.plan, commits.c.hash)
        .join(series, series.c.id == series_table.c.series_id)
        .join(commits, commits.c.id == series_table.c.commit_id)
    )


def _most_moved_first(moved: Iterable[AlertSeries]) -> list[AlertSeries]:
    return sorted(moved, key=lambda each: (-abs(each.percent), each.name, each.position))


def alert_events(store: Store, number: int) -> list[AlertEvent]:
    """All that was done to an alert, in order."""
    with store.reading() as connection:
        find_alert(connection, number, store.name)
        assert connection is not None
        return _events_of(connection, number)


def read_with_events(store: Store, number: int) -> tuple[Alert, list[AlertSeries], list[AlertEvent]]:
    """The alert of that number with its series and all that was done to it, of one state of the store."""
    with store.reading() as connection:
        found = find_alert(connection, number, store.name)
        assert connection is not None
        return found, _series_of(connection, number), _events_of(connection, number)


def _series_of(connection: Connection, number: int) -> list[AlertSeries]:
    query = _series_query().where(series_table.c.alert_id == number)
    return _most_moved_first(_series(row) for row in connection.execute(query).mappings())


def _events_of(connection: Connection, number: int) -> list[AlertEvent]:
    columns = ("sequence", "time", "who", "kind", "before", "after", "text")
    query = select(events_table).where(events_table.c.alert_id == number).order_by(events_table.c.sequence)
    rows = connection.execute(query).mappings()
    return [AlertEvent(row["alert_id"], *(row[name] for name in columns)) for row in rows]


def change_numbers(store: Store, plan: str) -> dict[tuple[int, int, str], int]:
    """(series, position, cause's key) of every change that an alert of ``plan`` speaks of -> the alert's number."""
    columns = (series_table.c.series_id, series_table.c.position, series_table.c.key, series_table.c.alert_id)
    query = select(*columns).join(alerts, alerts.c.id == series_table.c.alert_id).where(alerts.c.plan == plan)
    with store.reading() as connection:
        rows = [] if connection is None else list(connection.execute(query))
    return {(number, position, key): alert for number, position, key, alert in rows}


def _query(conditions: Sequence[ColumnElement[bool]]) -> Select:
    newest = select(func.max(events_table.c.sequence)).where(events_table.c.alert_id == alerts.c.id)
    events = select(events_table.c.time).where(events_table.c.alert_id == alerts.c.id)
    moved = select(func.count(series_table.c.series_id.distinct())).where(series_table.c.alert_id == alerts.c.id)
    return (
        select(
            alerts, commits.c.hash, commits.c.author, commits.c.subject,
            newest.scalar_subquery().label("revision"),
            events.order_by(events_table.c.sequence.desc()).limit(1).scalar_subquery().label("changed"),
            moved.scalar_subquery().label("series"),
        )
        .join(commits, commits.c.id == alerts.c.commit_id)
        .where(*conditions)
    )  # fmt: skip


def _alert(row: Any) -> Alert:
    where = f"alert {row['id']}"
    plain = {name: row[name] for name in Alert.__dataclass_fields__ if name in row}
    values = {
        **plain,
        "number": row["id"],
        "commit": row["hash"],
        "revision": row["revision"] or 0,
        "changed": row["changed"] or row["opened"],
        "unseen": parse_record(tuple[str, ...], row["unseen"], f"{where}: damaged: its unseen", StoreFormatError),
        "attribution": parse_record(
            dict[str, Any], row["attribution"], f"{where}: damaged: its attribution", StoreFormatError
        ),
    }
    return as_record(Alert, values, f"{where}: damaged", StoreFormatError)


def _series(row: Any) -> AlertSeries:
    key = SeriesKey(row["series_id"], row["plan"], **{name: row[name] for name in _NAMES})
    kept = ("position", "before_position", "before", "after", "before_launch_id", "after_launch_id", "state")
    return AlertSeries(
        row["alert_id"], key.id, key.name, **{name: row[name] for name in _NAMES}, commit=row["hash"],
        **{name: row[name] for name in kept},
    )  # fmt: skip
