"""The queue of a webhook: which events its receiver has yet to be told, kept in the store.

Mental model: every event of an alert is told to every receiver once. What is owed is found by asking which events have
no row here, so nothing is lost when nobody sends for a week. A sender claims a few rows for a while, sends, and says
what came of it; one that is killed lets its claim run out, and the receiver, which may then hear of an event twice,
knows it by its key. A receiver that is new hears of what is not settled, not of all that ever was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from sqlalchemy import Connection, func, literal, select

from gpusim.store.schema import alert_events, alerts, deliveries
from gpusim.store.store import Store
from gpusim.watch.alerts.detail import alert_record
from gpusim.watch.alerts.read import find_alert
from gpusim.watch.alerts.record import FASTER, TRIAGED, VERIFIED

WAITING, DELIVERED, REFUSED, PASSED = "waiting", "delivered", "refused", "passed over"
#: So many are claimed at a time, for so long.
MOST_CLAIMED = 20
CLAIM_SECONDS = 300
#: A body is never larger; an attribution that makes it so is left out.
MOST_BYTES = 64 << 10


@dataclass(frozen=True)
class Delivery:
    """``key``: by which the receiver knows the event again; ``attempts`` that came before."""

    id: int
    key: str
    body: bytes
    attempts: int


def address_hash(url: str) -> str:
    """What stands for an address, which may hold a secret."""
    return hashlib.sha256(url.encode()).hexdigest()


def queue_events(store: Store, url: str, plan: str | None, *, improvements: bool = False) -> int:
    """Queue what the receiver at ``url`` has not been told of; how many events there are to tell."""
    where = address_hash(url)
    with store.writing() as connection:
        new = not connection.execute(
            select(func.count()).select_from(deliveries).where(deliveries.c.url_hash == where)
        ).scalar_one()
        owed = (
            select(
                alert_events.c.id, literal(where), literal(WAITING), literal(0), literal(0), literal(""),
            )
            .join(alerts, alerts.c.id == alert_events.c.alert_id)
            .where(
                ~select(deliveries.c.id)
                .where(deliveries.c.event_id == alert_events.c.id, deliveries.c.url_hash == where)
                .exists()
            )
        )  # fmt: skip
        if plan is not None:
            owed = owed.where(alerts.c.plan == plan)
        if not improvements:
            owed = owed.where(alerts.c.direction != FASTER)
        columns = ["event_id", "url_hash", "state", "attempts", "next_time", "said"]
        connection.execute(deliveries.insert().from_select(columns, owed))
        if new:
            settled = (
                select(alert_events.c.id)
                .join(alerts, alerts.c.id == alert_events.c.alert_id)
                .where((alerts.c.state == VERIFIED) | (alerts.c.state == TRIAGED) & (alerts.c.verdict != "real"))
            )
            passed = deliveries.update().where(deliveries.c.url_hash == where, deliveries.c.event_id.in_(settled))
            connection.execute(passed.values(state=PASSED))
        return _count(connection, where, WAITING)


def claim_due(store: Store, url: str, now: int) -> list[Delivery]:
    """The next events to tell, in order, claimed for :data:`CLAIM_SECONDS`; ``now``: seconds since 1970."""
    where = address_hash(url)
    waiting = (
        select(deliveries.c.id, deliveries.c.event_id, deliveries.c.attempts, deliveries.c.next_time)
        .where(deliveries.c.url_hash == where, deliveries.c.state == WAITING)
        .order_by(deliveries.c.event_id)
        .limit(MOST_CLAIMED)
        .with_for_update()
    )
    with store.writing() as connection:
        # What waits for its time, or is another sender's, keeps back all that comes after it.
        rows = list(takewhile(lambda row: row[3] <= now, connection.execute(waiting)))
        ids = [row[0] for row in rows]
        claim = deliveries.update().where(deliveries.c.id.in_(ids)).values(next_time=now + CLAIM_SECONDS)
        connection.execute(claim)
        return [
            Delivery(number, *_body(connection, event, store.name), attempts) for number, event, attempts, _ in rows
        ]


def keep_outcome(store: Store, delivery: Delivery, state: str, said: str, next_time: int) -> None:
    """Keep what came of a delivery: delivered, refused for good, or waiting until ``next_time``."""
    values = {"state": state, "attempts": delivery.attempts + 1, "next_time": next_time, "said": said[:500]}
    with store.writing() as connection:
        connection.execute(deliveries.update().where(deliveries.c.id == delivery.id).values(values))


def release(store: Store, claimed: Sequence[Delivery], next_time: int) -> None:
    """Give up the claim of what was not tried."""
    with store.writing() as connection:
        ids = [each.id for each in claimed]
        connection.execute(deliveries.update().where(deliveries.c.id.in_(ids)).values(next_time=next_time))


def queue_again(store: Store, url: str) -> None:
    """Let what was refused, and what waits for its time, be tried now."""
    mine = (deliveries.c.url_hash == address_hash(url)) & deliveries.c.state.in_((REFUSED, WAITING))
    with store.writing() as connection:
        connection.execute(deliveries.update().where(mine).values(state=WAITING, next_time=0))


def count_deliveries(store: Store, url: str) -> dict[str, int]:
    """State -> how many events of that receiver are in it."""
    states = (WAITING, DELIVERED, REFUSED)
    with store.reading() as connection:
        if connection is None:
            return dict.fromkeys(states, 0)
        return {state: _count(connection, address_hash(url), state) for state in states}


def _count(connection: Connection, where: str, state: str) -> int:
    query = select(func.count()).where(deliveries.c.url_hash == where, deliveries.c.state == state)
    return int(connection.execute(query).scalar_one())


def _body(connection: Connection, event_id: int, name: str) -> tuple[str, bytes]:
    """(key, body) of an event: the event, and the alert as it is now."""
    event = connection.execute(select(alert_events).where(alert_events.c.id == event_id)).mappings().one()
    alert = alert_record(find_alert(connection, event["alert_id"], name))
    told = {column: event[column] for column in ("sequence", "time", "who", "kind", "before", "after", "text")}
    key = hashlib.sha256(f"{name} {event['alert_id']} {event['sequence']} {event['time']}".encode()).hexdigest()[:32]
    value: dict[str, Any] = {"version": 1, "key": key, "event": told, "alert": alert}
    body = json.dumps(value, allow_nan=False).encode()
    if len(body) > MOST_BYTES:
        alert["attribution"] = {}
        value["event"]["text"] = told["text"][:1000]
        body = json.dumps(value, allow_nan=False).encode()
    return key, body
