"""What ``ncu --csv`` prints, as rows: both its pages, under any locale.

Mental model: before the table stand lines of the profiler (``==PROF==``) and of the program, which are skipped until
the header that names a column "Kernel Name". Page "raw" then has one column a metric, a first line that holds only
units, and one line a launch; page "details" has one line a metric ("Metric Name", "Metric Unit", "Metric Value"),
joined by "ID". Format: Nsight Compute CLI manual, "Output Pages"; units are scaled to base units, as ``--print-units
base`` would.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

from gpusim.errors import MeasurementFormatError
from gpusim.silicon.imports.importer import head_text, read_text
from gpusim.silicon.imports.numbers import base_factor, decimal_mark, number
from gpusim.silicon.imports.profile import Profile, named_rows
from gpusim.silicon.row import SiliconRow

description = "what ncu --csv prints"
KERNEL, IDENTITY, BLOCK, GRID = "Kernel Name", "ID", "Block Size", "Grid Size"
DEVICE_NAME = "device__attribute_display_name"
METRIC, UNIT, VALUE = "Metric Name", "Metric Unit", "Metric Value"
#: Columns that describe the launch rather than measure it.
_FACTS = {
    IDENTITY, "Process ID", "Process Name", "Host Name", KERNEL, "Kernel Time", "Context", "Stream", BLOCK, GRID, "Device",
    "CC", "Section Name", METRIC, UNIT, VALUE, "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type",
    "Estimated Speedup",
}  # fmt: skip
MAX_COLUMNS = 20_000
MAX_ROWS = 1_000_000
MAX_CELL_CHARACTERS = 1 << 20
#: Characters of a line within which its first column is looked for.
_MOST_INDENT = 200
_DIMENSIONS = re.compile(r"^\(?\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)?$")


def recognises(path: Path, head: bytes) -> bool:
    """Whether the header is among the file's first bytes."""
    return b"\0" not in head and looks_like(head_text(head))


def read(path: Path) -> list[SiliconRow]:
    """Rows of the table in the file."""
    return parse(read_text(path), str(path))


def looks_like(text: str) -> bool:
    """Whether a header with a column "Kernel Name" is in the text."""
    return _header_start(text) is not None


def parse(text: str, source: str) -> list[SiliconRow]:
    """Rows of the table in ``text``; ``source`` names it in errors and rows. Raises MeasurementFormatError."""
    start = _header_start(text)
    if start is None:
        raise MeasurementFormatError(f"{source}: no line names a column '{KERNEL}': print it with ncu --csv --page raw")
    first_line = text.count("\n", 0, start) + 1
    csv.field_size_limit(MAX_CELL_CHARACTERS)
    lines = _lines(text[start:], source, first_line)
    _, header = next(lines)
    if len(header) > MAX_COLUMNS or len(set(header)) != len(header):
        raise MeasurementFormatError(
            f"{source}, line {first_line}: {len(header)} columns, too many or with the same name"
        )
    needed = (KERNEL, *((VALUE,) if METRIC in header else ()))
    if lacking := [name for name in needed if name not in header]:
        raise MeasurementFormatError(
            f"{source}, line {first_line}: no column '{lacking[0]}': print the table again with ncu --csv --page raw"
        )
    table = []
    for line, cells in lines:
        if len(cells) != len(header):
            if len(cells) == 1 or cells[0].startswith("=="):  # a line of the profiler or the program
                continue
            raise MeasurementFormatError(f"{source}, line {line}: {len(cells)} cells, the header has {len(header)}")
        table.append((line, dict(zip(header, cells, strict=True))))
        if len(table) > MAX_ROWS:
            raise MeasurementFormatError(f"{source}, line {line}: more than {MAX_ROWS} rows are refused")
    try:
        profiles = _details(table, source) if METRIC in header else _raw(header, table, source)
    except MeasurementFormatError as error:
        raise MeasurementFormatError(str(error) if source in str(error) else f"{source}: {error}") from None
    return named_rows(profiles, source)


def _header_start(text: str) -> int | None:
    at = 0
    while (at := text.find(KERNEL, at)) >= 0:
        start = text.rfind("\n", 0, at) + 1
        if (
            text[start : min(at, start + _MOST_INDENT)]
            .lstrip()
            .startswith((f'"{IDENTITY}"', IDENTITY + ",", IDENTITY + ";"))
        ):
            return start
        at = text.find("\n", at)  # a line may name it a million times
        if at < 0:
            return None
    return None


def _lines(text: str, source: str, first_line: int) -> Iterator[tuple[int, list[str]]]:
    end = text.find("\n")
    header = text if end < 0 else text[:end]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=header.count))
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise MeasurementFormatError(f"{source}, line {first_line + reader.line_num - 1}: {error}") from None
        if cells:
            yield first_line + reader.line_num - 1, cells


def _raw(header: list[str], table: list[tuple[int, dict[str, str]]], source: str) -> list[Profile]:
    units: dict[str, str] = {}
    if table and not table[0][1].get(IDENTITY, "").strip():
        units, table = table[0][1], table[1:]
    metrics = [name for name in header if name not in _FACTS]
    mark = decimal_mark(row[name] for _, row in table for name in metrics)
    profiles = []
    for line, row in table:
        profile = _profile(row, source, line)
        profile.device_name = row.get(DEVICE_NAME, "")
        for name in metrics:
            value = number(row[name], mark)
            if value is not None and name != DEVICE_NAME:
                profile.metrics[name] = value * base_factor(units.get(name, ""))
        profiles.append(profile)
    return profiles


def _details(table: list[tuple[int, dict[str, str]]], source: str) -> list[Profile]:
    mark = decimal_mark(row[VALUE] for _, row in table)
    profiles: dict[tuple[str, str], Profile] = {}
    for line, row in table:
        key = row.get("Process ID", ""), row.get(IDENTITY, "")
        if key not in profiles:
            profiles[key] = _profile(row, source, line)
        name = row[METRIC].strip()
        value = number(row[VALUE], mark)
        if name == DEVICE_NAME:
            profiles[key].device_name = row[VALUE]
        elif name and value is not None:
            # A name may stand in several sections; the first is the one that defines it.
            profiles[key].metrics.setdefault(name, value * base_factor(row.get(UNIT, "")))
    return list(profiles.values())


def _profile(row: dict[str, str], source: str, line: int) -> Profile:
    kernel = row[KERNEL].strip()
    if not kernel:
        raise MeasurementFormatError(f"{source}, line {line}: the kernel has no name")
    return Profile(kernel, grid=_dimensions(row.get(GRID, "")), block=_dimensions(row.get(BLOCK, "")))


def _dimensions(text: str) -> tuple[int, int, int] | None:
    found = _DIMENSIONS.match(text.strip())
    return (int(found[1]), int(found[2]), int(found[3])) if found else None
