"""``gpusim runs``: the stored runs."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from gpusim.commands.options import HELP, format_option
from gpusim.errors import NoDataError, ToolchainError, UsageError
from gpusim.io.whole_file import replacing
from gpusim.report.tables import format_records
from gpusim.silicon.imports import read_rows
from gpusim.silicon.imports.formats import IMPORTERS
from gpusim.store import RunInfo, Store, StoredRun, open_store
from gpusim.store.flat import TABLES
from gpusim.store.store import FINISHED

EXPORTS = ("csv", "json", "parquet")
#: An unfinished run may be one that is still being written; after so many days it is not.
UNFINISHED_DAYS = 1.0


@click.group(context_settings=HELP)
def runs() -> None:
    """The stored runs: by simulate --save-run, measure, compare --save.

    They lie in ~/.local/share/gpusim/store.sqlite; GPUSIM_STORE names another file, or a postgresql:// URL
    for a team (pip install 'gpusim[postgres]').

    \b
    Examples:
      gpusim runs list
      gpusim runs show before
      gpusim runs export before --format csv -o before.csv
    """


@runs.command("list")
@click.option("--name", help="Only runs of this name.")
@format_option()
def list_(name: str | None, form: str) -> None:
    """List the stored runs, oldest first.

    \b
    Example:
      gpusim runs list --format json
    """
    with open_store() as store:
        infos = store.list_runs(name)
    if not infos and form in ("table", "md"):
        click.echo(f"no run{f' called {name}' if name else ''} in {store.name}", err=True)
        return
    click.echo(format_records([_headline(info) for info in infos], form))


@runs.command()
@click.argument("run")
@format_option()
def show(run: str, form: str) -> None:
    """Print RUN, a name or number: who made it, with what, its launches and measurements.

    \b
    Examples:
      gpusim runs show before
      gpusim runs show 12 --format json
    """
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


@runs.command()
@click.argument("names", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--what",
    type=click.Choice(list(TABLES)),
    help="Which rows of the runs.  [default: launches, measurements where there are none]",
)
@click.option(
    "--format", "form", type=click.Choice(EXPORTS), help="Of the export.  [default: by the ending of -o, else csv]"
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write; else stdout.")
def export(names: tuple[str, ...], what: str | None, form: str | None, output: Path | None) -> None:
    """Write the rows of RUNs (names or numbers) as one flat table.

    Parquet needs pip install 'gpusim[parquet]', and -o.

    \b
    Examples:
      gpusim runs export before --what instructions > instructions.csv
      gpusim runs export 3 4 5 --what measurements --format parquet -o rows.parquet
    """
    if form is None:
        ending = output.suffix.removeprefix(".") if output is not None else ""
        form = ending if ending in EXPORTS else "csv"
    if form == "parquet" and output is None:
        raise UsageError("Parquet is no text: say which file to write with -o FILE.parquet")
    if output is not None and not output.resolve().parent.is_dir():
        raise UsageError(f"there is no folder {output.parent} to write {output.name} into")
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


@runs.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", default="", help="What the run is to be called.")
@click.option(
    "--importer",
    default="",
    metavar="NAME",
    help=f"What reads the files: {', '.join(IMPORTERS)}, or an installed package's.  [default: what recognises each]",
)
@format_option()
def import_(files: tuple[Path, ...], name: str, importer: str, form: str) -> None:
    """Keep the measurements of FILEs as one run: JSON lines of gpusim measure, Nsight Compute's CSV (ncu --csv) and
    .ncu-rep, nvbench's JSON, plain CSV; told apart by their content. Other packages may add formats, as entry points
    of the group gpusim.importers.

    \b
    Example:
      gpusim runs import profile.csv bench.json --name h200-driver-580
    """
    rows = [(path, read_rows(path, importer)) for path in files]
    empty = [str(path) for path, found in rows if not found]
    if empty:
        raise NoDataError(f"{', '.join(empty)}: no measurement in it")
    with open_store() as store, store.new_run(name, command="import", arguments=[str(path) for path in files]) as run:
        run.add_measurements([row for _, found in rows for row in found])
    records = [{"run": run.id, "name": name, "file": str(path), "measurements": len(found)} for path, found in rows]
    click.echo(format_records(records, form))


@runs.command()
@click.argument("names", nargs=-1, required=True, metavar="RUN...")
def delete(names: tuple[str, ...]) -> None:
    """Delete RUNs with all their rows: a number is one run, a name all runs of that name.

    \b
    Example:
      gpusim runs delete 3 before
    """
    with open_store() as store:
        found = [info for name in names for info in _called(store, name)]
        _delete(store, found)


@runs.command()
@click.option(
    "--keep", type=click.IntRange(min=1), default=10, show_default=True, help="Finished runs to keep of each name."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
def prune(keep: int, dry_run: bool) -> None:
    """Delete what no name stands for any more: older runs of each name, older unnamed runs, runs that broke off
    more than a day ago; and give their room back.

    \b
    Example:
      gpusim runs prune --keep 3 --dry-run
    """
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
