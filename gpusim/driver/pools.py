"""Memory pools and stream-ordered allocation.

Mental model: a pool hands out allocations and keeps account: what is in use, and what it holds back of what was freed. Freed
memory is really given back at once; what counts as held back goes at the next synchronization, down to the release threshold,
as the CUDA Driver API has it. The default pool is the device's.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import POINTER, c_int, c_size_t, c_uint64
from dataclasses import dataclass, field

from gpusim.driver.abi import (
    HOST,
    INT_OUT,
    INVALID_DEVICE,
    INVALID_VALUE,
    NOT_SUPPORTED,
    OUT_OF_MEMORY,
    WORD,
    WORD_OUT,
    DriverError,
    Handles,
    entry,
    put,
    structure_at,
)
from gpusim.driver.memory import HOST_PAGES, Memory
from gpusim.driver.structures import AccessDescription, Location, PoolProperties
from gpusim.driver.work import Action, Work

PINNED, MANAGED = 1, 2  # CUmemAllocationType
ON_DEVICE, ON_HOST, ON_NUMA_NODE, ON_THIS_NODE = 1, 2, 3, 4  # CUmemLocationType
_READ_WRITE = 3
# CUmemPool_attribute
_REUSE, _THRESHOLD, _RESERVED, _RESERVED_HIGH, _USED, _USED_HIGH = (1, 2, 3), 4, 5, 6, 7, 8
_BY_DESCRIPTOR = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
_TYPE, _HANDLE_TYPES, _PLACE_ID, _PLACE_TYPE, _MOST, _DECOMPRESS = 9, 10, 11, 12, 13, 14


@dataclass(eq=False)
class Pool:
    """``live``: size by address of what it has handed out; ``kept_bytes``: what it holds back. ``origin``: the process and the handle
    of a pool of another process, which alone allocates from it."""

    properties: PoolProperties
    handle: int = 0
    reuse: dict[int, int] = field(default_factory=lambda: dict.fromkeys(_REUSE, 1))
    threshold_bytes: int = 0
    live: dict[int, int] = field(default_factory=dict)
    used_bytes: int = 0
    kept_bytes: int = 0
    used_high: int = 0
    reserved_high: int = 0
    host_access: int = 0
    origin: tuple[int, int] | None = None

    def took(self, address: int, size: int) -> None:
        """Account for an allocation."""
        self.live[address] = size
        self.used_bytes += size
        self.kept_bytes = max(0, self.kept_bytes - size)
        self.used_high = max(self.used_high, self.used_bytes)
        self.reserved_high = max(self.reserved_high, self.used_bytes + self.kept_bytes)

    def freed(self, address: int) -> None:
        """Account for one that was freed."""
        size = self.live.pop(address)
        self.used_bytes -= size
        self.kept_bytes += size

    def trim(self, least_bytes: int) -> None:
        """Hold back only so much that ``least_bytes`` are reserved."""
        self.kept_bytes = max(0, min(self.kept_bytes, least_bytes - self.used_bytes))


class Pools:
    """Entry points cuMemPool*, cuMem*Async of allocations, and the device's pools. ``submit`` puts work into a stream;
    ``capture_allocation`` and ``capture_free`` write them down where a stream is captured, and say whether it is."""

    def __init__(self, memory: Memory, submit: Callable[[int, Work], None]):
        self._memory, self._submit = memory, submit
        self.reset()
        self.capture_allocation: Callable[[int, int, Pool], int | None] = lambda stream, size, pool: None
        self.capture_free: Callable[[int, int], bool] = lambda stream, address: False

    def reset(self) -> None:
        """Forget all pools but the default one."""
        self._pools = Handles(0xD0_0000)
        self._default = self._add(PoolProperties(PINNED, 0, Location(ON_DEVICE, 0)))
        self._current = {(ON_DEVICE, PINNED): self._default}

    def _add(self, properties: PoolProperties) -> Pool:
        pool = Pool(PoolProperties.from_buffer_copy(properties))
        pool.handle = self._pools.new(pool)
        return pool

    def import_from(self, origin: tuple[int, int]) -> Pool:
        """A pool for what another process hands out."""
        pool = self._add(PoolProperties(PINNED, 0, Location(ON_DEVICE, 0)))
        pool.origin = origin
        return pool

    def get(self, handle: int) -> Pool:
        """The pool of a handle; raises DriverError."""
        try:
            return self._pools.get(handle)
        except DriverError as error:
            raise DriverError(INVALID_VALUE, error.detail) from None

    def release(self) -> None:
        """What synchronization does: pools let go of what exceeds their thresholds."""
        for pool in self._pools.all():
            pool.trim(max(pool.threshold_bytes, pool.used_bytes))

    def owner_of(self, address: int) -> Pool | None:
        """The pool that an allocation came from."""
        return next((pool for pool in self._pools.all() if address in pool.live), None)

    # ---- allocations ----------------------------------------------------------------------------

    def allocate(self, size: int, pool: Pool) -> int:
        """The address of ``size`` bytes from ``pool``; raises DriverError."""
        most = pool.properties.most_bytes
        if most and pool.used_bytes + size > most:
            raise DriverError(
                OUT_OF_MEMORY, f"{size} bytes do not fit the pool: {pool.used_bytes} of {most} are in use"
            )
        out = (c_uint64 * 1)()
        if pool.properties.location.type != ON_DEVICE:
            self._memory.host_alloc(out, size, 0)
        elif pool.properties.type == MANAGED:
            self._memory.alloc_managed(out, size, 1)
        else:
            self._memory.alloc(out, size)
        pool.took(out[0], size)
        self._memory.owners[out[0]] = pool.freed
        return out[0]

    @entry("cuMemAllocAsync", arguments=(WORD_OUT, c_size_t, WORD))
    def alloc_async(self, out, size: int, stream: int) -> None:
        self._alloc(out, size, self._current[ON_DEVICE, PINNED], stream)

    @entry("cuMemAllocFromPoolAsync", arguments=(WORD_OUT, c_size_t, WORD, WORD))
    def alloc_from_pool(self, out, size: int, pool: int, stream: int) -> None:
        self._alloc(out, size, self.get(pool), stream)

    def _alloc(self, out, size: int, pool: Pool, stream: int) -> None:
        if size < 1:
            raise DriverError(INVALID_VALUE, f"an allocation of {size} bytes")
        if pool.origin is not None:
            raise DriverError(INVALID_VALUE, "the pool is another process', which alone allocates from it")
        address = self.capture_allocation(stream, size, pool)
        if address is None:
            self._submit(stream, Action(lambda: None))
            address = self.allocate(size, pool)
        put(out, address)

    @entry("cuMemFreeAsync", arguments=(WORD, WORD))
    def free_async(self, address: int, stream: int) -> None:
        if self.capture_free(stream, address):
            return
        if not address:
            raise DriverError(INVALID_VALUE, "the address to be freed is null")
        self._submit(stream, Action(lambda: self.free(address)))

    def free(self, address: int) -> None:
        """Free what a pool or cuMemAlloc has handed out; raises DriverError."""
        block = self._memory.block_at(address)
        if block is not None and block.kind == HOST_PAGES and self.owner_of(address):
            self._memory.free_host(address)
        else:
            self._memory.free(address)

    # ---- pools ----------------------------------------------------------------------------------

    @entry("cuMemPoolCreate", arguments=(WORD_OUT, WORD))
    def create(self, out, properties: int) -> None:
        wanted = structure_at(PoolProperties, properties)
        if wanted.type not in (PINNED, MANAGED):
            raise DriverError(INVALID_VALUE, f"memory of allocation type {wanted.type} is not known")
        if wanted.location.type == ON_DEVICE and wanted.location.id != 0:
            raise DriverError(INVALID_DEVICE, f"there is one device, number 0; {wanted.location.id} was named")
        nowhere = wanted.type == MANAGED and wanted.location.type == 0
        if not nowhere and wanted.location.type not in (ON_DEVICE, ON_HOST, ON_NUMA_NODE, ON_THIS_NODE):
            raise DriverError(INVALID_VALUE, f"memory location type {wanted.location.type} is not known")
        shareable = wanted.type == PINNED and wanted.location.type == ON_DEVICE
        if wanted.handle_types and (wanted.handle_types != _BY_DESCRIPTOR or not shareable):
            raise DriverError(NOT_SUPPORTED, "only pools of device memory are shared between processes, by descriptor")
        if any(wanted.reserved):
            raise DriverError(INVALID_VALUE, "reserved bytes of the pool's properties are not zero")
        pool = self._add(wanted)
        if nowhere:
            pool.properties.location.type = ON_DEVICE
        put(out, pool.handle)

    @entry("cuMemPoolDestroy", arguments=(WORD,))
    def destroy(self, handle: int) -> None:
        pool = self.get(handle)
        if pool is self._default:
            raise DriverError(INVALID_VALUE, "the device's default pool cannot be destroyed")
        for key, current in list(self._current.items()):
            if current is pool:
                self._current[key] = self._default
        self._pools.remove(handle)

    @entry("cuMemPoolTrimTo", arguments=(WORD, c_size_t))
    def trim(self, handle: int, least_bytes: int) -> None:
        self.get(handle).trim(least_bytes)

    @entry("cuMemPoolSetAttribute", arguments=(WORD, c_int, HOST))
    def set_attribute(self, handle: int, attribute: int, value: int) -> None:
        pool = self.get(handle)
        if not value:
            raise DriverError(INVALID_VALUE, "the pointer to the attribute's value is null")
        if attribute in _REUSE:
            pool.reuse[attribute] = int(c_int.from_address(value).value != 0)
        elif attribute == _THRESHOLD:
            pool.threshold_bytes = c_uint64.from_address(value).value
        elif attribute in (_RESERVED_HIGH, _USED_HIGH):
            if c_uint64.from_address(value).value:
                raise DriverError(INVALID_VALUE, "a high-water mark can only be set to 0")
            if attribute == _USED_HIGH:
                pool.used_high = pool.used_bytes
            else:
                pool.reserved_high = pool.used_bytes + pool.kept_bytes
        else:
            raise DriverError(INVALID_VALUE, f"pool attribute {attribute} cannot be set")

    @entry("cuMemPoolGetAttribute", arguments=(WORD, c_int, HOST))
    def attribute(self, handle: int, attribute: int, out: int) -> None:
        pool = self.get(handle)
        numbers = {
            **pool.reuse,
            _TYPE: pool.properties.type,
            _HANDLE_TYPES: pool.properties.handle_types,
            _PLACE_ID: pool.properties.location.id,
            _PLACE_TYPE: pool.properties.location.type,
            _DECOMPRESS: 0,
        }
        sizes = {
            _THRESHOLD: pool.threshold_bytes,
            _RESERVED: pool.used_bytes + pool.kept_bytes,
            _RESERVED_HIGH: pool.reserved_high,
            _USED: pool.used_bytes,
            _USED_HIGH: pool.used_high,
            _MOST: pool.properties.most_bytes,
        }
        if not out or (attribute not in numbers and attribute not in sizes):
            raise DriverError(INVALID_VALUE, f"pool attribute {attribute} is not known, or the pointer is null")
        if attribute in numbers:
            c_int.from_address(out).value = numbers[attribute]
        else:
            c_uint64.from_address(out).value = sizes[attribute]

    @entry("cuMemPoolSetAccess", arguments=(WORD, POINTER(AccessDescription), c_size_t))
    def set_access(self, handle: int, wanted, count: int) -> None:
        pool = self.get(handle)
        for i in range(count):
            place, flags = wanted[i].location, wanted[i].flags
            if flags not in (0, 1, _READ_WRITE):
                raise DriverError(INVALID_VALUE, f"access flags {flags} are none of 0, 1, 3")
            if place.type == ON_DEVICE and place.id != 0:
                raise DriverError(INVALID_DEVICE, f"there is one device, number 0; {place.id} was named")
            if place.type == ON_DEVICE and pool.properties.location.type == ON_DEVICE and flags != _READ_WRITE:
                raise DriverError(INVALID_DEVICE, "the device that holds a pool cannot lose access to it")
            if place.type != ON_DEVICE:
                pool.host_access = flags

    @entry("cuMemPoolGetAccess", arguments=(INT_OUT, WORD, POINTER(Location)))
    def access(self, out, handle: int, location) -> None:
        pool = self.get(handle)
        if not location:
            raise DriverError(INVALID_VALUE, "the location is null")
        mine = location[0].type == ON_DEVICE or pool.properties.location.type != ON_DEVICE
        put(out, _READ_WRITE if mine or pool.properties.type == MANAGED else pool.host_access)

    # ---- the device's pools ---------------------------------------------------------------------

    @entry("cuDeviceGetDefaultMemPool", arguments=(WORD_OUT, c_int))
    def default(self, out, number: int) -> None:
        _check_device(number)
        put(out, self._default.handle)

    @entry("cuDeviceGetMemPool", arguments=(WORD_OUT, c_int))
    def current(self, out, number: int) -> None:
        _check_device(number)
        put(out, self._current[ON_DEVICE, PINNED].handle)

    @entry("cuDeviceSetMemPool", arguments=(c_int, WORD))
    def set_current(self, number: int, handle: int) -> None:
        _check_device(number)
        pool = self.get(handle)
        if (pool.properties.location.type, pool.properties.type) != (ON_DEVICE, PINNED):
            raise DriverError(INVALID_VALUE, "the device's pool must hold memory of the device")
        self._current[ON_DEVICE, PINNED] = pool

    @entry("cuMemGetDefaultMemPool", "cuMemGetMemPool", arguments=(WORD_OUT, POINTER(Location), c_int))
    def pool_of_location(self, out, location, kind: int) -> None:
        put(out, self._at(location, kind).handle)

    @entry("cuMemSetMemPool", arguments=(POINTER(Location), c_int, WORD))
    def set_pool_of_location(self, location, kind: int, handle: int) -> None:
        place = self._at(location, kind).properties.location.type
        self._current[place, kind] = self.get(handle)

    def _at(self, location, kind: int) -> Pool:
        if not location or kind not in (PINNED, MANAGED):
            raise DriverError(INVALID_VALUE, f"allocation type {kind} is not known, or the location is null")
        place = ON_DEVICE if kind == MANAGED or location[0].type == ON_DEVICE else ON_HOST
        if (place, kind) not in self._current:
            self._current[place, kind] = self._add(PoolProperties(kind, 0, Location(place, 0)))
        return self._current[place, kind]


def _check_device(number: int) -> None:
    if number != 0:
        raise DriverError(INVALID_DEVICE, f"there is one device, number 0; {number} was asked for")
