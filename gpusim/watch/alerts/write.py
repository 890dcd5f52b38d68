"""What is done to an alert, kept with who and when.

Mental model: every function is one transaction that reads the alert under the store's write lock, changes its row and
adds an event; so two people who do something at once do it one after the other, and the second is judged by what the
first has left. The sequence of an event is counted, not taken from a clock. Raises UnknownAlertError, AlertStateError
and UsageError, before anything is changed, and what the store raises.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime

from sqlalchemy import Connection, func, select

from gpusim.errors import AlertStateError, UsageError
from gpusim.store.schema import alert_events, alerts
from gpusim.store.store import Store
from gpusim.watch.alerts.kept_alerts import update_alert
from gpusim.watch.alerts.read import find_alert
from gpusim.watch.alerts.record import BISECTED, GPUSIM, OPEN, TRIAGED, Alert
from gpusim.watch.alerts.transitions import refuse_date, refuse_transition

#: A text that is longer is no note.
MOST_LETTERS = 10_000


def set_state(
    store: Store, number: int, state: str, *, who: str, verdict: str = "", reason: str = "", expiry: str = ""
) -> Alert:
    """Bring an alert to ``state``; ``triaged`` takes a ``verdict``, and ``accepted`` a ``reason`` and an ``expiry``
    (2027-03-31)."""
    _refuse_text(reason, who)
    with _changing(store, number) as (connection, alert):
        refuse_transition(alert, state, verdict, reason, expiry)
        if verdict and expiry and refuse_date(expiry, f"alert {number}") < datetime.now(UTC).date():
            raise AlertStateError(f"alert {number}: {expiry} has passed; give a day to come with --until")
        update_alert(connection, number, state=state, verdict=verdict, reason=reason, expiry=expiry)
        if state != alert.state:
            add_event(connection, number, who, "state", alert.state, state, reason)
        if verdict != alert.verdict or (state == alert.state == TRIAGED):
            add_event(connection, number, who, "verdict", alert.verdict, _with_date(verdict, expiry), reason)
    return _read(store, number)


def set_bisected(store: Store, number: int, *, who: str, found: str, text: str) -> Alert:
    """Keep what a bisection found to be first bad (a commit, a version, a figure's value); ``text`` says how it was
    found. An alert that is settled, fixed or verified keeps its state."""
    _refuse_text(text, who)
    _refuse_text(found, who)
    with _changing(store, number) as (connection, alert):
        update_alert(connection, number, found=found)
        if alert.state in (OPEN, TRIAGED, BISECTED) and not alert.settled:
            update_alert(connection, number, state=BISECTED)
            add_event(connection, number, who, "state", alert.state, BISECTED, text)
        else:
            add_event(connection, number, who, "note", alert.found, found, text)
    return _read(store, number)


def assign(store: Store, number: int, owner: str, *, who: str) -> Alert:
    """Give an alert to ``owner``, to nobody where that is empty; several are separated by blanks."""
    owner = " ".join(owner.split())
    _refuse_text(owner, who)
    with _changing(store, number) as (connection, alert):
        if owner != alert.owner:
            update_alert(connection, number, owner=owner)
            add_event(connection, number, who, "owner", alert.owner, owner, "")
    return _read(store, number)


def add_note(store: Store, number: int, text: str, *, who: str) -> Alert:
    """Keep a note beside an alert."""
    if not text.strip():
        raise UsageError(f"alert {number}: a note needs a text")
    _refuse_text(text, who)
    with _changing(store, number) as (connection, _):
        add_event(connection, number, who, "note", "", "", text)
    return _read(store, number)


def add_event(connection: Connection, number: int, who: str, kind: str, before: str, after: str, text: str) -> int:
    """Keep an event of an alert within a write transaction that holds it (:func:`lock_alert`); its sequence."""
    newest = select(func.max(alert_events.c.sequence)).where(alert_events.c.alert_id == number)
    sequence = (connection.execute(newest).scalar() or 0) + 1
    row = {"alert_id": number, "sequence": sequence, "time": now(), "who": who, "kind": kind, "before": before,
           "after": after, "text": text}  # fmt: skip
    connection.execute(alert_events.insert().values(row))
    return sequence


def lock_alert(connection: Connection, number: int) -> None:
    """Keep other writers from an alert until the transaction ends (SQLite's has the only write lock already)."""
    connection.execute(select(alerts.c.id).where(alerts.c.id == number).with_for_update())


def now() -> str:
    """This machine's clock, UTC, ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextlib.contextmanager
def _changing(store: Store, number: int) -> Iterator[tuple[Connection, Alert]]:
    with store.writing() as connection:
        if 0 < number < 1 << 63:
            lock_alert(connection, number)
        yield connection, find_alert(connection, number, store.name)


def _read(store: Store, number: int) -> Alert:
    with store.reading() as connection:
        return find_alert(connection, number, store.name)


def _with_date(verdict: str, expiry: str) -> str:
    return f"{verdict} until {expiry}" if expiry else verdict


def _refuse_text(text: str, who: str) -> None:
    if not who.strip():
        raise UsageError("whose change is it? give --as NAME")
    if who == GPUSIM:
        raise UsageError(f"{GPUSIM} is what the runs themselves are called; give another name by --as NAME")
    for each in (text, who):
        if len(each) > MOST_LETTERS:
            raise UsageError(f"a text of {len(each)} letters is no note; at most {MOST_LETTERS} are kept")
        if "\0" in each:
            raise UsageError("a text with a NUL cannot be kept")
