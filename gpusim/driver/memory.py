"""Memory as the driver API has it: allocations of every kind, and what lies at an address.

Mental model: every allocation is host memory registered in the emulator's
:class:`~gpusim.launch.memory.DeviceMemory` at a device address. Managed, pinned and registered memory has one
address for both sides.
"""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import sys
from collections.abc import Iterator, Sequence
from ctypes import POINTER, c_int, c_size_t, c_uint
from dataclasses import dataclass

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
from gpusim.driver.contexts import PRIMARY
from gpusim.driver.host_memory import SharedPages
from gpusim.driver.host_ranges import host_ranges
from gpusim.errors import UsageError
from gpusim.io.memory_limit import machine_bytes
from gpusim.launch.memory import Allocation, DeviceMemory

# Packages whose frames do not count as the place where a program allocates.
_LIBRARIES = ("numba", "numba_cuda", "cuda", "gpusim", "weakref", "contextlib", "functools")
_MEMORY_TYPE_HOST, _MEMORY_TYPE_DEVICE = 1, 2
_MEMORY_TYPE, _DEVICE_POINTER, _HOST_POINTER = 2, 3, 4  # CU_POINTER_ATTRIBUTE_*
DEVICE, HOST_PAGES, MANAGED, REGISTERED = "device", "pinned", "managed", "registered"


@dataclass(frozen=True)
class Block:
    """An allocation; ``kind`` DEVICE, HOST_PAGES, MANAGED or REGISTERED; ``pages`` its host memory."""

    allocation: Allocation
    kind: str
    pages: np.ndarray | None


