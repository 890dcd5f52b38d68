"""``gpusim watch init|run|status``: plans and their histories; the work."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import click

from gpusim.cluster import connect
from gpusim.commands.watching import keep_alerts, tell
from gpusim.errors import NoDataError, UsageError
from gpusim.io.whole_file import write_whole
from gpusim.report.tables import format_records
from gpusim.store import RunWriter, open_store
from gpusim.watch.alerts.settings import keep_settings, plan_settings
from gpusim.watch.ci_template import FILES, Pipeline, pipeline_text, relative_to_repository
from gpusim.watch.dask_cells import DaskPlace
from gpusim.watch.local_cells import LocalPlace
from gpusim.watch.plan import load_plan, refuse_name
from gpusim.watch.plan_template import template
from gpusim.watch.read_history import commit_states, plan_names, read_refusals
from gpusim.watch.repository import commits, find_commit
from gpusim.watch.run_plan import run_plan

#: A cell of the commits has no value.
NO_VALUE = 1


def init(plan: Path, name: str) -> None:
    """What :func:`gpusim.commands.watch.init` declares, with its arguments."""
    refuse_name(name, str(plan))
    write_whole(plan, template(name).encode())
    click.echo(f"wrote {plan}; run it with: gpusim watch run {plan}")


def run(
    plan: Path, commit: str, since: str | None, newest: int | None, jobs: int | None, dask: str | None, form: str
) -> int:
    """What :func:`gpusim.commands.watch.run` declares, with its arguments."""
    loaded = load_plan(plan)
    repository = loaded.repository_path
    wanted = commits(repository, commit, since, newest) if since else [find_commit(repository, commit)]
    if not wanted:
        raise NoDataError(f"{repository}: no commit of the first-parent line of {commit} comes after {since}")
    settings = plan_settings(loaded)
    arguments = [str(plan), "--commit", commit, *(["--since", since] if since else [])]
    with open_store() as store, connect(dask) if dask else nullcontext() as client:
        store.prepare()
        place = DaskPlace(loaded, client) if client else LocalPlace(loaded, jobs or os.cpu_count() or 1)
        done = run_plan(loaded, store, wanted, place, arguments=arguments)
        if done.run_id:
            keep_settings(RunWriter(store, done.run_id), settings)
        alerts = keep_alerts(store, loaded.name, settings, whole=False)
    tell(alerts, settings)
    if done.valued + done.refused + done.kept_before == 0:
        raise NoDataError(f"plan {loaded.name}: no cell was run within its budget of {loaded.budget_s:g} s")
    click.echo(format_records([vars(done)], form))
    return NO_VALUE if done.refused else 0


def status(plan: str | None, newest: int, form: str) -> None:
    """What :func:`gpusim.commands.watch.status` declares, with its arguments."""
    with open_store() as store:
        known = plan_names(store)
        names = known if plan is None else [plan]
        rows, missing = [], []
        for name in names:
            states = commit_states(store, name, newest)
            rows += [{"plan": name, "commit": state.hash[:10], "position": state.position, "cells": state.cells,
                      "without_value": state.refused, "subject": state.subject} for state in states]  # fmt: skip
            if states:
                shown = read_refusals(store, name, since=states[-1].position)
                missing += [{"plan": name, "commit": each.commit[:10], "request": each.request, "gpu": each.gpu,
                             "toolchain": each.toolchain, "why": each.message} for each in shown]  # fmt: skip
        if not rows:
            which = f"plan {plan}" if plan else "any plan"
            there = f"; it has {', '.join(known)}" if known else "; gpusim watch run PLAN makes one"
            raise NoDataError(f"{store.name}: holds no history of {which}{there}")
    if form == "json":
        click.echo(
            format_records(
                [{**row, "missing": [m for m in missing if m["commit"] == row["commit"]]} for row in rows], form
            )
        )
        return
    click.echo(format_records(rows, form))
    if missing and form == "table":
        click.echo("\nwithout a value:\n" + format_records(missing, form))


def ci(service: str, plan: Path, install: str, output: Path | None) -> None:
    """What :func:`gpusim.commands.watch.ci` declares, with its arguments."""
    loaded = load_plan(plan)
    repository = loaded.repository_path
    text = pipeline_text(service, Pipeline(relative_to_repository(plan, repository), loaded.name, install))
    target = output or repository / FILES[service]
    if target.exists():
        raise UsageError(f"{target} is there already; nothing was written")
    if output is None:
        target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, text.encode())
    click.echo(f"wrote {target}")
