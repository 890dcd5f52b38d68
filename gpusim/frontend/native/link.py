"""PTX and parts with device functions in, one cubin out, by nvJitLink.

Mental model: what a driver's assembler and linker would do when a program loads its parts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

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


def link(name: str, target: str, parts: Sequence[tuple[str, str, bytes]], options: Sequence[str] = ()) -> bytes:
    """The cubin of ``parts``, (kind of :data:`KINDS`, name, content) each, for ``target``; ``name`` is the kernel's, for messages.
    Raises CompileError with the linker's first complaint."""
    handle = None
    flags = [f"-arch={target}", "-lineinfo", *options]
    try:
        handle = nvjitlink.create(len(flags), flags)
        for kind, part, content in parts:
            if kind == ".ptx" and b"\0" in content.rstrip(
                b"\0"
            ):  # nvJitLink 13 takes it for the end, and writes over memory
                raise CompileError(f"{name} does not link for {target}: {part} is no text: it holds a byte 0")
            nvjitlink.add_data(handle, KINDS[kind], content, len(content), part)
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        return bytes(cubin)
    except nvjitlink.nvJitLinkError as error:
        raise CompileError(f"{name} does not link for {target}: {_log(handle) or error}") from None
    finally:
        if handle is not None:
            nvjitlink.destroy(handle)


def version() -> str:
    """Name and version of the linker, as traces keep it."""
    major, minor = nvjitlink.version()
    return f"nvJitLink {major}.{minor}"


def _log(handle: int | None) -> str:
    """The first error in the linker's log, on one line."""
    if handle is None:
        return ""
    with contextlib.suppress(nvjitlink.nvJitLinkError):
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        lines = [line.strip() for line in log.rstrip(b"\0").decode(errors="replace").splitlines() if line.strip()]
        return next((" ".join(line.split()) for line in lines if "error" in line.lower()), " ".join(lines[:1]))[:400]
    return ""
