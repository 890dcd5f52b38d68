"""What NVRTC made, kept on disk from one process to the next.

Mental model: a compilation depends on the source, what it includes, the options, the target and the compiler. All of
these make one digest. Files that are included are followed by their text: those of the user by content, those of the
CUDA toolkit by size and time of change (an upgrade writes them anew). What cannot be followed (a file named by a macro,
a date of compilation, an option that names a file) makes that nothing is kept. A kept file that is damaged counts as
not there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpusim.frontend.native.included import folders_named
from gpusim.io.cache_folder import cache_folder
from gpusim.io.kept_files import keep, read_kept

VERSION = 1
#: A larger file is not read: the largest kernels have some megabytes of machine code.
MOST_BYTES = 64 << 20
#: More included files than this are not followed.
MOST_INCLUDED = 2_000
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include(?:_next)?[ \t]*(?:<([^>\n]+)>|\"([^\"\n]+)\"|(\S))", re.MULTILINE)
_ASKED = re.compile(r"__has_include(?:_next)?\s*\(\s*(?:<([^>\n]+)>|\"([^\"\n]+)\"|(\S))")
#: What a compiler says last of errors in a source, and of no other ones.
_IN_SOURCE = re.compile(r"errors? detected in the compilation of")
#: A longer log is not kept, in letters.
MOST_LOG = 1 << 20
_DATED = re.compile(r"__(?:DATE|TIME|TIMESTAMP)__")
#: Options that name files to read or write, or whose value is the next option.
_FILES = re.compile(r"^--?(pre-?include|include$|use-pch|create-pch|pch|time|I$|include-path$|isystem)")


class _Unknown(Exception):
    """Something whose content cannot be told."""


def fingerprint(
    source: str,
    file: str,
    about: Sequence[object],
    options: Sequence[str],
    folders: Sequence[str],
    toolkit_folders: Sequence[str],
    headers: Sequence[tuple[str, str]],
) -> str | None:
    """The digest of a compilation of ``source``; None where it cannot be told. ``about``: what else counts (target,
    entry, version of the compiler). ``folders`` are the user's, ``toolkit_folders`` the compiler's; ``headers`` are
    (name, text)."""
    if any(map(_FILES.match, options)):
        return None
    digest = hashlib.sha256(repr((VERSION, file, *about, tuple(options), tuple(folders))).encode())
    try:
        for part in _parts(source, [*folders_named(options), *folders], toolkit_folders, dict(headers)):
            digest.update(part)
    except (_Unknown, OSError):
        return None
    return digest.hexdigest()


def read_build(name: str | None) -> tuple[bytes, str, str] | None:
    """What :func:`write_build` kept under ``name``: machine code, PTX, the kernel's symbol; None if there is none."""
    path = _path(name)
    try:
        kept = json.loads((read_kept(path, MOST_BYTES) if path is not None else None) or b"")
        code, ptx, entry = base64.b64decode(kept["cubin"], validate=True), kept["ptx"], kept["entry_name"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return (code, ptx, entry) if isinstance(ptx, str) and isinstance(entry, str) and ptx else None


def write_build(name: str | None, cubin: bytes, ptx: str, entry_name: str) -> None:
    """Keep a build under the digest ``name``; a file system that does not take it is no error."""
    path = _path(name)
    if path is None:
        return
    kept = {"entry_name": entry_name, "ptx": ptx, "cubin": base64.b64encode(cubin).decode()}
    keep(path, json.dumps(kept).encode())


def read_refusal(name: str | None) -> tuple[str, str, bool] | None:
    """What :func:`write_refusal` kept under ``name``: the message, the log, whether all but the kernel's name is well;
    None if there is none."""
    path = _path(name)
    try:
        kept = json.loads((read_kept(path, MOST_BYTES) if path is not None else None) or b"")
        message, log, no_kernel = kept["refused"], kept["log"], kept["no_kernel"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return (message, log, no_kernel is True) if isinstance(message, str) and isinstance(log, str) else None


def write_refusal(name: str | None, message: str, log: str, no_kernel: bool) -> None:
    """Keep that the compiler refused what makes the digest ``name``: of a source with host code each part that is left
    out is found by one."""
    path = _path(name)
    if path is not None and _IN_SOURCE.search(log) and len(log) <= MOST_LOG:
        keep(path, json.dumps({"refused": message, "log": log, "no_kernel": no_kernel}).encode())


def _path(name: str | None) -> Path | None:
    folder = cache_folder()
    return None if folder is None or name is None else folder / "nvrtc" / f"{name}.json"


def _parts(
    source: str, folders: Sequence[str], toolkit_folders: Sequence[str], headers: dict[str, str]
) -> Iterator[bytes]:
    """``source`` in bytes, with all that it includes. Raises _Unknown."""
    waiting, seen = [("", source)], set()
    while waiting:
        beside, text = waiting.pop()
        yield text.encode()
        if _DATED.search(text):
            raise _Unknown
        for found in (*_INCLUDE.finditer(text), *_ASKED.finditer(text)):
            pointed, quoted, other = found.groups()
            if other:
                raise _Unknown
            name = pointed or quoted
            if name in headers:
                key = ("header", name)
                if key not in seen:
                    waiting.append(("", headers[name]))
            else:
                key = (beside if quoted else "", name)
                if key not in seen:
                    yield from _file(name, [beside] * bool(quoted and beside), folders, toolkit_folders, waiting)
            seen.add(key)
            if len(seen) > MOST_INCLUDED:
                raise _Unknown


def _file(
    name: str,
    beside: Sequence[str],
    folders: Sequence[str],
    toolkit_folders: Sequence[str],
    waiting: list[tuple[str, str]],
) -> Iterator[bytes]:
    """What tells the file that ``#include`` of ``name`` finds; one of the user's is added to those whose text is
    ``waiting``."""
    for folder in (*beside, *folders):
        path = Path(folder) / name
        if path.is_file():
            if path.stat().st_size > MOST_BYTES:
                raise _Unknown
            yield b"file " + os.fsencode(path)
            # By one name, however many "../" lead there: headers that include each other have no end otherwise.
            waiting.append((os.path.realpath(path.parent), path.read_text("latin-1")))
            return
    for folder in toolkit_folders:
        path = Path(folder) / name
        if path.is_file():
            state = path.stat()
            yield f"toolkit {path} {state.st_size} {state.st_mtime_ns}".encode()
            return
    yield f"none {name}".encode()  # the compiler has some of its own
