"""CUDA C++ text in, PTX and machine code out, by NVRTC.

Mental model: one compilation gives both: the machine code that a launch loads, and the PTX, whose text still knows the types
of the parameters. Source lines are compiled in; they do not change the code (a test holds both builds together).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec
from cuda import pathfinder
from cuda.bindings import nvrtc

from gpusim.errors import CompileError, ToolchainError

INSTALL_HINT = "pip install nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-cccl"
#: The file in which NVRTC puts name expressions.
_NAME_MAP = "__nv_name_map"
_ARCHITECTURE = re.compile(r"^--?(gpu-architecture|arch)\b")
#: Names of header directories in cuda.pathfinder that are searched for includes, those of CCCL first.
_HEADERS = ("cccl", "cudart")


#: A process that finds what this one does.
_CHILD = "import sys; sys.path[:] = sys.argv[1:]; from gpusim.frontend.native.nvrtc_child import main; main()"


@dataclass(frozen=True)
class CppBuild:
    """What NVRTC made: ``cubin`` (empty for code that is to be linked), ``ptx`` text, ``entry_name``: the kernel's symbol."""

    cubin: bytes = field(repr=False)
    ptx: str = field(repr=False)
    entry_name: str


class Request(msgspec.Struct, frozen=True):
    """What is compiled: the arguments of :func:`compile_cpp`."""

    source: str
    file: str
    entry: str | None
    target: str
    options: tuple[str, ...] = ()
    folders: tuple[bytes, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    relocatable: bool = False
    lines: bool = True


class Answer(msgspec.Struct, frozen=True):
    """What a process of its own made of a request: ``built``, or an ``error``, of the source or of the compiler."""

    built: CppBuild | None = None
    error: str = ""
    in_source: bool = False


def compile_cpp(
    source: str,
    file: str,
    entry: str | None,
    target: str,
    options: Sequence[str] = (),
    folders: Sequence[str] = (),
    headers: Sequence[tuple[str, str]] = (),
    *,
    relocatable: bool = False,
    lines: bool = True,
) -> CppBuild:
    """Compile ``source`` for ``target`` ("sm_90"); ``entry`` is a name expression, None where only device functions are wanted.
    ``relocatable``: to be linked with others. ``lines``: with source lines.

    Raises CompileError (one line, the compiler's first error) and ToolchainError (with what to install).
    """
    given = tuple(options), tuple(map(os.fsencode, folders)), tuple(headers)
    request = Request(source, file, entry, target, *given, relocatable=relocatable, lines=lines)
    # NVRTC ends its process where a template is named and the source has some errors: see nvrtc_child.
    return _compile_apart(request) if entry is not None and "<" in entry and sys.executable else compile_here(request)


def _compile_apart(request: Request) -> CppBuild:
    """In a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *sys.path],
        input=msgspec.msgpack.encode(request), capture_output=True, check=False, start_new_session=True,
    )  # fmt: skip
    if done.returncode == 0:
        answer = msgspec.msgpack.decode(done.stdout, type=Answer)
        if answer.built is not None:
            return answer.built
        raise (CompileError if answer.in_source else ToolchainError)(answer.error)
    what = f"{request.entry} does not compile for {request.target}"
    if done.returncode > 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise ToolchainError(
            f"{what}: the process that compiles failed ({''.join(last) or done.returncode}); {INSTALL_HINT}"
        )
    if request.entry is not None:  # without the name it does say what is wrong
        try:
            _compile_apart(msgspec.structs.replace(request, entry=None))
        except CompileError as error:
            raise CompileError(f"{what}: {str(error).partition(': ')[2]}") from None
    raise CompileError(f"{what}: NVRTC itself ended with {signal.Signals(-done.returncode).name}")


def compile_here(request: Request) -> CppBuild:
    """As :func:`compile_cpp`, in this process whatever comes of it."""
    source, file, entry, target = request.source, request.file, request.entry, request.target
    program = _checked(
        nvrtc.nvrtcCreateProgram(
            source.encode(),
            file.encode(),
            len(request.headers),
            [text.encode() for _, text in request.headers],
            [name.encode() for name, _ in request.headers],
        )
    )
    try:
        if entry is not None:
            _checked(nvrtc.nvrtcAddNameExpression(program, entry.encode()))
        flags = [*request.options]
        if not any(map(_ARCHITECTURE.match, request.options)):
            flags.append(f"-arch={target}")
        flags += ["-lineinfo"] * request.lines + ["-rdc=true"] * request.relocatable
        included = [b"-I" + folder for folder in (*request.folders, *map(os.fsencode, include_folders()))]
        given = [*(flag.encode() for flag in flags), *included]
        failed = nvrtc.nvrtcCompileProgram(program, len(given), given)[0]
        if failed != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(
                f"{entry or file} does not compile for {target}: {_first_error(_log(program), file, entry)}"
            )
        name = entry
        if entry is not None:
            name = _checked(nvrtc.nvrtcGetLoweredName(program, entry.encode())).decode()
        text = _content(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).rstrip(b"\0").decode()
        code = b"" if request.relocatable else _content(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        return CppBuild(code, text, name or "")
    finally:
        nvrtc.nvrtcDestroyProgram(program)


@cache
def include_folders() -> tuple[str, ...]:
    """Where the CUDA headers of the installed wheels lie, as far as they are installed."""
    found = (pathfinder.find_nvidia_header_directory(name) for name in _HEADERS)
    return tuple(str(folder) for folder in found if folder)


@cache
def version() -> str:
    """Name and version of the compiler, as traces keep it."""
    major, minor = _checked(nvrtc.nvrtcVersion(), 2)
    return f"NVRTC {major}.{minor}"


def _checked(answer: tuple, values: int = 1) -> Any:
    """The values of a call that must succeed."""
    if answer[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise ToolchainError(f"NVRTC: {answer[0].name}; {INSTALL_HINT}")
    return answer[1] if values == 1 and len(answer) > 1 else answer[1:]


def _content(program: Any, size_of: Any, read: Any) -> bytes:
    content = b" " * _checked(size_of(program))
    _checked(read(program, content))
    return content


def _log(program: Any) -> str:
    return (
        _content(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).rstrip(b"\0").decode(errors="replace")
    )


def _first_error(log: str, file: str, entry: str | None) -> str:
    """The first error of a compiler's log on one line, those of the source before that of the name expression."""
    lines = [" ".join(line.split()) for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line] or lines
    own = [line for line in errors if _NAME_MAP not in line]
    if errors and not own:
        return f"{file} has no kernel {entry} ({errors[0].partition('error: ')[2] or errors[0]})"
    chosen = own[0][:400] if own else "no reason given"
    missing = "cannot open source file" in chosen
    return chosen + "; name its folder in headers=; NVRTC has no headers of the host's C++ library" * missing
