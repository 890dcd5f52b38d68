"""Texture and surface objects as the driver API has them.

Mental model: an object is a descriptor in a table that kernels reach (:mod:`gpusim.launch.texture`) and the
descriptions that the program gave, which it may ask for again. Rules and limits: CUDA Driver API, cuTexObjectCreate and
cuSurfObjectCreate.
"""

from __future__ import annotations

from ctypes import POINTER
from dataclasses import dataclass, replace

from gpusim.driver.abi import (
    HOST,
    INVALID_VALUE,
    NOT_SUPPORTED,
    OUT_OF_MEMORY,
    WORD,
    WORD_OUT,
    DriverError,
    entry,
    put,
    structure_at,
)
from gpusim.driver.arrays import FORMAT_BYTES, SURFACE, Arrays
from gpusim.driver.memory import Memory
from gpusim.driver.structures import ResourceDescription, ResourceView, TextureDescription
from gpusim.errors import UsageError
from gpusim.launch.texture import DESCRIPTOR_BYTES, FILTERED, HALF, Descriptor
from gpusim.launch.texture import FLOAT as FLOAT_FORMAT

_ARRAY, _MIPMAPPED, _LINEAR, _PITCHED = range(4)  # CUresourcetype
_AS_INTEGER, _NORMALIZED, _SRGB, _SEAMLESS = 0x01, 0x02, 0x10, 0x40  # CU_TRSF_*
_KNOWN_FLAGS = 0x73
_ALIGNMENT, _PITCH_ALIGNMENT, _MOST_ELEMENTS = 512, 32, 1 << 28
_MOST_PITCHED = (131072, 65000, 2097120)  # elements, rows, bytes a row


@dataclass
class Object:
    """What the program gave; ``texture`` is None for a surface."""

    resource: ResourceDescription
    texture: TextureDescription | None
    view: ResourceView | None
    device: int = 0


