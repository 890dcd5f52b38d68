"""Where a path leads, whatever stands there."""

from __future__ import annotations

import os
from pathlib import Path


def real_path(path: str | os.PathLike[str]) -> Path:
    """``path`` in full and without links, one whose links go round in a circle with them: whoever opens it is told so by the system.
    (``Path.resolve`` raises RuntimeError there before Python 3.13.)"""
    return Path(os.path.realpath(path))
