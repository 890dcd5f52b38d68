"""Writes the files of the libraries that programs load.

Mental model: a library says which Python it starts and where gpusim lies (:mod:`gpusim.driver.elf_library` has its
layout); beside it lies a list of its functions, in the order of its table.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpusim.driver.elf_library import Start, library_bytes
from gpusim.driver.library_folder import libraries_folder
from gpusim.driver.python_library import python_library
from gpusim.errors import ToolchainError
from gpusim.io.whole_file import write_whole

_PACKAGE = Path(__file__).parents[1]
#: What the libraries' first call runs in Python; {folder} and {soname} name the library, {paths} where gpusim lies.
_CODE = (
    "import sys; sys.path += [path for path in {paths!r} if path not in sys.path]\n"
    "from gpusim.cudart.kept_signals import kept\n"
    "with kept():\n"
    "    from gpusim.cudart.embedded import attach\n"
    "    attach({folder!r}, {soname!r})\n"
)


def library_file(
    soname: str,
    names: Sequence[str],
    version: str = "",
    texts: Mapping[str, str] | None = None,
    numbers: Mapping[str, int] | None = None,
    links: Sequence[str] = (),
) -> Path:
    """The library's file, written if it is not there: functions ``names`` (:func:`library_bytes` has the rest).
    ``links``: other names of the file. Raises ToolchainError."""
    folder = libraries_folder()
    path = folder / soname
    list_path = folder / f"{soname}.names"
    listed = "\n".join(names)
    try:
        if not path.exists() or not list_path.exists() or list_path.read_text() != listed:
            start = Start(str(python_library(folder)), sys.executable, _code(folder, soname))
            write_whole(list_path, listed.encode())
            write_whole(path, library_bytes(soname, names, platform.machine(), start, version, texts, numbers))
            path.chmod(0o755)
        for link in links:
            if not (folder / link).exists():
                _link(folder / link, soname)
    except OSError as error:
        raise ToolchainError(f"the library {path} cannot be written: {error.strerror}") from None
    return path


def _link(place: Path, target: str) -> None:
    temporary = place.with_name(f".{place.name}.{os.getpid()}")
    temporary.symlink_to(target)
    temporary.replace(place)


def _code(folder: Path, soname: str) -> str:
    paths = [str(_PACKAGE.parent), *(path for path in sys.path if path.endswith("site-packages"))]
    return _CODE.format(paths=paths, folder=str(folder), soname=soname)
