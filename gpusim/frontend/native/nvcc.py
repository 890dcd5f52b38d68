"""CUDA C++ with host code in, PTX and machine code of its device code out, by nvcc.

Mental model: a file that has ``main``, ``<<<...>>>`` and ``#include <vector>`` beside its kernels is what nvcc is for:
it parses the host's code with the host's own headers and leaves it out. nvcc comes in the wheels of the extra
``gpusim[nvcc]`` or in a CUDA toolkit; either needs the host's C++ compiler for its preprocessor. A template is
instantiated, and any kernel's symbol found, by a variable behind the source that holds the kernel's address, and is
taken out of the PTX again.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from cuda import pathfinder

from gpusim.errors import CompileError, ToolchainError
from gpusim.frontend.native.cpp_unit import CppBuild, CppUnit, errors_of, refusal

INSTALL_HINT = 'pip install "gpusim[nvcc]"'
#: Compilers of the host that nvcc drives, as it looks for them.
_HOST_COMPILERS = ("g++", "c++", "clang++")
_PROBE = "gpusim_kernel_name"
#: NVRTC's own, which nvcc does not know.
_NVRTC_ONLY = re.compile(
    r"^--?(default-device|device-as-default-execution-space|builtin-|no-source-include|pch|time=|minimal|no-cache|device-int128)"
)
_NAMED = re.compile(rf"\b{_PROBE} = (?:generic\()?([\w$%]+)")
_PROBE_LINE = re.compile(rf"^.*\b{_PROBE} = .*$", re.MULTILINE)
#: What build files of programs that need it say; it changes nothing where it is not needed.
_RELAXED = ("--expt-relaxed-constexpr", "--extended-lambda")
#: Longer than any compilation that ends.
MOST_SECONDS = 1800


@cache
def program() -> str:
    """nvcc's path, empty where there is none or no C++ compiler of the host: that of the wheels, of ``CUDA_HOME`` or on
    PATH."""
    if not host_compiler():
        return ""
    try:
        return pathfinder.find_nvidia_binary_utility("nvcc") or ""
    except (RuntimeError, OSError):  # what it finds is no program
        return ""


@cache
def host_compiler() -> str:
    """The host's C++ compiler, empty where there is none."""
    return next((found for name in _HOST_COMPILERS if (found := shutil.which(name))), "")


def lacking() -> str:
    """What has to be installed before nvcc can be used, as a remedy in a message."""
    if not host_compiler():
        return f"install a C++ compiler (g++) and {INSTALL_HINT}"
    return INSTALL_HINT


@cache
def version() -> str:
    """Name and version of the compiler, as traces keep it."""
    said = _run([program(), "--version"]).stdout
    found = re.search(r"release (\d+\.\d+)", said)
    return f"nvcc {found[1]}" if found else "nvcc"


def compile_cpp(
    unit: CppUnit, entry: str | None, target: str, *, relocatable: bool = False, lines: bool = True
) -> CppBuild:
    """As :func:`gpusim.frontend.native.nvrtc.compile_cpp`. Raises CompileError (one line, the compiler's first error)
    and ToolchainError where there is no nvcc."""
    if not program():
        raise ToolchainError(f"{unit.file} has host code, which nvcc compiles: {lacking()}")
    with tempfile.TemporaryDirectory(prefix="gpusim-nvcc-") as folder:
        return _compile(Path(folder), unit, entry, target, relocatable, lines)


def _compile(folder: Path, unit: CppUnit, entry: str | None, target: str, relocatable: bool, lines: bool) -> CppBuild:
    file = Path(unit.file).name
    file = file if file.endswith(".cu") else f"{file}.cu"
    for name, text in unit.headers:
        place = (folder / "headers" / name).resolve()
        if not place.is_relative_to(folder.resolve()):
            raise CompileError(f"{unit.file}: the header {name} lies outside of its folder")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    probe = f'\nextern "C" __device__ void *const {_PROBE} = (void *)&{entry};\n' if entry else ""
    # The line directive keeps messages and source lines those of the user's file.
    (folder / file).write_text(f'#line 1 "{unit.file}"\n{unit.source}{probe}')
    flags = [flag for flag in unit.options if not _NVRTC_ONLY.match(flag) and flag not in _RELAXED]
    if not unit.says_architecture:
        flags.append(f"-arch={target}")
    flags += ["-lineinfo"] * lines + ["-rdc=true"] * relocatable
    flags += _RELAXED
    flags += [f"-I{each}" for each in (str(folder / "headers"), *unit.folders)]
    ptx = folder / "made.ptx"
    _make(
        [program(), "-ptx", "-allow-unsupported-compiler", *flags, "-o", str(ptx), str(folder / file)],
        unit,
        entry,
        target,
    )
    # The folder is another each time: traces and messages are to be the same.
    text = ptx.read_text(errors="replace").replace(f"{folder}/", "")
    symbol = _symbol(text, entry) if entry else ""
    text = _PROBE_LINE.sub("", text)
    ptx.write_text(text)
    output = folder / "made.cubin"
    _make([program(), "-cubin", *flags, "-o", str(output), str(ptx)], unit, entry, target)
    return CppBuild(output.read_bytes(), text, symbol, version())


def _make(command: list[str], unit: CppUnit, entry: str | None, target: str) -> None:
    done = _run(command)
    if done.returncode:
        raise _refused(unit, entry, target, done.stderr + done.stdout)


def _symbol(ptx: str, entry: str) -> str:
    """The kernel's symbol: what the variable that was put behind the source is initialised with."""
    found = _NAMED.search(ptx)
    if found is None:
        raise CompileError(
            f"{entry}: nvcc does not say its symbol: name the kernel as the source does, or with compiler nvrtc"
        )
    return found[1]


def _refused(unit: CppUnit, entry: str | None, target: str, log: str) -> CompileError:
    errors = errors_of(log)
    last = unit.source.count("\n") + 1
    own = [line for line in errors if not _is_probe(line, unit.file, last)]
    if errors and not own:
        reason = errors[0].partition("error: ")[2] or errors[0]
        return refusal(f"{unit.file} has no kernel {entry} ({reason})", log, no_kernel=True)
    return refusal(f"{entry or unit.file} does not compile for {target}: {own[0] if own else 'no reason given'}", log)


def _is_probe(line: str, file: str, last: int) -> bool:
    """Whether an error is of what stands behind the source's ``last`` line."""
    found = re.match(rf"{re.escape(file)}\((\d+)\)", line)
    return found is not None and int(found[1]) > last


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=MOST_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"nvcc does not run: {error}") from None
