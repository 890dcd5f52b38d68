"""Where gpusim keeps what it can make again: disassemblies, the libraries that programs load."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "GPUSIM_CACHE_DIR"


def cache_folder() -> Path | None:
    """Where disassemblies are kept: ``GPUSIM_CACHE_DIR`` (empty: nowhere) or the user's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    if named is not None:
        return Path(named) if named else None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "gpusim"
