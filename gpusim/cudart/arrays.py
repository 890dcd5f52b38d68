"""CUDA arrays, textures and surfaces, as the runtime describes them.

Mental model: the runtime's descriptions say in bits of each channel what the driver's say as a format and a number of
channels; the rest is the driver's (:mod:`gpusim.driver.arrays`, :mod:`gpusim.driver.textures`). Copies from and to
arrays: :mod:`gpusim.cudart.box_copies`. Structures: driver_types.h, texture_types.h.
"""

from __future__ import annotations

import ctypes
import platform
from ctypes import POINTER, c_float, c_int, c_size_t, c_uint

from gpusim.cudart.errors import INVALID_CHANNEL_DESCRIPTOR, INVALID_VALUE
from gpusim.cudart.state import State
from gpusim.cudart.structures import ChannelFormat, Extent
from gpusim.driver.abi import HOST, UINT_OUT, WORD, WORD_OUT, DriverError, entry, put, structure_at
from gpusim.driver.structures import ArrayDescription3D, ResourceDescription, TextureDescription

#: (cudaChannelFormatKind, bits of a channel) -> CUarray_format.
_FORMATS = {(1, 8): 1, (1, 16): 2, (1, 32): 3, (0, 8): 8, (0, 16): 9, (0, 32): 10, (2, 16): 16, (2, 32): 32}
_KINDS = {number: described for described, number in _FORMATS.items()}
_FLOAT_KIND = 2
_LINEAR, _PITCHED = 2, 3  # cudaResourceType
_AS_INTEGER, _NORMALIZED, _SRGB, _NO_TRILINEAR, _SEAMLESS = 0x01, 0x02, 0x10, 0x20, 0x40  # CU_TRSF_*


class _Linear(ctypes.Structure):
    _fields_ = [("address", WORD), ("format", ChannelFormat), ("size", c_size_t)]


class _Pitched(ctypes.Structure):
    _fields_ = [
        ("address", WORD), ("format", ChannelFormat), ("width", c_size_t), ("height", c_size_t), ("pitch", c_size_t),
    ]  # fmt: skip


class _Union(ctypes.Union):
    _fields_ = [("array", WORD), ("linear", _Linear), ("pitched", _Pitched), ("reserved", c_int * 32)]


class Resource(ctypes.Structure):
    """cudaResourceDesc; CUDA 13 adds ``flags`` behind."""

    _fields_ = [("type", c_int), ("resource", _Union)]


class Texture(ctypes.Structure):
    """cudaTextureDesc."""

    _fields_ = [
        ("address_mode", c_int * 3), ("filter_mode", c_int), ("normalized_floats", c_int), ("srgb", c_int),
        ("border", c_float * 4), ("normalized", c_int), ("max_anisotropy", c_uint), ("mipmap_filter_mode", c_int),
        ("mipmap_level_bias", c_float), ("min_mipmap_level", c_float), ("max_mipmap_level", c_float),
        ("no_trilinear", c_int), ("seamless", c_int),
    ]  # fmt: skip


def driver_format(given: ChannelFormat) -> tuple[int, int]:
    """(CUarray_format, channels); raises DriverError for a description that no array can have."""
    bits = [given.x, given.y, given.z, given.w]
    channels = sum(each != 0 for each in bits)
    number = _FORMATS.get((given.kind, given.x))
    if number is None or channels not in (1, 2, 4) or bits != [given.x] * channels + [0] * (4 - channels):
        raise DriverError(
            INVALID_CHANNEL_DESCRIPTOR,
            f"channels of {', '.join(map(str, bits))} bits of kind {given.kind}: 1, 2 or 4 equal ones are emulated, of 8, 16"
            f" or 32 bits, floats of 16 or 32",
        )
    return number, channels


def channel_format(number: int, channels: int) -> ChannelFormat:
    """The inverse of :func:`driver_format`."""
    kind, bits = _KINDS[number]
    return ChannelFormat(*(bits if i < channels else 0 for i in range(4)), kind)


