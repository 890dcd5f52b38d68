"""Rows that were recorded on real GPUs and ship with the package, under ``traces/silicon``.

Mental model: a folder a GPU, each with a manifest that names its files of rows (JSON lines) with their sha256 and
number of rows; a file that differs from what its manifest says is refused. No folder, no rows: that is an empty list,
not an error.

Raises MeasurementFormatError for a damaged manifest or file.
"""

from __future__ import annotations

import hashlib
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypedDict

from gpusim.errors import MeasurementFormatError
from gpusim.io.records import parse_record
from gpusim.io.sibling import traces_folder
from gpusim.silicon.row import SiliconRow

MANIFEST = "manifest.json"


class _File(TypedDict):
    """A file of rows."""

    file: str
    sha256: str
    rows: int


class _Manifest(TypedDict):
    """The files of a folder."""

    files: list[_File]


def recorded_folder() -> Traversable:
    """The folder of the recorded rows: inside the installed package, or at the top of a checkout."""
    return traces_folder("silicon")


def load_recorded(folder: Traversable | None = None) -> list[SiliconRow]:
    """Every recorded row of every GPU, in the order of the folders' names."""
    folder = recorded_folder() if folder is None else folder
    if not folder.is_dir():
        return []
    rows = []
    for part in sorted((p for p in folder.iterdir() if p.is_dir()), key=lambda p: p.name):
        if (part / MANIFEST).is_file():
            rows += _read_folder(part)
    return rows


def _read_folder(folder: Traversable) -> list[SiliconRow]:
    try:
        manifest = (folder / MANIFEST).read_bytes()
    except OSError as error:
        raise MeasurementFormatError(f"{folder}/{MANIFEST} cannot be read: {error}") from None
    files = parse_record(_Manifest, manifest, f"{folder}/{MANIFEST} cannot be read", MeasurementFormatError)["files"]
    rows: list[SiliconRow] = []
    for entry in files:
        name, count = entry["file"], entry["rows"]
        if Path(name).name != name:
            raise MeasurementFormatError(f"{folder}/{MANIFEST} names a file outside its folder: {name}")
        try:
            data = (folder / name).read_bytes()
        except (OSError, ValueError) as error:  # no file system takes a name with a zero byte
            why = error.strerror if isinstance(error, OSError) else error
            raise MeasurementFormatError(f"{folder}/{name}, which {MANIFEST} names, cannot be read: {why}") from None
        if hashlib.sha256(data).hexdigest() != entry["sha256"]:
            raise MeasurementFormatError(f"{folder}/{name} is not the file that {MANIFEST} names: its sha256 differs")
        read = []
        for number, line in enumerate(data.split(b"\n"), start=1):
            try:
                read += [SiliconRow.from_json(line)] if line.strip() else []
            except MeasurementFormatError as error:
                raise MeasurementFormatError(f"{folder}/{name}, line {number}: {error}") from None
        if len(read) != count:
            raise MeasurementFormatError(f"{folder}/{name} has {len(read)} rows, {MANIFEST} says {count}")
        rows += read
    return rows
