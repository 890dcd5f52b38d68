"""``gpusim production report``, ``histogram`` and ``collected``; the work."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from gpusim.production.columns import columns_of, named
from gpusim.production.file import write
from gpusim.production.from_collector import FOREVER_MINUTE, from_collector
from gpusim.production.histogram import histogram_records
from gpusim.production.report import report_records, unknown_line, unknown_records
from gpusim.production.sources import read_sources
from gpusim.report.tables import format_records


def report(files: tuple[Path, ...], by: tuple[str, ...], most: int, unknown: bool, form: str) -> None:
    """What :func:`gpusim.commands.production.report` declares, with its arguments."""
    rows = named(read_sources(files).totals)
    click.echo(format_records(unknown_records(rows) if unknown else report_records(rows, by, most), form))
    if not unknown:
        click.echo(unknown_line(rows, columns_of(by)), err=True)


def histogram(files: tuple[Path, ...], size: str, by: tuple[str, ...], form: str) -> None:
    """What :func:`gpusim.commands.production.histogram` declares, with its arguments."""
    click.echo(format_records(histogram_records(named(read_sources(files).totals), size, by), form))


def collected(folder: Path, since: datetime | None, until: datetime | None, output: Path) -> None:
    """What :func:`gpusim.commands.production.collected` declares, with its arguments."""
    found = from_collector(folder, _minute(since, 0), _minute(until, FOREVER_MINUTE))
    write(output, found)
    click.echo(f"{len(found.totals)} rows, {found.sources[0].launches} launches in {output}", err=True)


def _minute(moment: datetime | None, otherwise: int) -> int:
    return otherwise if moment is None else max(0, int(moment.replace(tzinfo=UTC).timestamp() // 60))
