"""The words and the attribution of alerts, brought up to date after their changes.

Mental model: an alert's attribution says of which change, series and launches it is; where that is no longer what the
alert is about, both are made anew. That reads launches and takes a while, so it is done outside of what opened the
alert; whoever comes next does it if a process ended in between.
"""

from __future__ import annotations

import json
from typing import Any

from gpusim.errors import GpusimError
from gpusim.io.progress import say
from gpusim.store.store import Store
from gpusim.watch.alerts.attribution import attribution_record, compare_launches
from gpusim.watch.alerts.kept_alerts import update_alert
from gpusim.watch.alerts.read import list_alerts, plan_alert_series
from gpusim.watch.alerts.record import BACK, SLOWER, VERIFIED, Alert, AlertSeries
from gpusim.watch.alerts.sentence import sentence


def describe_alerts(store: Store, plan: str) -> int:
    """Make sentence and attribution of the alerts of ``plan`` that lack them or have outgrown them; how many."""
    made = 0
    moved_of = plan_alert_series(store, plan)
    for alert in list_alerts(store, plan):
        moved = moved_of.get(alert.number, [])
        if not moved:
            continue
        most = most_moved(alert, moved)
        about = _about(alert, moved, most)
        if alert.sentence and alert.attribution.get("about") == about:
            continue
        outcome = None
        if most.before_launch_id is not None and most.after_launch_id is not None:
            try:
                outcome = compare_launches(store, most.before_launch_id, most.after_launch_id)
            except GpusimError as error:  # one damaged launch is no reason to keep the others without words
                say(f"alert {alert.number}: no attribution: {error}")
        record: dict[str, Any] = {"about": about, **(attribution_record(outcome) if outcome else {})}
        text = sentence(alert, moved, outcome)
        with store.writing() as connection:
            update_alert(
                connection, alert.number, sentence=text, attribution=json.dumps(record, allow_nan=False, default=str)
            )
        made += 1
    return made


def most_moved(alert: Alert, moved: list[AlertSeries]) -> AlertSeries:
    """The series that got slowest, or of an improvement fastest."""
    sign = 1 if alert.direction == SLOWER else -1
    return max(moved, key=lambda each: sign * each.percent)


def _about(alert: Alert, moved: list[AlertSeries], most: AlertSeries) -> dict[str, Any]:
    """What decides the words: other words are due when this is another."""
    return {
        "series": most.name, "series_id": most.series_id, "position": most.position, "before": most.before,
        "after": most.after, "before_launch_id": most.before_launch_id, "after_launch_id": most.after_launch_id,
        "commit": alert.commit, "who": alert.who, "moved": len(moved), "direction": alert.direction,
        "unseen": len(alert.unseen), "back": sum(each.state == BACK for each in moved), "verified": alert.state == VERIFIED,
    }  # fmt: skip
