"""Python as a shared library, for programs that are not Python and load the emulated driver.

Mental model: such a program calls C functions, which are Python's here, so the dynamic loader must be able to open
Python. Many installations have ``libpythonX.Y.so`` beside the interpreter; where the interpreter is all there is, it
has the same functions itself, and a copy of it in which one or two bytes are changed opens as a library (the loader
refuses files that say that they are programs).
"""

from __future__ import annotations

import os
import struct
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from gpusim.errors import ToolchainError
from gpusim.io.whole_file import write_whole

_ET_EXEC, _ET_DYN, _PT_DYNAMIC = 2, 3, 2
_DT_FLAGS_1, _DF_1_PIE = 0x6FFFFFFB, 0x08000000
_MAPS = Path("/proc/self/maps")


def python_library(folder: Path) -> Path:
    """The file to open as Python; a copy of the interpreter, where one is needed, goes to ``folder``. Raises
    ToolchainError."""
    for path in _candidates():
        if path.is_file():
            return path
    interpreter = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    copy = folder / f"{interpreter.name}.so"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(copy, loadable(interpreter.read_bytes()))
        copy.chmod(0o755)
    except (OSError, struct.error, ValueError) as error:
        raise ToolchainError(
            f"no shared library of Python {sysconfig.get_python_version()} is there, and the interpreter {interpreter} does not"
            f" serve as one ({error}): install libpython{sysconfig.get_python_version()}"
        ) from None
    return copy


def _candidates() -> Iterator[Path]:
    """Where Python's library may lie: this process has opened it, or it stands where the interpreter was built to find
    it, or where the interpreter lies now."""
    name = f"libpython{sysconfig.get_python_version()}{getattr(sys, 'abiflags', '')}.so"
    if _MAPS.exists():
        for line in _MAPS.read_text(errors="replace").splitlines():
            path = line.partition("/")[2]
            if f"/{path}".rpartition("/")[2].startswith(name):
                yield Path(f"/{path}")
    folders = [sysconfig.get_config_var("LIBDIR"), os.path.join(sys.base_prefix, "lib")]
    if (triplet := sysconfig.get_config_var("MULTIARCH")) is not None:
        folders += [f"/usr/lib/{triplet}", f"/lib/{triplet}"]
    for folder in filter(None, folders):
        yield Path(folder) / f"{name}.1.0"
        yield Path(folder) / name


def loadable(program: bytes) -> bytes:
    """An ELF program's bytes, as a library. Raises ValueError for a file that is none."""
    file = bytearray(program)
    if file[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit ELF file")
    (kind,) = struct.unpack_from("<H", file, 16)
    if kind not in (_ET_EXEC, _ET_DYN):
        raise ValueError(f"an ELF file of type {kind}")
    struct.pack_into("<H", file, 16, _ET_DYN)
    (at,), (entry, count) = struct.unpack_from("<Q", file, 32), struct.unpack_from("<HH", file, 54)
    for i in range(count):
        header = struct.unpack_from("<IIQQQQQQ", file, at + entry * i)
        if header[0] != _PT_DYNAMIC:
            continue
        for place in range(header[2], header[2] + header[5], 16):
            tag, value = struct.unpack_from("<QQ", file, place)
            if tag == _DT_FLAGS_1:
                struct.pack_into("<QQ", file, place, tag, value & ~_DF_1_PIE)
    return bytes(file)
