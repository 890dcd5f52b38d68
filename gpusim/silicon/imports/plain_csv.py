"""A table of one's own, as rows: any CSV whose header has a column ``kernel``.

Mental model: columns bear the names of a row's fields and may stand in any order; only ``kernel`` and one of ``cycles``
and ``time_us`` are needed. The shape may also stand behind the kernel, as a launch is printed (``saxpy:n=64``), and gpu
is what ``--gpu`` takes. Separated by comma, semicolon or tab; decimal comma or point, whichever the file uses.

| column | holds |
|---|---|
| kernel, shape, cubin_hash, gpu, device_name, driver, toolchain, date | text; shape as ``m=64,n=128`` |
| launch, n | whole numbers; n: how many samples, no axis of the shape |
| grid, block | one to three whole numbers: ``128``, ``16x8``, ``16x8x1`` |
| sm_clock_mhz, memory_clock_mhz | numbers |
| cache | ``cold``, ``warm`` or empty |
| cycles, time_us | medians; ``_low`` and ``_high`` added to either name hold its interval |
| samples_us | raw samples, separated by spaces; the median is theirs if ``time_us`` is empty |
| samples_mhz | the SM clock read beside each of them |
| flags | words, separated by spaces |
| a name with ``__`` in it | that counter, by Nsight Compute's name |
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

from gpusim.errors import MeasurementFormatError
from gpusim.silicon.estimate import median_estimate
from gpusim.silicon.imports.importer import head_text, read_text
from gpusim.silicon.imports.numbers import decimal_mark, number
from gpusim.silicon.names import gpu_called, gpu_of_device
from gpusim.silicon.row import Estimate, SiliconRow

description = "CSV with a column kernel"
_TEXT = ("kernel", "shape", "cubin_hash", "gpu", "device_name", "driver", "toolchain", "cache", "date")
_WHOLE = ("launch", "n")
_NUMBERS = ("sm_clock_mhz", "memory_clock_mhz")
_ESTIMATES = ("cycles", "time_us")
_BOUNDS = tuple(f"{name}_{end}" for name in _ESTIMATES for end in ("low", "high"))
_OTHER = ("grid", "block", "samples_us", "samples_mhz", "flags")
COLUMNS = (*_TEXT, *_WHOLE, *_NUMBERS, *_ESTIMATES, *_BOUNDS, *_OTHER)
MAX_ROWS = 1_000_000
MAX_CELL_CHARACTERS = 16 << 20
#: A launch as it is printed, ``my.py:case:n=64``: the kernel, and the axes behind a colon. No ``A::operator=``.
_PRINTED = re.compile(r"(.*?[^:]):(?!:)([A-Za-z_]\w*=.*)", re.DOTALL)
_SHAPE = re.compile(r"^\(?(\d{1,10})(?:[x, ]+(\d{1,10}))?(?:[x, ]+(\d{1,10}))?\)?$")


def recognises(path: Path, head: bytes) -> bool:
    """Whether the first line is a header of these columns alone, with ``kernel`` among them."""
    first = head_text(head).split("\n", 1)[0]
    names = [name.strip().strip('"') for name in first.split(max(",;\t", key=first.count))]
    return "kernel" in names and all(name in COLUMNS or "__" in name for name in names)


def read(path: Path) -> list[SiliconRow]:
    """Rows of the table in the file."""
    return parse(read_text(path), str(path))


def parse(text: str, source: str) -> list[SiliconRow]:
    """Rows of the table in ``text``; ``source`` names it. Raises MeasurementFormatError with the line."""
    csv.field_size_limit(MAX_CELL_CHARACTERS)
    first = text.split("\n", 1)[0]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(header, source)
        table = []
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise MeasurementFormatError(
                    f"{source}, line {reader.line_num}: {len(cells)} cells, the header has {len(header)}"
                )
            table.append((reader.line_num, dict(zip(header, cells, strict=True))))
            if len(table) > MAX_ROWS:
                raise MeasurementFormatError(f"{source}: more than {MAX_ROWS} rows are refused")
    except csv.Error as error:
        raise MeasurementFormatError(f"{source}, line {reader.line_num}: {error}") from None
    numeric = [name for name in header if name in (*_NUMBERS, *_ESTIMATES, *_BOUNDS) or "__" in name]
    try:
        mark = decimal_mark(row[name] for _, row in table for name in numeric)
    except MeasurementFormatError as error:
        raise MeasurementFormatError(f"{source}: {error}") from None
    rows: list[SiliconRow] = []
    counts: dict[tuple, int] = {}
    for line, row in table:
        try:
            rows.append(_row({name: cell.strip() for name, cell in row.items()}, mark, source))
            _refuse_axis(rows[-1], counts)
        except MeasurementFormatError as error:
            raise MeasurementFormatError(f"{source}, line {line}: {error}") from None
    return rows


def _refuse_axis(row: SiliconRow, counts: dict[tuple, int]) -> None:
    """Refuse rows of one launch that n alone tells apart: it was meant as an axis, and both would be taken for the
    default shape."""
    if row.shape or row.samples_us or row.cubin_hash:
        return
    launch = (
        row.kernel,
        row.launch,
        row.grid,
        row.block,
        row.gpu,
        row.device_name,
        row.driver,
        row.toolchain,
        row.cache,
    )
    if counts.setdefault(launch, row.n) != row.n:
        raise MeasurementFormatError(
            f"only n = {row.n} tells this row from one with n = {counts[launch]}, and n is the number of samples: an axis n of the"
            f" shape goes into the column shape, as n={row.n}"
        )


def _check_header(header: list[str], source: str) -> None:
    if "kernel" not in header:
        raise MeasurementFormatError(
            f"{source}, line 1: no column 'kernel', and no table of ncu --csv or nvbench: known columns are {', '.join(COLUMNS)}"
        )
    # A quoted cell may hold a line break; no counter is called so.
    unknown = [name for name in header if name not in COLUMNS and ("__" not in name or not name.isprintable())]
    if unknown or len(set(header)) != len(header):
        what = f"unknown column {unknown[0]!r}" if unknown else "a column stands twice"
        raise MeasurementFormatError(
            f"{source}, line 1: {what}: known are {', '.join(COLUMNS)} and counters by name; an axis goes into shape, as m=64,n=128"
        )


def _row(row: dict[str, str], mark: str, source: str) -> SiliconRow:
    values: dict[str, Any] = {name: row[name] for name in _TEXT if row.get(name)}
    if "kernel" not in values:
        raise MeasurementFormatError("the kernel has no name")
    if "shape" not in values and (printed := _PRINTED.match(values["kernel"])):
        values["kernel"], values["shape"] = printed.groups()
    if "gpu" in values:
        values["gpu"] = gpu_called(values["gpu"])
    values |= {name: _whole(name, row[name]) for name in _WHOLE if row.get(name)}
    values |= {name: _number(name, row[name], mark) for name in _NUMBERS if row.get(name)}
    values |= {name: _dimensions(name, row[name]) for name in ("grid", "block") if row.get(name)}
    samples = tuple(_number("samples_us", text, mark) for text in row.get("samples_us", "").split())
    clocks = tuple(_number("samples_mhz", text, mark) for text in row.get("samples_mhz", "").split())
    for name in _ESTIMATES:
        values[name] = _estimate(row, name, mark)
    if values["time_us"] is None and samples:
        values["time_us"] = median_estimate(samples)
    if values["time_us"] is None and values["cycles"] is None:
        raise MeasurementFormatError("neither cycles nor time_us is given")
    if values.get("device_name") and "gpu" not in values:
        values["gpu"] = gpu_of_device(values["device_name"])
    counters = {name: _number(name, cell, mark) for name, cell in row.items() if "__" in name and cell}
    values.setdefault("n", max(1, len(samples)))
    flags = tuple(row.get("flags", "").split())
    return SiliconRow(**values, samples_us=samples, samples_mhz=clocks, counters=counters, flags=flags, source=source)


def _estimate(row: dict[str, str], name: str, mark: str) -> Estimate | None:
    if not row.get(name):
        return None
    median = _number(name, row[name], mark)
    low, high = (row.get(f"{name}_{end}") for end in ("low", "high"))
    return Estimate(
        median,
        _number(f"{name}_low", low, mark) if low else median,
        _number(f"{name}_high", high, mark) if high else median,
    )


def _number(name: str, cell: str, mark: str) -> float:
    value = number(cell, mark)
    if value is None:
        raise MeasurementFormatError(f"{name} is {cell[:40]!r}, not a number")
    return value


def _whole(name: str, cell: str) -> int:
    if not re.fullmatch(r"\d{1,12}", cell):
        raise MeasurementFormatError(f"{name} is {cell[:40]!r}, not a whole number")
    return int(cell)


def _dimensions(name: str, cell: str) -> tuple[int, int, int]:
    found = _SHAPE.match(cell)
    if not found:
        raise MeasurementFormatError(f"{name} is {cell[:40]!r}: write 128, 16x8 or 16x8x1")
    return tuple(int(part or 1) for part in found.groups())
