"""Memory as the driver API has it: allocations of every kind, and what lies at an address.

Mental model: every allocation is host memory registered in the emulator's
:class:`~gpusim.launch.memory.DeviceMemory` at a device address, of which all devices have one space (unified
addressing). Managed, pinned and registered memory has one address for both sides. What the kernels of one device reach
of it: :mod:`gpusim.driver.reach`.
"""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_size_t, c_uint
from dataclasses import dataclass, field, replace

import numpy as np

from gpusim.driver.abi import (
    HOST,
    HOST_MEMORY_ALREADY_REGISTERED,
    HOST_MEMORY_NOT_REGISTERED,
    INVALID_VALUE,
    OUT_OF_MEMORY,
    UINT_OUT,
    WORD,
    WORD_OUT,
    DriverError,
    entry,
    put,
)
from gpusim.driver.host_memory import SharedPages
from gpusim.driver.host_ranges import host_ranges
from gpusim.errors import UsageError
from gpusim.io.memory_limit import machine_bytes
from gpusim.launch.memory import Allocation, DeviceMemory, range_of

# Packages whose frames do not count as the place where a program allocates.
_LIBRARIES = ("numba", "numba_cuda", "cuda", "gpusim", "weakref", "contextlib", "functools")
_HOST_ALLOC_FLAGS, _REGISTER_FLAGS = 0x7, 0xF  # CU_MEMHOSTALLOC_*, CU_MEMHOSTREGISTER_*
DEVICE, HOST_PAGES, MANAGED, REGISTERED, MAPPED = "device", "pinned", "managed", "registered", "mapped"
_PITCH_BYTES = 512  # the texture alignment of every GPU since compute capability 2.0


_numbers = itertools.count(1)


@dataclass(frozen=True, eq=False)
class Block:
    """An allocation; ``kind`` DEVICE, HOST_PAGES, MANAGED, REGISTERED or MAPPED; ``pages`` its host memory. ``number``
    tells it from every other one of the process. ``device``: whose memory it is, or for which it was made; ``granted``:
    the devices that reach it, None where that depends on peer access."""

    allocation: Allocation
    kind: str
    pages: np.ndarray | None
    device: int = 0
    granted: set[int] | None = None
    number: int = field(default_factory=lambda: next(_numbers), compare=False)


