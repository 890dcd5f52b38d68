"""``gpusim watch``: performance over a history; the work."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from gpusim.commands.alerting import refuse_unknown_plan
from gpusim.errors import NoDataError
from gpusim.io.progress import say
from gpusim.report.tables import format_records
from gpusim.store import Store, open_store
from gpusim.watch.alerts.expectations import load_expectations
from gpusim.watch.alerts.gather import find_steps
from gpusim.watch.alerts.read import change_numbers
from gpusim.watch.alerts.settings import AlertSettings, stored_settings
from gpusim.watch.alerts.step import Step
from gpusim.watch.alerts.sync import SyncSummary, sync_alerts
from gpusim.watch.change import alert_numbers, change_record
from gpusim.watch.changes import all_changes
from gpusim.watch.history_file import read_histories


def changes(
    file: Path | None, plan: str | None, measured: bool, unit: str, expect: Path | None, no_alerts: bool, form: str
) -> None:
    """What :func:`gpusim.commands.watch.changes` declares, with its arguments."""
    if file is not None:
        histories = read_histories(file, measured=measured, unit=unit)
        if not histories:
            raise NoDataError(f"{file} holds no point")
        found = all_changes(histories)
        records = [change_record(alert, each, unit) for alert, each in zip(alert_numbers(found), found)]
    else:
        assert plan is not None
        expected = load_expectations(expect) if expect else None
        with open_store() as store:
            refuse_unknown_plan(store, plan)
            if not no_alerts:
                settings = stored_settings(store, plan)
                if expected is not None:
                    settings = dataclasses.replace(settings, expectations=expected)
                tell(keep_alerts(store, plan, settings, whole=True), settings)
            numbers = change_numbers(store, plan)
            steps = [step for each in find_steps(store, plan, None).steps.values() for step in each]
        records = [_of_plan(numbers.get((s.series.id, s.new.position, s.key)), s) for s in steps]
    if form in ("table", "md"):  # a commit is named once
        records = [record | {"who": "" if record["who"] == record["commit"] else record["who"]} for record in records]
    if records or form != "table":
        click.echo(format_records(records, form))
    else:
        click.echo("no change", err=True)


def keep_alerts(store: Store, plan: str, settings: AlertSettings, *, whole: bool) -> SyncSummary:
    """Bring the plan's alerts to what its history shows."""
    return sync_alerts(store, plan, settings, whole=whole)


def tell(done: SyncSummary, settings: AlertSettings) -> None:
    """Say on stderr what was done with the alerts, and which expectations have ended."""
    counts = {name: value for name, value in vars(done).items() if name != "plan" and value}
    if counts:
        said = ", ".join(f"{value} {name}" for name, value in counts.items())
        say(f"alerts of plan {done.plan}: {said}; see gpusim alerts list --plan {done.plan}")
    for rule in settings.ended():
        say(f"expectation {rule.name}, agreed by {rule.agreed_by}, ended on {rule.until}: it excuses nothing more")


def _of_plan(alert: int | None, step: Step) -> dict[str, object]:
    who = step.who[:12] if step.who == step.commit else step.who
    change = dataclasses.replace(
        step.change, series=step.series.name, commit=step.commit[:12], who=who,
        candidates=tuple(commit[:12] for commit in step.change.candidates),
        unseen=() if step.change.candidates else tuple(commit[:12] for commit in step.unseen),
    )  # fmt: skip
    return change_record("" if alert is None else alert, change, step.series.unit)
