"""What lies at an address, as the driver API tells it."""

from __future__ import annotations

from ctypes import POINTER, c_int, c_ubyte, c_uint, c_uint64

from gpusim.driver.abi import HOST, INVALID_VALUE, WORD, WORD_OUT, DriverError, entry
from gpusim.driver.contexts import Contexts
from gpusim.driver.memory import DEVICE, HOST_PAGES, MANAGED, MAPPED, REGISTERED, Block, Memory
from gpusim.driver.pools import Pools

_HOST_MEMORY, _DEVICE_MEMORY = 1, 2  # CUmemorytype
# CUpointer_attribute
(
    _CONTEXT, _MEMORY_TYPE, _DEVICE_POINTER, _HOST_POINTER, _P2P_TOKENS, _SYNC_MEMOPS, _BUFFER_ID, _IS_MANAGED, _ORDINAL,
    _IPC_CAPABLE, _START, _SIZE, _IS_MAPPED, _HANDLE_TYPES, _RDMA_CAPABLE, _ACCESS, _POOL, _MAPPING_SIZE, _MAPPING_BASE,
    _BLOCK_ID, _DECOMPRESS_CAPABLE, _DOMAIN,
) = range(1, 23)  # fmt: skip
_NUMBERS = (
    _MEMORY_TYPE, _SYNC_MEMOPS, _IS_MANAGED, _ORDINAL, _IPC_CAPABLE, _IS_MAPPED, _RDMA_CAPABLE, _ACCESS, _DECOMPRESS_CAPABLE,
)  # fmt: skip
_NO_DEVICE = -2  # CU_DEVICE_INVALID


class Pointers:
    """Entry points cuPointer*."""

    def __init__(self, memory: Memory, contexts: Contexts, pools: Pools):
        self._memory, self._contexts, self._pools = memory, contexts, pools
        self._synchronous: set[int] = set()  # numbers of allocations

    def _find(self, address: int) -> tuple[Block, int]:
        """The allocation that holds an address of the device or the host, and the device's address; raises
        DriverError."""
        block = self._memory.block_at(address)
        if block is None:
            address = self._memory.of_host(address)
            block = self._memory.block_at(address)
            assert block is not None
        return block, address

    def _value(self, attribute: int, block: Block, address: int) -> int:
        allocation, on_host = block.allocation, block.kind in (HOST_PAGES, REGISTERED)
        pool = self._pools.owner_of(allocation.base)
        values = {
            _CONTEXT: self._contexts.primary_handle(block.device) if block.kind != MAPPED and pool is None else 0,
            _MEMORY_TYPE: _HOST_MEMORY if on_host else _DEVICE_MEMORY,
            _DEVICE_POINTER: address,
            _HOST_POINTER: allocation.host + address - allocation.base,
            _SYNC_MEMOPS: int(block.number in self._synchronous),
            _BUFFER_ID: block.number,
            _IS_MANAGED: int(block.kind == MANAGED),
            _ORDINAL: block.device,
            _IPC_CAPABLE: int(block.kind == DEVICE and pool is None),
            _START: allocation.base,
            _SIZE: allocation.size,
            _IS_MAPPED: 1,
            _HANDLE_TYPES: 1 if block.kind == MAPPED else 0,
            _RDMA_CAPABLE: 0,
            _ACCESS: 3,
            _POOL: pool.handle if pool else 0,
            _MAPPING_SIZE: allocation.size,
            _MAPPING_BASE: allocation.base,
            _BLOCK_ID: block.number,
            _DECOMPRESS_CAPABLE: 0,
        }
        if attribute == _HOST_POINTER and block.kind in (DEVICE, MAPPED):
            raise DriverError(
                INVALID_VALUE, f"the host has no address for 0x{address:x}, which is memory of the device"
            )
        if attribute not in values:
            raise DriverError(INVALID_VALUE, f"pointer attribute {attribute} is not known")
        return values[attribute]

    @entry("cuPointerGetAttribute", arguments=(HOST, c_int, WORD))
    def attribute(self, out: int, attribute: int, address: int) -> None:
        if not out or not _CONTEXT <= attribute <= _DOMAIN:
            raise DriverError(
                INVALID_VALUE, f"pointer attribute {attribute} is not known, or the result's pointer is null"
            )
        try:
            value = self._value(attribute, *self._find(address))
        except DriverError:
            if self._memory.block_of(address or 0) is not None:
                raise
            value = self._host_value(attribute, address)
        _write(out, attribute, value)

    def _host_value(self, attribute: int, address: int) -> int:
        """An attribute of memory that the driver knows nothing of."""
        if not self._memory.pageable:
            raise DriverError(
                INVALID_VALUE,
                f"0x{address or 0:x} is memory of the host that is neither pinned, registered nor managed, and kernels do not reach it:"
                " gpusim run --pageable-memory lets them, as on a GPU with pageable memory access",
            )
        values = {_MEMORY_TYPE: _HOST_MEMORY, _DEVICE_POINTER: address, _HOST_POINTER: address}
        if attribute not in values:
            raise DriverError(INVALID_VALUE, f"memory of the host has no pointer attribute {attribute}")
        return values[attribute]

    @entry("cuPointerGetAttributes", arguments=(c_uint, POINTER(c_int), WORD_OUT, WORD))
    def attributes(self, count: int, attributes, outs, address: int) -> None:
        if not count or not (attributes and outs):
            raise DriverError(INVALID_VALUE, "no pointer attributes are asked for")
        for i in range(count):
            # Unlike the singular form this one answers for any pointer: null where there is nothing to tell.
            try:
                value = self._value(attributes[i], *self._find(address))
            except DriverError:
                value = _NO_DEVICE if attributes[i] == _ORDINAL else 0
            _write(outs[i], attributes[i], value)

    @entry("cuPointerSetAttribute", arguments=(HOST, c_int, WORD))
    def set_attribute(self, value: int, attribute: int, address: int) -> None:
        if attribute != _SYNC_MEMOPS or not value:
            raise DriverError(
                INVALID_VALUE, f"pointer attribute {attribute} cannot be set, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS can"
            )
        block, _ = self._find(address)
        if c_ubyte.from_address(value).value:  # a boolean, of a byte or of an int
            self._synchronous.add(block.number)
        else:
            self._synchronous.discard(block.number)


def _write(out: int, attribute: int, value: int) -> None:
    (c_int if attribute in _NUMBERS else c_uint64).from_address(out).value = value
