"""The device code of a source with host code in it, compiled by NVRTC, which takes device code alone.

Mental model: NVRTC is asked again and again; each time, a piece of the source that carries no execution space and an
error (``main``, a function that calls ``cudaMalloc``, a ``std::vector`` at namespace level) is left out, and a header
of the host's stands for what device code can use of it (:mod:`host_headers`). That is done to the source and to the
headers that it includes from its own folder and from those that the user names: CUDA's are as they are. What is marked
``__device__`` or ``__global__`` is never left out: an error there is the user's.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from gpusim.frontend.native import nvrtc
from gpusim.frontend.native.cpp_pieces import Piece, pieces, without
from gpusim.frontend.native.cpp_unit import CppBuild, CppError, CppUnit
from gpusim.frontend.native.host_headers import CUB, header_of, host_header, includes_others, language_headers
from gpusim.frontend.native.included import State, spelled
from gpusim.frontend.native.torch_headers import torch_header

#: Each attempt leaves out all that had an error in the one before; sources need two to four.
MOST_ATTEMPTS = 24
#: More parts than this are not kept in memory.
MOST_FOUND = 8
#: What NVRTC says of a library's function that has no mark, and the option by which it takes it for device code.
_UNMARKED, _DEFAULT_DEVICE = "host functions are not allowed in JIT mode", "-default-device"
#: Attempts after which an error in a library's header is taken to stay; those that find a header or the option for the
#: next one do not count.
PATIENCE = 2
#: What CCCL 3 says to <cub/cub.cuh>, which brings its device-wide algorithms too.
WHOLE_LIBRARY = "not supported when compiling with NVRTC"
_ERROR = re.compile(r"^(.+?)\((\d+)\): (?:catastrophic |fatal )?error:(.*)", re.MULTILINE)
_NOT_IN_STD = re.compile(r'namespace "std" has no member(?: class)? "(\w+)"')
#: Calls of the runtime that device code makes and NVRTC has no header for, as the instructions that they are.
_CALLS = {
    "cudaGridDependencySynchronize": '-DcudaGridDependencySynchronize()=asm volatile("griddepcontrol.wait;" ::: "memory")',
    "cudaTriggerProgrammaticLaunchCompletion": "-DcudaTriggerProgrammaticLaunchCompletion()="
    'asm volatile("griddepcontrol.launch_dependents;")',
}
#: Launches, and types and macros that only host code can use: with them a function that carries no mark is left out
#: before anything is said of it, so that what it needs is not looked for.
_ONLY_HOST = re.compile(
    r"<<<|\bstd\s*::\s*(?:vector|string|map|unordered_map|set|function|mutex|ostream|cout|cerr|runtime_error)\b"
    r"|\b(?:torch|at)\s*::\s*(?:stable\s*::\s*)?Tensor\b|\bPYBIND11_MODULE\b|\bTORCH_LIBRARY\w*|\bTORCH_CHECK\w*"
)
_TYPE = re.compile(r"(?:template\s*<[^{;]*>\s*)?(?:struct|class|union|enum|typedef|using|namespace)\b")
#: Functions that device code may call though they carry no mark, as nvcc takes them with --expt-relaxed-constexpr.
_CONSTANT = re.compile(
    r"(?:template\s*<[^{;]*?>\s*)?(?:(?:static|inline|__forceinline__|__host__|\[\[\w+\]\])\s+)*constexpr\b"
)
_CLASS = re.compile(r"(?:template\s*<[^{;]*>\s*)?(?:struct|class)\b")
#: A member that has a body.
_FUNCTION = re.compile(r"\([^;{}]*\)[^;{}]*(?:\{|:[^;]*\{)")
_MARKED_LAMBDA = re.compile(r"\][ \t]*(?:__(?:host|device)__[ \t]*)+(?=\()")
_MISSING = re.compile(r"(?:cannot|could not) open (?:source )?file \"([^\"]+)\"")


class _Source:
    """A file of the user's, and what is left out of it."""

    def __init__(self, text: str) -> None:
        self.text, self.pieces = text, pieces(text)
        self.left_out: set[Piece] = set()

    def leave_out(self, line: int) -> bool:
        """The host's piece on ``line``, of a type the function alone; whether there was one to leave out."""
        found = {each for each in self.pieces if each.first <= line <= each.last and not each.marked} - self.left_out
        functions = {each: self._member(each, line) for each in found}
        members = {each if inner is None or inner in self.left_out else inner for each, inner in functions.items()}
        for each in members & found:  # as a whole, with what of it is left out already
            self.left_out = {one for one in self.left_out if not each.start <= one.start < each.end}
        self.left_out |= members
        return bool(members)

    def _member(self, piece: Piece, line: int) -> Piece | None:
        """The function without a mark that stands on ``line`` of the type ``piece``; None where there is none."""
        text = self.text[piece.start : piece.end]
        opened = text.find("{") + 1
        if not (_CLASS.match(text) and opened):
            return None
        above = piece.first - 1 + text.count("\n", 0, opened)
        start = piece.start + opened
        for each in pieces(text[opened : text.rfind("}")]):
            if each.first <= line - above <= each.last and not each.marked:
                member = text[opened + each.start : opened + each.end]
                if _FUNCTION.search(member):
                    return replace(
                        each,
                        start=start + each.start,
                        end=start + each.end,
                        first=above + each.first,
                        last=above + each.last,
                    )
        return None

    def may_be_device(self, line: int) -> bool:
        """Whether the piece on ``line`` is one that kernels may use, though nothing in it is marked: a type with
        functions of its own, or a constexpr function."""
        found = (each for each in self.pieces if each.first <= line <= each.last and not each.marked)
        texts = (self.text[each.start : each.end] for each in found)
        return any(_TYPE.match(text) or _CONSTANT.match(text) for text in texts)

    def leave_out_host(self) -> None:
        """The functions that name what device code has not."""
        self.left_out |= {
            each
            for each in self.pieces
            if not each.marked and _ONLY_HOST.search(text := self.text[each.start : each.end]) and not _TYPE.match(text)
        }

    def rest(self) -> str:
        """What is left, with no marks on lambdas, which NVRTC takes without them alone."""
        return _MARKED_LAMBDA.sub(
            lambda found: found[0][0] + " " * (len(found[0]) - 1), without(self.text, self.left_out)
        )


