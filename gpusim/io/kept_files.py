"""Files that save making something again: disassemblies and machine code, by the hash of what they were made from.

Mental model: such a file may vanish or be damaged at any time, which costs its making and nothing else; so it is
written whole but not forced to the disk, and who reads it checks it. A folder of them is bounded: the first time in a
process that one is added, those that were not used for longest go, down to three quarters of the bound.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from gpusim.io.owned_names import owned_path

#: Bytes that a folder holds: some ten thousand kernels. A guess at what nobody minds.
MOST_BYTES = 512 << 20
#: A file's time of change says when it was used, to a day: writing it at each reading would cost more than reading.
_DAY_SECONDS = 86_400.0
_swept: set[Path] = set()


def read_kept(path: Path, most_bytes: int = MOST_BYTES) -> bytes | None:
    """The contents of ``path``, which counts as used now; None where there is none, or more than ``most_bytes``."""
    with contextlib.suppress(OSError):
        about = path.stat()
        if about.st_size > most_bytes:
            return None
        data = path.read_bytes()
        now = time.time()
        if now - about.st_mtime > _DAY_SECONDS:
            with contextlib.suppress(OSError):
                os.utime(path, (now, now))
        return data
    return None


def keep(path: Path, data: bytes) -> None:
    """Keep ``data`` at ``path``; a file system that does not take it is no error."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        name = owned_path(path, ".part")
        try:
            name.write_bytes(data)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                name.unlink()
            raise
        if path.parent not in _swept:
            _swept.add(path.parent)
            sweep(path.parent)


def sweep(folder: Path, most_bytes: int = MOST_BYTES) -> None:
    """Remove the files of ``folder`` that were not used for longest, if all together have more than ``most_bytes``."""
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # another process sweeps too
                if entry.is_file(follow_symlinks=False):
                    about = entry.stat(follow_symlinks=False)
                    files.append((about.st_mtime, about.st_size, entry.path))
    left = sum(size for _, size, _ in files)
    if left <= most_bytes:
        return
    for _, size, path in sorted(files):
        if left <= most_bytes * 3 // 4:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        left -= size
