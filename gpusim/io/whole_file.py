"""Writing a file whole or not at all.

Mental model: the bytes go to a temporary file beside the target, which then takes the target's name: whoever
looks sees the old file or the new one, and nothing half-written is ever left: not by a full disk, and what a process
that was killed could not remove goes when the file is written the next time (:mod:`gpusim.io.owned_names`).
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpusim.io.owned_names import owned_path


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``. Raises OSError from the file system; then ``path`` is as it was."""
    with replacing(path) as stream:
        stream.write(data)


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[io.BufferedWriter]:
    """A stream whose bytes replace ``target`` when the block ends well; else nothing changes. What is no regular file
    (a terminal, ``/dev/null``) is written to as it stands."""
    if is_special(target):
        with naming_file(target), target.open("wb") as stream:
            yield stream
        return
    name = owned_path(target, ".part")
    try:
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    except OSError as error:  # name the file that was asked for, not the temporary one
        raise type(error)(error.errno, error.strerror, str(target)) from None
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        # So far the file was private; it gets the permissions that open() would have given.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(name)
        _name_file(error, target)
        raise


@contextlib.contextmanager
def folder_for(output: Path) -> Iterator[Path]:
    """A folder for files that are to become ``output``: beside it, so that they are moved, not copied. It goes with the
    block."""
    if is_special(output):
        with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
            yield Path(folder)
        return
    folder = owned_path(output)
    folder.mkdir(0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Within the block, an OSError that names no file (a write to a full disk) names ``path``."""
    try:
        yield
    except OSError as error:
        _name_file(error, path)
        raise


def _name_file(error: BaseException, target: Path) -> None:
    if isinstance(error, OSError) and error.filename in (None, error.errno):
        error.filename = str(target)


def is_special(target: Path) -> bool:
    """Whether ``target`` exists and is neither file nor folder: renaming over it would destroy it."""
    return target.exists() and not target.is_file() and not target.is_dir()
