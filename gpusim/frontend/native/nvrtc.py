"""CUDA C++ text in, PTX and machine code out, by NVRTC.

Mental model: one compilation gives both: the machine code that a launch loads, and the PTX, whose text still knows the
types of the parameters. Source lines are compiled in; they do not change the code (a test holds both builds together).

A process compiles by one NVRTC: the installed one, or what another package had loaded before the first compilation
(cuda.pathfinder prefers a library that is loaded). Traces say which by its version.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from functools import cache
from typing import Any

import msgspec
from cuda import pathfinder
from cuda.bindings import nvrtc

from gpusim.errors import ToolchainError
from gpusim.frontend.native import kept_builds
from gpusim.frontend.native.cpp_unit import CppBuild, CppError, CppUnit, errors_of, refusal

INSTALL_HINT = "pip install nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-cccl"
#: The file in which NVRTC puts name expressions.
NAME_MAP = "__nv_name_map"
#: Options of nvcc's that a program's build says, and that mean nothing to a compiler of device code.
_NVCC_ONLY = re.compile(
    r"-O\d?$|--?(expt-relaxed-constexpr|expt-extended-lambda|extended-lambda|Xcompiler|compiler-options|ccbin|compiler-bindir|cudart"
    r"|allow-unsupported-compiler|threads|keep|verbose|x$|m64$|g$|c$)|-l(?!ineinfo)|-L"
)
#: Names of header directories in cuda.pathfinder that are searched for includes, those of CCCL first.
_HEADERS = ("cccl", "cudart", "curand")
#: What nvcc has on Linux unasked: a source that it compiles may use ``__int128``, and gcc's word before what is not in
#: the standard.
_AS_NVCC = ("--device-int128", "-D__extension__=")
#: A process that finds what this one does.
_CHILD = "import sys; sys.path[:] = sys.argv[1:]; from gpusim.frontend.native.nvrtc_child import main; main()"


class Request(msgspec.Struct, frozen=True):
    """What is compiled: a :class:`CppUnit`, its folders as bytes (a path need not be text), and how. ``library``: path
    of the NVRTC that a process of its own is to open, ``""`` for the one it finds."""

    source: str
    file: str
    options: tuple[str, ...]
    folders: tuple[bytes, ...]
    headers: tuple[tuple[str, str], ...]
    says_architecture: bool
    entry: str | None
    target: str
    relocatable: bool
    lines: bool
    library: str = ""


class Answer(msgspec.Struct, frozen=True):
    """What a process of its own made of a request: ``built``, or an ``error``, of the source or of the compiler."""

    built: CppBuild | None = None
    error: str = ""
    in_source: bool = False
    log: str = ""
    no_kernel: bool = False


def compile_cpp(
    unit: CppUnit, entry: str | None, target: str, *, relocatable: bool = False, lines: bool = True
) -> CppBuild:
    """Compile ``unit`` for ``target`` ("sm_90"), or take what an earlier process made of it; ``entry`` is a name
    expression, None where only device functions are wanted.
    ``relocatable``: to be linked with others. ``lines``: with source lines.

    Raises CppError (one line, the compiler's first error) and ToolchainError (with what to install).
    """
    about = (entry, target, relocatable, lines, _build_version())
    kept = kept_builds.fingerprint(
        unit.source, unit.file, about, unit.options, unit.folders, include_folders(), unit.headers
    )
    found = kept_builds.read_build(kept)
    if found is not None:
        return CppBuild(*found, version())
    refused = kept_builds.read_refusal(kept)
    if refused is not None:
        raise refusal(refused[0], refused[1], no_kernel=refused[2])
    request = Request(
        unit.source, unit.file, unit.options, tuple(map(os.fsencode, unit.folders)), unit.headers, unit.says_architecture,
        entry, target, relocatable, lines, library(),
    )  # fmt: skip
    # NVRTC ends its process where a template is named and the source has some errors: see nvrtc_child.
    apart = entry is not None and "<" in entry and bool(sys.executable)
    try:
        built = compile_apart(request) if apart else compile_here(request)
    except CppError as error:
        kept_builds.write_refusal(kept, str(error), error.log, error.no_kernel)
        raise
    kept_builds.write_build(kept, built.cubin, built.ptx, built.entry_name)
    return built


def compile_apart(request: Request) -> CppBuild:
    """As :func:`compile_here`, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *sys.path],
        input=msgspec.msgpack.encode(request), capture_output=True, check=False, start_new_session=True,
    )  # fmt: skip
    if done.returncode == 0:
        answer = msgspec.msgpack.decode(done.stdout, type=Answer)
        if answer.built is not None:
            return answer.built
        if answer.in_source:
            raise refusal(answer.error, answer.log, no_kernel=answer.no_kernel)
        raise ToolchainError(answer.error)
    what = f"{request.entry} does not compile for {request.target}"
    if done.returncode > 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise ToolchainError(
            f"{what}: the process that compiles failed ({''.join(last) or done.returncode}); {INSTALL_HINT}"
        )
    if request.entry is not None:  # without the name it does say what is wrong
        try:
            compile_apart(msgspec.structs.replace(request, entry=None))
        except CppError as error:
            raise refusal(f"{what}: {str(error).partition(': ')[2]}", error.log) from None
    raise refusal(f"{what}: NVRTC itself ended with {signal.Signals(-done.returncode).name}", "")


