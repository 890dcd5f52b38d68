"""What becomes of an alert by what the runs show: verified, open again, accepted because it was agreed on.

Mental model: an alert is verified when every series that got slower has come back, whoever mended it; it is open again
when one of them is slow and the alert said otherwise, or when the day has passed until which it was accepted. What
people have said of an alert is never overruled by an expectation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from sqlalchemy import Connection

from gpusim.watch.alerts.expectations import Expectation, expectation_for
from gpusim.watch.alerts.kept_alerts import judged_by_people, set_change_state, update_alert
from gpusim.watch.alerts.levels import back_at
from gpusim.watch.alerts.reconcile import KeptAlert, KeptChange
from gpusim.watch.alerts.record import (
    ACCEPTED,
    BACK,
    FASTER,
    GPUSIM,
    MOVED,
    OPEN,
    SLOWER,
    TRIAGED,
    VERIFIED,
)
from gpusim.watch.alerts.settings import AlertSettings
from gpusim.watch.alerts.step import Step
from gpusim.watch.alerts.write import add_event

#: How the reason of an acceptance begins that an expectation gave.
EXPECTED = "expected: "
#: An accepted alert that has grown by more than this is another matter than what was accepted.
MOST_GROWTH = 1.5


def settle(
    connection: Connection,
    alert: KeptAlert,
    steps: Mapping[int, Sequence[Step]],
    settings: AlertSettings,
    today: date,
) -> str:
    """Bring ``alert``, as it was just read, to where its series are; what was done: verified, reopened, accepted or
    nothing."""
    if not alert.changes:
        return _verify(connection, alert, None)
    by_name = {(s.series.id, s.new.position, s.key): s for each in steps.values() for s in each}
    states, latest = [], None
    for change in alert.changes:
        step = by_name.get((change.series, change.position, change.key))
        state = change.state
        if step is not None and change.after > change.before:
            back = back_at(steps[change.series], step)
            state = BACK if back else MOVED
            if back and (latest is None or back.new.position > latest.new.position):
                latest = back
        if state != change.state:
            set_change_state(connection, change.id, state)
        states.append((change, state))
    size = _size(alert, settings.least_percent)
    direction = SLOWER if size > 0 else FASTER
    if (size, direction) != (alert.size_percent, alert.direction):
        update_alert(connection, alert.number, size_percent=size, direction=direction)
    if direction == FASTER:
        return ""
    moved = [change for change, state in states if state == MOVED and change.after > change.before]
    if not moved:
        return _verify(connection, alert, latest)
    why = _why_open(alert, direction, size, today)
    if why:
        reopen(connection, alert.number, alert.state, why)
    alert_state = OPEN if why else alert.state
    rules = expected(moved, settings, today)
    if alert_state == OPEN and rules and not judged_by_people(connection, alert.number):
        reason = EXPECTED + "; ".join(dict.fromkeys(rule.agreed_by for rule in rules))
        expiry = min(rule.until for rule in rules)
        update_alert(connection, alert.number, state=TRIAGED, verdict=ACCEPTED, reason=reason, expiry=expiry)
        add_event(connection, alert.number, GPUSIM, "state", OPEN, TRIAGED, reason)
        add_event(connection, alert.number, GPUSIM, "verdict", "", f"{ACCEPTED} until {expiry}", reason)
        return "accepted"
    return "reopened" if why else ""


def reopen(connection: Connection, number: int, before: str, why: str) -> None:
    """Open an alert again, its verdict forgotten (its events remember)."""
    update_alert(connection, number, state=OPEN, verdict="", reason="", expiry="")
    add_event(connection, number, GPUSIM, "reopened", before, OPEN, why)


def _verify(connection: Connection, alert: KeptAlert, latest: Step | None) -> str:
    if alert.state == VERIFIED:
        return ""
    text = "the history no longer shows its changes"
    if latest is not None:
        count = len({change.series for change in alert.changes if change.after > change.before})
        text = f"{count} series at the old level since {latest.new.commit[:10]}"
    update_alert(connection, alert.number, state=VERIFIED)
    add_event(connection, alert.number, GPUSIM, "state", alert.state, VERIFIED, text)
    return "verified"


def _why_open(alert: KeptAlert, direction: str, size: float, today: date) -> str:
    """Why an alert that is not open has to be."""
    if alert.state == VERIFIED:
        return "a series of it is slow again"
    if alert.direction != direction:
        return "a series of it got slower"
    if alert.state != TRIAGED or alert.verdict != ACCEPTED:
        return ""
    if alert.expiry and date.fromisoformat(alert.expiry) < today:
        return f"accepted until {alert.expiry} ({alert.reason}), and still slow"
    if size > MOST_GROWTH * alert.size_percent:
        return f"{alert.size_percent:.3g} % were accepted ({alert.reason}), and it is {size:.3g} % now"
    return ""


def _size(alert: KeptAlert, least_percent: float) -> float:
    """The largest slowdown of its series in percent, or the largest gain (below 0) where none got slower by as much as
    counts."""
    slowest = max((change.percent for change in alert.changes), default=0.0)
    fastest = min((change.percent for change in alert.changes), default=0.0)
    return slowest if slowest >= least_percent or slowest >= -fastest else fastest


def expected(changes: Sequence[KeptChange], settings: AlertSettings, today: date) -> list[Expectation]:
    """The expectation of each slowdown that counts; none unless all have one."""
    found = []
    for change in changes:
        if change.percent < settings.least_percent:
            continue
        rule = expectation_for(settings.expectations, change.kernel, change.gpu, change.commit, change.percent, today)
        if rule is None:
            return []
        found.append(rule)
    return found
