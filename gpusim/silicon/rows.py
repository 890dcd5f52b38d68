"""Files of measured rows: one JSON line a row, added to one at a time.

Mental model: a file of rows only grows, by whole lines; each line is written by one call and reaches the disk before
the next measurement begins, so a run that is killed loses at most the row that it was writing. Such a torn last line is
left out when the file is read, and cut off before it is added to.

Raises MeasurementFormatError, naming file and line, for anything else that is not a row.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from gpusim.errors import MeasurementFormatError
from gpusim.io.whole_file import naming_file
from gpusim.silicon.row import SiliconRow

MAX_FILE_BYTES = 1 << 30
MAX_LINE_BYTES = 64 << 20


def append_rows(path: Path, rows: Iterable[SiliconRow]) -> int:
    """Add ``rows`` to the file at ``path`` (made if there is none), each on disk before the next; how many."""
    count = 0
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        with naming_file(path):
            _cut_torn_line(handle)
            for row in rows:
                line = row.to_json().encode() + b"\n"
                written = 0
                while written < len(line):
                    written += os.write(handle, line[written:])
                os.fsync(handle)
                count += 1
    except OSError:
        with contextlib.suppress(OSError):
            _cut_torn_line(handle)
        raise
    finally:
        os.close(handle)
    return count


def _cut_torn_line(handle: int) -> None:
    end = os.lseek(handle, 0, os.SEEK_END)
    if not end or os.pread(handle, 1, end - 1) == b"\n":
        return
    tail = os.pread(handle, min(end, MAX_LINE_BYTES), max(0, end - MAX_LINE_BYTES))
    os.ftruncate(handle, max(0, end - MAX_LINE_BYTES) + tail.rfind(b"\n") + 1)


def read_rows_file(path: Path) -> list[SiliconRow]:
    """The rows of a file that :func:`append_rows` made."""
    if path.stat().st_size > MAX_FILE_BYTES:
        raise MeasurementFormatError(f"{path}: {path.stat().st_size} bytes, more than {MAX_FILE_BYTES} are refused")
    rows = []
    with path.open("rb") as stream:
        for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b""), start=1):
            if len(line) > MAX_LINE_BYTES:
                raise MeasurementFormatError(f"{path}, line {number}: longer than {MAX_LINE_BYTES} bytes")
            if not line.endswith(b"\n"):
                try:  # whole but for its newline, or torn
                    rows.append(SiliconRow.from_json(line))
                except MeasurementFormatError:
                    if number == 1:
                        raise MeasurementFormatError(f"{path}: not a file of measured rows") from None
                break
            if not line.strip():
                continue
            try:
                rows.append(SiliconRow.from_json(line))
            except MeasurementFormatError as error:
                raise MeasurementFormatError(f"{path}, line {number}: {error}") from None
    return rows
