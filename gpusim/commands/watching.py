"""``gpusim watch``: performance over a history; the work."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.errors import NoDataError
from gpusim.report.tables import format_records
from gpusim.store import open_store
from gpusim.watch.change import alert_numbers
from gpusim.watch.exact import exact_changes
from gpusim.watch.history_file import read_histories
from gpusim.watch.read_history import stored_histories


def changes(file: Path | None, plan: str | None, form: str) -> None:
    """What :func:`gpusim.commands.watch.changes` declares, with its arguments."""
    if file is not None:
        histories, where = read_histories(file), str(file)
    else:
        with open_store() as store:
            histories, where = stored_histories(store, plan or ""), f"{store.name}: plan {plan}"
    if not histories:
        raise NoDataError(f"{where} holds no point")
    found = [each for history in histories for each in exact_changes(history)]
    records = [
        {
            "alert": alert, "series": each.series, "commit": each.commit, "before": each.before, "after": each.after,
            "percent": each.percent, "cause": each.cause, "who": each.who, "unseen": " ".join(each.unseen),
        }
        for alert, each in zip(alert_numbers(found), found)
    ]  # fmt: skip
    if records or form != "table":
        click.echo(format_records(records, form))
    else:
        click.echo("no change", err=True)