class Memory:
    """Entry points of allocations; ``capacity_bytes`` is the memory of each device, ``here`` says on which one the
    caller's context is. ``owners``: who is to be told, with the address, when an allocation is freed."""

    def __init__(self, capacity_bytes: int, here: Callable[[], int] = lambda: 0):
        self.capacity_bytes, self.here = capacity_bytes, here
        self._machine_bytes, self._held_bytes = machine_bytes(), 0
        self.space = DeviceMemory()
        self._pages = SharedPages()
        self._blocks: dict[int, Block] = {}  # by device address
        self._bases: list[int] = []
        self._by_host: dict[int, Block] = {}  # pinned and registered memory by host address
        self._away: dict[int, Allocation] = {}  # allocations that were taken away for a while, by device address
        self._used: dict[int, int] = {}
        self.owners: dict[int, Callable[[int], None]] = {}
        self._host_flags: dict[int, int] = {}
        #: kernels reach all memory of the host, as on a GPU with PAGEABLE_MEMORY_ACCESS
        self.pageable = False

    @property
    def used_bytes(self) -> int:
        """What is taken of the current context's device."""
        return self.used_of(self.here())

    def used_of(self, device: int) -> int:
        """What is taken of a device's memory."""
        return self._used.get(device, 0)

    def charge(self, device: int, size: int) -> None:
        """Account for ``size`` bytes more (or less) of a device's memory."""
        self._used[device] = self.used_of(device) + size

    # ---- allocations -------------------------------------------------------------------------

    def _enter(self, block: Block) -> Block:
        self._held_bytes += block.pages.nbytes if block.pages is not None else 0
        base = block.allocation.base
        self._blocks[base] = block
        bisect.insort(self._bases, base)
        if block.kind in (HOST_PAGES, REGISTERED):
            self._by_host[block.allocation.host] = block
        elif block.kind != MAPPED:
            self.charge(block.device, block.allocation.size)
        return block

    def _drop(self, block: Block) -> None:
        self._held_bytes -= block.pages.nbytes if block.pages is not None else 0
        base = block.allocation.base
        del self._blocks[base]
        self._bases.remove(base)
        if block.kind in (HOST_PAGES, REGISTERED):
            del self._by_host[block.allocation.host]
            self._host_flags.pop(block.allocation.host, None)
        elif block.kind != MAPPED:
            self.charge(block.device, -block.allocation.size)
        self.space.remove([block.allocation])
        if block.kind in (HOST_PAGES, MANAGED):
            self._pages.give(block.pages)
        if owner := self.owners.pop(base, None):
            owner(base)

    def left(self, kinds: Sequence[str]) -> list[Block]:
        """The allocations of these kinds that have not been freed, by device address."""
        return [self._blocks[base] for base in self._bases if self._blocks[base].kind in kinds]

    def reserve(self, size: int, device: int) -> None:
        """Raise DriverError if the device or this machine has no room for ``size`` bytes more."""
        if size < 1:
            raise DriverError(INVALID_VALUE, f"an allocation of {size} bytes")
        used = self.used_of(device)
        if used + size > self.capacity_bytes:
            raise DriverError(
                OUT_OF_MEMORY,
                f"{size} bytes do not fit the device: {used} of {self.capacity_bytes} are in use",
            )

        held = self._held_bytes
        if held + size > self._machine_bytes:
            raise DriverError(
                OUT_OF_MEMORY,
                f"{size} bytes would fit the device, but not this machine, whose {self._machine_bytes} bytes stand for"
                f" the device's ({held} are taken)",
            )

    def allocate(self, size: int, what: str = "", device: int | None = None, granted: set[int] | None = None) -> Block:
        """``size`` zeroed bytes of device memory, the current context's device's where none is named; raises
        DriverError."""
        device = self.here() if device is None else device
        self.reserve(size, device)
        try:
            pages = np.zeros(size, np.uint8)
        except MemoryError:
            raise DriverError(OUT_OF_MEMORY, f"this machine has no {size} bytes to stand for device memory") from None
        label = what or f"an allocation of {size} bytes{_asked_at()}"
        try:
            allocation = self.space.add(pages.ctypes.data, size, label, pages, device)
        except UsageError as error:
            raise DriverError(OUT_OF_MEMORY, str(error)) from None
        return self._enter(Block(allocation, DEVICE, pages, device, granted))

    @entry("cuMemAlloc", arguments=(WORD_OUT, c_size_t))
    def alloc(self, out, size: int) -> None:
        put(out, self.allocate(size).allocation.base)

    @entry("cuMemAllocPitch", arguments=(WORD_OUT, WORD_OUT, c_size_t, c_size_t, c_uint))
    def alloc_pitch(self, out, pitch_out, width: int, height: int, element: int) -> None:
        if element not in (4, 8, 16):
            raise DriverError(INVALID_VALUE, f"elements of {element} bytes: 4, 8 and 16 are allowed")
        if not width or not height:
            raise DriverError(INVALID_VALUE, f"an allocation of {height} rows of {width} bytes")
        pitch = -(-width // _PITCH_BYTES) * _PITCH_BYTES
        put(out, self.allocate(pitch * height).allocation.base)
        put(pitch_out, pitch)

    # ---- memory that is not allocated here ------------------------------------------------------

    def announce(self, address: int, size: int, what: str, device: int, granted: set[int]) -> Block:
        """Let the kernels of ``granted`` devices reach ``size`` bytes of ``device`` that the host has at the same
        address, until :meth:`withdraw`."""
        pages = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
        return self._enter(Block(self.space.add_at(address, pages, what), MAPPED, pages, device, granted))

    def adopt(self, pages: np.ndarray, what: str, kind: str) -> Block:
        """Let kernels reach host memory at a new address of the current context's device, until :meth:`withdraw` or, as
        DEVICE memory, :meth:`free`."""
        device = self.here()
        allocation = self.space.add(pages.ctypes.data, pages.nbytes, what, pages, device)
        return self._enter(Block(allocation, kind, pages, device))

    def move(self, block: Block, pages: np.ndarray) -> None:
        """Let other host memory, which holds the same, stand for an allocation at its device address."""
        self.space.remove([block.allocation])
        allocation = self.space.add_at(block.allocation.base, pages, block.allocation.label)
        self._blocks[allocation.base] = replace(block, allocation=allocation, pages=pages)

    def withdraw(self, block: Block) -> None:
        """Undo :meth:`announce`, or :meth:`adopt`, or take an allocation away for a while."""
        self._drop(block) if block.kind == MAPPED else self._hide(block)

    def _hide(self, block: Block) -> None:
        base = block.allocation.base
        del self._blocks[base]
        self._bases.remove(base)
        self.space.remove([block.allocation])
        self._away[base] = block.allocation

    def show(self, block: Block) -> None:
        """Bring back an allocation that was taken away."""
        allocation = self.space.add_at(block.allocation.base, block.pages, block.allocation.label)
        base = allocation.base
        del self._away[base]
        self._blocks[base] = replace(block, allocation=allocation)
        bisect.insort(self._bases, base)

    def forget(self, block: Block) -> None:
        """Free an allocation that was taken away."""
        self._away.pop(block.allocation.base, None)
        self._held_bytes -= block.pages.nbytes
        self.charge(block.device, -block.allocation.size)

    def hold(self, block: Block) -> None:
        """Account again for an allocation that was freed while its memory stays: it is away, and may be brought
        back."""
        self._away[block.allocation.base] = block.allocation
        self._held_bytes += block.pages.nbytes
        self.charge(block.device, block.allocation.size)

    def is_there(self, block: Block) -> bool:
        """Whether it has not been freed."""
        return self._blocks.get(block.allocation.base) is block

    @entry("cuMemFree", arguments=(WORD,))
    def free(self, address: int) -> None:
        if not address:
            return
        block = self._blocks.get(address)
        if block is None or block.kind not in (DEVICE, MANAGED):
            raise DriverError(INVALID_VALUE, f"0x{address:x} is not the start of an allocation")
        self._drop(block)

    @entry("cuMemAllocManaged", arguments=(WORD_OUT, c_size_t, c_uint))
    def alloc_managed(self, out, size: int, flags: int) -> None:
        if flags not in (1, 2):
            raise DriverError(INVALID_VALUE, f"managed memory is attached with a flag of 1 or 2, not {flags}")
        put(out, self.allocate_managed(size).allocation.base)

    def allocate_managed(self, size: int, what: str = "", device: int | None = None) -> Block:
        """``size`` zeroed bytes at one address for the host and every device, accounted to one of them; raises
        DriverError."""
        device = self.here() if device is None else device
        self.reserve(size, device)
        pages = self._take(size)
        label = what or f"managed memory of {size} bytes{_asked_at()}"
        return self._enter(Block(self.space.add_at(pages.ctypes.data, pages, label), MANAGED, pages, device))

    @entry("cuMemHostAlloc", arguments=(WORD_OUT, c_size_t, c_uint))
    def host_alloc(self, out, size: int, flags: int) -> None:
        if size < 1 or flags & ~_HOST_ALLOC_FLAGS:
            raise DriverError(INVALID_VALUE, f"an allocation of {size} bytes with flags 0x{flags:x}")
        pages = self._take(size)
        label = f"pinned memory of {size} bytes{_asked_at()}"
        allocation = self.space.add_at(pages.ctypes.data, pages, label)
        self._enter(Block(allocation, HOST_PAGES, pages, self.here()))
        self._host_flags[allocation.host] = flags
        put(out, pages.ctypes.data)

    @entry("cuMemAllocHost", arguments=(WORD_OUT, c_size_t))
    def alloc_host(self, out, size: int) -> None:
        self.host_alloc(out, size, 0)

    def _take(self, size: int) -> np.ndarray:
        try:
            return self._pages.take(size)
        except MemoryError as error:
            raise DriverError(OUT_OF_MEMORY, f"{size} bytes of host memory: {error}") from None

    @entry("cuMemFreeHost", arguments=(HOST,))
    def free_host(self, host: int) -> None:
        block = self._by_host.get(host)
        if block is None or block.kind != HOST_PAGES:
            raise DriverError(INVALID_VALUE, f"0x{host:x} is no pinned memory")
        self._drop(block)

    @entry("cuMemHostRegister", arguments=(HOST, c_size_t, c_uint))
    def host_register(self, host: int, size: int, flags: int) -> None:
        if not host or size < 1 or flags & ~_REGISTER_FLAGS:
            raise DriverError(INVALID_VALUE, f"registering {size} bytes at 0x{host or 0:x} with flags 0x{flags:x}")
        if host in self._by_host:
            raise DriverError(HOST_MEMORY_ALREADY_REGISTERED, f"0x{host:x} is registered already")
        pages = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(host))
        allocation = self.space.add_at(host, pages, f"registered memory of {size} bytes{_asked_at()}")
        self._enter(Block(allocation, REGISTERED, None, self.here()))
        self._host_flags[allocation.host] = flags

    @entry("cuMemHostUnregister", arguments=(HOST,))
    def host_unregister(self, host: int) -> None:
        block = self._by_host.get(host)
        if block is None or block.kind != REGISTERED:
            raise DriverError(HOST_MEMORY_NOT_REGISTERED, f"0x{host:x} is not registered")
        self._drop(block)

    @entry("cuMemHostGetDevicePointer", arguments=(WORD_OUT, HOST, c_uint))
    def host_device_pointer(self, out, host: int, flags: int) -> None:
        put(out, self.of_host(host))

    @entry("cuMemHostGetFlags", arguments=(UINT_OUT, HOST))
    def host_flags(self, out, host: int) -> None:
        block = self.block_at(self.of_host(host))
        put(out, self._host_flags.get(block.allocation.host, 0))

    def of_host(self, host: int) -> int:
        """Device address of pinned or registered host memory."""
        for block in self._by_host.values():
            if block.allocation.host <= host < block.allocation.host + block.allocation.size:
                return block.allocation.base + host - block.allocation.host
        raise DriverError(INVALID_VALUE, f"0x{host or 0:x} is neither pinned nor registered")

    def reset(self, device: int) -> None:
        """Free what is a device's."""
        first, end = range_of(device)
        self._away = {base: each for base, each in self._away.items() if not first <= base < end}
        for block in list(self._blocks.values()):
            if block.device == device:
                self._drop(block)

    def blocks(self) -> list[Block]:
        """All that is there now."""
        return list(self._blocks.values())

    @entry("cuMemGetInfo", arguments=(WORD_OUT, WORD_OUT))
    def info(self, free, total) -> None:
        put(free, self.capacity_bytes - self.used_of(self.here()))
        put(total, self.capacity_bytes)

    @contextlib.contextmanager
    def with_host(self) -> Iterator[None]:
        """While a launch runs, what it reaches of the host."""
        if not self.pageable:
            yield
            return
        ranges = [self.space.add_at(*each) for each in list(host_ranges(self.space.sorted()))]
        try:
            yield
        finally:
            self.space.remove(ranges)

    # ---- addresses ---------------------------------------------------------------------------

    def block_at(self, address: int) -> Block | None:
        """The allocation that holds device address ``address``."""
        index = bisect.bisect_right(self._bases, address or 0) - 1
        if index < 0:
            return None
        block = self._blocks[self._bases[index]]
        return block if address < block.allocation.end else None

    def block_of(self, address: int) -> Block | None:
        """The allocation at an address of either side."""
        found = self.block_at(address)
        if found is None:
            for block in self._by_host.values():
                if block.allocation.host <= address < block.allocation.host + block.allocation.size:
                    return block
        return found

    def device_address(self, address: int, size: int) -> None:
        """Raise DriverError unless ``size`` bytes at ``address`` can be the device's side of a copy: now, or in a graph
        that allocates them."""
        away = self._away.values()
        if not any(each.base <= address and address + size <= each.end for each in away):
            self.host_address(address, size)

    def host_address(self, address: int, size: int) -> int:
        """Host address of ``size`` bytes at device address ``address``; raises DriverError."""
        block = self.block_at(address)
        if block is None or (address + size > block.allocation.end and not self._goes_on(block, address + size)):
            raise DriverError(
                INVALID_VALUE,
                f"{size} bytes at 0x{address or 0:x} are not all on the device: {self.space.describe(address)}",
            )
        return block.allocation.host + address - block.allocation.base

    def _goes_on(self, block: Block, end: int) -> bool:
        """Whether mappings follow ``block`` without a gap up to ``end``."""
        found: Block | None = block
        while found is not None and found.kind == MAPPED and found.allocation.end < end:
            found = self._blocks.get(found.allocation.end)
        return found is not None and found.kind == MAPPED

    def either_address(self, address: int, size: int) -> int:
        """Host address of a unified address: the device's if it is one, else the host's own."""
        return address if self.block_at(address) is None else self.host_address(address, size)

    @entry("cuMemGetAddressRange", arguments=(WORD_OUT, WORD_OUT, WORD))
    def address_range(self, base, size, address: int) -> None:
        block = self.block_at(address)
        if block is None:
            raise DriverError(INVALID_VALUE, f"0x{address:x} is not on the device")
        if base:
            base[0] = block.allocation.base
        if size:
            size[0] = block.allocation.size


def _asked_at() -> str:
    """Where the program asked for memory: the nearest caller outside the CUDA libraries."""
    frame = sys._getframe(1)
    while frame is not None:
        package = (frame.f_globals.get("__name__") or "").split(".")[0]
        if package not in _LIBRARIES and not frame.f_code.co_filename.startswith("<"):
            return f" ({frame.f_code.co_filename}:{frame.f_lineno})"
        frame = frame.f_back
    return ""
