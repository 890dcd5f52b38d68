"""The folder that ``gpusim run --record`` keeps traces in."""

from __future__ import annotations

from pathlib import Path

from gpusim.errors import UsageError

INDEX = "index.json"
_TRACE_PATTERN = "[0-9]*.trace"


def open_folder(path: Path, force: bool) -> Path:
    """Make or check the folder of a recording; raises UsageError for one with something in it."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"--record {path}: it is a file, give a folder")
    if path.is_dir() and any(path.iterdir()):
        if not force:
            raise UsageError(
                f"--record {path}: the folder is not empty; give another one, or --force to replace its traces"
            )
        for old in (*path.glob(_TRACE_PATTERN), path / INDEX):
            old.unlink(missing_ok=True)
    path.mkdir(parents=True, exist_ok=True)
    return path
