"""Rows of alerts and their changes, read and written within the transaction of a synchronisation."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, delete, func, select

from gpusim.store.schema import alert_events, alert_series, alerts, commits, series
from gpusim.watch.alerts.reconcile import KeptAlert, KeptChange
from gpusim.watch.alerts.record import GPUSIM, MOVED
from gpusim.watch.alerts.step import Step


def read_kept(connection: Connection, plan: str) -> list[KeptAlert]:
    """The alerts of a plan with their changes, locked until the transaction ends; the oldest first."""
    names = ("key", "state", "verdict", "reason", "expiry", "direction", "size_percent")
    query = select(alerts).where(alerts.c.plan == plan).order_by(alerts.c.id).with_for_update()
    found = {
        row["id"]: KeptAlert(row["id"], *(row[name] for name in names)) for row in connection.execute(query).mappings()
    }
    changes = (
        select(alert_series, series.c.kernel, series.c.gpu, commits.c.hash)
        .join(alerts, alerts.c.id == alert_series.c.alert_id)
        .join(series, series.c.id == alert_series.c.series_id)
        .join(commits, commits.c.id == alert_series.c.commit_id)
        .where(alerts.c.plan == plan)
        .order_by(alert_series.c.id)
    )
    for row in connection.execute(changes).mappings():
        change = KeptChange(
            row["id"], row["alert_id"], row["series_id"], row["kernel"], row["gpu"], row["hash"], row["key"],
            row["position"], row["before_position"], row["before"], row["after"], row["state"],
        )  # fmt: skip
        found[change.alert].changes.append(change)
    return list(found.values())


def insert_alert(connection: Connection, plan: str, step: Step, values: dict[str, Any]) -> int:
    """A new alert of the cause of ``step``; its number."""
    row = {"plan": plan, "found": "", "attribution": "{}", **cause_columns(connection, plan, step), **values}
    key = connection.execute(alerts.insert().values(row)).inserted_primary_key
    assert key is not None
    return int(key[0])


def cause_columns(connection: Connection, plan: str, step: Step) -> dict[str, Any]:
    """The columns of an alert that its cause decides."""
    return {
        "key": step.key,
        "cause": step.cause,
        "who": step.who,
        "commit_id": commit_id(connection, plan, step.commit),
        "position": step.position,
        "unseen": json.dumps(list(step.unseen)),
    }


def insert_changes(connection: Connection, plan: str, number: int, steps: Iterable[Step]) -> None:
    """``steps`` as changes of an alert."""
    for step in steps:
        row = {"alert_id": number, "series_id": step.series.id, "key": step.key, "state": MOVED, "position": step.new.position,
               "commit_id": commit_id(connection, plan, step.new.commit), **_levels(step)}  # fmt: skip
        connection.execute(alert_series.insert().values(row))


def refresh_change(connection: Connection, change: KeptChange, step: Step) -> None:
    """Bring a change to what the history shows of it now."""
    levels = _levels(step)
    if (change.before_position, change.before, change.after) != (step.old.position, step.before, step.after):
        connection.execute(alert_series.update().where(alert_series.c.id == change.id).values(levels))


def set_change_state(connection: Connection, change: int, state: str) -> None:
    """``moved`` or ``back``."""
    connection.execute(alert_series.update().where(alert_series.c.id == change).values(state=state))


def delete_changes(connection: Connection, changes: Iterable[KeptChange]) -> None:
    """Take changes away that are another alert's from now on."""
    connection.execute(delete(alert_series).where(alert_series.c.id.in_([change.id for change in changes])))


def update_alert(connection: Connection, number: int, **values: Any) -> None:
    """Set columns of an alert."""
    connection.execute(alerts.update().where(alerts.c.id == number).values(values))


def judged_by_people(connection: Connection, number: int) -> bool:
    """Whether anybody but gpusim itself has said what an alert is."""
    query = select(func.count()).where(
        alert_events.c.alert_id == number, alert_events.c.kind.in_(("state", "verdict")), alert_events.c.who != GPUSIM
    )
    return bool(connection.execute(query).scalar_one())


def commit_id(connection: Connection, plan: str, hash_: str) -> int:
    """The number of a plan's commit."""
    query = select(commits.c.id).where(commits.c.plan == plan, commits.c.hash == hash_)
    return int(connection.execute(query).scalar_one())


def _levels(step: Step) -> dict[str, Any]:
    return {
        "before_position": step.old.position, "before": step.before, "after": step.after,
        "before_launch_id": step.old.launch_id, "after_launch_id": step.new.launch_id,
    }  # fmt: skip
