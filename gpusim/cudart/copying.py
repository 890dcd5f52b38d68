"""Copies and fills of the runtime: one address space, a direction that the program states.

Mental model: with unified addressing an address says itself where it lies, so that the direction is only checked; a
side that is said to be the device must be memory of the device. Rows, slices and arrays:
:mod:`gpusim.cudart.box_copies`.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int, c_size_t

from gpusim.cudart.errors import INVALID_DIRECTION, INVALID_PITCH, INVALID_VALUE
from gpusim.cudart.registration import Registration
from gpusim.cudart.state import State, write_word
from gpusim.cudart.structures import Extent, PitchedPointer
from gpusim.driver.abi import HOST, WORD, DriverError, entry

#: cudaMemcpyKind
HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT = range(5)


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
        self._check_devices(one, other)
        self.copy(target, source, size, DEVICE_TO_DEVICE)

    @entry("cudaMemcpyPeerAsync", arguments=(WORD, c_int, WORD, c_int, c_size_t, WORD))
    def copy_peer_async(self, target: int, one: int, source: int, other: int, size: int, stream: int) -> None:
        self._check_devices(one, other)
        self.copy_async(target, source, size, DEVICE_TO_DEVICE, stream)

    def _check_devices(self, *numbers: int) -> None:
        for number in numbers:
            self._state.driver.contexts.device(number)

    @entry("cudaMemset", arguments=(WORD, c_int, c_size_t))
    def fill(self, address: int, value: int, size: int) -> None:
        self._state.call("cuMemsetD8", address, value & 0xFF, size)

    @entry("cudaMemsetAsync", arguments=(WORD, c_int, c_size_t, WORD))
    def fill_async(self, address: int, value: int, size: int, stream: int) -> None:
        self._state.call("cuMemsetD8Async", address, value & 0xFF, size, stream)

    # ---- variables ---------------------------------------------------------------------------

    @entry("cudaMemcpyToSymbol", arguments=(HOST, HOST, c_size_t, c_size_t, c_int))
    def to_symbol(self, symbol: int, source: int, size: int, offset: int, kind: int) -> None:
        self.copy(self._code.inside_variable(symbol, offset, size), source, size, kind)

    @entry("cudaMemcpyToSymbolAsync", arguments=(HOST, HOST, c_size_t, c_size_t, c_int, WORD))
    def to_symbol_async(self, symbol: int, source: int, size: int, offset: int, kind: int, stream: int) -> None:
        self.copy_async(self._code.inside_variable(symbol, offset, size), source, size, kind, stream)

    @entry("cudaMemcpyFromSymbol", arguments=(HOST, HOST, c_size_t, c_size_t, c_int))
    def from_symbol(self, target: int, symbol: int, size: int, offset: int, kind: int) -> None:
        self.copy(target, self._code.inside_variable(symbol, offset, size), size, kind)

    @entry("cudaMemcpyFromSymbolAsync", arguments=(HOST, HOST, c_size_t, c_size_t, c_int, WORD))
    def from_symbol_async(self, target: int, symbol: int, size: int, offset: int, kind: int, stream: int) -> None:
        self.copy_async(target, self._code.inside_variable(symbol, offset, size), size, kind, stream)

    # ---- fills of rows --------------------------------------------------------------------------------

    @entry("cudaMemset2D", arguments=(WORD, c_size_t, c_int, c_size_t, c_size_t))
    def fill_rows(self, address: int, pitch: int, value: int, width: int, height: int) -> None:
        self.fill_rows_async(address, pitch, value, width, height, 0)

    @entry("cudaMemset2DAsync", arguments=(WORD, c_size_t, c_int, c_size_t, c_size_t, WORD))
    def fill_rows_async(self, address: int, pitch: int, value: int, width: int, height: int, stream: int) -> None:
        if width > pitch:
            raise DriverError(INVALID_PITCH, f"rows of {width} bytes, {pitch} apart")
        if width and height:
            self._state.call("cuMemsetD2D8Async", address, pitch, value & 0xFF, width, height, stream)

    @entry("cudaMemset3D", arguments=(PitchedPointer, c_int, Extent))
    def fill_slices(self, place: PitchedPointer, value: int, extent: Extent) -> None:
        self.fill_slices_async(place, value, extent, 0)

    @entry("cudaMemset3DAsync", arguments=(PitchedPointer, c_int, Extent, WORD))
    def fill_slices_async(self, place: PitchedPointer, value: int, extent: Extent, stream: int) -> None:
        for slice_ in range(extent.depth):
            address = place.address + slice_ * place.pitch * place.height
            self.fill_rows_async(address, place.pitch, value, extent.width, extent.height, stream)

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
