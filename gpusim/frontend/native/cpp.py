"""CUDA C++ in, PTX and machine code out, by the compiler that takes it.

Mental model: NVRTC compiles device code, within the process, ten times as fast as nvcc starts. Of a source with host
code in it (``main``, ``<<<...>>>``, ``#include <vector>``) the device code is picked out for it; where that fails, nvcc
takes the file whole, if there is one. Both hold the same compiler and make the same machine code.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gpusim.errors import CompileError, UsageError
from gpusim.frontend.native import device_part, nvcc, nvrtc
from gpusim.frontend.native.cpp_pieces import kernels
from gpusim.frontend.native.cpp_unit import CppBuild, CppError, CppUnit, errors_of, refusal
from gpusim.frontend.native.entry_names import MOST_SHOWN, one_of
from gpusim.frontend.native.ptx_text import entries
from gpusim.frontend.native.torch_headers import torch_header
from gpusim.gpus.names import capability_of
from gpusim.io.progress import task
from gpusim.isa.architectures import nearest

AUTO = "auto"
#: What ``compiler=`` may be.
COMPILERS = (AUTO, "nvrtc", "nvcc")
#: Only host code has these.
_HOST_ONLY = re.compile(r"<<<|\bint\s+main\s*\(")
#: How CCCL 3 is told to bring what it says NVRTC does not take.
_UNCHECKED = "-DCCCL_DISABLE_NVRTC_COMPATIBILITY_CHECK"
#: NVRTC's complaints that host code explains.
_HOST_ERRORS = (
    "open source file",
    "host variable",
    "is considered a host function",
    "is undefined",
    'namespace "std"',
    "kernel launch",
    "is not a template",
    device_part.WHOLE_LIBRARY,
)
_MISSING = "open source file"
#: Headers of CUDA that a package of its own brings, by the beginning of their names.
_PACKAGES = {"curand": "pip install nvidia-curand"}
_OF_TORCH = "pip install torch, and name in headers= (--include) the folders that torch.utils.cpp_extension.include_paths() gives"
_HEADER = re.compile(r"""open source file ["']([^"']+)["']|([^\s:]+): No such file""")
_ASSEMBLER = "ptxas"


def compile_cpp(
    unit: CppUnit,
    entry: str | None,
    target: str,
    *,
    compiler: str = AUTO,
    relocatable: bool = False,
    lines: bool = True,
) -> CppBuild:
    """Compile ``unit`` for ``target`` as :func:`gpusim.frontend.native.nvrtc.compile_cpp` does, by ``compiler``, one of
    :data:`COMPILERS`. Raises CompileError (one line: the first error, or which kernels there are), and
    ToolchainError."""
    if compiler not in COMPILERS:
        raise UsageError(f"there is no compiler {compiler}: choose {', '.join(COMPILERS)}")
    with task(f"compiling {unit.file} for {target}"):  # a source that none takes goes from one to the next
        return _compile_by(compiler, unit, entry, target, relocatable, lines)


def _compile_by(
    compiler: str, unit: CppUnit, entry: str | None, target: str, relocatable: bool, lines: bool
) -> CppBuild:
    chosen = _by_nvcc if compiler == "nvcc" else nvrtc.compile_cpp if compiler == "nvrtc" else _compile
    try:
        return chosen(unit, entry, target, relocatable=relocatable, lines=lines)
    except CppError as error:
        own = _own_target(target)
        if own != target and _ASSEMBLER in error.log and not (relocatable or unit.says_architecture):
            # What one architecture alone has (wgmma, setmaxnreg) the assembler refuses for code that is to run on later
            # ones too.
            try:
                return chosen(unit, entry, own, relocatable=relocatable, lines=lines)
            except CppError:
                raise error from None
        if not error.no_kernel or entry is None:
            raise
        found = None
        if compiler != "nvrtc" and "<" not in entry and nvcc.program() and _HOST_ONLY.search(unit.source):
            found = _instantiated(unit, entry, target, relocatable, lines)
        if found is None:
            raise _no_kernel(unit, entry, error) from None
        return found


def _by_nvcc(unit: CppUnit, entry: str | None, target: str, *, relocatable: bool, lines: bool) -> CppBuild:
    with task("by nvcc"):
        return nvcc.compile_cpp(unit, entry, target, relocatable=relocatable, lines=lines)


def _own_target(target: str) -> str:
    """``sm_90a`` of ``sm_90``; ``target`` itself of an architecture that has no such target."""
    capability = capability_of(target)
    return target if capability is None else nearest(capability).target


def compile_all(unit: CppUnit, target: str) -> CppBuild:
    """All kernels of ``unit`` that are no templates, and, of a file with host code where there is nvcc, the instances
    that it launches."""
    built = compile_cpp(unit, None, target)
    if nvcc.program() and _HOST_ONLY.search(unit.source) and "<" in "".join(kernels(unit.source)):
        try:
            return _by_nvcc(unit, None, target, relocatable=False, lines=True)
        except CppError:
            return built
    return built


def _compile(unit: CppUnit, entry: str | None, target: str, *, relocatable: bool, lines: bool) -> CppBuild:
    """By NVRTC as it is, else from its device code, else by nvcc; raises what the one that came furthest says."""
    try:
        return device_part.compile_cpp(unit, entry, target, relocatable=relocatable, lines=lines)
    except CppError as error:
        refused = error
    if device_part.WHOLE_LIBRARY in refused.log and not nvcc.program() and _UNCHECKED not in unit.options:
        unchecked = replace(unit, options=(*unit.options, _UNCHECKED))
        return _compile(unchecked, entry, target, relocatable=relocatable, lines=lines)
    has_host_code = _HOST_ONLY.search(unit.source) is not None or any(each in refused.log for each in _HOST_ERRORS)
    if refused.no_kernel or not has_host_code:
        raise refused
    missing = any(_MISSING in error for error in errors_of(refused.log)[:1])
    if nvcc.program():
        try:
            return _by_nvcc(unit, entry, target, relocatable=relocatable, lines=lines)
        except CppError as error:
            # What both find is the user's; it stands as the one that was asked first has it.
            missed = any(_MISSING in each for each in errors_of(error.log)[:1]) or "No such file" in error.log
            if missed and not missing:  # nvcc has not come to where NVRTC was
                more = f"nvcc does not come so far: {str(error).partition(': ')[2]}; {_where_from(error.log)}"
                raise refusal(f"{refused}; {more}", refused.log) from None
            # Of a missing header NVRTC knows best, which needs none of those that host code alone uses.
            missing, refused = missed, refused if missed else error
    remedies = [_where_from(refused.log)] * missing
    if not nvcc.program():
        remedies.append(f"a file with host code is nvcc's: {nvcc.lacking()}")
    raise refusal("; ".join([str(refused), *remedies]), refused.log, no_kernel=refused.no_kernel) from None


def _where_from(log: str) -> str:
    """What brings the first header that a compiler's ``log`` misses."""
    found = _HEADER.search(log)
    name = (found[1] or found[2]) if found else ""
    if torch_header(name):
        return _OF_TORCH
    packages = (package for start, package in _PACKAGES.items() if name.rpartition("/")[2].startswith(start))
    return next(packages, "name its folder in headers= (--include)")


