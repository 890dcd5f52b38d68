"""An alert with its series and events, and as records."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpusim.store.store import Store
from gpusim.watch.alerts.read import alert_events, alert_series, read_alert
from gpusim.watch.alerts.record import Alert, AlertEvent, AlertSeries


@dataclass(frozen=True)
class AlertDetail:
    """``series``: the most-moved first; ``events``: in order."""

    alert: Alert
    series: tuple[AlertSeries, ...]
    events: tuple[AlertEvent, ...]


def read_details(store: Store, numbers: Iterable[int]) -> list[AlertDetail]:
    """Those alerts. Raises UnknownAlertError."""
    return [
        AlertDetail(read_alert(store, number), tuple(alert_series(store, number)), tuple(alert_events(store, number)))
        for number in numbers
    ]


def alert_record(alert: Alert) -> dict[str, Any]:
    """An alert as JSON has it."""
    return {**dataclasses.asdict(alert), "settled": alert.settled}


def detail_record(detail: AlertDetail) -> dict[str, Any]:
    """All of an alert, for JSON."""
    series = [{**dataclasses.asdict(each), "percent": each.percent} for each in detail.series]
    events = [dataclasses.asdict(each) for each in detail.events]
    return {**alert_record(detail.alert), "moved": series, "events": events}


def series_records(series: Iterable[AlertSeries]) -> list[dict[str, Any]]:
    """A record a series, for the eye."""
    return [
        {"series": each.name, "commit": each.commit[:10], "before": each.before, "after": each.after, "unit": each.unit,
         "percent": each.percent, "state": each.state}
        for each in series
    ]  # fmt: skip


def event_records(events: Iterable[AlertEvent]) -> list[dict[str, Any]]:
    """A record an event, for the eye."""
    return [
        {"number": each.sequence, "time": each.time, "who": each.who, "what": each.kind, "before": each.before,
         "after": each.after, "text": each.text}
        for each in events
    ]  # fmt: skip
