"""A folder for what a command needs while it runs, among the system's temporary ones.

Mental model: it goes with the block, and where its process is killed with the next folder for the same ``work``: its
name says whose it is (:mod:`gpusim.io.owned_names`).
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpusim.io.owned_names import owned_path


@contextlib.contextmanager
def temporary_folder(work: str) -> Iterator[Path]:
    """A new folder that only this user may read."""
    folder = owned_path(Path(tempfile.gettempdir(), f"gpusim-{work}"))
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
