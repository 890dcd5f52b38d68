"""A set's kernels by the compiler that they were measured with, rather than the installed one.

Mental model: what a kernel takes is the compiler's doing too. NVRTC 13 gives the 4 x 4 tile of the tuned convolution
213 registers a thread, that of CUDA 11.8 to 12.3 gives it 61 for the same instructions: 8 or 24 warps an SM. So a set
may name a package of NVRTC (``nvrtc`` in the manifest), whose library lies in site-packages beside the installed one
and is called through ctypes, which needs no bindings of its version. Only one version of a package can be installed;
others lie in a folder each, under ``compilers`` in the cache folder. What is not the set's own (the flush of L2, a set
that names no compiler) is compiled by the installed one, whatever sets came before.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import gpusim
from gpusim.errors import CompileError, ToolchainError
from gpusim.frontend.native import nvrtc
from gpusim.gpus.spec import GpuSpec
from gpusim.io.cache_folder import cache_folder
from workloads.external.launches import CudaKernel, Timed

#: Where the package of each CUDA release keeps its library.
_LIBRARIES = {
    "nvidia-cuda-nvrtc-cu11": "nvidia/cuda_nvrtc/lib/libnvrtc.so.11.2",
    "nvidia-cuda-nvrtc-cu12": "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
}


def by_own_compiler(timed: Timed, package: str, spec: GpuSpec) -> Timed:
    """The same launch of the kernel as ``package`` compiles it; as it is where no package is named or the kernel is not
    CUDA C++. Raises as :func:`cubin_of`."""
    kernel = timed.kernel
    if not package or not isinstance(kernel, CudaKernel):
        return timed
    target = f"sm_{spec.capability[0]}{spec.capability[1]}"
    code, symbol = cubin_of(package, kernel.source, kernel.entry, kernel.options, target)
    return replace(timed, kernel=gpusim.cubin(code, symbol))


def cubin_of(package: str, source: Path, entry: str, options: tuple[str, ...], target: str) -> tuple[bytes, str]:
    """Machine code of ``source`` for ``target`` ("sm_80") by the NVRTC of ``package``
    ("nvidia-cuda-nvrtc-cu12==12.3.107"), and the symbol of ``entry``, a name expression. Raises ToolchainError, with
    what to install, and CompileError."""
    library = _library(package)
    program = ctypes.c_void_p()
    _checked(
        library.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(), source.name.encode(), 0, None, None)
    )
    try:
        _checked(library.nvrtcAddNameExpression(program, entry.encode()))
        flags = [f"-arch={target}", "-lineinfo", *options, *(f"-I{folder}" for folder in nvrtc.include_folders())]
        given = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
        if library.nvrtcCompileProgram(program, len(flags), given):
            log = _content(library, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            raise CompileError(f"{entry} does not compile by {package}: {' '.join(log.split())[:200]}")
        name = ctypes.c_char_p()
        _checked(library.nvrtcGetLoweredName(program, entry.encode(), ctypes.byref(name)))
        return _content(library, program, "CUBIN"), (name.value or b"").decode()
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


@cache
def _library(package: str) -> ctypes.CDLL:
    # The bindings take any NVRTC that the process has loaded already for the installed one (cuda.pathfinder): loaded
    # first, the set's would compile the flush, and the kernels of all other sets.
    nvrtc.version()
    name, _, version = package.partition("==")
    own = cache_folder()
    beside = own and own / "compilers" / package
    if beside and (beside / _LIBRARIES[name]).exists():
        return ctypes.CDLL(str(beside / _LIBRARIES[name]))
    to = f'python -m pip install "{package}"'
    also = f", or beside another release with --no-deps --target {beside}" if beside else ""
    hint = f"{to}{also}, or --compiler installed (the extra gpusim[validation] has 12.3)"
    try:
        found = distribution(name)
    except PackageNotFoundError:
        raise ToolchainError(f"the set was measured with another compiler than the installed one: {hint}") from None
    if found.version != version:
        raise ToolchainError(f"{name} {found.version} is installed, the set asks for {version}: {hint}")
    return ctypes.CDLL(str(found.locate_file(_LIBRARIES[name])))


def _content(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _checked(getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    content = ctypes.create_string_buffer(size.value)
    _checked(getattr(library, f"nvrtcGet{what}")(program, content))
    return content.raw


def _checked(status: int) -> None:
    if status:
        raise ToolchainError(f"NVRTC of the set: error {status}")
