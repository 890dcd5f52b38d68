"""``gpusim runs``: the stored runs; how it is called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, format_option
from gpusim.commands.output_place import refuse_no_place
from gpusim.errors import UsageError
from gpusim.silicon.own_importers import IMPORTERS
from gpusim.store.known_runs import known_runs, refuse_unknown_runs

EXPORTS = ("csv", "json", "parquet")
#: What ``--what`` may say; :data:`gpusim.store.flat.TABLES` has them.
ROWS = ("launches", "measurements", "instructions")


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
@done_by("stored_runs")
def list_(name: str | None, form: str) -> None:
    """List the stored runs, oldest first.

    \b
    Example:
      gpusim runs list --format json
    """


@runs.command()
@click.argument("run")
@format_option()
@done_by("stored_runs")
def show(run: str, form: str) -> None:
    """Print RUN, a name or number: who made it, with what, its launches and measurements.

    \b
    Examples:
      gpusim runs show before
      gpusim runs show 12 --format json
    """
    refuse_unknown_runs([run])


@runs.command()
@click.argument("names", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--what",
    type=click.Choice(ROWS),
    help="Which rows of the runs.  [default: launches, measurements where there are none]",
)
@click.option(
    "--format", "form", type=click.Choice(EXPORTS), help="Of the export.  [default: by the ending of -o, else csv]"
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write; else stdout.")
@done_by("stored_runs")
def export(names: tuple[str, ...], what: str | None, form: str | None, output: Path | None) -> None:
    """Write the rows of RUNs (names or numbers) as one flat table.

    Parquet needs pip install 'gpusim[parquet]', and -o.

    \b
    Examples:
      gpusim runs export before --what instructions > instructions.csv
      gpusim runs export 3 4 5 --what measurements --format parquet -o rows.parquet
    """
    export_form(output, form)
    refuse_unknown_runs(names)


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
@done_by("stored_runs")
def import_(files: tuple[Path, ...], name: str, importer: str, form: str) -> None:
    """Keep the measurements of FILEs as one run: JSON lines of gpusim measure, Nsight Compute's CSV (ncu --csv) and
    .ncu-rep, nvbench's JSON, Kernel Tuner's cache files and T4 results, cutlass_profiler's CSV, plain CSV; told apart by
    their content. Other packages may add formats, as entry points of the group gpusim.importers.

    \b
    Example:
      gpusim runs import profile.csv bench.json --name h200-driver-580
    """


@runs.command()
@click.argument("names", nargs=-1, required=True, metavar="RUN...")
@done_by("stored_runs")
def delete(names: tuple[str, ...]) -> None:
    """Delete RUNs with all their rows: a number is one run, a name all runs of that name.

    \b
    Example:
      gpusim runs delete 3 before
    """
    known = known_runs()
    if known is not None:
        for name in names:
            if name not in known.names():
                known.refuse_unknown(name)


@runs.command()
@click.option(
    "--keep", type=click.IntRange(min=1), default=10, show_default=True, help="Finished runs to keep of each name."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@done_by("stored_runs")
def prune(keep: int, dry_run: bool) -> None:
    """Delete what no name stands for any more: older runs of each name, older unnamed runs, runs that broke off
    more than a day ago; and give their room back.

    \b
    Example:
      gpusim runs prune --keep 3 --dry-run
    """


def export_form(output: Path | None, form: str | None) -> str:
    """The form of an export, by ``--format``, else by the file's ending. Raises UsageError for what cannot be
    written."""
    if form is None:
        ending = output.suffix.removeprefix(".") if output is not None else ""
        form = ending if ending in EXPORTS else "csv"
    if form == "parquet" and output is None:
        raise UsageError("Parquet is no text: say which file to write with -o FILE.parquet")
    refuse_no_place(output)
    return form
