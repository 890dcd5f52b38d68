"""One process at a time: a lock that is a file for as long as somebody holds it.

Mental model: ``flock`` on a file that is there only while it is held. Whoever ends removes it *before* letting go;
whoever has got the lock looks whether the name still stands for the file that was opened, and opens it anew where it
does not. So none holds a file that another has removed, and a process that was killed leaves at most an empty file,
which the next one to take the same lock removes.

Source: flock(2): the lock belongs to the open file, and ends with it however the process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from gpusim.io.cache_folder import cache_folder

#: How often, and how far apart, a lock that is held is tried again before it counts as held.
TRIES, TRY_SECONDS = 3, 0.01


def lock_folder() -> Path:
    """Where this user's locks lie: in the cache folder, or where nothing is cached in the folder for temporary
    files."""
    cached = cache_folder()
    return cached / "locks" if cached else Path(tempfile.gettempdir()) / f"gpusim-locks-{os.getuid()}"


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[bool]:
    """Whether the lock ``path`` (in a folder that is there) could be had, without waiting for whoever has it; held
    until the block's end. Raises OSError where the file cannot be made."""
    descriptor, tries = _taken(path), 0
    while descriptor is None and tries < TRIES:  # remove_unheld() of another process holds each file for a moment
        time.sleep(TRY_SECONDS)
        descriptor, tries = _taken(path), tries + 1
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            _remove(path, descriptor)


def remove_unheld(folder: Path, pattern: str) -> None:
    """Remove the locks of ``folder`` that nobody holds: what killed processes, and versions that removed none, have
    left."""
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):  # another user's, or gone meanwhile
            descriptor = _taken(path, create=False)
            if descriptor is not None:
                _remove(path, descriptor)


def _taken(path: Path, create: bool = True) -> int | None:
    """The locked file that ``path`` names, opened; None where another holds it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT if create else 0), 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False)):
                    return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        # Its holder has removed it between our opening and our locking: another file, or none, has the name.
        os.close(descriptor)


def _remove(path: Path, descriptor: int) -> None:
    """Remove a lock that is held, then let go of it."""
    with contextlib.suppress(OSError):  # a folder that has become read-only keeps an empty file
        path.unlink(missing_ok=True)
    os.close(descriptor)
