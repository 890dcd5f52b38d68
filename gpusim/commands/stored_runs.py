"""``gpusim runs``: the stored runs; the work."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from gpusim.commands.runs import export_form
from gpusim.errors import NoDataError, ToolchainError
from gpusim.io.whole_file import replacing
from gpusim.report.tables import format_records
from gpusim.silicon.imports import read_rows
from gpusim.store import RunInfo, Store, StoredRun, open_store
from gpusim.store.flat import TABLES
from gpusim.store.known_runs import FINISHED

#: An unfinished run may be one that is still being written; after so many days it is not.
UNFINISHED_DAYS = 1.0


def list_(name: str | None, form: str) -> None:
    """What :func:`gpusim.commands.runs.list_` declares, with its arguments."""
    with open_store() as store:
        infos = store.list_runs(name)
    if not infos and form in ("table", "md"):
        click.echo(f"no run{f' called {name}' if name else ''} in {store.name}", err=True)
        return
    click.echo(format_records([_headline(info) for info in infos], form))


def show(run: str, form: str) -> None:
    """What :func:`gpusim.commands.runs.show` declares, with its arguments."""
    with open_store() as store:
        kept = store.load_run(run)
    if form == "json":
        tables = {name: TABLES[name]([kept]) for name in ("launches", "measurements")}
        click.echo(json.dumps({**asdict(kept.info), **tables, "documents": kept.documents}, indent=2))
        return
    short = _short_launches(kept) + _short_measurements(kept)
    if form == "csv":
        click.echo(format_records(short, form))
        return
    facts = [{"fact": name, "value": value} for name, value in _facts(kept.info).items()]
    click.echo(format_records(facts, form))
    if short:
        click.echo("\n" + format_records(short, form))


def export(names: tuple[str, ...], what: str | None, form: str | None, output: Path | None) -> None:
    """What :func:`gpusim.commands.runs.export` declares, with its arguments."""
    form = export_form(output, form)
    with open_store() as store:
        loaded = [store.load_run(name) for name in names]
    if what is None:
        what = (
            "measurements"
            if not any(run.launches for run in loaded) and any(run.measurements for run in loaded)
            else "launches"
        )
    records = TABLES[what](loaded)
    if not records:
        raise NoDataError(
            f"{', '.join(names)}: no {what} in {'this run' if len(names) == 1 else 'these runs'}; see gpusim runs show"
        )
    if form == "parquet":
        assert output is not None
        write_parquet(records, output)
    elif output is None:
        click.echo(format_records(records, form))
        return
    else:
        with replacing(output) as stream:
            stream.write(format_records(records, form).encode() + b"\n")
    click.echo(f"{len(records)} {what} in {output}", err=True)


def import_(files: tuple[Path, ...], name: str, importer: str, form: str) -> None:
    """What :func:`gpusim.commands.runs.import_` declares, with its arguments."""
    rows = [(path, read_rows(path, importer)) for path in files]
    empty = [str(path) for path, found in rows if not found]
    if empty:
        raise NoDataError(f"{', '.join(empty)}: no measurement in it")
    with open_store() as store, store.new_run(name, command="import", arguments=[str(path) for path in files]) as run:
        run.add_measurements([row for _, found in rows for row in found])
    records = [{"run": run.id, "name": name, "file": str(path), "measurements": len(found)} for path, found in rows]
    click.echo(format_records(records, form))


def delete(names: tuple[str, ...]) -> None:
    """What :func:`gpusim.commands.runs.delete` declares, with its arguments."""
    with open_store() as store:
        found = [info for name in names for info in _called(store, name)]
        _delete(store, found)


def prune(keep: int, dry_run: bool) -> None:
    """What :func:`gpusim.commands.runs.prune` declares, with its arguments."""
    with open_store() as store:
        infos = store.list_runs()
        old = (datetime.now(UTC) - timedelta(days=UNFINISHED_DAYS)).isoformat(timespec="seconds")
        obsolete = [info for info in infos if info.state != FINISHED and info.started < old]
        for name in {info.name for info in infos}:
            finished = [info for info in infos if info.name == name and info.state == FINISHED]
            obsolete += finished[:-keep]
        obsolete.sort(key=lambda info: info.id)
        if dry_run:
            click.echo(format_records([_headline(info) for info in obsolete], "table"))
            return
        _delete(store, obsolete)
        store.compact()


def write_parquet(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Write records as a Parquet file, whole or not at all. Raises ToolchainError without pyarrow."""
    try:
        arrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ToolchainError(f"Parquet needs pyarrow: pip install 'gpusim[parquet]' ({error})") from None
    with replacing(path) as stream:
        parquet.write_table(arrow.Table.from_pylist(list(records)), stream)


def _called(store: Store, name: str) -> list[RunInfo]:
    return ([] if name.isdecimal() else store.list_runs(name)) or [store.find_run(name)]


def _delete(store: Store, infos: Sequence[RunInfo]) -> None:
    count = store.delete_runs([info.id for info in infos]) if infos else 0
    for info in infos:
        click.echo(f"deleted run {info.id} {info.name}".rstrip(), err=True)
    click.echo(format_records([{"deleted": count}], "table"))


def _headline(info: RunInfo) -> dict[str, Any]:
    return {
        "run": info.id,
        "name": info.name,
        "state": info.state,
        "command": info.command,
        "started": info.started,
        "gpusim": info.gpusim_version,
        "model": info.model_hash[:8],
        "launches": info.launches,
        "measurements": info.measurements,
    }


def _facts(info: RunInfo) -> dict[str, Any]:
    facts = {
        **_headline(info),
        "finished": info.finished,
        "arguments": " ".join(info.arguments),
        "host": info.host_hash,
    }
    return {**facts, **info.environment}


def _short_launches(run: StoredRun) -> list[dict[str, Any]]:
    return [
        {
            "kind": "simulated",
            "kernel": row.kernel,
            "shape": row.shape,
            "launch": row.launch,
            "gpu": row.gpu,
            "cycles": row.cycles,
            "time_us": row.time_us,
        }
        for row in run.launches
    ]


def _short_measurements(run: StoredRun) -> list[dict[str, Any]]:
    return [
        {
            "kind": " ".join(filter(None, ("measured", row.method, row.cache))),
            "kernel": row.kernel,
            "shape": row.shape,
            "launch": row.launch,
            "gpu": row.gpu or row.device_name,
            "cycles": row.cycles.median if row.cycles else "",
            "time_us": row.time_us.median if row.time_us else "",
        }
        for row in run.measurements
    ]
