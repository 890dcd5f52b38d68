"""The front ends of CUDA C++, PTX and machine code: what :mod:`gpusim.frontend.native.kernels` names, as binaries.

Mental model: all three end in a cubin and pass arguments alike; they differ in what comes before it. A binary is kept
by what it was made of, so that what is made of it in turn is made once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from gpusim.errors import CompileError, UsageError
from gpusim.frontend.native import cpp, link
from gpusim.frontend.native.arguments import parameter_values
from gpusim.frontend.native.cpp_unit import CppUnit
from gpusim.frontend.native.entry_names import one_of
from gpusim.frontend.native.included import State, included_by
from gpusim.frontend.native.kernels import CubinKernel, CudaCppKernel, PtxKernel, described, describes_cuda_cpp
from gpusim.frontend.native.machine_code import find_kernel
from gpusim.frontend.native.ptx_text import entries, raised
from gpusim.frontend.protocol import FrontEnd
from gpusim.isa.architectures import nearest
from gpusim.isa.binary.cubin import KernelImage, load_kernel
from gpusim.isa.binary.variables import with_variables
from gpusim.launch.arrays import HostArrays
from gpusim.launch.binary import KernelBinary


@dataclass(frozen=True, eq=False)
class NativeBinary(KernelBinary):
    """A kernel with the PTX types of its parameters, empty where they are not known, and the path of its source, empty
    for text: compilers know its name alone, and write it into the table of lines as a file of the folder that they ran
    in."""

    parameter_types: tuple[str, ...] = ()
    source_path: str = ""

    @cached_property
    def image(self) -> KernelImage:
        found = load_kernel(self.cubin, self.entry_name, self.line_cubin)
        if not self.source_path:
            return found
        name = Path(self.source_path).name
        return replace(
            found,
            lines={
                address: (self.source_path if Path(file).name == name else file, line)
                for address, (file, line) in found.lines.items()
            },
        )


class _Native(FrontEnd):
    """What the three have in common."""

    takes_type: type

    def accepts(self, kernel: object) -> bool:
        return isinstance(kernel, self.takes_type)

    def pack(self, kernel: Any, binary: KernelBinary, args: tuple, arrays: HostArrays) -> bytes:
        types = binary.parameter_types if isinstance(binary, NativeBinary) else ()
        return binary.place_parameters(parameter_values(binary, types, args, arrays))


class CudaCppFrontEnd(_Native):
    """CUDA C++ by NVRTC or nvcc."""

    name, takes, takes_type = "cuda_cpp", "gpusim.cuda_cpp(source, entry)", CudaCppKernel

    def accepts(self, kernel: object) -> bool:
        return super().accepts(kernel) or describes_cuda_cpp(kernel)

    def compile(self, kernel: Any, args: tuple, capability: tuple[int, int], *, lines: bool = True) -> KernelBinary:
        kernel = described(kernel) if describes_cuda_cpp(kernel) else kernel
        return _build_cpp(kernel, capability, lines, included_by(kernel))


class PtxFrontEnd(_Native):
    """PTX by nvJitLink."""

    name, takes, takes_type = "ptx", "gpusim.ptx(source, entry)", PtxKernel

    def compile(self, kernel: Any, args: tuple, capability: tuple[int, int], *, lines: bool = True) -> KernelBinary:
        return _build_ptx(kernel, capability)


class CubinFrontEnd(_Native):
    """Machine code, alone or in a file that carries it."""

    name, takes, takes_type = "cubin", "gpusim.cubin(path, entry)", CubinKernel

    def compile(self, kernel: Any, args: tuple, capability: tuple[int, int], *, lines: bool = True) -> KernelBinary:
        return _build_cubin(kernel, capability)


@lru_cache(maxsize=256)
def _build_cpp(
    kernel: CudaCppKernel, capability: tuple[int, int], lines: bool, included: tuple[State, ...]
) -> NativeBinary:
    """``included`` are the files that it includes as they are now: a session edits them and captures again."""
    row = nearest(capability)
    target, compiled_for = row.name, row.compiled_as.name
    try:
        built = cpp.compile_cpp(
            kernel.unit,
            kernel.entry,
            compiled_for,
            compiler=kernel.compiler,
            relocatable=bool(kernel.link),
            lines=lines,
        )
    except CompileError as error:
        if row.built:
            raise
        raise CompileError(f"{error} (what is assembled for {target} is compiled for {compiled_for})") from None
    code, tools = built.cubin, built.tools
    if kernel.link or not row.built:
        parts = [(".ptx", kernel.file, built.ptx.encode()), *_parts(kernel.link, kernel, compiled_for)]
        code, tools = link.link(kernel.entry, target, parts), f"{tools}, {link.version()}"
    types = entries(built.ptx).get(built.entry_name, ())
    return NativeBinary(
        with_variables(code, dict(kernel.variables), kernel.entry), built.entry_name, kernel.entry, capability, cooperative=kernel.cooperative, toolchain=tools,
        parameter_types=types, source_path=str(Path(kernel.folder) / kernel.file) if kernel.folder else "",
    )  # fmt: skip


def _parts(
    named: tuple[tuple[str, bytes], ...], kernel: CudaCppKernel | PtxKernel, target: str
) -> list[tuple[str, str, bytes]]:
    """What is linked to ``kernel``, sources among it compiled with the kernel's own options."""
    parts = []
    for name, content in named:
        suffix = Path(name).suffix
        if suffix in (".cu", ".cuh", ".cpp"):
            own = isinstance(kernel, CudaCppKernel)
            text = content.decode(errors="replace")
            unit = replace(kernel.unit, source=text, file=name) if own else CppUnit(text, name)
            built = cpp.compile_cpp(unit, None, target, compiler=kernel.compiler if own else cpp.AUTO, relocatable=True)
            parts.append((".ptx", name, built.ptx.encode()))
        elif suffix in link.KINDS:
            parts.append((suffix, name, raised(content.decode()).encode() if suffix == ".ptx" else content))
        else:
            raise UsageError(f"link: {name} is none of .cu, {', '.join(link.KINDS)}")
    return parts


@lru_cache(maxsize=256)
def _build_ptx(kernel: PtxKernel, capability: tuple[int, int]) -> NativeBinary:
    target = nearest(capability).target
    known = entries(kernel.text)
    entry = one_of(kernel.entry, list(known), kernel.file)
    others = _parts(kernel.link, kernel, nearest(capability).compiled_as.target)
    parts = [(".ptx", kernel.file, raised(kernel.text).encode()), *others]
    code = link.link(entry, target, parts, kernel.options)
    return NativeBinary(
        with_variables(code, dict(kernel.variables), entry),
        entry,
        entry,
        capability,
        cooperative=kernel.cooperative,
        toolchain=link.version(),
        parameter_types=known[entry],
    )


@lru_cache(maxsize=256)
def _build_cubin(kernel: CubinKernel, capability: tuple[int, int]) -> NativeBinary:
    found = find_kernel(kernel.code, kernel.file, kernel.entry, capability)
    return NativeBinary(
        found.cubin, found.entry, found.entry, found.capability, cooperative=kernel.cooperative,
        toolchain=found.toolchain or kernel.tools, parameter_types=found.parameter_types or kernel.parameter_types,
    )  # fmt: skip


CUDA_CPP, PTX, CUBIN = CudaCppFrontEnd(), PtxFrontEnd(), CubinFrontEnd()
