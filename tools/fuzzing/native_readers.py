"""Readers of kernels that are no Python: PTX, CUDA C++, files of machine code, and how a command line names their
launches."""

from __future__ import annotations

from pathlib import Path

from gpusim.cases.native_arguments import parse_kernel_argument
from gpusim.cases.native_names import is_native_file, split_native
from gpusim.cases.native_shapes import complete_native_shape
from gpusim.cases.suite import parse_request
from gpusim.errors import CompileError, GpusimError, UsageError
from gpusim.frontend.native import kernels, nvrtc
from gpusim.frontend.native.entry_names import one_of
from gpusim.frontend.native.file_images import cubins_of
from gpusim.frontend.native.machine_code import find_kernel
from gpusim.frontend.native.ptx_text import entries, raised
from gpusim.isa.binary.cubin import load_kernel


def read_ptx(path: Path) -> str:
    """The text, as far as the assembler."""
    text = kernels.ptx(path).text
    known = entries(text)
    raised(text)
    return one_of(None, list(known), path.name) and "one kernel"


def assemble(path: Path) -> str:
    """The text through the assembler, as ``gpusim sass survey FILE.ptx`` does it."""
    try:
        return f"{sum(1 for _ in cubins_of(path, [(9, 0)]))} cubins"
    except CompileError as error:
        raise CompileError(_naming(path, error)) from None


def compile_source(path: Path) -> str:
    """CUDA C++ through the compiler."""
    kernel = kernels.cuda_cpp(path, "scale<float>")
    try:
        built = nvrtc.compile_cpp(kernel.unit, kernel.entry, "sm_90")
        return f"{len(load_kernel(built.cubin, built.entry_name).parameters)} parameters"
    except CompileError as error:
        raise CompileError(_naming(path, error)) from None


def load_machine_code(path: Path) -> str:
    """A kernel of a file, found, assembled or linked where it must be, and laid out."""
    kernel = kernels.cubin(path)
    if not is_native_file(str(path)):
        return "another kind"
    found = find_kernel(kernel.code, kernel.file, None, (9, 0))
    try:
        return f"{len(load_kernel(found.cubin, found.entry).code)} bytes"
    except CompileError as error:
        raise CompileError(_naming(path, error)) from None


def read_launch(path: Path) -> str:
    """One word of a command line: a kernel with its launch, or an argument of one."""
    text = path.read_bytes().decode("utf-8", "surrogateescape").split("\0")[0]
    try:
        if ":" not in text or "[" in text.split(":")[0]:
            parse_kernel_argument(text)
            return "argument"
        found = split_native(text)
        name, shape = parse_request(text)
        if found is None:
            return "request"
        complete_native_shape(name, shape)
        return "launch"
    except (ValueError, MemoryError) as error:
        raise UsageError(f"{path}: {_line(error)}") from None
    except GpusimError as error:
        raise type(error)(f"{path}: {_line(error)}") from None


def _line(error: Exception) -> str:
    """As the command line says it: a word may have lines."""
    return " ".join(str(error).split())


def _naming(path: Path, error: Exception) -> str:
    """As the commands that read a file name it."""
    return str(error) if path.name in str(error) else f"{path}: {error}"
