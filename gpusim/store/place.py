"""Where this user's store of runs is, without what opens it.

Mental model: ``GPUSIM_STORE`` says it: the path of an SQLite file, or a URL; unset, it is ``gpusim/store.sqlite`` in
the user's data folder as the XDG base directory specification has it (``$XDG_DATA_HOME``, else ``~/.local/share``).
"""

from __future__ import annotations

import os
from pathlib import Path

from gpusim.errors import UsageError

VARIABLE = "GPUSIM_STORE"


def default_path() -> Path:
    """The user's own store. Raises UsageError where there is no home folder to put it into."""
    data = os.environ.get("XDG_DATA_HOME", "")
    try:
        # The specification: a relative path there is invalid and to be ignored.
        base = Path(data) if data and Path(data).is_absolute() else Path.home() / ".local" / "share"
    except RuntimeError:
        raise UsageError(f"there is no home folder for the store; set {VARIABLE} to a file's path") from None
    return base / "gpusim" / "store.sqlite"


def store_text(where: str | os.PathLike[str] | None = None) -> str:
    """``where``, else ``GPUSIM_STORE``, else the default: a file's path, absolute, or a URL as it was written."""
    text = os.fspath(where) if where is not None else os.environ.get(VARIABLE) or os.fspath(default_path())
    if "://" in text:
        return text
    if "\0" in text:
        raise UsageError(f"{VARIABLE}={text!r} is no path")
    return os.path.abspath(os.path.expanduser(text))
