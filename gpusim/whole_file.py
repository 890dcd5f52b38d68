"""Writing a file whole or not at all.

Mental model: the bytes go to a temporary file beside the target, which then takes the target's name: whoever
looks sees the old file or the new one, and nothing half-written is ever left.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``. Raises OSError from the file system; then ``path`` is as it was."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
