"""The device code of a source with host code in it, compiled by NVRTC, which takes device code alone.

Mental model: NVRTC is asked again and again; each time, a piece of the source that carries no execution space and an
error (``main``, a function that calls ``cudaMalloc``, a ``std::vector`` at namespace level) is left out, and a header
of the host's stands for what device code can use of it (:mod:`host_headers`). That is done to the source and to headers
in its folder: a library's are as they are. What is marked ``__device__`` or ``__global__`` is never left out: an error
there is the user's.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from gpusim.frontend.native import nvrtc
from gpusim.frontend.native.cpp_pieces import Piece, pieces, without
from gpusim.frontend.native.cpp_unit import CppBuild, CppError, CppUnit
from gpusim.frontend.native.host_headers import host_header

#: Each attempt leaves out all that had an error in the one before; sources need two to four.
MOST_ATTEMPTS = 24
#: What NVRTC says of a library's function that has no mark, and the option by which it takes it for device code.
_UNMARKED, _DEFAULT_DEVICE = "host functions are not allowed in JIT mode", "-default-device"
#: Attempts after which an error in a library's header is taken to stay.
PATIENCE = 2
_ERROR = re.compile(r"^(.+?)\((\d+)\): (?:catastrophic |fatal )?error:", re.MULTILINE)
_INCLUDED = re.compile(r"^\s*#\s*include\s*[<\"]([\w./+-]+)[>\"]", re.MULTILINE)
_MARKED_LAMBDA = re.compile(r"\][ \t]*(?:__(?:host|device)__[ \t]*)+(?=\()")
_MISSING = re.compile(r"(?:cannot|could not) open (?:source )?file \"([^\"]+)\"")


class _Source:
    """A file of the user's, and what is left out of it."""

    def __init__(self, text: str) -> None:
        self.text, self.pieces = text, pieces(text)
        self.left_out: set[Piece] = set()

    def leave_out(self, line: int) -> bool:
        """The host's piece on ``line``; whether there was one to leave out."""
        found = {each for each in self.pieces if each.first <= line <= each.last and not each.marked} - self.left_out
        self.left_out |= found
        return bool(found)

    def rest(self) -> str:
        """What is left, with no marks on lambdas, which NVRTC takes without them alone."""
        return _MARKED_LAMBDA.sub(
            lambda found: found[0][0] + " " * (len(found[0]) - 1), without(self.text, self.left_out)
        )


def compile_cpp(unit: CppUnit, entry: str | None, target: str, *, relocatable: bool, lines: bool) -> CppBuild:
    """As :func:`gpusim.frontend.native.nvrtc.compile_cpp`. Raises CppError with the first error of device code."""
    own, headers = _Source(unit.source), dict(unit.headers)
    included: dict[str, _Source] = {}
    for attempt in range(MOST_ATTEMPTS):
        texts = headers | {name: each.rest() for name, each in included.items()}
        try:
            return nvrtc.compile_cpp(
                replace(unit, source=own.rest(), headers=tuple(sorted(texts.items()))), entry, target,
                relocatable=relocatable, lines=lines,
            )  # fmt: skip
        except CppError as error:
            wanted = [*_MISSING.findall(error.log), *(_of_host(unit.source) if attempt == 0 else ())]
            changed = False
            for name in wanted:
                text = host_header(name)
                if name not in headers and text is not None:
                    headers[name], changed = text, True
            foreign = False
            for file, line in _ERROR.findall(error.log):
                source = own if file == unit.file else _included(file, unit, included)
                changed |= source is not None and source.leave_out(int(line))
                foreign |= source is None and nvrtc.NAME_MAP not in file
            if foreign and _UNMARKED in error.log and _DEFAULT_DEVICE not in unit.options:
                unit, changed = replace(unit, options=(*unit.options, _DEFAULT_DEVICE)), True
            # An error in a library is of host code that uses it, which is gone by now, or stays.
            if not changed or foreign and attempt >= PATIENCE:
                raise
    raise CppError(f"{unit.file}: its device code could not be told from its host code")


def _of_host(source: str) -> list[str]:
    """The headers that a source includes of those that only a host compiler can read, be they there or not."""
    names = _INCLUDED.findall(source)
    return [name for name in names if "/" not in name and not name.startswith("cu") or name.startswith("thrust/")]


def _included(file: str, unit: CppUnit, known: dict[str, _Source]) -> _Source | None:
    """The header in the source's own folder that an error's ``file`` is, known from now on by the name that it is
    included by."""
    if file in known:
        return known[file]
    path = Path(file).resolve()
    folder = Path(unit.folders[0]).resolve() if unit.folders else None
    if folder is None or not path.is_file() or not path.is_relative_to(folder):
        return None
    name = str(path.relative_to(folder))
    if name not in known:
        known[name] = _Source(path.read_text(errors="replace"))
    return known[name]
