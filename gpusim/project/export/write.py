"""A folder of exported tables, each file written whole or not at all."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpusim.errors import UsageError
from gpusim.io.whole_file import write_whole


def write_tables(folder: Path, tables: Iterable[tuple[str, list[dict[str, Any]]]]) -> list[tuple[str, int]]:
    """Names and numbers of rows. Raises UsageError for a folder that cannot be made, and OSError that names the file
    where the disk has no room."""
    made = list(tables)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: {error.strerror or error}") from error
    for name, rows in made:
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_whole(folder / name, text.getvalue().encode())
    return [(name, len(rows)) for name, rows in made]
