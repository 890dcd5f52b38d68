"""Adding a line to a file whole or not at all.

Mental model: the file is opened to append, and this process alone writes to it; what a full disk took of a line would
be in the next one's way, so it is cut off again.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gpusim.errors import UsageError
from gpusim.io.whole_file import naming_file


def add_line(path: Path, line: str) -> None:
    """Add ``line`` to the file that ``path`` names, made if there is none, or nothing. Raises UsageError for a place
    where no file can be, and OSError that names the file where the disk has no room."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    try:
        append_line(file, path, line)
    finally:
        os.close(file)


def append_line(file: int, path: Path, line: str) -> None:
    """Add ``line`` and its end to the open ``file``, or nothing. Raises OSError that names ``path``."""
    data = f"{line}\n".encode()
    end = os.fstat(file).st_size
    try:
        with naming_file(path):
            while data:
                data = data[os.write(file, data) :]
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(file, end)
        raise