class _Headers:
    """The user's headers: those that a source includes, directly or not, from its own folder and those that the user
    names, and what is left out of each."""

    def __init__(self, unit: CppUnit) -> None:
        own = unit.folders[0] if unit.folders else ""
        self._folder = os.path.realpath(own) if own else None
        self._paths: dict[str, str] = {}  # name in an #include -> the one file that it means
        several: set[str] = set()
        #: Names that are included and in none of the folders.
        self.elsewhere: list[str] = []
        found = list(spelled([(unit.source, own)], unit.folders))
        self.states = tuple(sorted({state for _, state in found if state is not None}))
        for name, state in found:
            if state is None:
                self.elsewhere.append(name)
            elif self._paths.setdefault(name, os.path.realpath(state[0])) != os.path.realpath(state[0]):
                several.add(name)
        for name in several:
            del self._paths[name]
        self._known = set(self._paths.values())
        self._given: dict[str, _Source] = {}

    def source(self, file: str) -> _Source | None:
        """The header that an error's ``file`` (its path, or the name that it was given by) is; None of a library's."""
        path = self._paths.get(file) or os.path.realpath(file)
        if path not in self._known:
            return None
        if path not in self._given:
            self._given[path] = _Source(Path(path).read_text(errors="replace"))
        return self._given[path]

    def beside(self, file: str) -> bool:
        """Whether an error's ``file`` lies in the source's own folder, where what carries no mark is the host's."""
        path = self._paths.get(file) or os.path.realpath(file)
        return path in self._known and self._folder is not None and Path(path).is_relative_to(self._folder)

    def leave_out_host(self) -> None:
        """In all of them what is surely the host's."""
        for path in self._known:
            source = _Source(Path(path).read_text(errors="replace"))
            source.leave_out_host()
            if source.left_out:
                self._given.setdefault(path, source)

    def give(self, name: str) -> bool:
        """Give the header that is included as ``name`` with the source, whose own folder a given header does not know;
        whether that is new."""
        path = self._paths.get(name)
        return path is not None and path not in self._given and self.source(name) is not None

    def texts(self) -> dict[str, str]:
        """The given headers by each of their names; the compiler takes two names for two files, so that all but one
        include that one, and ``#pragma once`` holds."""
        texts: dict[str, str] = {}
        first: dict[str, str] = {}
        for name, path in self._paths.items():
            if path in self._given:
                known = first.setdefault(path, name)
                texts[name] = self._given[path].rest() if known == name else f'#include "{known}"\n'
        return texts


