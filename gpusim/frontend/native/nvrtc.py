"""CUDA C++ text in, PTX and machine code out, by NVRTC.

Mental model: one compilation gives both: the machine code that a launch loads, and the PTX, whose text still knows the types
of the parameters. Source lines are compiled in; they do not change the code (a test holds both builds together).
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Any

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


def compile_cpp(
    unit: CppUnit, entry: str | None, target: str, *, relocatable: bool = False, lines: bool = True
) -> CppBuild:
    """Compile ``unit`` for ``target`` ("sm_90"), or take what an earlier process made of it; ``entry`` is a name expression, None where
    only device functions are wanted.
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
    built = _compile(unit, entry, target, relocatable=relocatable, lines=lines)
    kept_builds.write_build(kept, built.cubin, built.ptx, built.entry_name)
    return built


def _compile(unit: CppUnit, entry: str | None, target: str, *, relocatable: bool, lines: bool) -> CppBuild:
    program = _checked(
        nvrtc.nvrtcCreateProgram(
            unit.source.encode(),
            unit.file.encode(),
            len(unit.headers),
            [text.encode() for _, text in unit.headers],
            [name.encode() for name, _ in unit.headers],
        )
    )
    try:
        if entry is not None:
            _checked(nvrtc.nvrtcAddNameExpression(program, entry.encode()))
        flags = [flag for flag in unit.options if not _NVCC_ONLY.match(flag)]
        if not unit.says_architecture:
            flags.append(f"-arch={target}")
        flags += ["-lineinfo"] * lines + ["-rdc=true"] * relocatable
        flags += [f"-I{folder}" for folder in (*unit.folders, *include_folders())]
        failed = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])[0]
        if failed != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise _refused(_log(program), unit.file, entry, target)
        name = entry
        if entry is not None:
            name = _checked(nvrtc.nvrtcGetLoweredName(program, entry.encode())).decode()
        text = _content(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).rstrip(b"\0").decode()
        code = b"" if relocatable else _content(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        return CppBuild(code, text, name or "", version())
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


@cache
def _build_version() -> str:
    """What tells this compiler from another that calls itself by the same version."""
    library = pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path
    state = os.stat(library) if library and os.path.isfile(library) else None
    return f"{version()} {library} {state and (state.st_size, state.st_mtime_ns)}"


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
