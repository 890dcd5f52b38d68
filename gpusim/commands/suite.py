"""``gpusim suite``: few workloads that keep the coverage of many; how it is called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.cases.networks import refuse_unknown_suite
from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, format_option

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(context_settings=HELP)
def suite() -> None:
    """Suites of pinned shapes, for runs on silicon and for CI.

    \b
    Examples:
      gpusim suite make week.coverage.json --budget 20 -o ci.suite.json
      gpusim suite show ci.suite.json
      gpusim suite show machine
      gpusim measure ci.suite.json -o rows.jsonl
      gpusim cover run ci.suite.json -o ci.coverage.json
    """


@suite.command("make")
@click.argument("coverage", nargs=-1, required=True, type=_FILE, metavar="COVERAGE...")
@click.option("--budget", type=click.IntRange(min=1), default=20, show_default=True, help="Workloads at most.")
@click.option(
    "--histogram", type=_FILE, metavar="CSV", help="Columns workload,count: what production launches weighs more."
)
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Suite file to write."
)
@format_option()
@done_by("suites")
def make(coverage: tuple[Path, ...], budget: int, histogram: Path | None, output: Path, form: str) -> None:
    """Pick the workloads that keep most of what the COVERAGE files have hit.

    \b
    Examples:
      gpusim suite make week.coverage.json --budget 20 -o ci.suite.json
      gpusim suite make week.coverage.json --histogram production.csv -o ci.suite.json
    """


@suite.command("show")
@click.argument("name")
@format_option()
@done_by("suites")
def show(name: str, form: str) -> None:
    """Print the workloads of a suite file or of a pinned suite.

    \b
    Examples:
      gpusim suite show ci.suite.json
      gpusim suite show llama_decode --format csv
    """
    refuse_unknown_suite(name)
