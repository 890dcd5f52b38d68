"""Module images that a program passes by address: how far they reach, and the cubin that the GPU gets of them.

Mental model: an image is a cubin, PTX text, a fat binary, or the small structure by which compiled programs point to
their fat binary. Of a fat binary the image is taken that suits the GPU, as the driver does.
"""

from __future__ import annotations

import ctypes
import struct

from gpusim.driver.abi import INVALID_IMAGE, INVALID_VALUE, NO_BINARY_FOR_GPU, DriverError
from gpusim.driver.jit import PTX_INPUT, JitOptions, link
from gpusim.errors import CompileError, UsageError
from gpusim.frontend.native.images import content_of, suitable
from gpusim.isa.architectures import nearest
from gpusim.isa.binary.elf import MAGIC, image_size
from gpusim.isa.binary.fatbin import MAGIC as FAT_MAGIC

#: ``__fatBinC_Wrapper_t`` of nvcc's fatbinary_section.h: magic, version, address of the fat binary, a file's name.
_WRAPPER = struct.Struct("<IIQQ")
_WRAPPER_MAGIC = struct.pack("<I", 0x466243B1)
_FAT_HEADER = struct.Struct("<IHHQ")
_MAX_IMAGE_BYTES = 1 << 30
_CUBIN_INPUT = 0


def image_bytes(address: int) -> bytes:
    """The module image at a host address: an ELF file and a fat binary by their own tables, anything else up to its
    end. Raises DriverError."""
    if not address:
        raise DriverError(INVALID_VALUE, "the module image is a null pointer")
    start = ctypes.string_at(address, 4)
    if start == _WRAPPER_MAGIC:
        return image_bytes(_WRAPPER.unpack(ctypes.string_at(address, _WRAPPER.size))[2])
    if start == FAT_MAGIC:
        _, _, header, size = _FAT_HEADER.unpack(ctypes.string_at(address, _FAT_HEADER.size))
        if size > _MAX_IMAGE_BYTES:
            raise DriverError(INVALID_IMAGE, f"a fat binary of {size} bytes")
        return ctypes.string_at(address, header + size)
    if start != MAGIC:
        return ctypes.string_at(address)
    try:
        size = image_size(lambda offset, count: ctypes.string_at(address + offset, count), _MAX_IMAGE_BYTES)
    except CompileError as error:
        raise DriverError(INVALID_IMAGE, str(error)) from None
    return ctypes.string_at(address, size)


def cubin_of(data: bytes, capability: tuple[int, int], options: JitOptions) -> bytes:
    """The machine code of an image for a GPU of ``capability``; raises DriverError, and the linker's log goes where
    ``options`` say."""
    target = nearest(capability).target
    if data.startswith(MAGIC):
        return data
    if not data.startswith(FAT_MAGIC):
        return link([(PTX_INPUT, "module", data)], target, options)
    try:
        chosen = suitable(data, "the fat binary", capability)
        parts = [(image.is_ptx, content_of(image, "the fat binary")) for _, image in chosen]
    except UsageError as error:
        raise DriverError(NO_BINARY_FOR_GPU, str(error)) from None
    except CompileError as error:
        raise DriverError(INVALID_IMAGE, str(error)) from None
    if len(parts) == 1 and not parts[0][0]:
        return parts[0][1]
    kinds = [
        (PTX_INPUT if is_ptx else _CUBIN_INPUT, f"image {i}", content) for i, (is_ptx, content) in enumerate(parts)
    ]
    return link(kinds, target, options)
