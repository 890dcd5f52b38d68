"""The device's address space: allocations at reproducible addresses, lying on the user's own arrays.

Mental model: :class:`DeviceMemory` hands out device addresses as ``cudaMalloc`` does, in order, so that
the same program sees the same addresses on every run and on every host; behind each lies host memory that
the emulator reads and writes in place. Between allocations there are gaps, so that an index that runs out
of an array hits nothing. Small allocations are 512-byte aligned, large ones 2 MiB (CUDA's own habit).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpusim.errors import UsageError
from gpusim.launch.texture import DESCRIPTOR_BYTES, MOST_DESCRIPTORS, TEXTURES_ADDRESS

FIRST_ADDRESS = 0x7F00_0000_0000
SMALL_ALIGNMENT = 512
LARGE_ALIGNMENT = 2 << 20
LARGE_BYTES = 1 << 20
GAP_BYTES = 256
#: High halves of the generic windows of shared and local memory; no allocation reaches them.
SHARED_WINDOW = 0x7FFD_0000_0000
LOCAL_WINDOW = 0x7FFE_0000_0000
#: Where further devices of the same address space have theirs, one behind another; no program, library or fixed range
#: of the emulator lies there.
_SECOND_ADDRESS, _DEVICE_STRIDE = 0x6000_0000_0000, 0x100_0000_0000


@dataclass(frozen=True)
class Allocation:
    """``size`` bytes at device address ``base``, lying at host address ``host``; ``label`` for messages,
    ``owner`` keeps the host memory alive."""

    base: int
    size: int
    host: int
    label: str
    owner: object = field(repr=False, compare=False, default=None)

    @property
    def end(self) -> int:
        return self.base + self.size


class DeviceMemory:
    """A device's memory over one or several captures.

    Without one, every capture starts on an empty device, as a launch with host arrays does. Share one to
    keep arrays on the device: the same NumPy array then keeps its device address from launch to launch, so
    that pointers which a kernel stored stay good. Arrays that are kept must not be resized.

    Several devices share one address space (unified addressing): each has a range of its own (:func:`range_of`).
    """

    def __init__(self) -> None:
        self._allocations: list[Allocation] = []
        self._next: dict[int, int] = {}
        self._by_host: dict[tuple[int, int], Allocation] = {}
        #: uint8 table of the descriptors of textures and surfaces, None as long as there is none
        self.textures: np.ndarray | None = None
        self._next_texture = DESCRIPTOR_BYTES

    def add(self, host: int, size: int, label: str, owner: object, device: int = 0) -> Allocation:
        """Allocate ``size`` bytes of ``device``, lying at host address ``host``."""
        alignment = LARGE_ALIGNMENT if size >= LARGE_BYTES else SMALL_ALIGNMENT
        first, end = range_of(device)
        base = -(-self._next.get(device, first) // alignment) * alignment
        if base + size >= end:
            raise UsageError(f"{label}: {size} bytes do not fit into the device's address space any more")
        allocation = Allocation(base, size, host, label, owner)
        self._next[device] = base + max(size, 1) + GAP_BYTES
        self._allocations.append(allocation)
        return allocation

    def add_at(self, base: int, data: np.ndarray, label: str) -> Allocation:
        """Map ``data`` (uint8) at a fixed device address."""
        allocation = Allocation(base, data.nbytes, data.ctypes.data, label, data)
        self._allocations.append(allocation)
        return allocation

    def add_texture(self, descriptor: bytes) -> int:
        """The handle of a texture or surface object with that descriptor (:mod:`gpusim.launch.texture`)."""
        if self.textures is None:
            self.textures = np.zeros(MOST_DESCRIPTORS * DESCRIPTOR_BYTES, np.uint8)
            self.add_at(TEXTURES_ADDRESS, self.textures, "the table of textures and surfaces")
        handle = self._next_texture
        if handle == self.textures.nbytes:
            raise UsageError(f"more than {MOST_DESCRIPTORS - 1} texture and surface objects on one device")
        self._next_texture += DESCRIPTOR_BYTES
        self.textures[handle : handle + DESCRIPTOR_BYTES] = np.frombuffer(descriptor, np.uint8)
        return handle

    def keep(self, host: int, size: int, label: str, owner: object) -> Allocation:
        """The allocation of that host memory: the one it has already, or a new one."""
        known = self._by_host.get((host, size))
        if known is None:
            known = self._by_host[host, size] = self.add(host, size, label, owner)
        return known

    def address_of(self, array: np.ndarray) -> int:
        """Device address of the first byte of ``array``, allocating it if it is not on the device yet."""
        low, size = extent(array)
        allocation = self.keep(low, size, "array", array)
        return allocation.base + array.ctypes.data - low

    def remove(self, allocations: list[Allocation]) -> None:
        """Forget ``allocations`` (their addresses are not used again)."""
        gone = {id(a) for a in allocations}
        self._allocations = [a for a in self._allocations if id(a) not in gone]

    def sorted(self) -> list[Allocation]:
        """All allocations in address order."""
        return sorted(self._allocations, key=lambda a: a.base)

    def describe(self, address: int) -> str:
        """Where ``address`` lies relative to the nearest allocation, in words."""
        if not self._allocations:
            return "nothing is allocated"
        # An index that runs over is far commoner than one that runs under: look below first.
        below = [a for a in self._allocations if a.base <= address]
        nearest = max(below, key=lambda a: a.base) if below else min(self._allocations, key=lambda a: a.base)
        if address >= nearest.end:
            place = f"{address - nearest.end} bytes behind the end of"
        elif address < nearest.base:
            place = f"{nearest.base - address} bytes before"
        else:
            place = f"{address - nearest.base} bytes into"
        return f"{place} {nearest.label} (0x{nearest.base:x}, {nearest.size} bytes)"


def range_of(device: int) -> tuple[int, int]:
    """(first address, address behind the last) of a device's own memory, where devices share an address space."""
    first = FIRST_ADDRESS if not device else _SECOND_ADDRESS + (device - 1) * _DEVICE_STRIDE
    return first, first + SHARED_WINDOW - FIRST_ADDRESS


def extent(array: np.ndarray) -> tuple[int, int]:
    """(host address of the lowest byte, bytes to the highest one) that ``array`` can reach."""
    low = high = array.ctypes.data
    if array.size == 0:
        return low, 0
    for length, stride in zip(array.shape, array.strides, strict=True):
        reach = (length - 1) * stride
        if reach < 0:
            low += reach
        else:
            high += reach
    return low, high - low + array.itemsize
