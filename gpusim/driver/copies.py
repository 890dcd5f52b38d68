"""Copies and fills as the driver API has them, and the hints that need no action here.

Mental model: a copy resolves both ends to host addresses, refuses what leaves an allocation, and moves the
bytes at once. An asynchronous copy is the same copy, since everything that was asked for before it is done.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_ubyte, c_uint, c_ushort

import numpy as np

from gpusim.driver.abi import HOST, INVALID_VALUE, WORD, WORD_OUT, DriverError, entry, put
from gpusim.driver.memory import Memory

_POOL = 0xD0_0000


class Copies:
    """Entry points cuMemcpy*, cuMemset*, and those of memory pools and managed memory's hints."""

    def __init__(self, memory: Memory):
        self._memory = memory

    # ---- copies ------------------------------------------------------------------------------

    @entry("cuMemcpyHtoD", arguments=(WORD, HOST, c_size_t))
    def to_device(self, target: int, source: int, size: int) -> None:
        if size:
            ctypes.memmove(self._memory.host_address(target, size), source, size)

    @entry("cuMemcpyHtoDAsync", arguments=(WORD, HOST, c_size_t, WORD))
    def to_device_async(self, target: int, source: int, size: int, stream: int) -> None:
        self.to_device(target, source, size)

    @entry("cuMemcpyDtoH", arguments=(HOST, WORD, c_size_t))
    def to_host(self, target: int, source: int, size: int) -> None:
        if size:
            ctypes.memmove(target, self._memory.host_address(source, size), size)

    @entry("cuMemcpyDtoHAsync", arguments=(HOST, WORD, c_size_t, WORD))
    def to_host_async(self, target: int, source: int, size: int, stream: int) -> None:
        self.to_host(target, source, size)

    @entry("cuMemcpyDtoD", arguments=(WORD, WORD, c_size_t))
    def on_device(self, target: int, source: int, size: int) -> None:
        if size:
            ctypes.memmove(self._memory.host_address(target, size), self._memory.host_address(source, size), size)

    @entry("cuMemcpyDtoDAsync", arguments=(WORD, WORD, c_size_t, WORD))
    def on_device_async(self, target: int, source: int, size: int, stream: int) -> None:
        self.on_device(target, source, size)

    @entry("cuMemcpy", arguments=(WORD, WORD, c_size_t))
    def unified(self, target: int, source: int, size: int) -> None:
        if size:
            ctypes.memmove(self._memory.either_address(target, size), self._memory.either_address(source, size), size)

    @entry("cuMemcpyAsync", arguments=(WORD, WORD, c_size_t, WORD))
    def unified_async(self, target: int, source: int, size: int, stream: int) -> None:
        self.unified(target, source, size)

    @entry("cuMemcpyPeer", arguments=(WORD, WORD, WORD, WORD, c_size_t))
    def peer(self, target: int, target_context: int, source: int, source_context: int, size: int) -> None:
        self.on_device(target, source, size)

    @entry("cuMemcpyPeerAsync", arguments=(WORD, WORD, WORD, WORD, c_size_t, WORD))
    def peer_async(self, target: int, one: int, source: int, other: int, size: int, stream: int) -> None:
        self.on_device(target, source, size)

    # ---- fills -------------------------------------------------------------------------------

    def _fill(self, address: int, value: int, count: int, dtype: type) -> None:
        size = count * np.dtype(dtype).itemsize
        if size:
            if address % np.dtype(dtype).itemsize:
                raise DriverError(INVALID_VALUE, f"0x{address:x} is not aligned for {np.dtype(dtype).name}")
            place = (ctypes.c_uint8 * size).from_address(self._memory.host_address(address, size))
            np.frombuffer(place, dtype)[:] = value

    @entry("cuMemsetD8", arguments=(WORD, c_ubyte, c_size_t))
    def set8(self, address: int, value: int, count: int) -> None:
        self._fill(address, value, count, np.uint8)

    @entry("cuMemsetD8Async", arguments=(WORD, c_ubyte, c_size_t, WORD))
    def set8_async(self, address: int, value: int, count: int, stream: int) -> None:
        self._fill(address, value, count, np.uint8)

    @entry("cuMemsetD16", arguments=(WORD, c_ushort, c_size_t))
    def set16(self, address: int, value: int, count: int) -> None:
        self._fill(address, value, count, np.uint16)

    @entry("cuMemsetD16Async", arguments=(WORD, c_ushort, c_size_t, WORD))
    def set16_async(self, address: int, value: int, count: int, stream: int) -> None:
        self._fill(address, value, count, np.uint16)

    @entry("cuMemsetD32", arguments=(WORD, c_uint, c_size_t))
    def set32(self, address: int, value: int, count: int) -> None:
        self._fill(address, value, count, np.uint32)

    @entry("cuMemsetD32Async", arguments=(WORD, c_uint, c_size_t, WORD))
    def set32_async(self, address: int, value: int, count: int, stream: int) -> None:
        self._fill(address, value, count, np.uint32)

    # ---- hints for managed memory: everything is everywhere already --------------------------

    @entry("cuMemPrefetchAsync", arguments=(WORD, c_size_t, c_int, WORD))
    def prefetch(self, address: int, size: int, place: int, stream: int) -> None:
        self._memory.host_address(address, size)

    @entry("cuMemPrefetchAsync", arguments=(WORD, c_size_t, WORD, c_uint, WORD), since=12020)
    def prefetch_to_location(self, address: int, size: int, place: int, flags: int, stream: int) -> None:
        self._memory.host_address(address, size)

    @entry("cuMemAdvise", arguments=(WORD, c_size_t, c_int, WORD))
    def advise(self, address: int, size: int, advice: int, place: int) -> None:
        self._memory.host_address(address, size)

    @entry("cuStreamAttachMemAsync", arguments=(WORD, WORD, c_size_t, c_uint))
    def attach(self, stream: int, address: int, size: int, flags: int) -> None:
        self._memory.host_address(address, max(size, 1))

    # ---- pools: one, which never keeps what is freed ------------------------------------------

    @entry("cuDeviceGetDefaultMemPool", "cuDeviceGetMemPool", arguments=(WORD_OUT, c_int))
    def default_pool(self, out, number: int) -> None:
        put(out, _POOL)

    @entry("cuDeviceSetMemPool", arguments=(c_int, WORD))
    def set_pool(self, number: int, pool: int) -> None:
        pass

    @entry("cuMemPoolCreate", arguments=(WORD_OUT, WORD))
    def create_pool(self, out, properties: int) -> None:
        put(out, _POOL)

    @entry("cuMemPoolDestroy", arguments=(WORD,))
    def destroy_pool(self, pool: int) -> None:
        pass

    @entry("cuMemPoolTrimTo", arguments=(WORD, c_size_t))
    def trim_pool(self, pool: int, size: int) -> None:
        pass

    @entry("cuMemPoolSetAttribute", "cuMemPoolSetAccess", arguments=(WORD, WORD, WORD))
    def set_pool_attribute(self, pool: int, attribute: int, value: int) -> None:
        pass

    @entry("cuMemPoolGetAttribute", arguments=(WORD, c_int, HOST))
    def pool_attribute(self, pool: int, attribute: int, out: int) -> None:
        # 1 to 3 are the reuse switches (int), the others sizes in bytes (cuuint64_t).
        kind = ctypes.c_int if attribute <= 3 else ctypes.c_uint64
        kind.from_address(out).value = {1: 1, 2: 1, 3: 1, 7: self._memory.used_bytes, 8: self._memory.used_bytes}.get(
            attribute, 0
        )
