"""Kernels that are not Python functions: CUDA C++ source, PTX text, machine code; what a user writes to name one.

Mental model: :func:`cuda_cpp`, :func:`ptx` and :func:`cubin` make small values that say where a kernel comes from.
Nothing is compiled here; wherever a kernel is taken (``capture``, a case, ``sass``, ``measure``), its front end does
that for the GPU asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpusim.errors import UsageError
from gpusim.frontend.native.cpp_unit import CppUnit
from gpusim.io.real_path import real_path, refuse_no_text

#: A larger source, text or cubin is refused: the largest cubins of libraries have some hundred megabytes.
MOST_BYTES = 1 << 30
CPP_SUFFIXES = (".cu", ".cuh", ".cpp", ".h", ".hpp")


@dataclass(frozen=True)
class CudaCppKernel:
    """Kernel ``entry`` (a name, or a name expression such as ``scale<float, 4>``) of ``source``; ``file`` names it in
    messages and source lines. ``options`` go to NVRTC; ``folders`` are searched for includes; ``headers`` are (name,
    text) of further ones; ``link`` are further sources, PTX or machine code, as (file, content), whose device functions
    it calls; ``variables`` are what variables of the module hold, as (name, bytes). ``folder`` has the file; empty for
    text."""

    source: str = field(repr=False)
    file: str
    entry: str
    options: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    link: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    cooperative: bool = False
    compiler: str = "auto"
    variables: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    folder: str = ""

    @property
    def __name__(self) -> str:
        return self.entry

    @property
    def unit(self) -> CppUnit:
        """What is compiled."""
        return CppUnit(self.source, self.file, self.options, self.folders, self.headers)


@dataclass(frozen=True)
class PtxKernel:
    """Kernel ``entry`` (None: the only one) of PTX ``text``; ``options`` go to nvJitLink, ``link`` as for
    :class:`CudaCppKernel`."""

    text: str = field(repr=False)
    file: str
    entry: str | None = None
    options: tuple[str, ...] = ()
    link: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    cooperative: bool = False
    variables: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)

    @property
    def __name__(self) -> str:
        return self.entry or self.file


@dataclass(frozen=True)
class CubinKernel:
    """Kernel ``entry`` (None: the only one) of ``code``, the bytes of a file that holds machine code or PTX.
    ``parameter_types``: PTX types of its parameters, where whoever made the code knows them; machine code itself does
    not. ``tools``: who made it."""

    code: bytes = field(repr=False)
    file: str
    entry: str | None = None
    cooperative: bool = False
    parameter_types: tuple[str, ...] = ()
    tools: str = ""

    @property
    def __name__(self) -> str:
        return self.entry or self.file


def cuda_cpp(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    entry: str,
    options: Iterable[str] = (),
    headers: Iterable[str | os.PathLike[str]] | Mapping[str, str] = (),
    *,
    link: Iterable[str | os.PathLike[str]] = (),
    cooperative: bool = False,
    compiler: str = "auto",
    variables: Mapping[str, Any] | None = None,
) -> CudaCppKernel:
    """Kernel ``entry`` of CUDA C++ ``source``: text, or the path of a file, or a list of them of which the first has
    the kernel and the others device functions that it calls. Compiled for the GPU that it is captured for: by NVRTC,
    and where the source has host code beside its kernels by nvcc, or, without one, by NVRTC from what is device code in
    it.

    ``entry`` is the kernel's name as the source has it, or a name expression that instantiates a template
    (``"reduce<float, 256>"``). ``options``: NVRTC's (``"-DN=4"``, ``"-use_fast_math"``, ``"-std=c++20"``); the
    architecture is the GPU's unless ``-arch`` is among them. ``headers``: folders to search for includes (a file's own
    folder and the CUDA and CCCL headers of the installed wheels are searched anyway), or a mapping of include name ->
    text. ``link``: paths of further ``.cu``, ``.ptx``, ``.cubin``, ``.o``, ``.a`` or ``.fatbin`` files with device
    functions that the kernel calls. ``cooperative``: it is launched with all blocks resident (``this_grid().sync()``).
    ``compiler``: "nvrtc" or "nvcc" in place of that choice. ``variables``: what ``__constant__`` variables, and
    ``__device__`` ones that the source initialises, hold when the launch begins: name -> a NumPy array or number of the
    variable's type, or bytes (a program's ``cudaMemcpyToSymbol``).

    Raises UsageError for a file that cannot be read; what does not compile is told when it is compiled.
    """
    further: Sequence[str | os.PathLike[str]] = ()
    if isinstance(source, (list, tuple)):
        if not source:
            raise UsageError("source is an empty list: give the file or text with the kernel first")
        source, *further = source
    text, file, folder = _text_of(source, CPP_SUFFIXES)  # pyright: ignore[reportArgumentType]
    named = isinstance(headers, Mapping)
    return CudaCppKernel(
        text,
        file,
        _entry(entry),
        tuple(map(str, options)),
        tuple(([folder] if folder else []) + ([] if named else [str(Path(each)) for each in headers])),
        tuple(sorted(headers.items())) if named else (),
        (*(_source_part(each, place) for place, each in enumerate(further, 1)), *(_part(each) for each in link)),
        cooperative,
        compiler,
        _values(variables),
        folder,
    )


def describes_cuda_cpp(kernel: object) -> bool:
    """Whether ``kernel`` says itself, without a class of gpusim's, that it is one of CUDA C++: its method
    ``__cuda_cpp__`` gives the keywords of :func:`cuda_cpp`."""
    return hasattr(type(kernel), "__cuda_cpp__")


@lru_cache(maxsize=256)
def described(kernel: Any) -> CudaCppKernel:
    """What :func:`cuda_cpp` makes of such a kernel. Raises UsageError for keywords that it does not have, or of a wrong
    kind."""
    try:
        return cuda_cpp(**kernel.__cuda_cpp__())
    except TypeError as error:
        raise UsageError(f"__cuda_cpp__ of {type(kernel).__name__}: {error}") from None


def ptx(
    source: str | os.PathLike[str],
    entry: str | None = None,
    options: Iterable[str] = (),
    *,
    link: Iterable[str | os.PathLike[str]] = (),
    cooperative: bool = False,
    variables: Mapping[str, Any] | None = None,
) -> PtxKernel:
    """Kernel ``entry`` (needed where there are several) of PTX ``source``: text, or the path of a file. Assembled for
    the GPU that it is captured for; text that was written for an architecture older than the assembler knows is raised
    to the oldest it does.
    ``options``: nvJitLink's (``"-O1"``, ``"-maxrregcount=64"``); ``link``, ``cooperative`` and ``variables`` as for
    :func:`cuda_cpp`. Raises UsageError for a file that cannot be read."""
    text, file, _ = _text_of(source, (".ptx",))
    parts = tuple(_part(each) for each in link)
    named = None if entry is None else _entry(entry)
    return PtxKernel(text, file, named, tuple(map(str, options)), parts, cooperative, _values(variables))


def cubin(
    source: bytes | str | os.PathLike[str], entry: str | None = None, *, cooperative: bool = False
) -> CubinKernel:
    """Kernel ``entry`` (needed where there are several) of compiled code: the path, or the bytes, of a cubin, fat
    binary, object, archive, shared library or executable. ``entry`` is a symbol, or the function as C++ has it
    (``ns::scale<double>``, also without what stands before or behind ``scale`` where only one is called so). Of what
    the file holds the GPU's own machine code is taken, else that of the latest earlier minor version of its generation,
    else PTX, which is assembled. Raises UsageError for a file that cannot be read; what is not in it is told when the
    kernel is compiled."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        code, file = bytes(source), "cubin"
    else:
        code, file = _read(Path(source)), Path(source).name
    return CubinKernel(code, file, None if entry is None else _entry(entry), cooperative)