def _instantiated(unit: CppUnit, entry: str, target: str, relocatable: bool, lines: bool) -> CppBuild | None:
    """The build of a template that is named without its arguments, where the file's own host code launches one instance
    of it; None where there is none such. Raises CompileError, naming them, where there are several."""
    try:
        built = _by_nvcc(unit, None, target, relocatable=relocatable, lines=lines)
    except CppError:
        return None
    names = list(entries(built.ptx))
    if not any(entry.rpartition("::")[2] in name for name in names):
        return None
    return replace(built, entry_name=one_of(entry, names, unit.file))


def _no_kernel(unit: CppUnit, entry: str, error: CppError) -> CompileError:
    """The refusal of a name, with those that there are."""
    there = list(dict.fromkeys(kernels(unit.source)))
    shown = ", ".join(there[:MOST_SHOWN]) + f" and {len(there) - MOST_SHOWN} more" * (len(there) > MOST_SHOWN)
    reason = str(error).partition(f"has no kernel {entry} ")[2].strip("()")
    plain = entry.partition("<")[0].rpartition("::")[2]
    alike = [each for each in there if each.partition("<")[0].rpartition("::")[2] == plain]
    if len([each for each in kernels(unit.source) if each in alike]) > len(alike):
        return CompileError(
            f"{unit.file} has several kernels {entry}: say which by its parameters, '(void (*)(float *, int)) {entry}'"
        )
    if alike and "<" not in entry and "<" in alike[0]:
        return CompileError(
            f"{unit.file} has no kernel {entry}, but a template {alike[0]}: give its arguments, as in {_example(alike[0])}"
        )
    if alike and alike[0] != entry and "::" in alike[0]:
        return CompileError(f"{unit.file} has no kernel {entry}; it has {', '.join(alike)}")
    return CompileError(f"{unit.file} has no kernel {entry}{f' ({reason})' if alike else ''}; it has {shown or 'none'}")


def _example(template: str) -> str:
    """A template's name with arguments of which one knows no more than that the first letter of a type is usually
    large."""
    name, _, rest = template.partition("<")
    arguments = [each.strip() for each in rest.rstrip(">").split(",")]
    return f"{name}<{', '.join('float' if each[:1] == 'T' else '256' for each in arguments)}>"
