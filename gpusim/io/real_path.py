"""Where a path leads, whatever stands there, and whether it is text."""

from __future__ import annotations

import os
from pathlib import Path

from gpusim.errors import UsageError


def real_path(path: str | os.PathLike[str]) -> Path:
    """``path`` in full and without links, one whose links go round in a circle with them: whoever opens it is told so
    by the system. (``Path.resolve`` raises RuntimeError there before Python 3.13.)"""
    return Path(os.path.realpath(path))


def refuse_no_text(path: Path) -> None:
    """Raises UsageError for a path that is no text: Linux takes any bytes for one, but what is written of it later
    (machine code with source lines, traces, stores) does not."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{path}: its name is not text in UTF-8, which what is kept of it must be: rename it"
        ) from None
