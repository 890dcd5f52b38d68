"""A folder of exported tables, all of them written or none.

Mental model: the tables are written whole into a folder of their own inside of the one that was asked for, and take
their names once the last one is there: a disk that fills up leaves what was there before, and no tables of two exports
beside each other.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpusim.errors import UsageError
from gpusim.io.whole_file import folder_for, write_whole


def write_tables(folder: Path, tables: Iterable[tuple[str, list[dict[str, Any]]]]) -> list[tuple[str, int]]:
    """Names and numbers of rows. Raises UsageError for a folder that cannot be made, and OSError that names the file
    where the disk has no room; then ``folder`` is as it was."""
    made = list(tables)
    was_there = folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: {error.strerror or error}") from error
    try:
        _write(folder, made)
    except BaseException:
        if not was_there:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    return [(name, len(rows)) for name, rows in made]


def _write(folder: Path, tables: list[tuple[str, list[dict[str, Any]]]]) -> None:
    with folder_for(folder / "tables") as staged:
        for name, rows in tables:
            text = io.StringIO()
            writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
            try:
                write_whole(staged / name, text.getvalue().encode())
            except OSError as error:  # name the file that was asked for
                raise type(error)(error.errno, error.strerror, str(folder / name)) from None
        for name, _ in tables:
            os.replace(staged / name, folder / name)
