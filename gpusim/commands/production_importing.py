"""``gpusim production import`` and ``timing``; the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gpusim.production.facts import Fact
from gpusim.production.file import Production, Source, read, together, write
from gpusim.production.imports.formats import head_of
from gpusim.production.imports.importing import imported
from gpusim.production.names.shortened import shortened
from gpusim.report.tables import format_records

_OWN = b'{"type":"production"'


def import_traces(sources: tuple[Path, ...], output: Path, form: str | None) -> None:
    """What :func:`gpusim.commands.production_import.import_traces` declares, with its arguments."""
    production = imported(sources, form)
    write(output, production)
    click.echo(format_records([_told_source(source) for source in production.sources], "table"))
    click.echo(
        f"{len(production.totals):,} rows, {len(production.facts):,} facts of timing, written to {output}", err=True
    )


def _told_source(source: Source) -> dict[str, Any]:
    return {
        "source": source.name, "format": source.format, "rank": _rank(source.rank), "events": source.events, "launches": source.launches,
        "damaged": source.damaged, "notes": "; ".join(source.notes),
    }  # fmt: skip


def timing(files: tuple[Path, ...], topics: tuple[str, ...], evidence: bool, form: str) -> None:
    """What :func:`gpusim.commands.production_import.timing` declares, with its arguments."""
    facts = [fact for fact in _production(files).facts if not topics or fact.topic in topics]
    rows = (
        [row for fact in facts for row in _evidence(fact, form in ("table", "md"))]
        if evidence
        else [_row(fact) for fact in facts]
    )
    click.echo(format_records(rows, form))


def _production(paths: tuple[Path, ...]) -> Production:
    own = [path for path in paths if path.is_file() and head_of(path).startswith(_OWN)]
    traces = [path for path in paths if path not in own]
    return together([*(read(path) for path in own), *([imported(traces)] if traces else [])])


def _row(fact: Fact) -> dict[str, Any]:
    return {"topic": fact.topic, "rank": _rank(fact.rank), "device": fact.device, "what": fact.summary}


def _evidence(fact: Fact, is_table: bool) -> list[dict[str, Any]]:
    name_of = shortened if is_table else str
    about = {"topic": fact.topic, "rank": _rank(fact.rank), "device": fact.device, "about": name_of(fact.about)}
    numbers = [
        about | {"name": name, "begin_ns": "", "duration_ns": "", "value": _told(value)}
        for name, value in fact.numbers.items()
    ]
    shown = [
        about | {"name": name_of(each.name), "begin_ns": _told(each.begin_ns), "duration_ns": _told(each.duration_ns), "value": _told(each.value)}
        for each in fact.evidence
    ]  # fmt: skip
    return numbers + shown


def _told(value: float | None) -> Any:
    """Counts and nanoseconds are whole, whatever they are kept as."""
    return "" if value is None else int(value) if float(value).is_integer() else value


def _rank(rank: int) -> Any:
    return "" if rank < 0 else rank
