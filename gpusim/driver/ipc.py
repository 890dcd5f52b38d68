"""Memory, pools and events that other processes may open (IPC), as the driver API has them.

Mental model: memory that is to be shared moves into a file without a name, at its device address; a handle says which
descriptor of which process that is, and whoever opens it maps the same file at an address of its own. An event that is
shared says nothing: work has been done when the call that asks for it returns, so who opens one finds it complete.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Callable
from ctypes import POINTER, c_int, c_ubyte, c_uint, c_uint64

import numpy as np

from gpusim.driver.abi import (
    HOST,
    INVALID_CONTEXT,
    INVALID_HANDLE,
    INVALID_VALUE,
    OPERATING_SYSTEM,
    WORD,
    WORD_OUT,
    DriverError,
    entry,
    put,
)
from gpusim.driver.events import FOR_PROCESSES, Events
from gpusim.driver.memory import DEVICE, MAPPED, Block, Memory
from gpusim.driver.pools import Pools

_HANDLE_BYTES = 64
_FILE_NAME = "gpusim shared device memory"
#: What a handle holds: which of these it is, the process, the descriptor or the event, of memory its size, of what came
#: from a pool the pool.
_MEMORY, _EVENT, _POOL, _FROM_POOL = b"gpusimMH", b"gpusimEH", b"gpusimPH", b"gpusimPM"
_CONTENT = struct.Struct("<8sIQQQ")
_BY_DESCRIPTOR = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
_LAZY_PEER_ACCESS = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle, CUipcEventHandle and CUmemPoolPtrExportData."""

    _fields_ = [("data", c_ubyte * _HANDLE_BYTES)]


class InterProcess:
    """Entry points cuIpc*, cuMemPoolExport* and cuMemPoolImport*."""

    def __init__(self, memory: Memory, events: Events, pools: Pools):
        self._memory, self._events, self._pools = memory, events, pools
        self._shared: dict[int, int] = {}  # device address -> descriptor
        self._opened: dict[int, Block] = {}

    @entry("cuIpcGetMemHandle", arguments=(HOST, WORD))
    def memory_handle(self, out: int, address: int) -> None:
        block = self._memory.block_at(address)
        if not out or block is None or block.kind != DEVICE or self._pools.owner_of(block.allocation.base):
            raise DriverError(
                INVALID_VALUE, f"0x{address:x} is no memory of cuMemAlloc, or the handle's pointer is null"
            )
        _write(out, _MEMORY, self._share(block), block.allocation.size)

    def _share(self, block: Block) -> int:
        """The descriptor of the file that an allocation lies in, or moves into now; raises DriverError."""
        base, size = block.allocation.base, block.allocation.size
        if base not in self._shared:
            try:
                descriptor = os.memfd_create(_FILE_NAME, os.MFD_CLOEXEC)
                os.ftruncate(descriptor, size)
                pages = _pages(descriptor, size)
            except OSError as error:
                raise DriverError(OPERATING_SYSTEM, f"memory cannot be shared: {error.strerror}") from None
            pages[:] = block.pages
            self._memory.move(block, pages)
            self._shared[base] = descriptor
            owner = self._memory.owners.get(base)
            self._memory.owners[base] = lambda address: self._free(address, owner)
        return self._shared[base]

    def _free(self, base: int, owner: Callable[[int], None] | None) -> None:
        """Memory that is shared has been freed; those who have opened it keep it."""
        os.close(self._shared.pop(base))
        if owner is not None:
            owner(base)

    @entry("cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2", arguments=(WORD_OUT, IpcHandle, c_uint))
    def open_memory(self, out, handle: IpcHandle, flags: int) -> None:
        process, descriptor, size, _ = _read(handle, _MEMORY)
        if flags & ~_LAZY_PEER_ACCESS or not out:
            raise DriverError(INVALID_VALUE, f"memory of another process is not opened with flags 0x{flags:x}")
        if process == os.getpid():
            raise DriverError(INVALID_CONTEXT, "the memory is this process' own; a handle is for others")
        pages = _of_process(process, descriptor, size)
        block = self._memory.adopt(pages, f"memory of {size} bytes of process {process}", MAPPED)
        self._opened[block.allocation.base] = block
        out[0] = block.allocation.base

    @entry("cuIpcCloseMemHandle", arguments=(WORD,))
    def close_memory(self, address: int) -> None:
        block = self._opened.pop(address, None)
        if block is None:
            raise DriverError(INVALID_VALUE, f"0x{address:x} is no memory of another process that was opened")
        self._memory.withdraw(block)

    @entry("cuIpcGetEventHandle", arguments=(HOST, WORD))
    def event_handle(self, out: int, handle: int) -> None:
        if not out or not self._events.get(handle).shared:
            raise DriverError(INVALID_HANDLE, "the event was not made for several processes (CU_EVENT_INTERPROCESS)")
        _write(out, _EVENT, handle, 0)

    @entry("cuIpcOpenEventHandle", arguments=(WORD_OUT, IpcHandle))
    def open_event(self, out, handle: IpcHandle) -> None:
        _read(handle, _EVENT)
        self._events.create(out, FOR_PROCESSES)

    # ---- pools ----------------------------------------------------------------------------------

    @entry("cuMemPoolExportToShareableHandle", arguments=(POINTER(c_int), WORD, c_int, c_uint64))
    def pool_handle(self, out, handle: int, kind: int, flags: int) -> None:
        pool = self._pools.get(handle)
        if kind != _BY_DESCRIPTOR or not pool.properties.handle_types & kind or flags or not out:
            raise DriverError(INVALID_VALUE, "pools that were made for it are shared by descriptor")
        descriptor = os.memfd_create(_FILE_NAME, os.MFD_CLOEXEC)
        os.write(descriptor, _packed(_POOL, 0, 0, handle))
        out[0] = descriptor

    @entry("cuMemPoolImportFromShareableHandle", arguments=(WORD_OUT, WORD, c_int, c_uint64))
    def open_pool(self, out, descriptor: int, kind: int, flags: int) -> None:
        try:
            data = os.pread(descriptor & 0xFFFF_FFFF, _HANDLE_BYTES, 0) if kind == _BY_DESCRIPTOR and not flags else b""
        except (OSError, OverflowError):
            data = b""
        if len(data) < _HANDLE_BYTES:
            raise DriverError(INVALID_VALUE, f"descriptor {descriptor} is no pool of another process")
        process, _, _, pool = _read(IpcHandle.from_buffer_copy(data), _POOL)
        put(out, self._pools.import_from((process, pool)).handle)

    @entry("cuMemPoolExportPointer", arguments=(HOST, WORD))
    def pointer_handle(self, out: int, address: int) -> None:
        block = self._memory.block_at(address)
        pool = self._pools.owner_of(block.allocation.base) if block else None
        if not out or block is None or pool is None or not pool.properties.handle_types & _BY_DESCRIPTOR:
            raise DriverError(INVALID_VALUE, f"0x{address:x} is no memory of a pool that is made to be shared")
        _write(out, _FROM_POOL, self._share(block), block.allocation.size, pool.handle)

    @entry("cuMemPoolImportPointer", arguments=(WORD_OUT, WORD, POINTER(IpcHandle)))
    def open_pointer(self, out, handle: int, data) -> None:
        pool = self._pools.get(handle)
        if not out or not data:
            raise DriverError(INVALID_VALUE, "a pointer is null")
        process, descriptor, size, origin = _read(data[0], _FROM_POOL)
        if pool.origin != (process, origin):
            raise DriverError(INVALID_VALUE, "the memory is of another pool")
        pages = _of_process(process, descriptor, size)
        block = self._memory.adopt(pages, f"memory of {size} bytes of process {process}", DEVICE)
        pool.took(block.allocation.base, size)
        self._memory.owners[block.allocation.base] = pool.freed
        out[0] = block.allocation.base


