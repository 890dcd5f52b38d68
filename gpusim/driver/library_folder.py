"""Where the libraries lie that programs load: ``libcuda.so.1`` and, beside it, those of the CUDA runtime.

Mental model: the files are the same for every run of this gpusim by this Python, so they are written once
(:mod:`gpusim.driver.library_files`), to the user's cache folder, under a name that says what they depend on. Programs
find them by LD_LIBRARY_PATH, which ``gpusim run`` sets.
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
from pathlib import Path

from gpusim.driver.versions import driver_version
from gpusim.errors import ToolchainError
from gpusim.io.cache_folder import cache_folder

MACHINES = ("x86_64", "aarch64")
SONAME = "libcuda.so.1"
#: The name by which linkers look for it.
LINKS = ("libcuda.so",)
#: Name of the runtime's file -> its other names; linkers look for the first without a number.
RUNTIMES = {"libcudart.so.12": (), "libcudart.so.13": ("libcudart.so",)}
_PACKAGE = Path(__file__).parents[1]


def are_written() -> bool:
    """Whether all libraries are there."""
    names = (SONAME, *LINKS, *RUNTIMES, *(link for links in RUNTIMES.values() for link in links))
    return all((libraries_folder() / name).exists() for name in names)


@functools.cache
def libraries_folder() -> Path:
    """The folder of the libraries, which exists. Raises ToolchainError on a system for which they cannot be written."""
    if platform.system() != "Linux" or platform.machine() not in MACHINES:
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


def names_of(path: Path) -> list[str]:
    """The functions of a library of :func:`gpusim.driver.library_files.library_file`, in the order of its table."""
    return path.with_name(f"{path.name}.names").read_text().split()


def _digest() -> str:
    """Stands for all that the files depend on: this Python, and the functions and the version that gpusim has."""
    digest = hashlib.sha256(
        repr((sys.executable, sys.version, sys.path[1:], platform.machine(), driver_version())).encode()
    )
    for folder in ("driver", "cudart"):
        for path in sorted((_PACKAGE / folder).glob("*.py")):
            found = path.stat()
            digest.update(repr((str(path), found.st_size, found.st_mtime_ns)).encode())
    return digest.hexdigest()[:16]


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
