"""NVIDIA's fat binary, the container in which compilers leave device code for several architectures; bounds-checked,
since such a file is untrusted input.

Mental model: a fat binary is a run of images, each machine code (a cubin) or PTX for one architecture, all of the same
source; it is a module to the driver, which takes the image that suits the GPU. A program has one a source file. What an
image holds is unpacked when it is asked for, so that looking through a library of gigabytes costs its headers alone.

Format, which NVIDIA does not publish: read off what ``fatbinary`` of CUDA 13.0 and nvFatbin 13.5 write with each
``--compress-mode``, and in accord with the notes of github.com/n-eiling/cuda-fatbin-decompression and
github.com/jiegec/fatbinary. A header of 16 bytes (magic, version, its own size, bytes of all images), then images: a
header of 64 bytes or more and as many bytes as it says.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpusim.errors import CompileError
from gpusim.isa.binary.unpack import LZ4, MOST_UNPACKED_BYTES, ZSTD, unpacked

MAGIC = struct.pack("<I", 0xBA55ED50)
_CONTAINER = struct.Struct("<IHHQ")
#: Kind, version, size of this header, padded size of the image, its size where it is compressed, where options stand,
#: minor and major version of its format, architecture, offset and size of a name, flags, nothing, size when unpacked.
_IMAGE = struct.Struct("<HHIQIIHHIIIQQQ")
VERSION = 1
KIND_PTX, KIND_CUBIN = 1, 2
_FLAG_LZ4, _FLAG_ZSTD = 0x2000, 0x8000
#: Flags of targets with a suffix: sm_90a runs on no other architecture, sm_100f on those of its family.
_FLAG_SPECIFIC, _FLAG_FAMILY = 0x100000, 0x200000
#: More than any library has: libcublasLt.so.13 has 2,775 containers with 5,424 images.
MOST_IMAGES = 1 << 18


@dataclass(frozen=True)
class Image:
    """One image: ``is_ptx`` or machine code, for ``capability``; ``suffix``: "a" or "f" where its target has one."""

    is_ptx: bool
    capability: tuple[int, int]
    suffix: str
    stored: memoryview = field(repr=False)
    packing: str = ""
    unpacked_bytes: int = 0

    @property
    def target(self) -> str:
        """``sm_90a``, ``compute_90``."""
        return "{}_{}{}{}".format("compute" if self.is_ptx else "sm", *self.capability, self.suffix)

    def content(self) -> bytes:
        """The cubin, or PTX as text. Raises CompileError for damaged compressed data, ToolchainError where what unpacks
        it is not installed."""
        content = unpacked(self.stored, self.packing, self.unpacked_bytes) if self.packing else bytes(self.stored)
        return content.strip(b"\0 \n") + b"\n" if self.is_ptx else content


@dataclass(frozen=True)
class Module:
    """The images of one container, in the order of the file; ``linked``: False for parts of a program that a device
    linker has still to put together."""

    images: tuple[Image, ...]
    linked: bool = True


def containers(file: bytes, start: int, end: int) -> Iterator[tuple[Image, ...]]:
    """The images of each fat binary in bytes ``start`` to ``end`` of ``file``, in order, whatever stands between them.
    Raises CompileError for one that is damaged."""
    at, count = start, 0
    while (at := file.find(MAGIC, at, end)) >= 0 and end - at >= _CONTAINER.size:
        _, version, header_bytes, images_bytes = _CONTAINER.unpack_from(file, at)
        if version != VERSION or header_bytes < _CONTAINER.size:
            at += len(MAGIC)  # the same four bytes in something else
            continue
        first = at + header_bytes
        if images_bytes > end - first:
            raise CompileError(
                f"damaged fat binary at 0x{at:x}: it claims {images_bytes} bytes of images, {max(0, end - first)} follow"
            )
        at = first + images_bytes
        images = tuple(_images(file, first, at))
        count += len(images)
        if count > MOST_IMAGES:
            raise CompileError(f"damaged fat binary: more than {MOST_IMAGES} images")
        yield images


def _images(file: bytes, at: int, end: int) -> Iterator[Image]:
    """The images that lie side by side between ``at`` and ``end``; kinds other than code are left out."""
    view = memoryview(file)
    while end - at >= _IMAGE.size:
        kind, _, header_bytes, stored_bytes, packed_bytes, _, _, _, number, _, _, flags, _, size = _IMAGE.unpack_from(
            file, at
        )
        where, start = f"damaged fat binary: the image at 0x{at:x}", at + header_bytes
        if header_bytes < _IMAGE.size or stored_bytes > end - start or packed_bytes > stored_bytes:
            raise CompileError(f"{where} claims {header_bytes} + {stored_bytes} bytes, {end - at} follow")
        packing = LZ4 if flags & _FLAG_LZ4 else ZSTD if flags & _FLAG_ZSTD else ""
        if packing and size > MOST_UNPACKED_BYTES:
            raise CompileError(f"{where} claims {size} bytes when unpacked; at most {MOST_UNPACKED_BYTES} are")
        if kind in (KIND_PTX, KIND_CUBIN):
            stored = view[start : start + (packed_bytes if packing else stored_bytes)]
            suffix = "a" if flags & _FLAG_SPECIFIC else "f" if flags & _FLAG_FAMILY else ""
            yield Image(kind == KIND_PTX, divmod(number, 10), suffix, stored, packing, size)
        at = start + stored_bytes
