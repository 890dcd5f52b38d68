"""``gpusim bisect --gpu-file``: which figures of two descriptions of a GPU make the difference."""

from __future__ import annotations

import json
from typing import Any

import click

from gpusim.bisect.criterion import Wish, criterion_of
from gpusim.bisect.gpu_figures import SHARE, FigureSet, GpuFigures
from gpusim.bisect.reasons import Reason, reason_between
from gpusim.commands.bisecting_text import CANNOT_TELL, FOUND, NO_DIFFERENCE, launch_documents, reason_tables
from gpusim.errors import NoDataError
from gpusim.gpus.load import load_gpu
from gpusim.io.percent import signed
from gpusim.report.tables import format_records
from gpusim.store import Store


def bisect_figures(
    request: str, names: tuple[str, str], store: Store, wish: Wish, metric: str | None, small: bool, form: str
) -> int:
    """Find the fewest figures of the second GPU that make its difference from the first; print them."""
    figures = GpuFigures(request, load_gpu(names[0]), load_gpu(names[1]), store, small=small)
    # Cycles of two clocks are no common measure.
    metric = metric or ("us" if figures.good.clock_hz != figures.bad.clock_hz else "cycles")
    ends = [figures.read(()), figures.read(figures.changes)]
    for name, reading in zip(names, ends, strict=True):
        if reading.refused:
            raise NoDataError(f"{name}: {reading.refused}")
    good, bad = (reading.value(metric) for reading in ends)
    assert good is not None and bad is not None
    criterion = criterion_of(good, bad, wish, SHARE)
    found = figures.cause(criterion, metric) if criterion.differs else None
    text = _told(figures, found, metric, good, bad)
    reason = reason_between(ends[0], found.reading, names) if found else None
    if form == "json":
        click.echo(
            json.dumps(
                _document(request, names, figures, found, metric, good, bad, text, reason), indent=2, allow_nan=False
            )
        )
    else:
        rows = _records(found, good) if found else []
        click.echo(f"{request}: {text}" if form != "csv" else format_records(rows, form))
        if form != "csv" and reason is not None:
            click.echo("\n" + format_records(rows, form) + "\n\n" + reason.sentence)
            for table in reason_tables(reason):
                click.echo("\n" + format_records(table, form))
    if found is None:
        return NO_DIFFERENCE
    return FOUND if found.is_smallest else CANNOT_TELL


def _told(figures: GpuFigures, found: FigureSet | None, metric: str, good: float, bad: float) -> str:
    ran = f"{figures.runs} machines were simulated for {len(figures.changes)} figures that differ."
    if found is None:
        return f"No difference: {good:g} {metric} on {figures.good.name} and {bad:g} on {figures.bad.name}; {ran}"
    names = " and ".join(change.key for change in found.changes)
    text = f"{names} alone make{'s' if len(found.changes) == 1 else ''} {signed(found.value - good, 'g')} of {signed(bad - good, 'g')} {metric}"
    if len(found.changes) > 1:
        text = f"{names} together make {signed(found.value - good, 'g')} of {signed(bad - good, 'g')} {metric}"
        text += (
            ", more or less than each by itself added up: they interact"
            if found.interacts(good)
            else ", as much as each by itself added up"
        )
    if not found.is_smallest:
        text += "; none of them can be left out, but whether a smaller set of others does the same was not tried"
    return f"{text}. {ran}"


def _records(found: FigureSet, good: float) -> list[dict[str, Any]]:
    return [
        {"figure": change.key, "good": change.base, "bad": change.head, "alone": "-" if value is None else value - good}
        for change, value in zip(found.changes, found.alone, strict=True)
    ]


def _document(
    request: str, names: tuple[str, str], figures: GpuFigures, found: FigureSet | None, metric: str, good: float, bad: float,
    text: str, reason: Reason | None,
) -> dict[str, Any]:  # fmt: skip
    return {
        "case": request, "what": "gpu figure", "gpus": list(names), "metric": metric, "good": good, "bad": bad,
        "status": "no difference" if found is None else "found" if found.is_smallest else "cannot tell",
        "sentence": text, "differing": len(figures.changes), "machines": figures.runs,
        "figures": _records(found, good) if found else [], "value": found.value if found else None,
        "interacts": found.interacts(good) if found else False,
        "launches": launch_documents(reason.outcomes) if reason else [],
    }  # fmt: skip
