"""Pages of host memory at chosen addresses, for memory that host and device share.

Mental model: managed memory has one address on both sides, so the device's address must be one that the
host can use. It is taken from a range of its own, in order, so that the same program sees the same
addresses on every run and no address of the device's own memory is hit.
"""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np

#: First address of shared pages: free in the 47-bit user space of Linux on x86-64, far from heap and stack.
FIRST_SHARED_ADDRESS = 0x4000_0000_0000
_PAGE_BYTES = mmap.PAGESIZE
_GAP_BYTES = 1 << 16
_MAP_FIXED_NOREPLACE = 0x100000  # linux/mman.h
_MAP_FIXED = 0x10
_NO_PROTECTION = 0
_FAILED = 2**64 - 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_uint64
_libc.mmap.argtypes = [ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_uint64, ctypes.c_size_t]


class SharedPages:
    """Hands out zeroed pages; raises MemoryError when the system has none left."""

    def __init__(self) -> None:
        self._next = FIRST_SHARED_ADDRESS

    def take(self, size: int) -> np.ndarray:
        """uint8[size] whose first byte lies at a page boundary; give it back with :meth:`give`."""
        room = -(-size // _PAGE_BYTES) * _PAGE_BYTES
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        address = _libc.mmap(self._next, room, protection, flags | _MAP_FIXED_NOREPLACE, -1, 0)
        if address == _FAILED:  # taken, or no such address on this system: anywhere will do
            address = _libc.mmap(0, room, protection, flags, -1, 0)
        if address == _FAILED:
            raise MemoryError(os.strerror(ctypes.get_errno()))
        if address == self._next:
            self._next = address + room + _GAP_BYTES
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))

    def give(self, pages: np.ndarray) -> None:
        """Unmap what :meth:`take` returned; no view of it may be used any more."""
        room = -(-pages.nbytes // _PAGE_BYTES) * _PAGE_BYTES
        _libc.munmap(pages.ctypes.data, room)


def reserve_range(size: int, alignment: int, wanted: int = 0) -> int:
    """The first address of ``size`` bytes that nothing uses, at ``wanted`` if that is free; 0 if the system has none
    left."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    if wanted and wanted % alignment == 0:
        address = _libc.mmap(wanted, size, _NO_PROTECTION, flags | _MAP_FIXED_NOREPLACE, -1, 0)
        if address != _FAILED:
            return address
    room = size + alignment - _PAGE_BYTES
    start = _libc.mmap(0, room, _NO_PROTECTION, flags, -1, 0)
    if start == _FAILED:
        return 0
    address = -(-start // alignment) * alignment
    for waste_start, waste in ((start, address - start), (address + size, start + room - address - size)):
        if waste:
            _libc.munmap(waste_start, waste)
    return address


def map_file(address: int, size: int, descriptor: int) -> bool:
    """Put the first ``size`` bytes of a file at reserved addresses, shared; False if the system refuses."""
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    return _libc.mmap(address, size, protection, mmap.MAP_SHARED | _MAP_FIXED, descriptor, 0) != _FAILED


def release_range(address: int, size: int, keep: bool = False) -> None:
    """Unmap what lies there; ``keep`` the addresses reserved."""
    if keep:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        _libc.mmap(address, size, _NO_PROTECTION, flags | _MAP_FIXED, -1, 0)
    else:
        _libc.munmap(address, size)
