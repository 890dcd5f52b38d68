"""Whether a file can be written where an option says, asked before the work and not after it."""

from __future__ import annotations

import os
from pathlib import Path

from gpusim.errors import UsageError
from gpusim.io.real_path import real_path


def refuse_no_place(*outputs: Path | None) -> None:
    """Raises UsageError for the first of ``outputs`` that is a folder, or in none; None is no output."""
    for path in outputs:
        if path is None:
            continue
        if os.path.isdir(path):
            raise UsageError(f"{path} is a folder: name the file to write")
        if not real_path(path).parent.is_dir():
            raise UsageError(f"there is no folder {path.parent} to write {path.name} into")
