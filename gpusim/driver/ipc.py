"""Memory and events that other processes may open (IPC), as the driver API has them.

Mental model: memory that is to be shared moves into a file without a name, at its device address; a handle says which descriptor of
which process that is, and whoever opens it maps the same file at an address of its own. An event that is shared says nothing:
work has been done when the call that asks for it returns, so who opens one finds it complete.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from ctypes import c_ubyte, c_uint

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
)
from gpusim.driver.events import FOR_PROCESSES, Events
from gpusim.driver.memory import DEVICE, Block, Memory
from gpusim.driver.pools import Pools

_HANDLE_BYTES = 64
_FILE_NAME = "gpusim shared device memory"
#: What a handle holds: which of the two it is, the process, the descriptor or the event, and of memory its size.
_MEMORY, _EVENT = b"gpusimMH", b"gpusimEH"
_CONTENT = struct.Struct("<8sIQQ")
_LAZY_PEER_ACCESS = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle and CUipcEventHandle."""

    _fields_ = [("data", c_ubyte * _HANDLE_BYTES)]


class InterProcess:
    """Entry points cuIpc*."""

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
            self._memory.owners[base] = self._free
        _write(out, _MEMORY, self._shared[base], size)

    def _free(self, base: int) -> None:
        """Memory that is shared has been freed; those who have opened it keep it."""
        os.close(self._shared.pop(base))

    @entry("cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2", arguments=(WORD_OUT, IpcHandle, c_uint))
    def open_memory(self, out, handle: IpcHandle, flags: int) -> None:
        process, descriptor, size = _read(handle, _MEMORY)
        if flags & ~_LAZY_PEER_ACCESS or not out:
            raise DriverError(INVALID_VALUE, f"memory of another process is not opened with flags 0x{flags:x}")
        if process == os.getpid():
            raise DriverError(INVALID_CONTEXT, "the memory is this process' own; a handle is for others")
        pages = _of_process(process, descriptor, size)
        block = self._memory.adopt(pages, f"memory of {size} bytes of process {process}")
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


def _write(out: int, what: bytes, number: int, size: int) -> None:
    ctypes.memmove(out, _CONTENT.pack(what, os.getpid(), number, size).ljust(_HANDLE_BYTES, b"\0"), _HANDLE_BYTES)


def _read(handle: IpcHandle, what: bytes) -> tuple[int, int, int]:
    found, *rest = _CONTENT.unpack(bytes(handle.data)[: _CONTENT.size])
    if found != what:
        raise DriverError(INVALID_VALUE, "that is no handle which a process under gpusim has made")
    return rest[0], rest[1], rest[2]


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
