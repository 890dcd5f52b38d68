"""Memory pools and stream-ordered allocation.

Mental model: a pool hands out allocations and keeps account: what is in use, and what it holds back of what was freed.
Freed memory is really given back at once; what counts as held back goes at the next synchronization, down to the
release threshold, as the CUDA Driver API has it. Each device has a default pool.
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
from gpusim.driver.contexts import Contexts
from gpusim.driver.memory import HOST_PAGES, Memory
from gpusim.driver.structures import AccessDescription, Location, PoolProperties
from gpusim.driver.work import Action, Work

PINNED, MANAGED = 1, 2  # CUmemAllocationType
ON_DEVICE, ON_HOST, ON_NUMA_NODE, ON_THIS_NODE = 1, 2, 3, 4  # CUmemLocationType
_READ, _READ_WRITE = 1, 3
# CUmemPool_attribute
_REUSE, _THRESHOLD, _RESERVED, _RESERVED_HIGH, _USED, _USED_HIGH = (1, 2, 3), 4, 5, 6, 7, 8
_BY_DESCRIPTOR = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
_TYPE, _HANDLE_TYPES, _PLACE_ID, _PLACE_TYPE, _MOST, _DECOMPRESS = 9, 10, 11, 12, 13, 14


@dataclass(eq=False)
class Pool:
    """``live``: size by address of what it has handed out; ``kept_bytes``: what it holds back. ``origin``: the process
    and the handle of a pool of another process, which alone allocates from it. ``granted``: the devices whose kernels
    reach what it has handed out."""

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
    granted: set[int] = field(default_factory=set)
    origin: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.properties.location.type == ON_DEVICE:
            self.granted.add(self.device)

    @property
    def device(self) -> int:
        """Whose memory it hands out; of host memory, the first one's, to which it is accounted."""
        location = self.properties.location
        return location.id if location.type == ON_DEVICE else 0

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
    """Entry points cuMemPool*, cuMem*Async of allocations, and the devices' pools. ``submit`` puts work into a stream;
    ``capture_allocation`` and ``capture_free`` write them down where a stream is captured, and say whether it is."""

    def __init__(self, memory: Memory, contexts: Contexts, submit: Callable[[int, Work], None]):
        self._memory, self._contexts, self._submit = memory, contexts, submit
        self._pools = Handles(0xD0_0000)
        self._defaults: dict[int, Pool] = {}
        self._current: dict[tuple[int, int, int], Pool] = {}  # by type and number of the place, and type of allocation
        self.capture_allocation: Callable[[int, int, Pool], int | None] = lambda stream, size, pool: None
        self.capture_free: Callable[[int, int], bool] = lambda stream, address: False

    def reset(self, device: int) -> None:
        """Forget all pools of a device but the default one, which is as new and keeps its handle: cuda.core asks for it
        once a process."""
        default = self._defaults.pop(device, None)
        for pool in self._pools.all():
            if pool.device == device:
                self._pools.remove(pool.handle)
        if default is not None:
            self._defaults[device] = Pool(default.properties, default.handle)
            self._pools.put(default.handle, self._defaults[device])
        self._current = {place: pool for place, pool in self._current.items() if pool.device != device}

    def _default(self, device: int) -> Pool:
        """A device's default pool."""
        if device not in self._defaults:
            self._defaults[device] = self._add(PoolProperties(PINNED, 0, Location(ON_DEVICE, device)))
        return self._defaults[device]

    def _of(self, device: int) -> Pool:
        """The pool that a device allocates from in the order of its streams."""
        return self._current.get((ON_DEVICE, device, PINNED)) or self._default(device)

    def _add(self, properties: PoolProperties) -> Pool:
        pool = Pool(PoolProperties.from_buffer_copy(properties))
        pool.handle = self._pools.new(pool)
        return pool

    def import_from(self, origin: tuple[int, int]) -> Pool:
        """A pool for what another process hands out."""
        pool = self._add(PoolProperties(PINNED, 0, Location(ON_DEVICE, self._contexts.here())))
        pool.origin = origin
        return pool

    def get(self, handle: int) -> Pool:
        """The pool of a handle; raises DriverError."""
        try:
            return self._pools.get(handle)
        except DriverError as error:
            raise DriverError(INVALID_VALUE, error.detail) from None

    def release(self, device: int) -> None:
        """What synchronization with a device does: its pools let go of what exceeds their thresholds."""
        for pool in (each for each in self._pools.all() if each.device == device):
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
        if pool.properties.location.type != ON_DEVICE:
            out = (c_uint64 * 1)()
            self._memory.host_alloc(out, size, 0)
            address = out[0]
        elif pool.properties.type == MANAGED:
            address = self._memory.allocate_managed(size, device=pool.device).allocation.base
        else:
            address = self._memory.allocate(size, device=pool.device, granted=pool.granted).allocation.base
        pool.took(address, size)
        self._memory.owners[address] = pool.freed
        return address

    @entry("cuMemAllocAsync", arguments=(WORD_OUT, c_size_t, WORD))
    def alloc_async(self, out, size: int, stream: int) -> None:
        self._alloc(out, size, self._of(self._contexts.here()), stream)

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
        if wanted.location.type == ON_DEVICE:
            self._contexts.device(wanted.location.id)
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
            pool.properties.location = Location(ON_DEVICE, self._contexts.here())
            pool.granted.add(pool.device)
        put(out, pool.handle)

    @entry("cuMemPoolDestroy", arguments=(WORD,))
    def destroy(self, handle: int) -> None:
        pool = self.get(handle)
        if pool in self._defaults.values():
            raise DriverError(INVALID_VALUE, "the device's default pool cannot be destroyed")
        self._current = {place: current for place, current in self._current.items() if current is not pool}
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
            if place.type != ON_DEVICE:
                pool.host_access = flags
                continue
            self._contexts.device(place.id)
            own = pool.properties.location.type == ON_DEVICE and place.id == pool.device
            if own and flags != _READ_WRITE:
                raise DriverError(INVALID_DEVICE, "the device that holds a pool cannot lose access to it")
            if flags == _READ and not own and pool.properties.location.type == ON_DEVICE:
                raise DriverError(
                    NOT_SUPPORTED, "memory that kernels can only read (CU_MEM_ACCESS_FLAGS_PROT_READ) is not emulated"
                )
            (pool.granted.add if flags else pool.granted.discard)(place.id)

    @entry("cuMemPoolGetAccess", arguments=(INT_OUT, WORD, POINTER(Location)))
    def access(self, out, handle: int, location) -> None:
        pool = self.get(handle)
        if not location:
            raise DriverError(INVALID_VALUE, "the location is null")
        if pool.properties.type == MANAGED or pool.properties.location.type != ON_DEVICE:
            put(out, _READ_WRITE)
        elif location[0].type == ON_DEVICE:
            put(out, _READ_WRITE if location[0].id in pool.granted else 0)
        else:
            put(out, pool.host_access)

    # ---- the devices' pools ---------------------------------------------------------------------

    @entry("cuDeviceGetDefaultMemPool", arguments=(WORD_OUT, c_int))
    def default(self, out, number: int) -> None:
        self._contexts.device(number)
        put(out, self._default(number).handle)

    @entry("cuDeviceGetMemPool", arguments=(WORD_OUT, c_int))
    def current(self, out, number: int) -> None:
        self._contexts.device(number)
        put(out, self._of(number).handle)

    @entry("cuDeviceSetMemPool", arguments=(c_int, WORD))
    def set_current(self, number: int, handle: int) -> None:
        self._contexts.device(number)
        pool = self.get(handle)
        place = pool.properties.location
        if (place.type, place.id, pool.properties.type) != (ON_DEVICE, number, PINNED):
            raise DriverError(INVALID_VALUE, "the device's pool must hold memory of the device")
        self._current[ON_DEVICE, number, PINNED] = pool

    @entry("cuMemGetDefaultMemPool", "cuMemGetMemPool", arguments=(WORD_OUT, POINTER(Location), c_int))
    def pool_of_location(self, out, location, kind: int) -> None:
        put(out, self._at(location, kind).handle)

    @entry("cuMemSetMemPool", arguments=(POINTER(Location), c_int, WORD))
    def set_pool_of_location(self, location, kind: int, handle: int) -> None:
        self._current[self._place(location, kind)] = self.get(handle)

    def _place(self, location, kind: int) -> tuple[int, int, int]:
        """Type and number of the place, and type of allocation, that a location stands for; raises DriverError."""
        if not location or kind not in (PINNED, MANAGED):
            raise DriverError(INVALID_VALUE, f"allocation type {kind} is not known, or the location is null")
        if location[0].type == ON_DEVICE:
            self._contexts.device(location[0].id)
            return ON_DEVICE, location[0].id, kind
        return (ON_DEVICE, self._contexts.here(), kind) if kind == MANAGED else (ON_HOST, 0, kind)

    def _at(self, location, kind: int) -> Pool:
        place = self._place(location, kind)
        if place[0] == ON_DEVICE and kind == PINNED:
            return self._of(place[1])
        if place not in self._current:
            self._current[place] = self._add(PoolProperties(kind, 0, Location(*place[:2])))
        return self._current[place]
