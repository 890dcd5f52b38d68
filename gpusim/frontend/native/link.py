"""PTX and parts with device functions in, one cubin out, by nvJitLink.

Mental model: what a driver's assembler and linker would do when a program loads its parts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cuda.bindings import nvjitlink

from gpusim.errors import CompileError

#: Suffix of a file -> what it is to nvJitLink.
KINDS = {
    ".ptx": nvjitlink.InputType.PTX,
    ".cubin": nvjitlink.InputType.CUBIN,
    ".fatbin": nvjitlink.InputType.FATBIN,
    ".o": nvjitlink.InputType.OBJECT,
    ".a": nvjitlink.InputType.LIBRARY,
    ".ltoir": nvjitlink.InputType.LTOIR,
}


@dataclass(frozen=True)
class Linked:
    """What the linker made: ``cubin``, empty where it refused; its logs ``info`` and ``error``."""

    cubin: bytes = field(repr=False)
    info: str
    error: str


def run_linker(flags: Sequence[str], parts: Sequence[tuple[Any, str, bytes]]) -> Linked:
    """One run of nvJitLink over ``parts``, (nvJitLink's InputType, name, content) each; raises nothing for what it refuses."""
    handle, cubin, error = None, bytearray(), ""
    try:
        handle = nvjitlink.create(len(flags), list(flags))
        for kind, name, content in parts:
            # nvJitLink 13 takes a byte 0 for the text's end, and writes over memory.
            if kind == KINDS[".ptx"] and b"\0" in content.rstrip(b"\0"):
                return Linked(b"", "", f"{name} is no text: it holds a byte 0")
            nvjitlink.add_data(handle, kind, content, len(content), name)
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
    except nvjitlink.nvJitLinkError as problem:
        error = _log(handle, nvjitlink.get_error_log_size, nvjitlink.get_error_log) or str(problem)
        cubin = bytearray()
    finally:
        info = _log(handle, nvjitlink.get_info_log_size, nvjitlink.get_info_log)
        if handle is not None:
            nvjitlink.destroy(handle)
    return Linked(bytes(cubin), info, error)


def link(name: str, target: str, parts: Sequence[tuple[str, str, bytes]], options: Sequence[str] = ()) -> bytes:
    """The cubin of ``parts``, (kind of :data:`KINDS`, name, content) each, for ``target``; ``name`` is the kernel's, for messages.
    Raises CompileError with the linker's first complaint."""
    done = run_linker(
        [f"-arch={target}", "-lineinfo", *options], [(KINDS[kind], part, content) for kind, part, content in parts]
    )
    if done.error:
        raise CompileError(f"{name} does not link for {target}: {_first_error(done.error)}")
    return done.cubin


def version() -> str:
    """Name and version of the linker, as traces keep it."""
    major, minor = nvjitlink.version()
    return f"nvJitLink {major}.{minor}"


def _log(handle: int | None, size_of: Callable[[int], int], read: Callable[[int, bytearray], None]) -> str:
    """One of the linker's logs."""
    if handle is not None:
        with contextlib.suppress(nvjitlink.nvJitLinkError):
            text = bytearray(size_of(handle))
            read(handle, text)
            return text.rstrip(b"\0").decode(errors="replace")
    return ""


def _first_error(log: str) -> str:
    """The first error in the linker's log, on one line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((" ".join(line.split()) for line in lines if "error" in line.lower()), " ".join(lines[:1]))[:400]
