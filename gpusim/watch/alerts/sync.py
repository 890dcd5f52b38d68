"""The alerts of a plan, brought to what its history shows.

Mental model: the history is read and judged without holding anything; then, in one transaction, alerts are opened,
grown, verified and opened again. If somebody wrote meanwhile what was judged, it is judged again. So two processes at
once open nothing twice, and when the database goes away nothing has happened, and the next call does it. What takes
long, where the cycles went, is told afterwards (:mod:`.describe`), of every alert that lacks it, whoever opened it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from sqlalchemy import Connection, delete, text

from gpusim.store.schema import alert_marks
from gpusim.store.store import Store
from gpusim.watch.alerts.describe import describe_alerts
from gpusim.watch.alerts.gather import Found, find_steps, store_mark, unjudged_since
from gpusim.watch.alerts.kept_alerts import (
    cause_columns,
    delete_changes,
    insert_alert,
    insert_changes,
    read_kept,
    refresh_change,
    set_change_state,
    update_alert,
)
from gpusim.watch.alerts.reconcile import Group, KeptChange, reconcile
from gpusim.watch.alerts.record import (
    ACCEPTED,
    BACK,
    FASTER,
    GPUSIM,
    METHOD,
    OPEN,
    REAL,
    SLOWER,
    TRIAGED,
)
from gpusim.watch.alerts.settings import AlertSettings
from gpusim.watch.alerts.settle import EXPECTED, expected, reopen, settle
from gpusim.watch.alerts.step import MEANS, Step
from gpusim.watch.alerts.write import add_event, now
from gpusim.watch.owners import owners_of

#: So often the history is judged again because somebody wrote meanwhile; then the others wait.
MOST_TRIES = 5


@dataclass
class SyncSummary:
    """How many alerts were opened (improvements apart), reopened, verified, accepted as agreed on, and grew."""

    plan: str
    opened: int = 0
    improvements: int = 0
    reopened: int = 0
    verified: int = 0
    accepted: int = 0
    grew: int = 0


def sync_alerts(
    store: Store, plan: str, settings: AlertSettings, *, whole: bool = False, today: date | None = None
) -> SyncSummary:
    """Open, grow, verify and reopen the alerts of ``plan``, by the points that came since the last time, or by the
    ``whole`` history. Raises what the store raises; then nothing has been done, or all but some descriptions."""
    day = today or datetime.now(UTC).date()
    since = None if whole else unjudged_since(store, plan)
    done = None
    for tries_left in reversed(range(MOST_TRIES)):
        done = _judged_once(store, plan, settings, since, day, last=not tries_left)
        if done is not None:
            break
    describe_alerts(store, plan)
    return done or SyncSummary(plan)


def _judged_once(
    store: Store, plan: str, settings: AlertSettings, since: int | None, today: date, *, last: bool
) -> SyncSummary | None:
    """What one attempt did; None where somebody wrote meanwhile. The ``last`` one judges while others wait."""
    with store.reading() as connection:
        if connection is None:
            return SyncSummary(plan)
        mark = store_mark(connection)
    found = None if last else find_steps(store, plan, since)
    with store.writing() as connection:
        _lock_plan(connection, plan)
        if found is not None and store_mark(connection) != mark:
            return None
        done = _apply(connection, plan, settings, found or find_steps(store, plan, since), today)
        _keep_mark(connection, plan, mark[0])
        return done


def _lock_plan(connection: Connection, plan: str) -> None:
    """On a server one synchronisation of a plan at a time; SQLite's write lock sees to it by itself."""
    if connection.dialect.name == "postgresql":
        key = int.from_bytes(hashlib.sha256(f"alerts {plan}".encode()).digest()[:8], "big", signed=True)
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


def _keep_mark(connection: Connection, plan: str, point: int) -> None:
    connection.execute(delete(alert_marks).where(alert_marks.c.plan == plan))
    connection.execute(alert_marks.insert().values(plan=plan, point_id=point))