@dataclass
class _Part:
    """What is known of a source's device part: ``unit`` with the options that it needs, the source and the headers less
    what is left out, and the headers that stand for the host's, by name."""

    unit: CppUnit
    own: _Source
    given: _Headers
    headers: dict[str, str]
    #: Attempts with an error in a library, for which there was nothing to bring.
    waited: int = 0

    def as_unit(self) -> CppUnit:
        texts = tuple(sorted((self.headers | self.given.texts()).items()))
        return replace(self.unit, source=self.own.rest(), headers=texts)

    def bring(self, log: str, first: bool) -> bool:
        """What a compiler's ``log`` asks for: headers and options; whether there was something new."""
        missing = _MISSING.findall(log)
        brought = _bring([*missing, *(_of_host(self.given.elsewhere) if first else ())], self.headers)
        if WHOLE_LIBRARY in log:
            brought |= _bring([CUB], self.headers)
        brought |= any([self.given.give(name) for name in missing])
        brought |= any([_imply(header, self.headers) for header in _headers_of_names(log)])
        options = [define for name, define in _CALLS.items() if f'"{name}" is undefined' in log]
        options = [define for define in options if define not in self.unit.options]
        self.unit, brought = replace(self.unit, options=(*self.unit.options, *options)), brought or bool(options)
        if _DEFAULT_DEVICE not in self.unit.options and self._unmarked_but_needed(log):
            self.unit, brought = replace(self.unit, options=(*self.unit.options, _DEFAULT_DEVICE)), True
        return brought

    def _unmarked_but_needed(self, log: str) -> bool:
        """Whether a compiler's ``log`` says that it carries no mark of a function in a library's header, or of one that
        kernels may use."""
        for file, line, said in _ERROR.findall(log):
            if _UNMARKED in said:
                source = self.own if file == self.unit.file else self.given.source(file)
                if file != self.unit.file and not self.given.beside(file):
                    return True
                if source is not None and source.may_be_device(int(line)):
                    return True
        return False

    def leave_out(self, log: str) -> bool:
        """The pieces of the host's with an error in ``log``; whether there was one that may mend it."""
        changed = foreign = False
        for file, line, _ in _ERROR.findall(log):
            source = self.own if file == self.unit.file else self.given.source(file)
            changed |= source is not None and source.leave_out(int(line))
            foreign |= source is None and nvrtc.NAME_MAP not in file
        # An error in a library is of host code that uses it, which is gone by now, or stays.
        self.waited += foreign
        return changed and self.waited <= PATIENCE


#: The parts found by this process, the last ones: a source is compiled for several targets and kernels.
_found: dict[tuple[CppUnit, tuple[State, ...]], _Part] = {}


def compile_cpp(unit: CppUnit, entry: str | None, target: str, *, relocatable: bool, lines: bool) -> CppBuild:
    """As :func:`gpusim.frontend.native.nvrtc.compile_cpp`. Raises CppError with the first error of device code."""
    how = {"relocatable": relocatable, "lines": lines}
    part, key = None, None
    # Of a template, what is left out is found without naming it: NVRTC then compiles within this process.
    plain = entry is None or "<" not in entry
    named = True
    for _ in range(MOST_ATTEMPTS):
        if part is None and any(known == unit for known, _ in _found):
            part, key = _part(unit)
        try:
            built = nvrtc.compile_cpp(part.as_unit() if part else unit, entry if named else None, target, **how)
            if named:
                if part is not None and key is not None:
                    _found[key] = part
                    while len(_found) > MOST_FOUND:
                        del _found[next(iter(_found))]
                return built
            named = plain = True
        except CppError as error:
            first = part is None
            if part is None:
                part, key = _part(unit)
            brought = part.bring(error.log, first)
            if first:
                part.own.leave_out_host()
                part.given.leave_out_host()
            # What is still an error with all that was brought is one.
            if not (first or brought or part.leave_out(error.log)):
                raise
            named = plain
    raise CppError(f"{unit.file}: its device code could not be told from its host code")


def _part(unit: CppUnit) -> tuple[_Part, tuple[CppUnit, tuple[State, ...]]]:
    """What is known of ``unit``'s device part, or that nothing is, and by what it is known."""
    given = _Headers(unit)
    key = (unit, given.states)
    return _found.get(key) or _Part(unit, _Source(unit.source), given, dict(unit.headers)), key


def _headers_of_names(log: str) -> list[str]:
    """The headers of the names of ``std::`` that a compiler does not find."""
    return [header for name in _NOT_IN_STD.findall(log) if (header := header_of(name))]


def _bring(names: list[str], headers: dict[str, str]) -> bool:
    """Add what stands for the headers ``names``; whether there was one that is new."""
    found = {name: text for name in names if name not in headers and (text := host_header(name)) is not None}
    if any(name in language_headers() or torch_header(name) for name in found):
        found = language_headers() | found
    headers |= {name: text for name, text in found.items() if name not in headers}
    return bool(found)


def _imply(header: str, headers: dict[str, str]) -> bool:
    """Have those that stand for headers of the C++ library include ``header`` too, as the host's include each other;
    whether one did not yet."""
    line, changed = f"#include <{header}>\n", False
    for name, text in headers.items():
        if includes_others(name) and line not in text:
            headers[name], changed = f"{text}\n{line}", True
    headers.setdefault(header, host_header(header) or "")
    return changed


def _of_host(names: list[str]) -> list[str]:
    """Those of ``names``, of headers that are not the user's, that only a host compiler can read, be they there or
    not."""
    return [
        name
        for name in names
        if "/" not in name
        and not name.startswith("cu")
        or name.startswith("thrust/")
        or name == CUB
        or torch_header(name)
    ]