def compile_here(request: Request) -> CppBuild:
    """As :func:`compile_cpp`, in this process whatever comes of it."""
    entry = request.entry
    program = _checked(
        nvrtc.nvrtcCreateProgram(
            request.source.encode(),
            request.file.encode(),
            len(request.headers),
            [text.encode() for _, text in request.headers],
            [name.encode() for name, _ in request.headers],
        )
    )
    try:
        if entry is not None:
            _checked(nvrtc.nvrtcAddNameExpression(program, entry.encode()))
        flags = [flag for flag in request.options if not _NVCC_ONLY.match(flag)]
        if not request.says_architecture:
            flags.append(f"-arch={request.target}")
        flags += [flag for flag in _AS_NVCC if flag not in flags]
        flags += ["-lineinfo"] * request.lines + ["-rdc=true"] * request.relocatable
        included = [b"-I" + folder for folder in (*request.folders, *map(os.fsencode, include_folders()))]
        given = [*(flag.encode() for flag in flags), *included]
        failed = nvrtc.nvrtcCompileProgram(program, len(given), given)[0]
        if failed != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise _refused(_log(program), request.file, entry, request.target)
        name = entry
        if entry is not None:
            name = _checked(nvrtc.nvrtcGetLoweredName(program, entry.encode())).decode()
        text = _content(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).rstrip(b"\0").decode()
        code = b"" if request.relocatable else _content(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        return CppBuild(code, text, name or "", version())
    finally:
        nvrtc.nvrtcDestroyProgram(program)


@cache
def include_folders() -> tuple[str, ...]:
    """Where the CUDA headers of the installed wheels lie, as far as they are installed."""
    return tuple(folder for folder in map(_header_folder, _HEADERS) if folder)


def _header_folder(name: str) -> str | None:
    """Where the CUDA headers ``name`` lie, None of those that are not there. Of what no wheel brings, pathfinder asks a
    process of its own that has ten seconds; one that a busy machine does not grant has found nothing."""
    try:
        return pathfinder.find_nvidia_header_directory(name)
    except ChildProcessError:
        return None


@cache
def version() -> str:
    """Name and version of the compiler, as traces keep it."""
    major, minor = _checked(nvrtc.nvrtcVersion(), 2)
    return f"NVRTC {major}.{minor}"


def library() -> str:
    """Path of the NVRTC that this process compiles by, ``""`` where it is not known."""
    return pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path or ""


@cache
def _build_version() -> str:
    """What tells this compiler from another that calls itself by the same version."""
    path = library()
    state = os.stat(path) if os.path.isfile(path) else None
    return f"{version()} {path or None} {state and (state.st_size, state.st_mtime_ns)}"


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


def _refused(log: str, file: str, entry: str | None, target: str) -> CppError:
    """The first error of a compiler's log, those of the source before that of the name expression."""
    errors = errors_of(log)
    own = [line for line in errors if NAME_MAP not in line]
    if errors and not own:
        reason = errors[0].partition("error: ")[2] or errors[0]
        return refusal(f"{file} has no kernel {entry} ({reason})", log, no_kernel=True)
    return refusal(f"{entry or file} does not compile for {target}: {own[0] if own else 'no reason given'}", log)
