"""PTX and parts with device functions in, one cubin out, by nvJitLink.

Mental model: what a driver's assembler and linker would do when a program loads its parts. nvJitLink runs in a process
of its own (:mod:`gpusim.frontend.native.link_process`): some faults in what it is given make it end the one it runs in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cuda.bindings import nvjitlink  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

from gpusim.errors import CompileError
from gpusim.frontend.native import link_process
from gpusim.frontend.native.ptx_text import lowered
from gpusim.isa.architectures import READ

#: Suffix of a file -> what it is to nvJitLink.
KINDS = {
    ".ptx": nvjitlink.InputType.PTX,
    ".cubin": nvjitlink.InputType.CUBIN,
    ".fatbin": nvjitlink.InputType.FATBIN,
    ".o": nvjitlink.InputType.OBJECT,
    ".a": nvjitlink.InputType.LIBRARY,
    ".ltoir": nvjitlink.InputType.LTOIR,
}


#: How the architectures are asked for that CUDA 13 no longer assembles for.
_OLDER = frozenset(f"-arch={row.target}" for row in READ if not row.built)


@dataclass(frozen=True)
class Linked:
    """What the linker made: ``cubin``, empty where it refused; its logs ``info`` and ``error``."""

    cubin: bytes = field(repr=False)
    info: str
    error: str


def run_linker(flags: Sequence[str], parts: Sequence[tuple[Any, str, bytes]], *, keep: bool = True) -> Linked:
    """One run of nvJitLink over ``parts``, (nvJitLink's InputType, name, content) each, in a process of its own, which
    waits for the next run if ``keep``. What ``flags`` name as the architecture decides which release of it. Refusals,
    and that the linker ended its process, are in what is returned; raises ToolchainError where there is no linker."""
    older = any(flag in _OLDER for flag in flags)
    if older:
        parts = [(kind, name, _lowered(content) if kind == KINDS[".ptx"] else content) for kind, name, content in parts]
    for kind, name, content in parts:
        # nvJitLink 13 takes a byte 0 for the text's end, and writes over memory.
        if kind == KINDS[".ptx"] and b"\0" in content.rstrip(b"\0"):
            return Linked(b"", "", f"{name} is no text: it holds a byte 0")
    try:
        result, cubin, info, error = link_process.ask(
            flags, [(int(kind), name, content) for kind, name, content in parts], keep=keep, older=older
        )
    except link_process.EndedItself as ended:
        return Linked(b"", "", str(ended))
    return Linked(cubin, info, (error or str(nvjitlink.nvJitLinkError(result))) if result else "")


def link(name: str, target: str, parts: Sequence[tuple[str, str, bytes]], options: Sequence[str] = ()) -> bytes:
    """The cubin of ``parts``, (kind of :data:`KINDS`, name, content) each, for ``target``; ``name`` is the kernel's,
    for messages. Raises CompileError with the linker's first complaint."""
    done = run_linker(
        [f"-arch={target}", "-lineinfo", *options], [(KINDS[kind], part, content) for kind, part, content in parts]
    )
    if done.error:
        raise CompileError(f"{name} does not link for {target}: {_first_error(done.error)}")
    return done.cubin


def _lowered(content: bytes) -> bytes:
    return lowered(content.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def version() -> str:
    """Name and version of the linker, as traces keep it."""
    major, minor = nvjitlink.version()
    return f"nvJitLink {major}.{minor}"


def _first_error(log: str) -> str:
    """The first error in the linker's log, on one line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((" ".join(line.split()) for line in lines if "error" in line.lower()), " ".join(lines[:1]))[:400]
