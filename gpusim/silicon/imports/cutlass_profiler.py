"""What ``cutlass_profiler`` writes with ``--output``, or prints at its end, as rows: one a problem and operation.

Mental model: the header names pivot tags, ``Problem,Provider,OperationKind,Operation,Disposition,Status``, the
operation's arguments, then ``Bytes,Flops,Flops/Byte,Runtime,GB/s,GFLOPs``; a line is one launch that was repeated, its
runtime the mean in milliseconds. Before the header stand the profiler's own lines, which are skipped. What did not run,
or came out wrong, is left out: its runtime means nothing. Device, clocks and number of repeats are not in the file.
Format: NVIDIA/cutlass, tools/profiler/src/performance_report.cpp.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path

from gpusim.errors import MeasurementFormatError
from gpusim.io.shown import shown
from gpusim.silicon.imports.importer import head_text, read_text
from gpusim.silicon.row import Estimate, SiliconRow

description = "CSV of cutlass_profiler"
_FIRST = ("Problem", "Provider", "OperationKind", "Operation", "Disposition", "Status")
RUNTIME, OPERATION, DISPOSITION, PROVIDER = "Runtime", "Operation", "Disposition", "Provider"
_MARK = "Problem,Provider,"
#: Where the arguments of the operation end.
_RESULTS = "Bytes"
_RAN = ("passed", "not_verified")
MAX_ROWS = 1_000_000
MAX_CELL_CHARACTERS = 1 << 20


def recognises(path: Path, head: bytes) -> bool:
    """Whether the header is among the file's first bytes."""
    return b"\0" not in head and _header_start(head_text(head)) is not None


def read(path: Path) -> list[SiliconRow]:
    """Rows of the table in the file."""
    return parse(read_text(path), str(path))


def parse(text: str, source: str) -> list[SiliconRow]:
    """Rows of the table in ``text``; ``source`` names it in errors and rows. Raises MeasurementFormatError with the
    line."""
    start = _header_start(text)
    if start is None:
        raise MeasurementFormatError(
            f"{source}: no line begins the columns {', '.join(_FIRST[:2])}: no table of cutlass_profiler"
        )
    first_line = text.count("\n", 0, start) + 1
    lines = _lines(text[start:], source, first_line)
    _, header = next(lines)
    if lacking := [name for name in (*_FIRST, RUNTIME) if name not in header]:
        raise MeasurementFormatError(f"{source}, line {first_line}: no column '{lacking[0]}'")
    if len(set(header)) != len(header):
        raise MeasurementFormatError(f"{source}, line {first_line}: two columns have the same name")
    begin, end = header.index(_FIRST[-1]) + 1, header.index(_RESULTS) if _RESULTS in header else header.index(RUNTIME)
    rows = []
    for line, cells in lines:
        if cells[: len(header)] == header or len(cells) == 1:  # a second table, or a line of the profiler
            continue
        if len(cells) != len(header):
            raise MeasurementFormatError(f"{source}, line {line}: {len(cells)} cells, the header has {len(header)}")
        if len(rows) >= MAX_ROWS:
            raise MeasurementFormatError(f"{source}, line {line}: more than {MAX_ROWS} rows are refused")
        row = _row(header, cells, header[begin:end], source, line)
        if row is not None:
            rows.append(row)
    return rows


def _row(header: list[str], cells: list[str], arguments: list[str], source: str, line: int) -> SiliconRow | None:
    values = dict(zip(header, (cell.strip() for cell in cells), strict=True))
    if values[DISPOSITION] not in _RAN:
        return None
    place = f"{source}, line {line}"
    try:
        microseconds = 1e3 * float(values[RUNTIME])
    except ValueError:
        microseconds = math.nan
    if not 0 <= microseconds < math.inf:
        raise MeasurementFormatError(f"{place}: {RUNTIME} is {shown(values[RUNTIME])}, not a number of milliseconds")
    if not values[OPERATION]:
        raise MeasurementFormatError(f"{place}: the operation has no name")
    return SiliconRow(
        kernel=values[OPERATION],
        shape=",".join(f"{name}={values[name]}" for name in arguments if values[name]),
        toolchain=values[PROVIDER],
        time_us=Estimate(microseconds, microseconds, microseconds),
        source=source,
    )


def _header_start(text: str) -> int | None:
    """Where the line that names the columns begins; tags may stand before them in it."""
    at = text.find(_MARK)
    while at >= 0:
        start = text.rfind("\n", 0, at) + 1
        if at == start or text[at - 1] == ",":
            return start
        end = text.find("\n", at)
        at = text.find(_MARK, end) if end >= 0 else -1
    return None


def _lines(text: str, source: str, first_line: int) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(MAX_CELL_CHARACTERS)
    reader = csv.reader(io.StringIO(text, newline=""))
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise MeasurementFormatError(f"{source}, line {first_line + reader.line_num - 1}: {error}") from None
        if any(cell.strip() for cell in cells):
            yield first_line + reader.line_num - 1, cells
