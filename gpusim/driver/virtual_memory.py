"""Virtual memory management: addresses, memory, and which lies where.

Mental model: a reservation is a range of addresses of this process that nothing lies at. Memory is a file that lives in
memory only; mapping it puts its pages at reserved addresses, where host and device find the same bytes, and a kernel
reaches them once access is granted to its device. Two mappings of one memory are the same memory, and its descriptor
can be passed to another process.
"""

from __future__ import annotations

import bisect
import mmap
import os
from ctypes import POINTER, c_int, c_size_t, c_uint64
from dataclasses import dataclass, field

from gpusim.driver.abi import (
    HOST,
    INVALID_VALUE,
    NOT_SUPPORTED,
    OPERATING_SYSTEM,
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
from gpusim.driver.host_memory import map_file, release_range, reserve_range
from gpusim.driver.memory import Block, Memory
from gpusim.driver.pools import ON_DEVICE, ON_HOST, ON_NUMA_NODE, ON_THIS_NODE, PINNED
from gpusim.driver.structures import AccessDescription, AllocationProperties, Location

#: What every size and address is a multiple of (cuMemGetAllocationGranularity on GPUs of compute capability 7.0 and
#: later).
GRANULARITY_BYTES = 2 << 20
_NO_ACCESS, _READ, _READ_WRITE = 0, 1, 3
_BY_DESCRIPTOR = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


@dataclass(eq=False)
class Physical:
    """Memory without an address: ``descriptor`` of its file. It goes when no handle (``references``) and no mapping is
    left."""

    size: int
    descriptor: int
    properties: AllocationProperties
    handle: int = 0
    references: int = 1
    mappings: int = 0

    @property
    def device(self) -> int:
        """Whose memory it is; of host memory, the first one's, to which it is accounted."""
        location = self.properties.location
        return location.id if location.type == ON_DEVICE else 0


@dataclass(eq=False)
class Mapping:
    """``physical`` at ``address``; ``granted``: the devices whose kernels may reach it, ``block`` where any may."""

    address: int
    size: int
    physical: Physical
    block: Block | None = None
    granted: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Reservation:
    """``size`` bytes of addresses from ``address`` on, asked for in a context of ``device``, and what is mapped there,
    by address."""

    address: int
    size: int
    device: int = 0
    mappings: dict[int, Mapping] = field(default_factory=dict)

    def within(self, address: int, size: int) -> list[Mapping]:
        """Mappings that the range touches, by address."""
        return sorted(
            (
                each
                for each in self.mappings.values()
                if each.address < address + size and address < each.address + each.size
            ),
            key=lambda each: each.address,
        )


class VirtualMemory:
    """Entry points cuMemAddress*, cuMemCreate, cuMemMap and what belongs to them."""

    def __init__(self, memory: Memory, contexts: Contexts):
        self._memory, self._contexts = memory, contexts
        self._physical = Handles(0x80_0000)
        self._reservations: dict[int, Reservation] = {}

    def reset(self, device: int) -> None:
        """Unmap and forget a device's memory, and its reservations in which nothing is left."""
        for reservation in list(self._reservations.values()):
            for mapping in list(reservation.mappings.values()):
                if mapping.physical.device == device:
                    del reservation.mappings[mapping.address]
                    self._unmap(mapping)
            if not reservation.mappings and reservation.device == device:
                del self._reservations[reservation.address]
                release_range(reservation.address, reservation.size)
        for physical in self._physical.all():
            if physical.device == device:
                physical.references = 0
                self._let_go(physical)

    # ---- addresses ------------------------------------------------------------------------------

    @entry("cuMemAddressReserve", arguments=(WORD_OUT, c_size_t, c_size_t, WORD, c_uint64))
    def reserve(self, out, size: int, alignment: int, wanted: int, flags: int) -> None:
        if flags or not size or size % GRANULARITY_BYTES or alignment & alignment - 1 or alignment % mmap.PAGESIZE:
            raise DriverError(
                INVALID_VALUE,
                f"a reservation of {size} bytes aligned to {alignment}: the size must be a multiple of {GRANULARITY_BYTES},"
                f" the alignment a power of two of whole pages or 0, the flags 0",
            )
        address = reserve_range(size, max(alignment, GRANULARITY_BYTES), wanted)
        if not address:
            raise DriverError(OUT_OF_MEMORY, f"this machine has no {size} bytes of addresses left")
        self._reservations[address] = Reservation(address, size, self._contexts.here())
        put(out, address)

    @entry("cuMemAddressFree", arguments=(WORD, c_size_t))
    def free(self, address: int, size: int) -> None:
        found = self._reservations.get(address)
        if found is None or found.size != size or found.mappings:
            raise DriverError(
                INVALID_VALUE, f"{size} bytes at 0x{address:x} are not a whole reservation with nothing mapped in it"
            )
        del self._reservations[address]
        release_range(address, size)

    def _reservation(self, address: int, size: int) -> Reservation:
        starts = sorted(self._reservations)
        place = bisect.bisect_right(starts, address) - 1
        found = self._reservations[starts[place]] if place >= 0 else None
        if found is None or not size or address + size > found.address + found.size:
            raise DriverError(INVALID_VALUE, f"{size} bytes at 0x{address:x} are not in one reservation")
        return found

    # ---- memory ---------------------------------------------------------------------------------

    @entry("cuMemGetAllocationGranularity", arguments=(POINTER(c_size_t), WORD, c_int))
    def granularity(self, out, properties: int, option: int) -> None:
        self._check(structure_at(AllocationProperties, properties))
        if option not in (0, 1):
            raise DriverError(INVALID_VALUE, f"granularity option {option} is neither 0 nor 1")
        put(out, GRANULARITY_BYTES)

    @entry("cuMemCreate", arguments=(WORD_OUT, c_size_t, WORD, c_uint64))
    def create(self, out, size: int, properties: int, flags: int) -> None:
        wanted = structure_at(AllocationProperties, properties)
        self._check(wanted)
        if flags or not size or size % GRANULARITY_BYTES:
            raise DriverError(
                INVALID_VALUE, f"memory of {size} bytes: the size must be a multiple of {GRANULARITY_BYTES}"
            )
        self._memory.reserve(size, wanted.location.id if wanted.location.type == ON_DEVICE else 0)
        descriptor = os.memfd_create("gpusim device memory", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, size)
        put(out, self._add(size, descriptor, wanted).handle)

    def _add(self, size: int, descriptor: int, properties: AllocationProperties) -> Physical:
        physical = Physical(size, descriptor, AllocationProperties.from_buffer_copy(properties))
        physical.handle = self._physical.new(physical)
        self._memory.charge(physical.device, size)
        return physical

    @entry("cuMemRelease", arguments=(WORD,))
    def release(self, handle: int) -> None:
        physical = self._get(handle)
        physical.references -= 1
        self._let_go(physical)

    def _let_go(self, physical: Physical) -> None:
        if physical.references <= 0 and not physical.mappings and physical.descriptor >= 0:
            os.close(physical.descriptor)
            physical.descriptor = -1
            self._memory.charge(physical.device, -physical.size)
            self._physical.remove(physical.handle)

    def _get(self, handle: int) -> Physical:
        try:
            physical = self._physical.get(handle)
        except DriverError as error:
            raise DriverError(INVALID_VALUE, error.detail) from None
        if physical.references <= 0:
            raise DriverError(INVALID_VALUE, f"the memory 0x{handle:x} was released")
        return physical

    @entry("cuMemGetAllocationPropertiesFromHandle", arguments=(POINTER(AllocationProperties), WORD))
    def properties(self, out, handle: int) -> None:
        put(out, self._get(handle).properties)

    @entry("cuMemRetainAllocationHandle", arguments=(WORD_OUT, WORD))
    def retain(self, out, address: int) -> None:
        found = self._reservation(address, 1).within(address, 1)
        if not found:
            raise DriverError(INVALID_VALUE, f"nothing is mapped at 0x{address:x}")
        found[0].physical.references += 1
        put(out, found[0].physical.handle)

    @entry("cuMemExportToShareableHandle", arguments=(HOST, WORD, c_int, c_uint64))
    def export(self, out: int, handle: int, kind: int, flags: int) -> None:
        physical = self._get(handle)
        if kind != _BY_DESCRIPTOR:
            raise DriverError(NOT_SUPPORTED, f"memory is passed on as a file descriptor, not by handle type {kind}")
        if flags or not out or not physical.properties.handle_types & _BY_DESCRIPTOR:
            raise DriverError(INVALID_VALUE, "the memory was not created with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR")
        c_int.from_address(out).value = os.dup(physical.descriptor)

    @entry("cuMemImportFromShareableHandle", arguments=(WORD_OUT, WORD, c_int))
    def import_(self, out, descriptor: int, kind: int) -> None:
        if kind != _BY_DESCRIPTOR:
            raise DriverError(NOT_SUPPORTED, f"memory is passed on as a file descriptor, not by handle type {kind}")
        try:
            own = os.dup(descriptor)
            size = os.fstat(own).st_size
        except (OSError, OverflowError) as error:
            raise DriverError(OPERATING_SYSTEM, f"descriptor {descriptor}: {error}") from None
        if not size or size % GRANULARITY_BYTES:
            os.close(own)
            raise DriverError(INVALID_VALUE, f"descriptor {descriptor} is no memory of cuMemCreate")
        place = Location(ON_DEVICE, self._contexts.here())
        put(out, self._add(size, own, AllocationProperties(PINNED, _BY_DESCRIPTOR, place)).handle)

    # ---- mapping --------------------------------------------------------------------------------

    @entry("cuMemMap", arguments=(WORD, c_size_t, c_size_t, WORD, c_uint64))
    def map(self, address: int, size: int, offset: int, handle: int, flags: int) -> None:
        physical, reservation = self._get(handle), self._reservation(address, size)
        if flags or offset or size % GRANULARITY_BYTES or address % GRANULARITY_BYTES or size > physical.size:
            raise DriverError(
                INVALID_VALUE,
                f"{size} bytes at 0x{address:x}, offset {offset}, of memory of {physical.size}: address and size must be multiples"
                f" of {GRANULARITY_BYTES}, offset and flags 0",
            )
        if reservation.within(address, size):
            raise DriverError(INVALID_VALUE, f"something is mapped already in the {size} bytes at 0x{address:x}")
        if not map_file(address, size, physical.descriptor):
            raise DriverError(OUT_OF_MEMORY, f"this machine cannot map {size} bytes at 0x{address:x}")
        physical.mappings += 1
        reservation.mappings[address] = Mapping(address, size, physical)

    @entry("cuMemUnmap", arguments=(WORD, c_size_t))
    def unmap(self, address: int, size: int) -> None:
        reservation = self._reservation(address, size)
        for mapping in self._whole(reservation, address, size):
            del reservation.mappings[mapping.address]
            self._unmap(mapping)

    def _unmap(self, mapping: Mapping) -> None:
        if mapping.block is not None:
            self._memory.withdraw(mapping.block)
        release_range(mapping.address, mapping.size, keep=True)
        mapping.physical.mappings -= 1
        self._let_go(mapping.physical)

    def _whole(self, reservation: Reservation, address: int, size: int) -> list[Mapping]:
        """The mappings that fill the range exactly; raises DriverError."""
        found = reservation.within(address, size)
        if (
            not found
            or found[0].address != address
            or found[-1].address + found[-1].size != address + size
            or sum(each.size for each in found) != size
        ):
            raise DriverError(INVALID_VALUE, f"{size} bytes at 0x{address:x} are not filled by whole mappings")
        return found

    @entry("cuMemSetAccess", arguments=(WORD, c_size_t, POINTER(AccessDescription), c_size_t))
    def set_access(self, address: int, size: int, wanted, count: int) -> None:
        found = self._whole(self._reservation(address, size), address, size)
        if not count or not wanted:
            raise DriverError(INVALID_VALUE, "no access is described")
        for i in range(count):
            place, flags = wanted[i].location, wanted[i].flags
            if place.type == ON_DEVICE:
                self._contexts.device(place.id)
            if flags == _READ:
                raise DriverError(
                    NOT_SUPPORTED, "memory that kernels can only read (CU_MEM_ACCESS_FLAGS_PROT_READ) is not emulated"
                )
            if flags not in (_NO_ACCESS, _READ_WRITE):
                raise DriverError(INVALID_VALUE, f"access flags {flags} are none of 0, 1, 3")
            for mapping in found if place.type == ON_DEVICE else ():
                self._grant(mapping, place.id, flags)

    def _grant(self, mapping: Mapping, device: int, flags: int) -> None:
        (mapping.granted.add if flags else mapping.granted.discard)(device)
        if mapping.granted and mapping.block is None:
            what, owner = f"mapped memory of {mapping.size} bytes", mapping.physical.device
            mapping.block = self._memory.announce(mapping.address, mapping.size, what, owner, mapping.granted)
        elif not mapping.granted and mapping.block is not None:
            self._memory.withdraw(mapping.block)
            mapping.block = None

    @entry("cuMemGetAccess", arguments=(WORD_OUT, POINTER(Location), WORD))
    def access(self, out, location, address: int) -> None:
        found = self._reservation(address, 1).within(address, 1)
        if not location or not found:
            raise DriverError(INVALID_VALUE, f"nothing is mapped at 0x{address:x}, or the location is null")
        on_host = found[0].physical.properties.location.type != ON_DEVICE
        granted = location[0].id in found[0].granted if location[0].type == ON_DEVICE else on_host
        put(out, _READ_WRITE if granted else _NO_ACCESS)

    def _check(self, wanted: AllocationProperties) -> None:
        if wanted.type != PINNED:
            raise DriverError(
                INVALID_VALUE, f"memory of allocation type {wanted.type}: cuMemCreate makes pinned memory (1)"
            )
        if wanted.location.type not in (ON_DEVICE, ON_HOST, ON_NUMA_NODE, ON_THIS_NODE):
            raise DriverError(INVALID_VALUE, f"memory location type {wanted.location.type} is not known")
        if wanted.location.type == ON_DEVICE:
            self._contexts.device(wanted.location.id)
        if wanted.handle_types & ~_BY_DESCRIPTOR:
            raise DriverError(
                NOT_SUPPORTED,
                f"memory is passed on as a file descriptor, not by handle types 0x{wanted.handle_types:x}",
            )
