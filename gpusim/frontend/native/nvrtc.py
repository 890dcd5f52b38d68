"""CUDA C++ text in, PTX and machine code out, by NVRTC.

Mental model: one compilation gives both: the machine code that a launch loads, and the PTX, whose text still knows the types
of the parameters. Source lines are compiled in; they do not change the code (a test holds both builds together).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from cuda import pathfinder
from cuda.bindings import nvrtc

from gpusim.errors import CompileError, ToolchainError
from gpusim.frontend.native import kept_builds

INSTALL_HINT = "pip install nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-cccl"
#: The file in which NVRTC puts name expressions.
_NAME_MAP = "__nv_name_map"
_ARCHITECTURE = re.compile(r"^--?(gpu-architecture|arch)\b")
#: Names of header directories in cuda.pathfinder that are searched for includes, those of CCCL first.
_HEADERS = ("cccl", "cudart")


@dataclass(frozen=True)
class CppBuild:
    """What NVRTC made: ``cubin`` (empty for code that is to be linked), ``ptx`` text, ``entry_name``: the kernel's symbol."""

    cubin: bytes = field(repr=False)
    ptx: str = field(repr=False)
    entry_name: str


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
    """Compile ``source`` for ``target`` ("sm_90"), or take what an earlier process made of it; ``entry`` is a name expression, None where only device functions are wanted.
    ``relocatable``: to be linked with others. ``lines``: with source lines.

    Raises CompileError (one line, the compiler's first error) and ToolchainError (with what to install).
    """
    about = (entry, target, relocatable, lines, _build_version())
    kept = kept_builds.fingerprint(source, file, about, options, folders, include_folders(), headers)
    found = kept_builds.read_build(kept)
    if found is not None:
        return CppBuild(*found)
    built = _compile(source, file, entry, target, options, folders, headers, relocatable=relocatable, lines=lines)
    kept_builds.write_build(kept, built.cubin, built.ptx, built.entry_name)
    return built


def _compile(
    source: str,
    file: str,
    entry: str | None,
    target: str,
    options: Sequence[str],
    folders: Sequence[str],
    headers: Sequence[tuple[str, str]],
    *,
    relocatable: bool,
    lines: bool,
) -> CppBuild:
    program = _checked(
        nvrtc.nvrtcCreateProgram(
            source.encode(),
            file.encode(),
            len(headers),
            [text.encode() for _, text in headers],
            [name.encode() for name, _ in headers],
        )
    )
    try:
        if entry is not None:
            _checked(nvrtc.nvrtcAddNameExpression(program, entry.encode()))
        flags = [*options]
        if not any(map(_ARCHITECTURE.match, options)):
            flags.append(f"-arch={target}")
        flags += ["-lineinfo"] * lines + ["-rdc=true"] * relocatable
        flags += [f"-I{folder}" for folder in (*folders, *include_folders())]
        failed = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])[0]
        if failed != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(
                f"{entry or file} does not compile for {target}: {_first_error(_log(program), file, entry)}"
            )
        name = entry
        if entry is not None:
            name = _checked(nvrtc.nvrtcGetLoweredName(program, entry.encode())).decode()
        text = _content(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).rstrip(b"\0").decode()
        code = b"" if relocatable else _content(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
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
