"""Measurements that others published, as one list of values with their provenance.

Mental model: a :class:`PublishedPoint` is one number that a real GPU produced: which GPU, which series
(a kernel and what was measured of it), the point of its axes, unit and value. The tables and the
manifest that says where they come from (repository, commit, date, clocks, method) ship with the
package in ``gpusim.traces``; every table is compared with the manifest's sha256 before use.

Raises :class:`UsageError` for a damaged or undeclared table.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NotRequired, TypedDict

from gpusim.errors import UsageError
from gpusim.io.records import parse_record
from gpusim.io.sibling import traces_folder

MANIFEST = "manifest.json"
#: Columns of a table that are not axes of the point.
FIXED = ("gpu", "series", "unit", "value")


@dataclass(frozen=True)
class Provenance:
    """Where a table's figures come from, and how they were measured."""

    repository: str
    commit: str
    date: str
    method: str


@dataclass(frozen=True)
class PublishedPoint:
    """One measured value. ``axes`` maps axis name to int, float or str, in the table's order. ``fitted``: the GPU's
    description was set from this series, so that an error says how well the model can follow it; else it is held out.
    ``board``: settings of the description in which the measured board differed from it."""

    gpu: str
    series: str
    axes: tuple[tuple[str, int | float | str], ...]
    unit: str
    value: float
    sm_clock_mhz: float
    source: Provenance
    fitted: bool = True
    board: tuple[str, ...] = ()

    @property
    def point(self) -> str:
        """The point as text, e.g. ``block_threads=256 blocks_per_sm=2``."""
        return " ".join(f"{name}={value}" for name, value in self.axes)

    def axis(self, name: str) -> int | float | str:
        """The value of one axis; KeyError if the series has no such axis."""
        return dict(self.axes)[name]


class _SourceEntry(TypedDict):
    repository: str
    commit: str
    date: str


class _Gpu(TypedDict):
    """What a table says of a GPU; ``commit`` where its figures come from another one than the table's; ``board``:
    settings of the description in which the measured board differed from it, as they were found in the figures
    (``remark``)."""

    sm_clock_mhz: int | float
    fitted: list[str]
    commit: NotRequired[str]
    board: NotRequired[list[str]]


class _Table(TypedDict):
    file: str
    rows: int
    sha256: str
    method: str
    source: _SourceEntry
    gpus: dict[str, _Gpu]


class _Manifest(TypedDict):
    """The tables, each a CSV file beside the manifest."""

    tables: list[_Table]


def published_folder() -> Traversable:
    """The folder of the tables: inside the installed package, or at the top of a checkout."""
    return traces_folder("published")


def load_published(folder: Traversable | None = None) -> list[PublishedPoint]:
    """Every published measurement, in the order of the manifest and its tables."""
    folder = published_folder() if folder is None else folder
    try:
        data = (folder / MANIFEST).read_bytes()
        manifest = parse_record(_Manifest, data, f"{folder}/{MANIFEST} cannot be read", UsageError)
        return [m for table in manifest["tables"] for m in _read_table(folder, table)]
    except (OSError, ValueError) as error:
        raise UsageError(f"published measurements in {folder} ({MANIFEST}) cannot be read: {error}") from None


def _read_table(folder: Traversable, table: _Table) -> list[PublishedPoint]:
    name = table["file"]
    if Path(name).name != name:
        raise UsageError(f"{folder}/{MANIFEST} names a file outside its folder: {name!r:.80}")
    data = (folder / name).read_bytes()
    if hashlib.sha256(data).hexdigest() != table["sha256"]:
        raise UsageError(f"{folder}/{name} is not the table that {MANIFEST} names: its sha256 differs")
    # A GPU's own figures may come from another commit than the table's.
    sources = {
        gpu: Provenance(
            table["source"]["repository"],
            entry.get("commit", table["source"]["commit"]),
            table["source"]["date"],
            method=table["method"],
        )
        for gpu, entry in table["gpus"].items()
    }
    measurements = []
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8")))
    except UnicodeDecodeError as error:
        raise UsageError(f"{folder}/{name} is no text: {error}") from None
    try:
        if lacking := [column for column in FIXED if column not in (reader.fieldnames or ())]:
            raise ValueError(f"no column {lacking[0]!r}")
        for row in reader:
            measurements.append(_point(row, table, sources))
    except (csv.Error, ValueError) as error:
        raise UsageError(f"{folder}/{name}, line {reader.line_num}: {error}") from None
    if len(measurements) != table["rows"]:
        raise UsageError(f"{folder}/{name} has {len(measurements)} rows, {MANIFEST} says {table['rows']}")
    return measurements


def _point(row: dict[str, str], table: _Table, sources: dict[str, Provenance]) -> PublishedPoint:
    """The point of a table's row. Raises ValueError."""
    if None in row or None in row.values():
        raise ValueError("not as many cells as the header has")
    if row["gpu"] not in sources:
        raise ValueError(f"the GPU {row['gpu']!r:.80} is none that {MANIFEST} names")
    # A kernel that has no such axis leaves the cell empty.
    axes = tuple((key, _axis(text)) for key, text in row.items() if key not in FIXED and text)
    entry = table["gpus"][row["gpu"]]
    value = float(row["value"])
    if not math.isfinite(value):
        raise ValueError(f"the value {row['value']!r:.80} is not finite")
    return PublishedPoint(
        row["gpu"],
        row["series"],
        axes,
        row["unit"],
        value,
        entry["sm_clock_mhz"],
        sources[row["gpu"]],
        row["series"].removesuffix("_data_wavefronts").removesuffix("_tag_wavefronts") in entry["fitted"],
        tuple(entry.get("board", ())),
    )


def _axis(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
