"""Where the libraries lie that programs load: ``libcuda.so.1`` and, beside it, those of the CUDA runtime.

Mental model: the files are the same for every run of this gpusim by this Python, so they are written once, to the user's cache
folder, under a name that says what they depend on. Programs find them by LD_LIBRARY_PATH, which ``gpusim run`` sets.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpusim.driver.elf_library import EM, Start, library_bytes
from gpusim.driver.python_library import python_library
from gpusim.errors import ToolchainError
from gpusim.io.whole_file import write_whole
from gpusim.isa.binary.decode import cache_folder

_PACKAGE = Path(__file__).parents[1]
#: What the libraries' first call runs in Python; {folder} and {soname} name the library, {paths} where gpusim lies.
_CODE = (
    "import sys; sys.path += [path for path in {paths!r} if path not in sys.path];"
    " from gpusim.cudart.embedded import attach; attach({folder!r}, {soname!r})"
)


@functools.cache
def libraries_folder() -> Path:
    """The folder of the libraries, which exists. Raises ToolchainError on a system for which they cannot be written."""
    if platform.system() != "Linux" or platform.machine() not in EM:
        raise ToolchainError(
            f"running a program needs Linux on x86-64 or AArch64, this is {platform.system()} on {platform.machine()}:"
            f" call gpusim.capture instead"
        )
    cache = cache_folder()
    if cache is not None:
        folder = cache / "libraries" / _digest()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return folder
        except OSError:
            pass
    folder = Path(tempfile.mkdtemp(prefix="gpusim-libraries-"))
    atexit.register(_remove, folder, os.getpid())
    return folder


def library_file(
    soname: str,
    names: Sequence[str],
    version: str = "",
    texts: Mapping[str, str] | None = None,
    links: Sequence[str] = (),
) -> Path:
    """The library's file, written if it is not there: functions ``names`` (:func:`library_bytes` has the rest). ``links``: other
    names of the file. Raises ToolchainError."""
    folder = libraries_folder()
    path = folder / soname
    list_path = folder / f"{soname}.names"
    listed = "\n".join(names)
    try:
        if not path.exists() or not list_path.exists() or list_path.read_text() != listed:
            start = Start(str(python_library(folder)), sys.executable, _code(folder, soname))
            write_whole(list_path, listed.encode())
            write_whole(path, library_bytes(soname, names, platform.machine(), start, version, texts))
            path.chmod(0o755)
        for link in links:
            if not (folder / link).exists():
                _link(folder / link, soname)
    except OSError as error:
        raise ToolchainError(f"the library {path} cannot be written: {error.strerror}") from None
    return path


def names_of(path: Path) -> list[str]:
    """The functions of a library that :func:`library_file` wrote, in the order of its table."""
    return path.with_name(f"{path.name}.names").read_text().split()


def _link(place: Path, target: str) -> None:
    temporary = place.with_name(f".{place.name}.{os.getpid()}")
    temporary.symlink_to(target)
    temporary.replace(place)


def _code(folder: Path, soname: str) -> str:
    paths = [str(_PACKAGE.parent), *(path for path in sys.path if path.endswith("site-packages"))]
    return _CODE.format(paths=paths, folder=str(folder), soname=soname)


def _digest() -> str:
    """Stands for all that the files depend on: this Python, and the functions that gpusim has."""
    digest = hashlib.sha256(repr((sys.executable, sys.version, sys.path[1:], platform.machine())).encode())
    for folder in ("driver", "cudart"):
        for path in sorted((_PACKAGE / folder).glob("*.py")):
            found = path.stat()
            digest.update(repr((str(path), found.st_size, found.st_mtime_ns)).encode())
    return digest.hexdigest()[:16]


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
