"""Adding a line to a file whole or not at all.

Mental model: the file is opened to append, and this process alone writes to it; what a full disk took of a line would
be in the next one's way, so it is cut off again.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gpusim.io.whole_file import naming_file


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