def _values(variables: Mapping[str, Any] | None) -> tuple[tuple[str, bytes], ...]:
    """The bytes of each value. Raises UsageError for what has none of a known size."""
    found = []
    for name, value in (variables or {}).items():
        if not isinstance(value, (bytes, bytearray)) and not hasattr(value, "tobytes"):
            raise UsageError(
                f"variables: {name} is a {type(value).__name__}, whose size is not said: give a NumPy array or number, or bytes"
            )
        found.append((str(name), bytes(value) if isinstance(value, (bytes, bytearray)) else value.tobytes()))
    return tuple(sorted(found))


def _entry(entry: str) -> str:
    if not isinstance(entry, str) or not entry.strip():
        raise UsageError(f"entry must name a kernel, not be {entry!r}")
    return entry.strip()


def _text_of(source: str | os.PathLike[str], suffixes: tuple[str, ...]) -> tuple[str, str, str]:
    """(text, name of the file, its folder or empty) of source code or of a file's path. One line that ends as files of
    the kind do is a path; text has lines or is no such name."""
    if isinstance(source, str) and ("\n" in source or not source.endswith(suffixes)):
        return source, f"source{suffixes[0]}", ""
    path = Path(source)
    refuse_no_text(Path(path.name))
    try:
        return _read(path).decode(), path.name, str(real_path(path).parent)
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not text in UTF-8") from None


def _source_part(source: str | os.PathLike[str], place: int) -> tuple[str, bytes]:
    """A further source of a list, text or file."""
    text, file, folder = _text_of(source, CPP_SUFFIXES)
    return (file if folder else f"source{place}.cu"), text.encode()


def _part(path: str | os.PathLike[str]) -> tuple[str, bytes]:
    return Path(path).name, _read(Path(path))


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path} has {path.stat().st_size:,} bytes; at most {MOST_BYTES:,} are read")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
