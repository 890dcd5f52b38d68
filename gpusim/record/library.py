"""The recorder's shared library, built from ``native/*.c`` with the system's C compiler.

Mental model: the sources are part of the package and are compiled once, at first use, into the user's cache folder
under a name that says what they are (sources, options and machine). Where there is no compiler, build it elsewhere with
``gpusim record --library-path`` and name the file in ``GPUSIM_RECORD_LIBRARY``.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from gpusim.errors import ToolchainError
from gpusim.io.cache_folder import cache_folder

NAME = "libgpusim_record.so"
VARIABLE = "GPUSIM_RECORD_LIBRARY"
NATIVE = Path(__file__).parent / "native"
COMPILERS = ("cc", "gcc", "clang")
#: Sibling calls: ``dlsym`` must see its caller's address (resolve.c). No deletion: a program may close the library that
#: loaded it.
FLAGS = (
    "-std=c11",
    "-O2",
    "-foptimize-sibling-calls",
    "-fPIC",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Werror=implicit",
)
#: Its own functions are meant where it names them, whatever a program has loaded before it.
LINK_FLAGS = ("-shared", "-Wl,-Bsymbolic-functions", "-Wl,-z,nodelete", "-Wl,-z,now", f"-Wl,-soname,{NAME}")
LIBRARIES = ("-lm", "-ldl", "-lpthread")
COMPILE_SECONDS = 120


def sources() -> list[Path]:
    """The C files, in one order."""
    return sorted(NATIVE.glob("*.c"))


def recorder_library() -> Path:
    """The library's path; it is built if need be. Raises ToolchainError: no Linux, no compiler, or it refuses the
    sources."""
    given = os.environ.get(VARIABLE)
    if given:
        if not Path(given).is_file():
            raise ToolchainError(f"{VARIABLE} names {given}, which is no file")
        return Path(given).resolve()
    if platform.system() != "Linux":
        raise ToolchainError(f"recording needs Linux, this is {platform.system()}")
    cache = cache_folder() or Path(tempfile.gettempdir()) / f"gpusim-{os.getuid()}"
    folder = cache / "record" / _digest()
    path = folder / NAME
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        build(path)
    return path


def _reason(said: str) -> str:
    """The line of what a compiler ``said`` that tells why: the first error, but not that the linker has failed, where a
    line of the linker's says what in (a full disk)."""
    lines = [line for line in said.splitlines() if "error" in line or "failed" in line]
    return next((line for line in lines if not line.startswith("collect2:")), (lines or [said[:200]])[0])


def build(path: Path, flags: tuple[str, ...] = (), link_flags: tuple[str, ...] = LINK_FLAGS) -> None:
    """Compile the sources to ``path`` at once or not at all. Raises ToolchainError."""
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise ToolchainError(
            f"the recorder is built by a C compiler, and none of {', '.join(COMPILERS)} is here: install one, or name a library "
            f"that is built in {VARIABLE}"
        )
    handle, draft = tempfile.mkstemp(dir=path.parent, suffix=".so")
    os.close(handle)
    try:
        command = [compiler, *FLAGS, *flags, *link_flags, "-o", draft, *map(str, sources()), *LIBRARIES]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False)
        if done.returncode:
            raise ToolchainError(f"{compiler} does not compile the recorder: {_reason(done.stderr)}")
        os.chmod(draft, 0o755)
        os.replace(draft, path)
    finally:
        Path(draft).unlink(missing_ok=True)


def _digest() -> str:
    state = hashlib.sha256(repr((FLAGS, LINK_FLAGS, platform.machine(), platform.libc_ver())).encode())
    for path in (*sources(), *sorted(NATIVE.glob("*.h"))):
        state.update(path.name.encode() + b"\0" + path.read_bytes())
    return state.hexdigest()[:16]
