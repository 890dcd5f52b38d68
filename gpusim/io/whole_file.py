"""Writing a file whole or not at all.

Mental model: the bytes go to a temporary file beside the target, which then takes the target's name: whoever
looks sees the old file or the new one, and nothing half-written is ever left.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``. Raises OSError from the file system; then ``path`` is as it was."""
    with replacing(path) as stream:
        stream.write(data)


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[io.BufferedWriter]:
    """A stream whose bytes replace ``target`` when the block ends well; else nothing changes. What is no regular file
    (a terminal, ``/dev/null``) is written to as it stands."""
    if is_special(target):
        try:
            with target.open("wb") as stream:
                yield stream
        except OSError as error:
            _name_file(error, target)
            raise
        return
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:  # name the file that was asked for, not the temporary one
        raise type(error)(error.errno, error.strerror, str(target)) from None
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp makes the file private; the file gets the permissions that open() would have given.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(name)
        _name_file(error, target)
        raise


def _name_file(error: BaseException, target: Path) -> None:
    """A write that fails (a full disk) does not say to which file: say it."""
    if isinstance(error, OSError) and error.filename in (None, error.errno):
        error.filename = str(target)


def is_special(target: Path) -> bool:
    """Whether ``target`` exists and is neither file nor folder: renaming over it would destroy it."""
    return target.exists() and not target.is_file() and not target.is_dir()
