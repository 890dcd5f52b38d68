"""Histories from CSV: a row a point, oldest first; columns ``commit`` and ``value``, and any that identify a point."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from gpusim.errors import MeasurementFormatError
from gpusim.watch.history import METHOD, History, Point


def read_histories(path: Path, *, measured: bool = False, unit: str = "") -> list[History]:
    """The histories of ``path``, one for each name in column ``series`` (the file's name without it), all of one group.
    An empty value is a commit that gave none. ``measured``, ``unit``: as of :class:`gpusim.watch.history.History`.
    Raises MeasurementFormatError with the line for what is no history."""
    found: dict[str, list[Point]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as text:
            rows = csv.DictReader(text)
            for name in ("commit", "value"):
                if name not in (rows.fieldnames or ()):
                    raise MeasurementFormatError(f"{path} has no column {name!r}: a history needs commit and value")
            for row in rows:
                at = f"{path}, line {rows.line_num}"
                if None in row or None in row.values():
                    raise MeasurementFormatError(f"{at}: not as many fields as the first line names")
                method = {name: row[name] for name in METHOD if row.get(name)}
                point = Point(row["commit"], _value(row["value"], at), method, row.get("cubin", ""))
                found.setdefault(row.get("series") or path.stem, []).append(point)
    except (UnicodeDecodeError, csv.Error) as error:
        raise MeasurementFormatError(f"{path} is no CSV text: {error}") from error
    groups = (path.stem,) if measured else ()
    return [History(name, tuple(points), measured, unit, groups) for name, points in found.items()]


def _value(text: str, at: str) -> float:
    if not text.strip():
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise MeasurementFormatError(f"{at}: the value {text[:40]!r} is not a finite number")
    return value
