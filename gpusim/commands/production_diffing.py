"""``gpusim production diff``; the work."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.production.columns import named
from gpusim.production.diff import difference_records, differences
from gpusim.production.sources import read_sources
from gpusim.report.tables import format_records


def diff(
    before: Path, after: Path, by: tuple[str, ...], alpha: float, threshold: float, every: bool, form: str
) -> None:  # fmt: skip
    """What :func:`gpusim.commands.production.diff` declares, with its arguments."""
    one, two = (named(read_sources([path]).totals) for path in (before, after))
    found = differences(one, two, by, alpha, threshold)
    shown = found if every else [each for each in found if each.verdict]
    if shown or form in ("json", "csv"):
        click.echo(format_records(difference_records(shown, by), form))
    else:
        click.echo("no difference")
    click.echo(f"{len(found)} groups, {sum(bool(each.verdict) for each in found)} differ", err=True)