class Memory:
    """Entry points cuMem* and cuPointer*; ``capacity_bytes`` is the device's memory."""

    def __init__(self, capacity_bytes: int):
        self.capacity_bytes = capacity_bytes
        self._machine_bytes, self._held_bytes = machine_bytes(), 0
        self.space = DeviceMemory()
        self._pages = SharedPages()
        self._blocks: dict[int, Block] = {}  # by device address
        self._bases: list[int] = []
        self._by_host: dict[int, Block] = {}  # pinned and registered memory by host address
        self.used_bytes = 0
        #: kernels reach all memory of the host, as on a GPU with PAGEABLE_MEMORY_ACCESS
        self.pageable = False

    # ---- allocations -------------------------------------------------------------------------

    def _enter(self, block: Block) -> Block:
        self._held_bytes += block.pages.nbytes if block.pages is not None else 0
        base = block.allocation.base
        self._blocks[base] = block
        bisect.insort(self._bases, base)
        if block.kind in (HOST_PAGES, REGISTERED):
            self._by_host[block.allocation.host] = block
        else:
            self.used_bytes += block.allocation.size
        return block

    def _drop(self, block: Block) -> None:
        self._held_bytes -= block.pages.nbytes if block.pages is not None else 0
        base = block.allocation.base
        del self._blocks[base]
        self._bases.remove(base)
        if block.kind in (HOST_PAGES, REGISTERED):
            del self._by_host[block.allocation.host]
        else:
            self.used_bytes -= block.allocation.size
        self.space.remove([block.allocation])
        if block.kind in (HOST_PAGES, MANAGED):
            self._pages.give(block.pages)

    def left(self, kinds: Sequence[str]) -> list[Block]:
        """The allocations of these kinds that have not been freed, by device address."""
        return [self._blocks[base] for base in self._bases if self._blocks[base].kind in kinds]

    def _reserve(self, size: int) -> None:
        if size < 1:
            raise DriverError(INVALID_VALUE, f"an allocation of {size} bytes")
        if self.used_bytes + size > self.capacity_bytes:
            raise DriverError(
                OUT_OF_MEMORY,
                f"{size} bytes do not fit the device: {self.used_bytes} of {self.capacity_bytes} are in use",
            )

        held = self._held_bytes
        if held + size > self._machine_bytes:
            raise DriverError(
                OUT_OF_MEMORY,
                f"{size} bytes would fit the device, but not this machine, whose {self._machine_bytes} bytes stand for"
                f" the device's ({held} are taken)",
            )

    def allocate(self, size: int, what: str = "") -> Block:
        """``size`` zeroed bytes of device memory; raises DriverError."""
        self._reserve(size)
        try:
            pages = np.zeros(size, np.uint8)
        except MemoryError:
            raise DriverError(OUT_OF_MEMORY, f"this machine has no {size} bytes to stand for device memory") from None
        label = what or f"an allocation of {size} bytes{_asked_at()}"
        try:
            allocation = self.space.add(pages.ctypes.data, size, label, pages)
        except UsageError as error:
            raise DriverError(OUT_OF_MEMORY, str(error)) from None
        return self._enter(Block(allocation, DEVICE, pages))

    @entry("cuMemAlloc", arguments=(WORD_OUT, c_size_t))
    def alloc(self, out, size: int) -> None:
        put(out, self.allocate(size).allocation.base)

    @entry("cuMemAllocAsync", arguments=(WORD_OUT, c_size_t, WORD))
    def alloc_async(self, out, size: int, stream: int) -> None:
        put(out, self.allocate(size).allocation.base)

    @entry("cuMemAllocFromPoolAsync", arguments=(WORD_OUT, c_size_t, WORD, WORD))
    def alloc_from_pool(self, out, size: int, pool: int, stream: int) -> None:
        put(out, self.allocate(size).allocation.base)

    @entry("cuMemAllocPitch", arguments=(WORD_OUT, WORD_OUT, c_size_t, c_size_t, c_uint))
    def alloc_pitch(self, out, pitch_out, width: int, height: int, element: int) -> None:
        pitch = -(-width // 512) * 512
        put(out, self.allocate(pitch * height).allocation.base)
        put(pitch_out, pitch)

    @entry("cuMemFree", arguments=(WORD,))
    def free(self, address: int) -> None:
        if not address:
            return
        block = self._blocks.get(address)
        if block is None or block.kind not in (DEVICE, MANAGED):
            raise DriverError(INVALID_VALUE, f"0x{address:x} is not the start of an allocation")
        self._drop(block)

    @entry("cuMemFreeAsync", arguments=(WORD, WORD))
    def free_async(self, address: int, stream: int) -> None:
        self.free(address)

    @entry("cuMemAllocManaged", arguments=(WORD_OUT, c_size_t, c_uint))
    def alloc_managed(self, out, size: int, flags: int) -> None:
        put(out, self.allocate_managed(size).allocation.base)

    def allocate_managed(self, size: int, what: str = "") -> Block:
        """``size`` zeroed bytes at one address for host and device; raises DriverError."""
        self._reserve(size)
        pages = self._take(size)
        label = what or f"managed memory of {size} bytes{_asked_at()}"
        return self._enter(Block(self.space.add_at(pages.ctypes.data, pages, label), MANAGED, pages))

    @entry("cuMemHostAlloc", arguments=(WORD_OUT, c_size_t, c_uint))
    def host_alloc(self, out, size: int, flags: int) -> None:
        if size < 1:
            raise DriverError(INVALID_VALUE, f"an allocation of {size} bytes")
        pages = self._take(size)
        label = f"pinned memory of {size} bytes{_asked_at()}"
        allocation = self.space.add_at(pages.ctypes.data, pages, label)
        self._enter(Block(allocation, HOST_PAGES, pages))
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
        if not host or size < 1:
            raise DriverError(INVALID_VALUE, f"registering {size} bytes at 0x{host or 0:x}")
        if host in self._by_host:
            raise DriverError(HOST_MEMORY_ALREADY_REGISTERED, f"0x{host:x} is registered already")
        pages = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(host))
        allocation = self.space.add_at(host, pages, f"registered memory of {size} bytes{_asked_at()}")
        self._enter(Block(allocation, REGISTERED, None))

    @entry("cuMemHostUnregister", arguments=(HOST,))
    def host_unregister(self, host: int) -> None:
        block = self._by_host.get(host)
        if block is None or block.kind != REGISTERED:
            raise DriverError(HOST_MEMORY_NOT_REGISTERED, f"0x{host:x} is not registered")
        self._drop(block)

    @entry("cuMemHostGetDevicePointer", arguments=(WORD_OUT, HOST, c_uint))
    def host_device_pointer(self, out, host: int, flags: int) -> None:
        put(out, self._of_host(host))

    @entry("cuMemHostGetFlags", arguments=(UINT_OUT, HOST))
    def host_flags(self, out, host: int) -> None:
        self._of_host(host)
        put(out, 0)

    def _of_host(self, host: int) -> int:
        """Device address of pinned or registered host memory."""
        for block in self._by_host.values():
            if block.allocation.host <= host < block.allocation.host + block.allocation.size:
                return block.allocation.base + host - block.allocation.host
        raise DriverError(INVALID_VALUE, f"0x{host or 0:x} is neither pinned nor registered")

    def reset(self) -> None:
        """Free everything."""
        for block in list(self._blocks.values()):
            self._drop(block)

    @entry("cuMemGetInfo", arguments=(WORD_OUT, WORD_OUT))
    def info(self, free, total) -> None:
        put(free, self.capacity_bytes - self.used_bytes)
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
        """Raise DriverError unless ``size`` bytes at ``address`` can be the device's side of a copy."""
        self.host_address(address, size)

    def host_address(self, address: int, size: int) -> int:
        """Host address of ``size`` bytes at device address ``address``; raises DriverError."""
        block = self.block_at(address)
        if block is None or address + size > block.allocation.end:
            raise DriverError(
                INVALID_VALUE,
                f"{size} bytes at 0x{address or 0:x} are not all on the device: {self.space.describe(address)}",
            )
        return block.allocation.host + address - block.allocation.base

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

    @entry("cuPointerGetAttribute", arguments=(HOST, c_int, WORD))
    def pointer_attribute(self, out: int, attribute: int, address: int) -> None:
        block = self.block_of(address)
        if block is None:
            self._host_attribute(out, attribute, address)
            return
        if self.block_at(address) is not block:
            address = block.allocation.base + address - block.allocation.host
        on_host = block.kind in (HOST_PAGES, REGISTERED)
        allocation = block.allocation
        words = {
            1: PRIMARY,
            3: address,
            4: allocation.host + address - allocation.base if block.kind != DEVICE else 0,
            7: allocation.base,
            11: allocation.base,
            12: allocation.size,
            14: 0,
            17: 0,
        }
        numbers = {
            2: _MEMORY_TYPE_HOST if on_host else _MEMORY_TYPE_DEVICE,
            8: int(block.kind == MANAGED),
            9: 0,
            10: 0,
            13: 1,
        }
        if attribute in words:
            ctypes.c_uint64.from_address(out).value = words[attribute]
        elif attribute in numbers:
            ctypes.c_int.from_address(out).value = numbers[attribute]
        else:
            raise DriverError(INVALID_VALUE, f"pointer attribute {attribute} is not known")

    def _host_attribute(self, out: int, attribute: int, address: int) -> None:
        """An attribute of memory that the driver knows nothing of."""
        if not self.pageable:
            raise DriverError(
                INVALID_VALUE,
                f"0x{address or 0:x} is memory of the host that is neither pinned, registered nor managed, and kernels do not reach it:"
                " gpusim run --pageable-memory lets them, as on a GPU with pageable memory access",
            )
        if attribute in (_DEVICE_POINTER, _HOST_POINTER):
            ctypes.c_uint64.from_address(out).value = address
        elif attribute == _MEMORY_TYPE:
            ctypes.c_int.from_address(out).value = _MEMORY_TYPE_HOST
        else:
            raise DriverError(INVALID_VALUE, f"memory of the host has no pointer attribute {attribute}")

    @entry("cuPointerGetAttributes", arguments=(c_uint, POINTER(c_int), WORD_OUT, WORD))
    def pointer_attributes(self, count: int, attributes, outs, address: int) -> None:
        for i in range(count):
            try:
                self.pointer_attribute(outs[i], attributes[i], address)
            except DriverError:
                # Unlike the singular form this one answers for any pointer, with zeros.
                ctypes.c_int.from_address(outs[i]).value = 0

    @entry("cuPointerSetAttribute", arguments=(HOST, c_int, WORD))
    def set_pointer_attribute(self, value: int, attribute: int, address: int) -> None:
        pass


def _asked_at() -> str:
    """Where the program asked for memory: the nearest caller outside the CUDA libraries."""
    frame = sys._getframe(1)
    while frame is not None:
        package = (frame.f_globals.get("__name__") or "").split(".")[0]
        if package not in _LIBRARIES and not frame.f_code.co_filename.startswith("<"):
            return f" ({frame.f_code.co_filename}:{frame.f_lineno})"
        frame = frame.f_back
    return ""