def _packed(what: bytes, number: int, size: int, pool: int) -> bytes:
    return _CONTENT.pack(what, os.getpid(), number, size, pool).ljust(_HANDLE_BYTES, b"\0")


def _write(out: int, what: bytes, number: int, size: int, pool: int = 0) -> None:
    ctypes.memmove(out, _packed(what, number, size, pool), _HANDLE_BYTES)


def _read(handle: IpcHandle, what: bytes) -> tuple[int, int, int, int]:
    """(process, descriptor or event, size, pool) of a handle that should be ``what``; raises DriverError."""
    found, *rest = _CONTENT.unpack(bytes(handle.data)[: _CONTENT.size])
    if found != what:
        raise DriverError(INVALID_VALUE, "that is no handle which a process under gpusim has made")
    return rest[0], rest[1], rest[2], rest[3]


def _of_process(process: int, descriptor: int, size: int) -> np.ndarray:
    """The memory behind a descriptor of another process, which may claim anything of it."""
    path = f"/proc/{process}/fd/{descriptor}"
    try:
        if _FILE_NAME not in os.readlink(path):  # no file of that user's that happens to have the number
            raise DriverError(INVALID_HANDLE, "the memory behind the handle has been freed")
        own = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if not 0 < size <= os.fstat(own).st_size:
                raise DriverError(INVALID_HANDLE, "the memory behind the handle is smaller than the handle says")
            return _pages(own, size)
        finally:
            os.close(own)
    except OSError as error:
        raise DriverError(
            INVALID_HANDLE, f"process {process}, which has made the handle, is gone or has freed it: {error.strerror}"
        ) from None


def _pages(descriptor: int, size: int) -> np.ndarray:
    return np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
