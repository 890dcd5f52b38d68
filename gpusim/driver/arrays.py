"""CUDA arrays: blocks of elements that textures and surfaces read.

Mental model: an array has up to three dimensions of elements, each of 1, 2 or 4 channels of one format. On a GPU its
layout is opaque; here its rows lie one behind the other in device memory of its own, so that a copy and a texture unit
find an element by its place. Limits and rules: CUDA Driver API, cuArray3DCreate.
"""

from __future__ import annotations

from ctypes import POINTER, c_int, c_uint
from dataclasses import dataclass

import numpy as np

from gpusim.driver.abi import (
    INVALID_HANDLE,
    INVALID_VALUE,
    NOT_SUPPORTED,
    WORD,
    WORD_OUT,
    DriverError,
    Handles,
    entry,
    put,
    structure_at,
)
from gpusim.driver.memory import Block, Memory
from gpusim.driver.structures import ArrayDescription, ArrayDescription3D

#: CUarray_format -> bytes a channel.
FORMAT_BYTES = {1: 1, 2: 2, 3: 4, 8: 1, 9: 2, 10: 4, 16: 2, 32: 4}
LAYERED, SURFACE, CUBEMAP, GATHER = 1, 2, 4, 8
DEPTH_TEXTURE, COLOUR_ATTACHMENT, SPARSE, DEFERRED = 0x10, 0x20, 0x40, 0x80
_KNOWN_FLAGS = LAYERED | SURFACE | CUBEMAP | GATHER | COLOUR_ATTACHMENT
# Largest extents, of every compute capability from 7.5 (CUDA Programming Guide, "Technical Specifications").
_MOST_1D, _MOST_1D_LAYERED, _MOST_2D = 131072, (32768, 2048), (131072, 65536)
_MOST_2D_LAYERED, _MOST_3D, _MOST_GATHER = (32768, 32768, 2048), (16384, 16384, 16384), (32768, 32768)
_MOST_CUBE, _MOST_CUBE_LAYERS = 32768, 2046


@dataclass(eq=False)
class Array:
    """``description`` as it was asked for; ``block`` its memory: slices (layers, faces) of rows of elements."""

    description: ArrayDescription3D
    block: Block
    handle: int = 0

    @property
    def element_bytes(self) -> int:
        return FORMAT_BYTES[self.description.format] * self.description.channels

    @property
    def shape(self) -> tuple[int, int, int]:
        """(slices, rows, elements a row), each at least 1."""
        d = self.description
        return max(1, d.depth), max(1, d.height), d.width

    def bytes_of(self, x: int, y: int, z: int, extent: tuple[int, int, int]) -> np.ndarray:
        """uint8[depth, height, width] of the box of ``extent`` (width, height, depth) at byte ``x`` of row ``y`` of
        slice ``z``; raises DriverError where it leaves the array."""
        slices, rows, elements = self.shape
        width, height, depth = extent
        row = elements * self.element_bytes
        if x % self.element_bytes or width % self.element_bytes:
            raise DriverError(
                INVALID_VALUE, f"a copy of an array must keep to its elements of {self.element_bytes} bytes"
            )
        if x + width > row or y + height > rows or z + depth > slices:
            raise DriverError(
                INVALID_VALUE,
                f"a box of {width} x {height} x {depth} at ({x}, {y}, {z}) leaves the array of {row} bytes x {rows} x {slices}",
            )
        assert self.block.pages is not None
        whole = self.block.pages[: slices * rows * row].reshape(slices, rows, row)
        return whole[z : z + depth, y : y + height, x : x + width]

    def flat(self, offset: int, size: int) -> np.ndarray:
        """uint8[size] at byte ``offset`` of a 1D array; raises DriverError."""
        if self.description.height or self.description.depth:
            raise DriverError(INVALID_VALUE, "this copy takes one-dimensional arrays")
        return self.bytes_of(offset, 0, 0, (size, 1, 1))[0, 0]


