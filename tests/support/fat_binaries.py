"""Fat binaries by nvFatbin, and host files around them, as nvcc leaves them: made in memory, since no binary is kept in
the repository."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import lz4.block
import pytest
import zstandard

from gpusim.frontend.native.cpp_unit import CppBuild, CppUnit
from gpusim.frontend.native.nvrtc import compile_cpp

SOURCE = """
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
template <typename T> __global__ void scale(T *x, T factor) { x[threadIdx.x] *= factor; }
template __global__ void scale<double>(double *, double);
"""
_IMAGE = struct.Struct("<HHIQIIHHIIIQQQ")
_ELF = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")


@cache
def _build(target: str, relocatable: bool = False) -> CppBuild:
    return compile_cpp(CppUnit(SOURCE, "source.cu"), None, target, lines=False, relocatable=relocatable)


def cubin_of(target: str) -> bytes:
    """:data:`SOURCE` for ``target``."""
    return _build(target).cubin


@cache
def fat_binary(mode: str = "none", relocatable: bool = False) -> bytes:
    """Machine code for sm_80 and sm_90a and PTX for compute_90, compressed as ``--compress-mode`` says;
    ``relocatable``: as PTX alone, for sm_80, which a device linker has still to see. Skips the test where nvFatbin is
    not installed."""
    nvfatbin = pytest.importorskip("cuda.bindings.nvfatbin")
    try:
        nvfatbin.version()
    except Exception as error:
        pytest.skip(f"nvFatbin, which makes the files: pip install nvidia-nvfatbin ({type(error).__name__})")
    options = ["-64", "-host=linux", f"-compress-mode={mode}"] + ["-compress-all"] * (mode in ("size", "speed"))
    handle = nvfatbin.create(options, len(options))
    try:
        if relocatable:
            _add_ptx(nvfatbin, handle, _build("sm_80", True).ptx, "80")
        else:
            for target in ("80", "90a"):
                code = cubin_of(f"sm_{target}")
                nvfatbin.add_cubin(handle, code, len(code), target, "")
            _add_ptx(nvfatbin, handle, _build("sm_90").ptx, "90")
        made = bytearray(nvfatbin.size(handle))
        nvfatbin.get(handle, made)
        return bytes(made)
    finally:
        nvfatbin.destroy(handle)


def _add_ptx(nvfatbin: Any, handle: int, text: str, target: str) -> None:
    code = text.encode() + b"\0"
    nvfatbin.add_ptx(handle, code, len(code), target, "", "")


def container(*images: tuple[int, int, int, bytes]) -> bytes:
    """A fat binary of (kind, architecture, flags, content) each, packed as the flags say."""
    body = b""
    for kind, architecture, flags, content in images:
        packed = content
        if flags & 0x2000:
            packed = lz4.block.compress(content, store_size=False)
        elif flags & 0x8000:
            packed = zstandard.ZstdCompressor().compress(content)
        size, whole = (len(packed), len(content)) if packed is not content else (0, 0)
        packed += bytes(-len(packed) % 8)
        body += (
            _IMAGE.pack(kind, 0x101, 64, len(packed), size, 0, 8, 1, architecture, 0, 0, flags | 0x11, 0, whole)
            + packed
        )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def host_elf(sections: dict[str, bytes]) -> bytes:
    """An ELF file of a host processor with ``sections`` (name -> content) and nothing else."""
    names, place, body, rows = b"\0", _ELF.size, b"", [_SECTION.pack(*(0,) * 10)]
    for name, content in {**sections, ".shstrtab": b""}.items():
        at, names = len(names), names + name.encode() + b"\0"
        content = names if name == ".shstrtab" else content
        body += bytes(-(place + len(body)) % 8)
        rows.append(
            _SECTION.pack(at, 3 if name == ".shstrtab" else 1, 0, 0, place + len(body), len(content), 0, 0, 8, 0)
        )
        body += content
    body += bytes(-(place + len(body)) % 8)
    header = _ELF.pack(
        b"\x7fELF\2\1\1" + bytes(9), 2, 62, 1, 0, 0, place + len(body), 0, _ELF.size, 0, 0, _SECTION.size, len(rows),
        len(rows) - 1,
    )  # fmt: skip
    return header + body + b"".join(rows)


def archive(members: dict[str, bytes]) -> bytes:
    """An ``ar`` archive."""
    made = b"!<arch>\n"
    for name, content in members.items():
        made += (
            f"{name + '/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode()
            + content
            + b"\n" * (len(content) % 2)
        )
    return made