class Textures:
    """Entry points cuTexObject* and cuSurfObject*."""

    def __init__(self, memory: Memory, arrays: Arrays):
        self._memory, self._arrays = memory, arrays
        self._objects: dict[int, Object] = {}

    def reset(self, device: int) -> None:
        """Forget all objects of a device; kernels that use one fail."""
        for handle, made in list(self._objects.items()):
            if made.device == device:
                self._drop(handle)

    def _add(self, made: Object, descriptor: Descriptor) -> int:
        try:
            handle = self._memory.space.add_texture(descriptor.pack())
        except UsageError as error:
            raise DriverError(OUT_OF_MEMORY, str(error)) from None
        self._objects[handle] = replace(made, device=self._memory.here())
        return handle

    def _get(self, handle: int, surface: bool) -> Object:
        found = self._objects.get(handle)
        if found is None or (found.texture is None) != surface:
            raise DriverError(INVALID_VALUE, f"0x{handle:x} is no {'surface' if surface else 'texture'} object")
        return found

    def _drop(self, handle: int) -> None:
        del self._objects[handle]
        table = self._memory.space.textures
        assert table is not None
        table[handle : handle + DESCRIPTOR_BYTES] = 0

    # ---- textures -------------------------------------------------------------------------------

    @entry("cuTexObjectCreate", arguments=(WORD_OUT, HOST, HOST, HOST))
    def create_texture(self, out, resource_at: int, texture_at: int, view_at: int) -> None:
        resource = ResourceDescription.from_buffer_copy(structure_at(ResourceDescription, resource_at))
        texture = TextureDescription.from_buffer_copy(structure_at(TextureDescription, texture_at))
        view = ResourceView.from_buffer_copy(structure_at(ResourceView, view_at)) if view_at else None
        if view is not None and (resource.type in (_LINEAR, _PITCHED) or view.format):
            code = INVALID_VALUE if resource.type in (_LINEAR, _PITCHED) else NOT_SUPPORTED
            raise DriverError(code, "textures that see an array in another format (resource views) are not emulated")
        place = self._place(resource)
        integer = bool(texture.flags & _AS_INTEGER) or FORMAT_BYTES[place.format] == 4 and place.format != FLOAT_FORMAT
        _check_texture(texture, place, integer)
        put(out, self._add(Object(resource, texture, view), _sampled(place, texture, integer)))

    def _place(self, resource: ResourceDescription) -> Descriptor:
        """Where the elements of a resource lie; raises DriverError for one that CUDA refuses."""
        if resource.type == _ARRAY:
            array = self._arrays.get(resource.resource.array)
            depth, height, width = array.shape
            row, d = width * array.element_bytes, array.description
            return Descriptor(
                d.format, d.channels, width, height, depth, array.block.allocation.base, row, row * height
            )
        if resource.type == _MIPMAPPED:
            raise DriverError(NOT_SUPPORTED, "mipmapped textures are not emulated by gpusim run, other textures are")
        if resource.type not in (_LINEAR, _PITCHED):
            raise DriverError(INVALID_VALUE, f"resource type {resource.type} is none of 0 to 3")
        linear = resource.type == _LINEAR
        given = resource.resource.linear if linear else resource.resource.pitched
        if given.format not in FORMAT_BYTES or given.channels not in (1, 2, 4):
            raise DriverError(INVALID_VALUE, f"elements of {given.channels} channels of CUarray_format {given.format}")
        if given.address % _ALIGNMENT:
            raise DriverError(
                INVALID_VALUE, f"a texture's memory at 0x{given.address:x} is not aligned to {_ALIGNMENT}"
            )
        element = FORMAT_BYTES[given.format] * given.channels
        if linear:
            width = given.size // element
            if not 0 < width <= _MOST_ELEMENTS:
                raise DriverError(INVALID_VALUE, f"a linear texture of {width} elements, the most are {_MOST_ELEMENTS}")
            self._memory.host_address(given.address, given.size)
            return Descriptor(
                given.format, given.channels, width, 1, 1, given.address, given.size, given.size, linear=True
            )
        sizes = given.width, given.height, given.pitch
        if not all(0 < size <= most for size, most in zip(sizes, _MOST_PITCHED, strict=True)):
            raise DriverError(
                INVALID_VALUE, f"a texture of {sizes} elements, rows and bytes a row, the most are {_MOST_PITCHED}"
            )
        if given.pitch % _PITCH_ALIGNMENT or given.pitch < given.width * element:
            raise DriverError(
                INVALID_VALUE, f"a pitch of {given.pitch} bytes is no multiple of {_PITCH_ALIGNMENT}, or too small"
            )
        self._memory.host_address(given.address, given.pitch * (given.height - 1) + given.width * element)
        size = given.pitch * given.height
        return Descriptor(given.format, given.channels, given.width, given.height, 1, given.address, given.pitch, size)

    @entry("cuTexObjectDestroy", arguments=(WORD,))
    def destroy_texture(self, handle: int) -> None:
        self._get(handle, surface=False)
        self._drop(handle)

    @entry("cuTexObjectGetResourceDesc", arguments=(POINTER(ResourceDescription), WORD))
    def texture_resource(self, out, handle: int) -> None:
        put(out, self._get(handle, surface=False).resource)

    @entry("cuTexObjectGetTextureDesc", arguments=(POINTER(TextureDescription), WORD))
    def texture_description(self, out, handle: int) -> None:
        put(out, self._get(handle, surface=False).texture)

    @entry("cuTexObjectGetResourceViewDesc", arguments=(POINTER(ResourceView), WORD))
    def texture_view(self, out, handle: int) -> None:
        view = self._get(handle, surface=False).view
        if view is None:
            raise DriverError(INVALID_VALUE, "the texture was created without a resource view")
        put(out, view)

    # ---- surfaces -------------------------------------------------------------------------------

    @entry("cuSurfObjectCreate", arguments=(WORD_OUT, HOST))
    def create_surface(self, out, resource_at: int) -> None:
        resource = ResourceDescription.from_buffer_copy(structure_at(ResourceDescription, resource_at))
        if resource.type != _ARRAY:
            raise DriverError(INVALID_VALUE, "a surface is made of an array")
        if not self._arrays.get(resource.resource.array).description.flags & SURFACE:
            raise DriverError(INVALID_VALUE, "the array was not created with CUDA_ARRAY3D_SURFACE_LDST")
        put(out, self._add(Object(resource, None, None), self._place(resource)))

    @entry("cuSurfObjectDestroy", arguments=(WORD,))
    def destroy_surface(self, handle: int) -> None:
        self._get(handle, surface=True)
        self._drop(handle)

    @entry("cuSurfObjectGetResourceDesc", arguments=(POINTER(ResourceDescription), WORD))
    def surface_resource(self, out, handle: int) -> None:
        put(out, self._get(handle, surface=True).resource)


def _check_texture(texture: TextureDescription, place: Descriptor, integer: bool) -> None:
    if texture.flags & ~_KNOWN_FLAGS:
        raise DriverError(INVALID_VALUE, f"a texture has no flags 0x{texture.flags:x}")
    if texture.flags & _SRGB:
        raise DriverError(NOT_SUPPORTED, "textures in sRGB are not emulated")
    if texture.filter_mode not in (0, 1) or any(mode not in range(4) for mode in texture.address_mode):
        raise DriverError(INVALID_VALUE, "a texture's filter mode is 0 or 1, its address modes are 0 to 3")
    if texture.filter_mode == FILTERED and integer and place.format not in (FLOAT_FORMAT, HALF) and not place.linear:
        raise DriverError(INVALID_VALUE, "elements that are read as integers cannot be filtered")


def _sampled(place: Descriptor, texture: TextureDescription, integer: bool) -> Descriptor:
    return Descriptor(
        place.format, place.channels, place.width, place.height, place.depth, place.data, place.row_bytes, place.slice_bytes,
        linear=place.linear,
        modes=tuple(texture.address_mode),
        filter=texture.filter_mode,
        normalized=bool(texture.flags & _NORMALIZED),
        integer=integer,
        border=tuple(texture.border),
        seamless=bool(texture.flags & _SEAMLESS),
    )  # fmt: skip
