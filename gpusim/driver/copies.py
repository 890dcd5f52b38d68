"""Copies of bytes in one piece as the driver API has them (:mod:`gpusim.driver.transfers` does them)."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import POINTER, c_size_t

from gpusim.driver.abi import HOST, INVALID_VALUE, WORD, WORD_OUT, DriverError, entry
from gpusim.driver.contexts import Contexts
from gpusim.driver.memory import Memory
from gpusim.driver.transfers import ON_DEVICE, ON_HOST, UNIFIED, LinearCopy
from gpusim.driver.work import Work

#: Calls without a stream belong to the legacy default stream.
LEGACY = 0


class Copies:
    """Entry points cuMemcpy* without boxes and arrays; ``submit`` puts work into a stream, ``synchronized`` is told of
    a device that the program has waited for."""

    def __init__(
        self,
        memory: Memory,
        contexts: Contexts,
        submit: Callable[[int, Work], None],
        synchronized: Callable[[int], None],
    ):
        self._memory, self._contexts, self._submit, self._synchronized = memory, contexts, submit, synchronized

    def _copy(self, stream: int, target: int, target_type: int, source: int, source_type: int, size: int) -> None:
        if size and not (target and source):
            raise DriverError(INVALID_VALUE, f"a copy of {size} bytes from or to a null pointer")
        self._submit(stream, LinearCopy(self._memory, target, target_type, source, source_type, size))

    def _copy_now(self, target: int, target_type: int, source: int, source_type: int, size: int) -> None:
        """Copy, and wait for the devices that have to do with it."""
        self._copy(LEGACY, target, target_type, source, source_type, size)
        blocks = [self._memory.block_at(address) for address in (target, source)]
        for device in {self._contexts.here(), *(block.device for block in blocks if block is not None)}:
            self._synchronized(device)

    @entry("cuMemcpyHtoD", arguments=(WORD, HOST, c_size_t))
    def to_device(self, target: int, source: int, size: int) -> None:
        self._copy_now(target, ON_DEVICE, source, ON_HOST, size)

    @entry("cuMemcpyHtoDAsync", arguments=(WORD, HOST, c_size_t, WORD))
    def to_device_async(self, target: int, source: int, size: int, stream: int) -> None:
        self._copy(stream, target, ON_DEVICE, source, ON_HOST, size)

    @entry("cuMemcpyDtoH", arguments=(HOST, WORD, c_size_t))
    def to_host(self, target: int, source: int, size: int) -> None:
        self._copy_now(target, ON_HOST, source, ON_DEVICE, size)

    @entry("cuMemcpyDtoHAsync", arguments=(HOST, WORD, c_size_t, WORD))
    def to_host_async(self, target: int, source: int, size: int, stream: int) -> None:
        self._copy(stream, target, ON_HOST, source, ON_DEVICE, size)

    @entry("cuMemcpyDtoD", arguments=(WORD, WORD, c_size_t))
    def on_device(self, target: int, source: int, size: int) -> None:
        self._copy_now(target, ON_DEVICE, source, ON_DEVICE, size)

    @entry("cuMemcpyDtoDAsync", arguments=(WORD, WORD, c_size_t, WORD))
    def on_device_async(self, target: int, source: int, size: int, stream: int) -> None:
        self._copy(stream, target, ON_DEVICE, source, ON_DEVICE, size)

    @entry("cuMemcpy", arguments=(WORD, WORD, c_size_t))
    def unified(self, target: int, source: int, size: int) -> None:
        self._copy_now(target, UNIFIED, source, UNIFIED, size)

    @entry("cuMemcpyAsync", arguments=(WORD, WORD, c_size_t, WORD))
    def unified_async(self, target: int, source: int, size: int, stream: int) -> None:
        self._copy(stream, target, UNIFIED, source, UNIFIED, size)

    @entry("cuMemcpyPeer", arguments=(WORD, WORD, WORD, WORD, c_size_t))
    def peer(self, target: int, target_context: int, source: int, source_context: int, size: int) -> None:
        self._contexts.find(target_context)
        self._contexts.find(source_context)
        self._copy_now(target, ON_DEVICE, source, ON_DEVICE, size)

    @entry("cuMemcpyPeerAsync", arguments=(WORD, WORD, WORD, WORD, c_size_t, WORD))
    def peer_async(self, target: int, one: int, source: int, other: int, size: int, stream: int) -> None:
        self._contexts.find(one)
        self._contexts.find(other)
        self._copy(stream, target, ON_DEVICE, source, ON_DEVICE, size)

    # ---- many at once ---------------------------------------------------------------------------

    @entry(
        "cuMemcpyBatchAsync",
        arguments=(WORD_OUT, WORD_OUT, POINTER(c_size_t), c_size_t, HOST, POINTER(c_size_t), c_size_t, WORD_OUT, WORD),
        since=12080,
    )
    def batch_with_index(self, targets, sources, sizes, count, attributes, starts, kinds, failed, stream: int) -> None:
        try:
            self._batch(targets, sources, sizes, count, starts, kinds, stream)
        except DriverError:
            if failed:
                failed[0] = 2**64 - 1  # SIZE_MAX: no single copy is to blame
            raise

    @entry(
        "cuMemcpyBatchAsync",
        arguments=(WORD_OUT, WORD_OUT, POINTER(c_size_t), c_size_t, HOST, POINTER(c_size_t), c_size_t, WORD),
        since=13000,
    )
    def batch(self, targets, sources, sizes, count, attributes, starts, kinds, stream: int) -> None:
        self._batch(targets, sources, sizes, count, starts, kinds, stream)

    def _batch(self, targets, sources, sizes, count: int, starts, kinds: int, stream: int) -> None:
        if stream == LEGACY:
            raise DriverError(INVALID_VALUE, "a batch of copies cannot go to the legacy default stream")
        if not count or not 0 < kinds <= count or not starts or starts[0] != 0:
            raise DriverError(INVALID_VALUE, "a batch needs copies, and attributes from its first one on")
        for i in range(count):
            self._copy(stream, targets[i], UNIFIED, sources[i], UNIFIED, sizes[i])

    @entry("cuMemcpyWithAttributesAsync", arguments=(WORD, WORD, c_size_t, HOST, WORD))
    def with_attributes(self, target: int, source: int, size: int, attributes: int, stream: int) -> None:
        self._copy(stream, target, UNIFIED, source, UNIFIED, size)