class Arrays:
    """Entry points cuArray* and cuMipmappedArray*."""

    def __init__(self, memory: Memory):
        self._memory = memory
        self._arrays = Handles(0x90_0000)

    def reset(self, device: int) -> None:
        """Forget all arrays of a device; their memory goes with the device's."""
        self._arrays.remove_if(lambda array: array.block.device == device)

    def get(self, handle: int) -> Array:
        """The array of a handle; raises DriverError."""
        return self._arrays.get(handle)

    def make(self, wanted: ArrayDescription3D) -> Array:
        """A new array; raises DriverError for one that cuArray3DCreate refuses."""
        check(wanted)
        element = FORMAT_BYTES[wanted.format] * wanted.channels
        size = wanted.width * max(1, wanted.height) * max(1, wanted.depth) * element
        block = self._memory.allocate(size, f"an array of {wanted.width} x {wanted.height} x {wanted.depth} elements")
        array = Array(ArrayDescription3D.from_buffer_copy(wanted), block)
        array.handle = self._arrays.new(array)
        return array

    @entry("cuArrayCreate", arguments=(WORD_OUT, POINTER(ArrayDescription)))
    def create(self, out, wanted) -> None:
        if not wanted:
            raise DriverError(INVALID_VALUE, "the array's description is null")
        d = wanted[0]
        put(out, self.make(ArrayDescription3D(d.width, d.height, 0, d.format, d.channels, 0)).handle)

    @entry("cuArray3DCreate", arguments=(WORD_OUT, WORD))
    def create_3d(self, out, wanted: int) -> None:
        put(out, self.make(structure_at(ArrayDescription3D, wanted)).handle)

    @entry("cuArrayGetDescriptor", arguments=(POINTER(ArrayDescription), WORD))
    def describe(self, out, handle: int) -> None:
        d = self.get(handle).description
        put(out, ArrayDescription(d.width, d.height, d.format, d.channels))

    @entry("cuArray3DGetDescriptor", arguments=(POINTER(ArrayDescription3D), WORD))
    def describe_3d(self, out, handle: int) -> None:
        put(out, self.get(handle).description)

    @entry("cuArrayDestroy", arguments=(WORD,))
    def destroy(self, handle: int) -> None:
        self._memory.free(self._arrays.remove(handle).block.allocation.base)

    @entry("cuArrayGetMemoryRequirements", arguments=(WORD_OUT, WORD, c_int))
    def requirements(self, out, handle: int, number: int) -> None:
        self.get(handle)
        raise DriverError(INVALID_VALUE, "only arrays made with CUDA_ARRAY3D_DEFERRED_MAPPING have memory requirements")

    @entry("cuArrayGetPlane", arguments=(WORD_OUT, WORD, c_uint))
    def plane(self, out, handle: int, number: int) -> None:
        self.get(handle)
        raise DriverError(INVALID_VALUE, "the array's format has no planes")

    @entry("cuArrayGetSparseProperties", arguments=(WORD_OUT, WORD))
    def sparse(self, out, handle: int) -> None:
        self.get(handle)
        raise DriverError(INVALID_VALUE, "the array is not sparse")

    @entry("cuMipmappedArrayCreate", arguments=(WORD_OUT, WORD, c_uint))
    def create_mipmapped(self, out, wanted: int, levels: int) -> None:
        check(structure_at(ArrayDescription3D, wanted))
        raise DriverError(NOT_SUPPORTED, "mipmapped arrays are not emulated by gpusim run, other arrays are")

    @entry("cuMipmappedArrayDestroy", arguments=(WORD,))
    def destroy_mipmapped(self, handle: int) -> None:
        raise DriverError(INVALID_HANDLE, f"0x{handle:x} is no mipmapped array")


def check(d: ArrayDescription3D) -> None:
    """Raise DriverError for a description that cuArray3DCreate refuses, or that is not emulated."""
    if d.format not in FORMAT_BYTES:
        if 0x50 <= d.format <= 0xFF:
            raise DriverError(
                NOT_SUPPORTED, f"arrays of CUarray_format 0x{d.format:x} (video, compressed) are not emulated"
            )
        raise DriverError(INVALID_VALUE, f"CUarray_format {d.format} is not known")
    if d.channels not in (1, 2, 4):
        raise DriverError(INVALID_VALUE, f"an element has 1, 2 or 4 channels, not {d.channels}")
    if d.flags & (SPARSE | DEFERRED):
        raise DriverError(NOT_SUPPORTED, "sparse arrays and arrays of deferred mapping are not emulated")
    if d.flags & ~_KNOWN_FLAGS:
        raise DriverError(INVALID_VALUE, f"an array has no flags 0x{d.flags & ~_KNOWN_FLAGS:x}")
    if d.width < 1 or (d.depth and not d.height and not d.flags & LAYERED):
        raise DriverError(INVALID_VALUE, f"an array of {d.width} x {d.height} x {d.depth} elements")
    if d.flags & CUBEMAP:
        layers = d.depth if d.flags & LAYERED else 6
        most: tuple[int, ...] = (_MOST_CUBE, _MOST_CUBE, _MOST_CUBE_LAYERS if d.flags & LAYERED else 6)
        if d.width != d.height or layers % 6 or d.depth < 6:
            raise DriverError(INVALID_VALUE, "a cubemap's faces are square and come in sixes")
    elif d.flags & LAYERED:
        if not d.depth:
            raise DriverError(INVALID_VALUE, "a layered array needs its number of layers as depth")
        most = _MOST_2D_LAYERED if d.height else (_MOST_1D_LAYERED[0], 0, _MOST_1D_LAYERED[1])
    elif d.flags & GATHER:
        if d.depth or not d.height:
            raise DriverError(INVALID_VALUE, "texture gather takes two-dimensional arrays")
        most = (*_MOST_GATHER, 0)
    else:
        most = _MOST_3D if d.depth else (*_MOST_2D, 0) if d.height else (_MOST_1D, 0, 0)
    if any(size > limit for size, limit in zip((d.width, d.height, d.depth), most, strict=True)):
        raise DriverError(INVALID_VALUE, f"{d.width} x {d.height} x {d.depth} elements are more than {most}")
