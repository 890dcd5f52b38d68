"""The device code of a source with host code in it, compiled by NVRTC, which takes device code alone.

Mental model: NVRTC is asked again and again; each time, a piece of the source that carries no execution space and an error (``main``, a
function that calls ``cudaMalloc``, a ``std::vector`` at namespace level) is left out, and a header that it does not find stands for what
device code can use of it (:mod:`host_headers`). What is marked ``__device__`` or ``__global__`` is never left out: an error there is the user's.
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
_ERROR = re.compile(r"^(.+?)\((\d+)\): (?:catastrophic |fatal )?error:", re.MULTILINE)
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
        return without(self.text, self.left_out)


def compile_cpp(unit: CppUnit, entry: str | None, target: str, *, relocatable: bool, lines: bool) -> CppBuild:
    """As :func:`gpusim.frontend.native.nvrtc.compile_cpp`. Raises CppError with the first error of device code."""
    own, headers = _Source(unit.source), dict(unit.headers)
    included: dict[str, _Source] = {}
    for _ in range(MOST_ATTEMPTS):
        texts = headers | {name: each.rest() for name, each in included.items()}
        try:
            return nvrtc.compile_cpp(
                replace(unit, source=own.rest(), headers=tuple(sorted(texts.items()))), entry, target,
                relocatable=relocatable, lines=lines,
            )  # fmt: skip
        except CppError as error:
            changed = False
            for name in _MISSING.findall(error.log):
                text = host_header(name)
                if name not in headers and text is not None:
                    headers[name], changed = text, True
            for file, line in _ERROR.findall(error.log):
                source = own if file == unit.file else _included(file, unit, included)
                changed |= source is not None and source.leave_out(int(line))
            if not changed:
                raise
    raise CppError(f"{unit.file}: its device code could not be told from its host code")


def _included(file: str, unit: CppUnit, known: dict[str, _Source]) -> _Source | None:
    """The header of the user's own that an error's ``file`` is, known from now on by the name that it is included by."""
    if file in known:
        return known[file]
    path = Path(file)
    for folder in unit.folders:
        if path.is_file() and path.resolve().is_relative_to(Path(folder).resolve()):
            name = str(path.resolve().relative_to(Path(folder).resolve()))
            if name not in known:
                known[name] = _Source(path.read_text(errors="replace"))
            return known[name]
    return None
