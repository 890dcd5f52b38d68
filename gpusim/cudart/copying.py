"""Copies and fills of the runtime: one address space, a direction that the program states, rows with a pitch.

Mental model: with unified addressing an address says itself where it lies, so that the direction is only checked; a side that
is said to be the device must be memory of the device. A copy of rows is a copy of each row.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int, c_size_t

from gpusim.cudart.errors import INVALID_DIRECTION, INVALID_PITCH, INVALID_VALUE
from gpusim.cudart.registration import Registration
from gpusim.cudart.state import State, write_word
from gpusim.driver.abi import HOST, WORD, DriverError, entry

#: cudaMemcpyKind
HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT = range(5)


class PitchedPointer(ctypes.Structure):
    """cudaPitchedPtr, passed by value."""

    _fields_ = [("address", WORD), ("pitch", c_size_t), ("width", c_size_t), ("height", c_size_t)]


class Extent(ctypes.Structure):
    """cudaExtent, passed by value: bytes (elements of an array), rows, slices."""

    _fields_ = [("width", c_size_t), ("height", c_size_t), ("depth", c_size_t)]


class Position(ctypes.Structure):
    """cudaPos."""

    _fields_ = [("x", c_size_t), ("y", c_size_t), ("z", c_size_t)]


class Copy3D(ctypes.Structure):
    """cudaMemcpy3DParms."""

    _fields_ = [
        ("source_array", WORD), ("source_position", Position), ("source", PitchedPointer),
        ("target_array", WORD), ("target_position", Position), ("target", PitchedPointer),
        ("extent", Extent), ("kind", c_int),
    ]  # fmt: skip


class Copying:
    """Entry points cudaMemcpy* and cudaMemset*."""

    def __init__(self, state: State, code: Registration):
        self._state, self._code = state, code
        self._memory = state.driver.memory

    # ---- linear ------------------------------------------------------------------------------

    @entry("cudaMemcpy", arguments=(HOST, HOST, c_size_t, c_int))
    def copy(self, target: int, source: int, size: int, kind: int) -> None:
        self._check(target, source, size, kind)
        self._state.call("cuMemcpy", target, source, size)

    @entry("cudaMemcpyAsync", arguments=(HOST, HOST, c_size_t, c_int, WORD))
    def copy_async(self, target: int, source: int, size: int, kind: int, stream: int) -> None:
        self._check(target, source, size, kind)
        self._state.call("cuMemcpyAsync", target, source, size, stream)

    def _check(self, target: int, source: int, size: int, kind: int) -> None:
        self._state.ready()
        if not 0 <= kind <= DEFAULT:
            raise DriverError(INVALID_DIRECTION, f"{kind} is no direction of a copy")
        if not size:
            return
        if not target or not source:
            raise DriverError(INVALID_VALUE, f"a copy of {size} bytes from 0x{source or 0:x} to 0x{target or 0:x}")
        if kind in (HOST_TO_DEVICE, DEVICE_TO_DEVICE):
            self._memory.device_address(target, size)
        if kind in (DEVICE_TO_HOST, DEVICE_TO_DEVICE):
            self._memory.device_address(source, size)

    @entry("cudaMemcpyPeer", arguments=(WORD, c_int, WORD, c_int, c_size_t))
    def copy_peer(self, target: int, one: int, source: int, other: int, size: int) -> None:
        self.copy(target, source, size, DEVICE_TO_DEVICE)

    @entry("cudaMemcpyPeerAsync", arguments=(WORD, c_int, WORD, c_int, c_size_t, WORD))
    def copy_peer_async(self, target: int, one: int, source: int, other: int, size: int, stream: int) -> None:
        self.copy_async(target, source, size, DEVICE_TO_DEVICE, stream)

    @entry("cudaMemset", arguments=(WORD, c_int, c_size_t))
    def fill(self, address: int, value: int, size: int) -> None:
        self._state.call("cuMemsetD8", address, value & 0xFF, size)

    @entry("cudaMemsetAsync", arguments=(WORD, c_int, c_size_t, WORD))
    def fill_async(self, address: int, value: int, size: int, stream: int) -> None:
        self._state.call("cuMemsetD8Async", address, value & 0xFF, size, stream)

    # ---- variables ---------------------------------------------------------------------------

    def _within(self, host: int, offset: int, size: int) -> int:
        self._state.ready()
        address, room = self._code.variable(host)
        if offset + size > room:
            raise DriverError(INVALID_VALUE, f"bytes {offset} to {offset + size} of a variable of {room} bytes")
        return address + offset

    @entry("cudaMemcpyToSymbol", arguments=(HOST, HOST, c_size_t, c_size_t, c_int))
    def to_symbol(self, symbol: int, source: int, size: int, offset: int, kind: int) -> None:
        self.copy(self._within(symbol, offset, size), source, size, kind)

    @entry("cudaMemcpyToSymbolAsync", arguments=(HOST, HOST, c_size_t, c_size_t, c_int, WORD))
    def to_symbol_async(self, symbol: int, source: int, size: int, offset: int, kind: int, stream: int) -> None:
        self.copy_async(self._within(symbol, offset, size), source, size, kind, stream)

    @entry("cudaMemcpyFromSymbol", arguments=(HOST, HOST, c_size_t, c_size_t, c_int))
    def from_symbol(self, target: int, symbol: int, size: int, offset: int, kind: int) -> None:
        self.copy(target, self._within(symbol, offset, size), size, kind)

    @entry("cudaMemcpyFromSymbolAsync", arguments=(HOST, HOST, c_size_t, c_size_t, c_int, WORD))
    def from_symbol_async(self, target: int, symbol: int, size: int, offset: int, kind: int, stream: int) -> None:
        self.copy_async(target, self._within(symbol, offset, size), size, kind, stream)

    # ---- rows --------------------------------------------------------------------------------

    @entry("cudaMemcpy2D", arguments=(HOST, c_size_t, HOST, c_size_t, c_size_t, c_size_t, c_int))
    def copy_rows(self, target, target_pitch, source, source_pitch, width, height, kind) -> None:
        self._rows(target, target_pitch, source, source_pitch, width, height, kind, 0)

    @entry("cudaMemcpy2DAsync", arguments=(HOST, c_size_t, HOST, c_size_t, c_size_t, c_size_t, c_int, WORD))
    def copy_rows_async(self, target, target_pitch, source, source_pitch, width, height, kind, stream) -> None:
        self._rows(target, target_pitch, source, source_pitch, width, height, kind, stream)

    def _rows(
        self,
        target: int,
        target_pitch: int,
        source: int,
        source_pitch: int,
        width: int,
        height: int,
        kind: int,
        stream: int,
    ) -> None:
        if height and (width > target_pitch or width > source_pitch):
            raise DriverError(INVALID_PITCH, f"rows of {width} bytes, {min(target_pitch, source_pitch)} apart")
        for row in range(height if width else 0):
            self.copy_async(target + row * target_pitch, source + row * source_pitch, width, kind, stream)

    @entry("cudaMemset2D", arguments=(WORD, c_size_t, c_int, c_size_t, c_size_t))
    def fill_rows(self, address: int, pitch: int, value: int, width: int, height: int) -> None:
        self.fill_rows_async(address, pitch, value, width, height, 0)

    @entry("cudaMemset2DAsync", arguments=(WORD, c_size_t, c_int, c_size_t, c_size_t, WORD))
    def fill_rows_async(self, address: int, pitch: int, value: int, width: int, height: int, stream: int) -> None:
        if width > pitch:
            raise DriverError(INVALID_PITCH, f"rows of {width} bytes, {pitch} apart")
        for row in range(height if width else 0):
            self.fill_async(address + row * pitch, value, width, stream)

    @entry("cudaMemset3D", arguments=(PitchedPointer, c_int, Extent))
    def fill_slices(self, place: PitchedPointer, value: int, extent: Extent) -> None:
        self.fill_slices_async(place, value, extent, 0)

    @entry("cudaMemset3DAsync", arguments=(PitchedPointer, c_int, Extent, WORD))
    def fill_slices_async(self, place: PitchedPointer, value: int, extent: Extent, stream: int) -> None:
        for slice_ in range(extent.depth):
            address = place.address + slice_ * place.pitch * place.height
            self.fill_rows_async(address, place.pitch, value, extent.width, extent.height, stream)

    @entry("cudaMemcpy3D", arguments=(POINTER(Copy3D),))
    def copy_slices(self, given) -> None:
        self.copy_slices_async(given, 0)

    @entry("cudaMemcpy3DAsync", arguments=(POINTER(Copy3D), WORD))
    def copy_slices_async(self, given, stream: int) -> None:
        copy = given[0]
        if copy.source_array or copy.target_array:
            raise DriverError(INVALID_VALUE, "cudaMemcpy3D with a CUDA array is not emulated")
        places = []
        for place, position in ((copy.target, copy.target_position), (copy.source, copy.source_position)):
            slice_bytes = place.pitch * place.height
            places.append(
                (place.address + position.x + position.y * place.pitch + position.z * slice_bytes, slice_bytes)
            )
        (target, target_slice), (source, source_slice) = places
        for slice_ in range(copy.extent.depth):
            self._rows(
                target + slice_ * target_slice, copy.target.pitch, source + slice_ * source_slice, copy.source.pitch,
                copy.extent.width, copy.extent.height, copy.kind, stream,
            )  # fmt: skip

    # ---- allocations with rows ---------------------------------------------------------------

    @entry("cudaMallocPitch", arguments=(HOST, HOST, c_size_t, c_size_t))
    def allocate_rows(self, out: int, pitch_out: int, width: int, height: int) -> None:
        pitch = (ctypes.c_uint64 * 1)()
        write_word(out, self._state.word("cuMemAllocPitch", pitch, width, height, 4))
        write_word(pitch_out, pitch[0])

    @entry("cudaMalloc3D", arguments=(POINTER(PitchedPointer), Extent))
    def allocate_slices(self, out, extent: Extent) -> None:
        pitch = (ctypes.c_uint64 * 1)()
        address = self._state.word("cuMemAllocPitch", pitch, extent.width, extent.height * extent.depth, 4)
        out[0] = PitchedPointer(address, pitch[0], extent.width, extent.height)
