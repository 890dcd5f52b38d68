"""Stream memory operations: words that a stream writes or waits for.

Mental model: a write stores a word when the stream comes to it. A wait compares a word; since work runs when it is
submitted, a word that does not fit yet cannot be waited for, and the call says so.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_uint, c_uint32, c_uint64
from dataclasses import dataclass
from typing import ClassVar

from gpusim.driver.abi import INVALID_VALUE, NOT_SUPPORTED, WORD, DriverError, entry
from gpusim.driver.memory import Memory
from gpusim.driver.structures import MemoryOperation, MemoryOperationsNode
from gpusim.driver.work import MEMORY_OPERATIONS, Work

# CUstreamBatchMemOpType
WAIT_32, WRITE_32, FLUSH, WAIT_64, WRITE_64, BARRIER = 1, 2, 3, 4, 5, 6
_MOST = 256  # operations a batch (CUDA Driver API, cuStreamBatchMemOp)
_FLUSH_FLAG = 1 << 30
_FITS: dict[int, Callable[[int, int, int], bool]] = {
    0: lambda have, value, bits: (have - value) & 1 << bits - 1 == 0,  # GEQ, modulo the word's size
    1: lambda have, value, bits: have == value,
    2: lambda have, value, bits: have & value != 0,
    3: lambda have, value, bits: ~(have | value) & (1 << bits) - 1 != 0,  # NOR
}


@dataclass
class MemoryOperations(Work):
    """The operations of one batch, in their order."""

    memory: Memory
    operations: tuple[MemoryOperation, ...]
    flags: int = 0
    _shown: object = None
    kind: ClassVar[int] = MEMORY_OPERATIONS

    def check(self) -> MemoryOperations:
        """Raise DriverError for an operation that does not exist or is not aligned; returns self."""
        if len(self.operations) > _MOST:
            raise DriverError(INVALID_VALUE, f"{len(self.operations)} operations, a batch has at most {_MOST}")
        for each in self.operations:
            if each.operation in (FLUSH, BARRIER):
                continue
            if each.operation not in (WAIT_32, WRITE_32, WAIT_64, WRITE_64):
                raise DriverError(NOT_SUPPORTED, f"the stream memory operation {each.operation} is not emulated")
            size = _size(each)
            if each.address % size:
                raise DriverError(INVALID_VALUE, f"0x{each.address:x} is not aligned to {size} bytes")
            if each.operation in (WAIT_32, WAIT_64) and (each.flags & ~_FLUSH_FLAG) not in _FITS:
                raise DriverError(INVALID_VALUE, f"a wait has no flags 0x{each.flags:x}")
            self.memory.host_address(each.address, size)
        return self

    def run(self) -> None:
        for each in self.operations:
            if each.operation in (FLUSH, BARRIER):
                continue
            size = _size(each)
            word = (c_uint32 if size == 4 else c_uint64).from_address(self.memory.host_address(each.address, size))
            value = each.value & (1 << 8 * size) - 1
            if each.operation in (WRITE_32, WRITE_64):
                word.value = value
            elif not _FITS[each.flags & ~_FLUSH_FLAG](word.value, value, 8 * size):
                raise DriverError(
                    NOT_SUPPORTED,
                    f"the stream would wait for the word at 0x{each.address:x}, which is 0x{word.value:x}: gpusim runs work when"
                    f" it is submitted, so that what writes the word must come first",
                )

    def parameters(self) -> MemoryOperationsNode:
        shown = (MemoryOperation * len(self.operations))(*self.operations)
        self._shown = shown  # the program is given its address
        return MemoryOperationsNode(count=len(shown), operations=ctypes.addressof(shown), flags=self.flags)


def _size(operation: MemoryOperation) -> int:
    return 4 if operation.operation in (WAIT_32, WRITE_32) else 8


class MemoryOperationCalls:
    """Entry points cuStreamWaitValue*, cuStreamWriteValue* and cuStreamBatchMemOp; ``submit`` puts work into a
    stream."""

    def __init__(self, memory: Memory, submit: Callable[[int, Work], None]):
        self._memory, self._submit = memory, submit

    def work(self, operations: int, count: int, flags: int) -> MemoryOperations:
        """The batch at a host address; raises DriverError."""
        if flags or (count and not operations):
            raise DriverError(INVALID_VALUE, "a batch of memory operations needs an array of them, and flags of 0")
        found = (MemoryOperation * count).from_address(operations) if count else ()
        return MemoryOperations(self._memory, tuple(MemoryOperation.from_buffer_copy(each) for each in found)).check()

    def _one(self, stream: int, kind: int, address: int, value: int, flags: int) -> None:
        self._submit(stream, MemoryOperations(self._memory, (MemoryOperation(kind, address, value, flags),)).check())

    @entry("cuStreamWaitValue32", arguments=(WORD, WORD, c_uint32, c_uint))
    def wait32(self, stream: int, address: int, value: int, flags: int) -> None:
        self._one(stream, WAIT_32, address, value, flags)

    @entry("cuStreamWaitValue64", arguments=(WORD, WORD, c_uint64, c_uint))
    def wait64(self, stream: int, address: int, value: int, flags: int) -> None:
        self._one(stream, WAIT_64, address, value, flags)

    @entry("cuStreamWriteValue32", arguments=(WORD, WORD, c_uint32, c_uint))
    def write32(self, stream: int, address: int, value: int, flags: int) -> None:
        self._one(stream, WRITE_32, address, value, flags)

    @entry("cuStreamWriteValue64", arguments=(WORD, WORD, c_uint64, c_uint))
    def write64(self, stream: int, address: int, value: int, flags: int) -> None:
        self._one(stream, WRITE_64, address, value, flags)

    @entry("cuStreamBatchMemOp", arguments=(WORD, c_uint, WORD, c_uint))
    def batch(self, stream: int, count: int, operations: int, flags: int) -> None:
        self._submit(stream, self.work(operations, count, flags))
