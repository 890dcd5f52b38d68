"""Copies of rows and slices, and from and to CUDA arrays.

Mental model: each is the driver's copy of a box. An end that is memory says by its address where it lies; its side of
the direction is checked. Offsets and widths of arrays are in bytes in the two-dimensional copies, in elements in
cudaMemcpy3D.
"""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import POINTER, c_int, c_size_t

from gpusim.cudart.copying import DEFAULT, DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE
from gpusim.cudart.errors import INVALID_DIRECTION, INVALID_PITCH, INVALID_VALUE
from gpusim.cudart.state import State
from gpusim.cudart.structures import Copy3D, Extent, PeerCopy3D, PitchedPointer, Position
from gpusim.driver.abi import HOST, WORD, DriverError, entry
from gpusim.driver.arrays import FORMAT_BYTES
from gpusim.driver.structures import ArrayDescription3D
from gpusim.driver.structures import Copy3D as Box
from gpusim.driver.transfers import IN_ARRAY, UNIFIED

_SIDES = ("source", "target")


class RuntimeBoxCopies:
    """Entry points cudaMemcpy2D*, cudaMemcpy3D* and cudaMemcpy*Array*."""

    def __init__(self, state: State):
        self._state = state
        self._memory = state.driver.memory

    # ---- boxes -------------------------------------------------------------------------------

    def _submit(self, box: Box, kind: int, stream: int) -> None:
        self._check(box, kind)
        self._state.call("cuMemcpy3DAsync", (Box * 1)(box), stream)

    def _check(self, box: Box, kind: int) -> None:
        """Raise DriverError for a direction that the addresses contradict."""
        self._state.ready()
        if not 0 <= kind <= DEFAULT:
            raise DriverError(INVALID_DIRECTION, f"{kind} is no direction of a copy")
        if not (box.width and box.height and box.depth):
            return
        on_device = {HOST_TO_DEVICE: ("target",), DEVICE_TO_HOST: ("source",), DEVICE_TO_DEVICE: _SIDES}.get(kind, ())
        for side in _SIDES:
            if getattr(box, f"{side}_type") == IN_ARRAY:
                continue
            address = getattr(box, f"{side}_device")
            if not address:
                raise DriverError(INVALID_VALUE, f"the {side} of a copy is null")
            if side in on_device:
                pitch, height = getattr(box, f"{side}_pitch"), getattr(box, f"{side}_height")
                self._memory.device_address(address, ((box.depth - 1) * height + box.height - 1) * pitch + box.width)

    def _description(self, array: int) -> ArrayDescription3D:
        found = (ArrayDescription3D * 1)()
        self._state.call("cuArray3DGetDescriptor", found, array)
        return found[0]

    def _element_bytes(self, array: int) -> int:
        found = self._description(array)
        return FORMAT_BYTES[found.format] * found.channels

    def box(self, copy: Copy3D) -> Box:
        """The driver's description of a copy, checked; raises DriverError."""
        self._state.ready()
        box = Box(height=copy.extent.height, depth=copy.extent.depth)
        unit = 1
        for side in _SIDES:
            array, place = getattr(copy, f"{side}_array"), getattr(copy, side)
            if bool(array) == bool(place.address):
                raise DriverError(INVALID_VALUE, f"the {side} of a copy is an array or memory, one of both")
            position, element = getattr(copy, f"{side}_position"), 1
            if array:
                element = self._element_bytes(array)
                unit = max(unit, element)
                _set_array(box, side, array, position.x * element, position.y, position.z)
            else:
                _set_memory(box, side, place.address, place.pitch, place.height)
                for name in ("x", "y", "z"):
                    setattr(box, f"{side}_{name}", getattr(position, name))
        box.width = copy.extent.width * unit
        self._check(box, copy.kind)
        return box

    def described(self, box: Box) -> Copy3D:
        """The inverse of :meth:`box`."""
        copy, unit = Copy3D(kind=DEFAULT), 1
        for side in _SIDES:
            kind, pitch, height = (getattr(box, f"{side}_{name}") for name in ("type", "pitch", "height"))
            x, element = getattr(box, f"{side}_x"), 1
            if kind == IN_ARRAY:
                array = getattr(box, f"{side}_array")
                element = self._element_bytes(array)
                unit = max(unit, element)
                setattr(copy, f"{side}_array", array)
            else:
                address = getattr(box, f"{side}_device") or getattr(box, f"{side}_host")
                setattr(copy, side, PitchedPointer(address, pitch, pitch, height))
            position = Position(x // element, getattr(box, f"{side}_y"), getattr(box, f"{side}_z"))
            setattr(copy, f"{side}_position", position)
        copy.extent = Extent(box.width // unit, box.height, box.depth)
        return copy

    @entry("cudaMemcpy3D", arguments=(POINTER(Copy3D),))
    def copy_slices(self, given) -> None:
        self.copy_slices_async(given, 0)

    @entry("cudaMemcpy3DAsync", arguments=(POINTER(Copy3D), WORD))
    def copy_slices_async(self, given, stream: int) -> None:
        if not given:
            raise DriverError(INVALID_VALUE, "the description of the copy is null")
        self._state.call("cuMemcpy3DAsync", (Box * 1)(self.box(given[0])), stream)

    @entry("cudaMemcpy3DPeer", arguments=(POINTER(PeerCopy3D),))
    def copy_slices_of_peers(self, given) -> None:
        self.copy_slices_of_peers_async(given, 0)

    @entry("cudaMemcpy3DPeerAsync", arguments=(POINTER(PeerCopy3D), WORD))
    def copy_slices_of_peers_async(self, given, stream: int) -> None:
        if not given:
            raise DriverError(INVALID_VALUE, "the description of the copy is null")
        peers, copy = given[0], Copy3D(extent=given[0].extent, kind=DEVICE_TO_DEVICE)
        for side in _SIDES:
            self._state.driver.contexts.device(getattr(peers, f"{side}_device"))
            for name in (side, f"{side}_array", f"{side}_position"):
                setattr(copy, name, getattr(peers, name))
        self._state.call("cuMemcpy3DAsync", (Box * 1)(self.box(copy)), stream)

    # ---- rows --------------------------------------------------------------------------------

    @entry("cudaMemcpy2D", arguments=(HOST, c_size_t, HOST, c_size_t, c_size_t, c_size_t, c_int))
    def copy_rows(self, target, target_pitch, source, source_pitch, width, height, kind) -> None:
        self.copy_rows_async(target, target_pitch, source, source_pitch, width, height, kind, 0)

    @entry("cudaMemcpy2DAsync", arguments=(HOST, c_size_t, HOST, c_size_t, c_size_t, c_size_t, c_int, WORD))
    def copy_rows_async(self, target, target_pitch, source, source_pitch, width, height, kind, stream) -> None:
        if height and (width > target_pitch or width > source_pitch):
            raise DriverError(INVALID_PITCH, f"rows of {width} bytes, {min(target_pitch, source_pitch)} apart")
        box = Box(width=width, height=height, depth=1)
        _set_memory(box, "target", target, target_pitch, height)
        _set_memory(box, "source", source, source_pitch, height)
        self._submit(box, kind, stream)

    @entry("cudaMemcpy2DToArray", arguments=(WORD, c_size_t, c_size_t, HOST, c_size_t, c_size_t, c_size_t, c_int))
    def rows_to_array(self, array, x, y, source, pitch, width, height, kind) -> None:
        self.rows_to_array_async(array, x, y, source, pitch, width, height, kind, 0)

    @entry(
        "cudaMemcpy2DToArrayAsync",
        arguments=(WORD, c_size_t, c_size_t, HOST, c_size_t, c_size_t, c_size_t, c_int, WORD),
    )
    def rows_to_array_async(self, array, x, y, source, pitch, width, height, kind, stream) -> None:
        if height > 1 and width > pitch:
            raise DriverError(INVALID_PITCH, f"rows of {width} bytes, {pitch} apart")
        box = Box(width=width, height=height, depth=1)
        _set_array(box, "target", array, x, y)
        _set_memory(box, "source", source, pitch, height)
        self._submit(box, kind, stream)

    @entry("cudaMemcpy2DFromArray", arguments=(HOST, c_size_t, WORD, c_size_t, c_size_t, c_size_t, c_size_t, c_int))
    def rows_from_array(self, target, pitch, array, x, y, width, height, kind) -> None:
        self.rows_from_array_async(target, pitch, array, x, y, width, height, kind, 0)

    @entry(
        "cudaMemcpy2DFromArrayAsync",
        arguments=(HOST, c_size_t, WORD, c_size_t, c_size_t, c_size_t, c_size_t, c_int, WORD),
    )
    def rows_from_array_async(self, target, pitch, array, x, y, width, height, kind, stream) -> None:
        if height > 1 and width > pitch:
            raise DriverError(INVALID_PITCH, f"rows of {width} bytes, {pitch} apart")
        box = Box(width=width, height=height, depth=1)
        _set_memory(box, "target", target, pitch, height)
        _set_array(box, "source", array, x, y)
        self._submit(box, kind, stream)

    @entry(
        "cudaMemcpy2DArrayToArray",
        arguments=(WORD, c_size_t, c_size_t, WORD, c_size_t, c_size_t, c_size_t, c_size_t, c_int),
    )
    def rows_between_arrays(self, target, x, y, source, from_x, from_y, width, height, kind) -> None:
        box = Box(width=width, height=height, depth=1)
        _set_array(box, "target", target, x, y)
        _set_array(box, "source", source, from_x, from_y)
        self._submit(box, kind, 0)

    # ---- bytes of arrays, which go on in the next row ----------------------------------------

    def _pieces(self, array: int, x: int, y: int, size: int) -> Iterator[tuple[int, int, int, int]]:
        """(bytes before it, place in its row, row, bytes) of each row's part."""
        row, done = self._description(array).width * self._element_bytes(array), 0
        if x >= row and size:
            raise DriverError(INVALID_VALUE, f"byte {x} of a row of {row}")
        while done < size:
            part = min(size - done, row - x)
            yield done, x, y, part
            done, x, y = done + part, 0, y + 1

    @entry("cudaMemcpyToArray", arguments=(WORD, c_size_t, c_size_t, HOST, c_size_t, c_int))
    def to_array(self, array, x, y, source, size, kind) -> None:
        self.to_array_async(array, x, y, source, size, kind, 0)

    @entry("cudaMemcpyToArrayAsync", arguments=(WORD, c_size_t, c_size_t, HOST, c_size_t, c_int, WORD))
    def to_array_async(self, array, x, y, source, size, kind, stream) -> None:
        for before, at, row, part in self._pieces(array, x, y, size):
            self.rows_to_array_async(array, at, row, source + before, part, part, 1, kind, stream)

    @entry("cudaMemcpyFromArray", arguments=(HOST, WORD, c_size_t, c_size_t, c_size_t, c_int))
    def from_array(self, target, array, x, y, size, kind) -> None:
        self.from_array_async(target, array, x, y, size, kind, 0)

    @entry("cudaMemcpyFromArrayAsync", arguments=(HOST, WORD, c_size_t, c_size_t, c_size_t, c_int, WORD))
    def from_array_async(self, target, array, x, y, size, kind, stream) -> None:
        for before, at, row, part in self._pieces(array, x, y, size):
            self.rows_from_array_async(target + before, part, array, at, row, part, 1, kind, stream)


def _set_memory(box: Box, side: str, address: int, pitch: int, height: int) -> None:
    for name, value in (("type", UNIFIED), ("device", address or 0), ("pitch", pitch), ("height", height)):
        setattr(box, f"{side}_{name}", value)


def _set_array(box: Box, side: str, array: int, x: int, y: int, z: int = 0) -> None:
    for name, value in (("type", IN_ARRAY), ("array", array or 0), ("x", x), ("y", y), ("z", z)):
        setattr(box, f"{side}_{name}", value)


def copy_of(target: int, source: int, size: int, kind: int) -> Copy3D:
    """``size`` bytes from one address to another, described as a box."""
    ends = {side: PitchedPointer(address, size, size, 1) for side, address in (("target", target), ("source", source))}
    return Copy3D(extent=Extent(size, 1, 1), kind=kind, **ends)
