"""``gpusim alerts``: the work."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gpusim.commands.alerts import SECRET
from gpusim.errors import NoDataError, StoreError, UsageError
from gpusim.io.nearest import hint
from gpusim.io.whole_file import write_whole
from gpusim.report.tables import format_records
from gpusim.store import Store, open_store
from gpusim.watch.alerts.detail import (
    AlertDetail,
    alert_record,
    detail_record,
    event_records,
    read_details,
    series_records,
)
from gpusim.watch.alerts.exports import export_alerts
from gpusim.watch.alerts.issue_text import issue_title
from gpusim.watch.alerts.read import list_alerts, read_alert
from gpusim.watch.alerts.record import FASTER, FIXED, TRIAGED, Alert
from gpusim.watch.alerts.settings import known_owners, stored_settings
from gpusim.watch.alerts.webhook import send_events
from gpusim.watch.alerts.write import add_note, set_state
from gpusim.watch.alerts.write import assign as set_owner
from gpusim.watch.read_history import plan_names

#: Something is listed that waits for somebody.
LISTED = 1
MOST_TERMS = 8


def list_(
    plan: str | None, states: Sequence[str], owner: str | None, every: bool, improvements: bool, check: bool, form: str
) -> int:
    """What :func:`gpusim.commands.alerts.list_` declares, with its arguments."""
    with open_store() as store:
        refuse_unknown_plan(store, plan)
        found = list_alerts(store, plan, states, owner)
    shown = [
        alert
        for alert in found
        if (improvements or alert.direction != FASTER) and (every or states or improvements or not alert.settled)
    ]
    if form == "json":
        click.echo(json.dumps([alert_record(alert) for alert in shown], indent=2))
    elif shown or form != "table":
        click.echo(format_records([_row(alert) for alert in shown], form))
    else:
        click.echo("no alert" + ("" if every or not found else "; --all lists what is settled"), err=True)
    return LISTED if check and shown else 0


def show(number: int, form: str) -> None:
    """What :func:`gpusim.commands.alerts.show` declares, with its arguments."""
    with open_store() as store:
        (detail,) = read_details(store, [number])
    if form == "json":
        click.echo(json.dumps(detail_record(detail), indent=2))
        return
    if form == "csv":
        click.echo(format_records(series_records(detail.series), form))
        return
    for line in _head(detail.alert):
        click.echo(line)
    for title, records in _tables(detail):
        if records:
            click.echo(f"\n{title}:\n{format_records(records, form)}")


def assign(number: int, owner: str, anyone: bool, who: str | None) -> None:
    """What :func:`gpusim.commands.alerts.assign` declares, with its arguments."""
    with open_store() as store:
        alert = read_alert(store, number)
        known = known_owners(stored_settings(store, alert.plan))
        unknown = next((each for each in owner.split() if known and each not in known), None)
        if unknown is not None and not anyone:
            raise UsageError(
                f"no rule of plan {alert.plan} names {unknown!r:.80}; {hint(unknown, known)}, or give --anyone"
            )
        _say(set_owner(store, number, owner, who=_who(who)))


def state(number: int, state: str, verdict: str | None, reason: str, until: str, who: str | None) -> None:
    """What :func:`gpusim.commands.alerts.state` declares, with its arguments."""
    with open_store() as store:
        _say(set_state(store, number, state, who=_who(who), verdict=verdict or "", reason=reason, expiry=until))


def note(number: int, text: str, who: str | None) -> None:
    """What :func:`gpusim.commands.alerts.note` declares, with its arguments."""
    with open_store() as store:
        _say(add_note(store, number, text, who=_who(who)))


def close(number: int, how: str, reason: str, until: str, who: str | None) -> None:
    """What :func:`gpusim.commands.alerts.close` declares, with its arguments."""
    wanted, verdict = (FIXED, "") if how == FIXED else (TRIAGED, how)
    with open_store() as store:
        _say(set_state(store, number, wanted, who=_who(who), verdict=verdict, reason=reason, expiry=until))


def export(numbers: Sequence[int], form: str, plan: str | None, every: bool, title: bool, output: Path | None) -> None:
    """What :func:`gpusim.commands.alerts.export` declares, with its arguments."""
    with open_store() as store:
        refuse_unknown_plan(store, plan)
        wanted = numbers or [a.number for a in reversed(list_alerts(store, plan)) if every or not a.settled]
        details = read_details(store, wanted)
    data = (issue_title(details[0].alert) + "\n").encode() if title else export_alerts(details, form)
    if output is None:
        click.echo(data.decode(), nl=False)
    else:
        write_whole(output, data)
        click.echo(f"{len(details)} alerts written to {output}", err=True)


def send(url: str, plan: str | None, improvements: bool, again: bool, form: str) -> int:
    """What :func:`gpusim.commands.alerts.send` declares, with its arguments."""
    with open_store() as store:
        refuse_unknown_plan(store, plan)
        secret = os.environ.get(SECRET, "")
        done = send_events(store, url, secret, plan=plan, improvements=improvements, again=again)
    click.echo(format_records([vars(done)], form))
    return StoreError.exit_code if done.waiting or done.refused else 0


def refuse_unknown_plan(store: Store, plan: str | None) -> None:
    """Raise NoDataError for a plan that has no history."""
    if plan is None:
        return
    known = plan_names(store)
    if plan not in known:
        there = hint(plan, known) if known else "gpusim watch run PLAN makes one"
        raise NoDataError(f"{store.name}: holds no history of plan {plan}; {there}")


def _who(who: str | None) -> str:
    if who is not None:
        return who
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise UsageError("who does it? this user has no name; give --as NAME") from None


def _say(alert: Alert) -> None:
    parts = [f"alert {alert.number}: {alert.state}", alert.verdict, f"until {alert.expiry}" if alert.expiry else ""]
    click.echo(" ".join(filter(None, parts)) + (f"; owner {alert.owner}" if alert.owner else ""))


def _row(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.number, "plan": alert.plan, "state": " ".join(filter(None, (alert.state, alert.verdict))),
        "percent": alert.size_percent, "series": alert.series, "owner": alert.owner, "cause": alert.cause,
        "commit": alert.commit[:10], "what": alert.sentence.partition(" since ")[0],
    }  # fmt: skip


def _head(alert: Alert) -> list[str]:
    lines = [alert.sentence, ""]
    state = " ".join(filter(None, (alert.state, alert.verdict, f"until {alert.expiry}" if alert.expiry else "")))
    lines.append(f"alert {alert.number} of plan {alert.plan}: {state}" + (f" ({alert.reason})" if alert.reason else ""))
    lines.append(f"owner: {alert.owner or 'nobody'}; opened {alert.opened}")
    lines.append(f"cause: {alert.cause} {alert.who}; first seen at {alert.commit}")
    if alert.unseen:
        lines.append(f"may be the first, and have no value: {' '.join(each[:10] for each in alert.unseen)}")
    if alert.found:
        lines.append(f"found by bisection: {alert.found}")
    return lines


def _tables(detail: AlertDetail) -> list[tuple[str, list[dict[str, Any]]]]:
    kept = detail.alert.attribution
    names = {
        "cycles by reason": ("by_stall", ("stall", "cycles", "unit")),
        "cycles by line": ("by_line", ("file", "line", "cycles", "code")),
        "cycles by instruction": ("by_instruction", ("change", "cycles", "stall", "base_sass", "head_sass")),
        "figures of the GPU": ("gpu_figures", ("changed", "cycles", "from", "to")),
    }
    tables = [("series", series_records(detail.series))]
    for title, (key, columns) in names.items():
        terms = [term for term in kept.get(key, []) if isinstance(term, dict) and term.get("cycles") != 0]
        tables.append((title, [{name: _shown(term.get(name)) for name in columns} for term in terms[:MOST_TERMS]]))
    return [*tables, ("events", event_records(detail.events))]


def _shown(value: Any) -> Any:
    return "-" if value is None else value
