"""A kernel of CUDA C++ or PTX, compiled by the version of ptxas or NVRTC that is asked for.

Mental model: ptxas gets the same text whatever its version: a kernel of CUDA C++ is made PTX once, by the installed
front end, and the text's ``.version`` is lowered to what the oldest of the versions takes, so that only the assembler
differs. NVRTC, which does both, gets the source, in a process of its own (:mod:`gpusim.bisect.nvrtc_process`). What is
compiled becomes a kernel that any front end's cubin may be.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypedDict

from gpusim.errors import CompileError, ToolchainError, UsageError
from gpusim.frontend.native import cpp, nvrtc
from gpusim.frontend.native.cpp_unit import errors_of
from gpusim.frontend.native.entry_names import one_of
from gpusim.frontend.native.kernels import CubinKernel, CudaCppKernel, PtxKernel, described, describes_cuda_cpp
from gpusim.frontend.native.ptx_text import entries, raised
from gpusim.io.records import as_record, read_json
from gpusim.isa.architectures import nearest

MOST_SECONDS = 1800
_VERSION = re.compile(r"^(\s*\.version\s+)(\d{1,4})\.(\d{1,4})", re.M)
_TARGET = re.compile(r"^\s*\.target\s+(sm_\d+[af]?)", re.M)
_NEWEST = re.compile(r"current version is '(\d+)\.(\d+)'")
#: PTX of a version that there will not be, which an assembler refuses by naming its own.
_QUESTION = ".version 999.0\n.target sm_75\n.address_size 64\n"


class _Built(TypedDict):
    """What an NVRTC process answers."""

    cubin: str
    ptx: str
    entry: str
    error: str


def is_compiled(kernel: Any) -> bool:
    """Whether ``kernel`` is one that ptxas or NVRTC compiles."""
    return isinstance(kernel, (CudaCppKernel, PtxKernel)) or describes_cuda_cpp(kernel)


def ptx_of(kernel: Any, capability: tuple[int, int]) -> tuple[str, str, str, tuple[str, ...], bool]:
    """(PTX, kernel's symbol, file, options of the assembler, whether it is launched cooperatively). Raises
    CompileError, UsageError."""
    kernel = described(kernel) if describes_cuda_cpp(kernel) else kernel
    if kernel.link:
        raise UsageError(f"{kernel.file}: a kernel that is linked with others is not bisected by its assembler")
    if isinstance(kernel, PtxKernel):
        entry = one_of(kernel.entry, list(entries(kernel.text)), kernel.file)
        return raised(kernel.text), entry, kernel.file, kernel.options, kernel.cooperative
    built = cpp.compile_cpp(kernel.unit, kernel.entry, nearest(capability).compiled_as.name, compiler=kernel.compiler)
    return built.ptx, built.entry_name, kernel.file, (), kernel.cooperative


def newest_ptx(ptxas: Path) -> tuple[int, int] | None:
    """The newest version of PTX that an assembler takes, None where it does not say."""
    with tempfile.TemporaryDirectory(prefix="gpusim-ptxas-") as folder:
        question = Path(folder, "question.ptx")
        question.write_text(_QUESTION)
        found = _NEWEST.search(_run([str(ptxas), str(question), "-o", str(Path(folder, "none"))]).stderr)
    return (int(found[1]), int(found[2])) if found else None


def lowered_to(text: str, newest: tuple[int, int] | None) -> str:
    """``text`` with a version of at most ``newest``: an instruction that came later is the assembler's to refuse."""

    def older(found: re.Match[str]) -> str:
        if newest is None or (int(found[2]), int(found[3])) <= newest:
            return found[0]
        return f"{found[1]}{newest[0]}.{newest[1]}"

    return _VERSION.sub(older, text)


def assemble(ptxas: Path, text: str, entry: str, file: str, options: Iterable[str], capability: tuple[int, int],
             cooperative: bool, tools: str) -> CubinKernel:  # fmt: skip
    """The kernel of ``text`` as ``ptxas`` assembles it. Raises CompileError with its first complaint, ToolchainError
    where it does not run."""
    named = _TARGET.search(text)
    own = named is not None and named[1][-1] in "af"
    target = named[1] if named is not None and own else nearest(capability).name
    with tempfile.TemporaryDirectory(prefix="gpusim-ptxas-") as folder:
        source, made = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(text)
        done = _run([str(ptxas), f"-arch={target}", "--generate-line-info", *options, str(source), "-o", str(made)])
        if done.returncode or not made.is_file():
            said = errors_of(done.stderr + done.stdout) or ["no reason given"]
            raise CompileError(f"{file}: {entry} is not assembled for {target}: {said[0].replace(str(source), file)}")
        code = made.read_bytes()
    return CubinKernel(code, file, entry, cooperative, entries(text).get(entry, ()), tools)


def compile_by_nvrtc(library: Path, kernel: Any, capability: tuple[int, int], tools: str) -> CubinKernel:
    """The kernel of CUDA C++ as the NVRTC of ``library`` compiles it. Raises CompileError, ToolchainError, and
    UsageError for one of PTX."""
    if isinstance(kernel, PtxKernel):
        raise UsageError(f"{kernel.file}: PTX is assembled, not compiled by NVRTC; bisect ptxas")
    kernel = described(kernel) if describes_cuda_cpp(kernel) else kernel
    if kernel.link:
        raise UsageError(f"{kernel.file}: a kernel that is linked with others is not bisected by its compiler")
    target = nearest(capability).compiled_as.name
    question = {
        "library": str(library), "source": kernel.source, "file": kernel.file, "entry": kernel.entry,
        "options": [*kernel.options, *([] if kernel.unit.says_architecture else [f"-arch={target}"]), "-lineinfo"],
        "folders": [*kernel.folders, *nvrtc.include_folders()], "headers": [list(each) for each in kernel.headers],
    }  # fmt: skip
    done = _run([sys.executable, "-m", "gpusim.bisect.nvrtc_process"], json.dumps(question))
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise ToolchainError(f"{library}: the process that compiles failed ({lines[-1] if lines else done.returncode})")
    built = as_record(_Built, read_json(done.stdout), "the answer of NVRTC's process", ToolchainError)
    if built["error"]:
        said = errors_of(built["error"]) or ["no reason given"]
        raise CompileError(f"{kernel.file}: {kernel.entry} does not compile for {target}: {said[0]}")
    types = entries(built["ptx"]).get(built["entry"], ())
    return CubinKernel(bytes.fromhex(built["cubin"]), kernel.file, built["entry"], kernel.cooperative, types, tools)


def _run(command: list[str], given: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, input=given, capture_output=True, text=True, errors="replace", timeout=MOST_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{command[0]} does not run: {error}") from None