def _apply(connection: Connection, plan: str, settings: AlertSettings, found: Found, today: date) -> SyncSummary:
    done = SyncSummary(plan)
    seen = reconcile(found.steps, found.begins, read_kept(connection, plan), settings.least_percent)
    for change, step in seen.same:
        refresh_change(connection, change, step)
    for group in seen.groups:
        delete_changes(connection, group.replaced)
        _shrink(connection, group)
        if group.alert is None:
            _open(connection, plan, group.steps, settings, done)
        else:
            _grow(connection, plan, group, settings, today)
            done.grew += not group.returned
            done.reopened += group.returned
    for change in seen.gone:
        set_change_state(connection, change.id, BACK)
        add_event(connection, change.alert, GPUSIM, "back", "", "", f"{_named(change)}: no change is seen any more")
    counts: Counter[str] = Counter()
    for alert in read_kept(connection, plan):
        counts[settle(connection, alert, found.steps, settings, today)] += 1
    done.verified, done.accepted = counts["verified"], counts["accepted"]
    done.reopened += counts["reopened"]
    return done


def _open(connection: Connection, plan: str, steps: Sequence[Step], settings: AlertSettings, done: SyncSummary) -> None:
    """A new alert of the cause of ``steps``."""
    first = min(steps, key=lambda step: step.position)
    most = max(steps, key=lambda step: step.percent)
    slower = most.percent >= settings.least_percent
    if not slower:
        most = min(steps, key=lambda step: step.percent)
    state, verdict, reason = OPEN, "", ""
    if first.cause in MEANS:
        state, verdict, reason = TRIAGED, METHOD, f"not a kernel's doing: {first.cause} changed"
    elif not slower:
        state, verdict, reason = TRIAGED, REAL, "faster"
    values = {
        "state": state, "verdict": verdict, "reason": reason, "expiry": "", "sentence": "", "opened": now(),
        "owner": " ".join(_owners(steps, settings, slower)), "direction": SLOWER if slower else FASTER,
        "size_percent": most.percent,
    }  # fmt: skip
    number = insert_alert(connection, plan, first, values)
    insert_changes(connection, plan, number, steps)
    add_event(connection, number, GPUSIM, "opened", "", state, reason)
    done.opened += slower
    done.improvements += not slower


def _grow(connection: Connection, plan: str, group: Group, settings: AlertSettings, today: date) -> None:
    """More changes of an alert that is there: of its cause, of what is seen to be its cause, or of its return."""
    alert = group.alert
    assert alert is not None
    first = min(group.steps, key=lambda step: step.position)
    insert_changes(connection, plan, alert.number, group.steps)
    names = sorted({step.series.name for step in group.steps})
    text_ = f"{len(names)} series: {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}"
    if group.moved:
        update_alert(connection, alert.number, **cause_columns(connection, plan, first))
        add_event(connection, alert.number, GPUSIM, "moved", alert.key, first.key, text_)
    elif group.returned:
        reopen(connection, alert.number, alert.state, f"returned at {first.commit[:10]}: {text_}")
        return
    else:
        add_event(connection, alert.number, GPUSIM, "grew", "", "", text_)
    if alert.verdict == ACCEPTED and alert.reason.startswith(EXPECTED) and alert.state == TRIAGED:
        new = [_as_change(alert.number, step) for step in group.steps]
        slower = [change for change in new if change.percent >= settings.least_percent]
        if slower and not expected(slower, settings, today):
            reopen(connection, alert.number, alert.state, f"was not all expected: {text_}")


def _shrink(connection: Connection, group: Group) -> None:
    """Tell the alerts that lose changes to another one."""
    keeps = group.alert.number if group.alert else None
    for number in dict.fromkeys(change.alert for change in group.replaced if change.alert != keeps):
        names = [_named(change) for change in group.replaced if change.alert == number]
        add_event(connection, number, GPUSIM, "shrank", "", group.key, f"{', '.join(names[:3])} changed by {group.key}")


def _owners(steps: Sequence[Step], settings: AlertSettings, slower: bool) -> list[str]:
    """Whose the alert is: the owners of its kernels, the most-moved first; of a change of method those of that cause
    alone."""
    found: dict[str, None] = {}
    cause = "" if steps[0].cause not in (*MEANS, "toolchain", "driver") else steps[0].cause
    for step in sorted(steps, key=lambda step: -step.percent if slower else step.percent):
        found |= dict.fromkeys(owners_of(settings.owners, step.series.file, step.series.kernel, cause))
    return list(found)


def _as_change(number: int, step: Step) -> KeptChange:
    return KeptChange(
        0, number, step.series.id, step.series.kernel, step.series.gpu, step.new.commit, step.key, step.new.position,
        step.old.position, step.before, step.after, "",
    )  # fmt: skip


def _named(change: KeptChange) -> str:
    return f"{change.kernel} on {change.gpu}"