class RuntimeArrays:
    """Entry points of arrays, textures and surfaces."""

    def __init__(self, state: State):
        self._state = state
        self._textures: dict[int, tuple[Resource, Texture]] = {}
        self._surfaces: dict[int, Resource] = {}

    @entry("cudaCreateChannelDesc", arguments=(WORD, c_int, c_int, c_int, c_int, c_int))
    def channel_description(self, out: int, x: int, y: int, z: int, w: int, kind: int) -> int:
        """Return the structure by value: on x86-64 the caller passes its place in front, and gets it back."""
        if platform.machine() == "x86_64":
            ChannelFormat.from_address(out).__init__(x, y, z, w, kind)
            return out
        self._state.driver.ledger.refusal(
            "cudaCreateChannelDesc is emulated on x86-64 only: what it returns is undefined"
        )
        return 0

    # ---- arrays ------------------------------------------------------------------------------

    @entry("cudaMallocArray", arguments=(WORD_OUT, POINTER(ChannelFormat), c_size_t, c_size_t, c_uint))
    def allocate(self, out, wanted, width: int, height: int, flags: int) -> None:
        self.allocate_3d(out, wanted, Extent(width, height, 0), flags)

    @entry("cudaMalloc3DArray", arguments=(WORD_OUT, POINTER(ChannelFormat), Extent, c_uint))
    def allocate_3d(self, out, wanted, extent: Extent, flags: int) -> None:
        if not wanted or not out:
            raise DriverError(INVALID_VALUE, "a pointer to the array or to the description of its channels is null")
        number, channels = driver_format(wanted[0])
        whole = ArrayDescription3D(extent.width, extent.height, extent.depth, number, channels, flags)
        self._state.call("cuArray3DCreate", out, ctypes.addressof(whole))

    @entry("cudaFreeArray", arguments=(WORD,))
    def free(self, array: int) -> None:
        self._state.ready()
        if array:
            self._state.call("cuArrayDestroy", array)

    def _description(self, array: int) -> ArrayDescription3D:
        found = (ArrayDescription3D * 1)()
        self._state.call("cuArray3DGetDescriptor", found, array)
        return found[0]

    @entry("cudaArrayGetInfo", arguments=(POINTER(ChannelFormat), POINTER(Extent), UINT_OUT, WORD))
    def information(self, channels, extent, flags, array: int) -> None:
        found = self._description(array)
        if channels:
            channels[0] = channel_format(found.format, found.channels)
        if extent:
            extent[0] = Extent(found.width, found.height, found.depth)
        if flags:
            flags[0] = found.flags

    @entry("cudaGetChannelDesc", arguments=(POINTER(ChannelFormat), WORD))
    def channels(self, out, array: int) -> None:
        found = self._description(array)
        put(out, channel_format(found.format, found.channels))

    # ---- textures ----------------------------------------------------------------------------

    def _resource(self, given: Resource) -> tuple[ResourceDescription, bool]:
        """The driver's description, and whether the elements are floats."""
        made = ResourceDescription(type=given.type)
        if given.type not in (_LINEAR, _PITCHED):
            made.resource.array = given.resource.array
            floats = False
            if given.type == 0:
                floats = _KINDS[self._description(given.resource.array).format][0] == _FLOAT_KIND
            return made, floats
        linear = given.type == _LINEAR
        source = given.resource.linear if linear else given.resource.pitched
        target = made.resource.linear if linear else made.resource.pitched
        target.address = source.address
        target.format, target.channels = driver_format(source.format)
        for name in ("size",) if linear else ("width", "height", "pitch"):
            setattr(target, name, getattr(source, name))
        return made, source.format.kind == _FLOAT_KIND

    @entry("cudaCreateTextureObject", arguments=(WORD_OUT, HOST, HOST, HOST))
    def create_texture(self, out, resource: int, texture: int, view: int) -> None:
        self._state.ready()
        given = Resource.from_buffer_copy(structure_at(Resource, resource))
        how = Texture.from_buffer_copy(structure_at(Texture, texture))
        described, floats = self._resource(given)
        flags = (
            _AS_INTEGER * (not how.normalized_floats and not floats) | _NORMALIZED * bool(how.normalized)
            | _SRGB * bool(how.srgb) | _NO_TRILINEAR * bool(how.no_trilinear) | _SEAMLESS * bool(how.seamless)
        )  # fmt: skip
        made = TextureDescription(flags=flags)
        for name in (
            "address_mode", "filter_mode", "border", "max_anisotropy", "mipmap_filter_mode", "mipmap_level_bias",
            "min_mipmap_level", "max_mipmap_level",
        ):  # fmt: skip
            setattr(made, name, getattr(how, name))
        addresses = ctypes.addressof(described), ctypes.addressof(made), view
        self._state.call("cuTexObjectCreate", out, *addresses)
        self._textures[out[0]] = given, how

    @entry("cudaDestroyTextureObject", arguments=(WORD,))
    def destroy_texture(self, handle: int) -> None:
        self._state.ready()
        if handle:
            self._state.call("cuTexObjectDestroy", handle)
            self._textures.pop(handle, None)

    @entry("cudaGetTextureObjectResourceDesc", arguments=(POINTER(Resource), WORD))
    def texture_resource(self, out, handle: int) -> None:
        put(out, self._given(handle)[0])

    @entry("cudaGetTextureObjectTextureDesc", arguments=(POINTER(Texture), WORD))
    def texture_description(self, out, handle: int) -> None:
        put(out, self._given(handle)[1])

    def _given(self, handle: int) -> tuple[Resource, Texture]:
        if handle not in self._textures:
            raise DriverError(INVALID_VALUE, f"0x{handle:x} is no texture object of the runtime's")
        return self._textures[handle]

    # ---- surfaces ----------------------------------------------------------------------------

    @entry("cudaCreateSurfaceObject", arguments=(WORD_OUT, HOST))
    def create_surface(self, out, resource: int) -> None:
        self._state.ready()
        given = Resource.from_buffer_copy(structure_at(Resource, resource))
        described, _ = self._resource(given)
        self._state.call("cuSurfObjectCreate", out, ctypes.addressof(described))
        self._surfaces[out[0]] = given

    @entry("cudaDestroySurfaceObject", arguments=(WORD,))
    def destroy_surface(self, handle: int) -> None:
        self._state.ready()
        if handle:
            self._state.call("cuSurfObjectDestroy", handle)
            self._surfaces.pop(handle, None)

    @entry("cudaGetSurfaceObjectResourceDesc", arguments=(POINTER(Resource), WORD))
    def surface_resource(self, out, handle: int) -> None:
        if handle not in self._surfaces:
            raise DriverError(INVALID_VALUE, f"0x{handle:x} is no surface object of the runtime's")
        put(out, self._surfaces[handle])


#: Functions whose result is no error: what they return.
RESULTS = {"cudaCreateChannelDesc": ctypes.c_uint64}
