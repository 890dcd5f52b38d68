"""Managed memory's hints: kept and told again, without effect.

Mental model: managed memory is at one place that host and device both reach, so advice and prefetches move nothing.
What was said of each page is remembered, for cuMemRangeGetAttribute.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, c_int, c_size_t, c_uint, c_uint64

import numpy as np

from gpusim.driver.abi import HOST, INVALID_VALUE, WORD, WORD_OUT, DriverError, entry
from gpusim.driver.contexts import Contexts
from gpusim.driver.memory import MANAGED, Block, Memory
from gpusim.driver.work import Action, Work

_PAGE_BYTES = 4096
_CPU, _NOWHERE = -1, -2  # CU_DEVICE_CPU, CU_DEVICE_INVALID
_ON_DEVICE, _ON_HOST, _ON_NUMA_NODE, _ON_THIS_NODE = 1, 2, 3, 4  # CUmemLocationType
# CUmem_advise
(_SET_MOSTLY, _UNSET_MOSTLY, _SET_PREFERRED, _UNSET_PREFERRED, _SET_ACCESSED, _UNSET_ACCESSED) = range(1, 7)
# CUmem_range_attribute
(_MOSTLY, _PREFERRED, _ACCESSED_BY, _PREFETCHED, _PREFERRED_TYPE, _PREFERRED_ID, _PREFETCHED_TYPE, _PREFETCHED_ID) = (
    range(1, 9)
)


class _Pages:
    """What was said of each page of an allocation."""

    def __init__(self, size: int):
        count = -(-size // _PAGE_BYTES)
        self.mostly = np.zeros(count, bool)
        self.preferred = np.full(count, _NOWHERE, np.int32)
        self.prefetched = np.full(count, _NOWHERE, np.int32)
        self.accessed: dict[int, np.ndarray] = {}
        self._count = count

    def accessed_by(self, place: int) -> np.ndarray:
        """Whether each page was said to be accessed by a device or the CPU."""
        return self.accessed.setdefault(place, np.zeros(self._count, bool))


class Managed:
    """Entry points cuMemAdvise, cuMemPrefetch*, cuMemRangeGetAttribute* and cuStreamAttachMemAsync."""

    def __init__(self, memory: Memory, contexts: Contexts, submit: Callable[[int, Work], None]):
        self._memory, self._contexts, self._submit = memory, contexts, submit
        self._said: dict[Block, _Pages] = {}

    def reset(self, device: int) -> None:
        """Forget what was said of a device's memory."""
        self._said = {block: pages for block, pages in self._said.items() if block.device != device}

    def _pages(self, address: int, size: int) -> tuple[_Pages, slice]:
        block = self._memory.block_at(address)
        if not size or block is None or block.kind != MANAGED or address + size > block.allocation.end:
            raise DriverError(INVALID_VALUE, f"{size} bytes at 0x{address or 0:x} are not managed memory")
        first = (address - block.allocation.base) // _PAGE_BYTES
        last = -(-(address + size - block.allocation.base) // _PAGE_BYTES)
        if block not in self._said:
            self._said = {known: pages for known, pages in self._said.items() if self._memory.is_there(known)}
            self._said[block] = _Pages(block.allocation.size)
        return self._said[block], slice(first, last)

    @entry("cuMemAdvise", arguments=(WORD, c_size_t, c_int, c_int))
    def advise(self, address: int, size: int, advice: int, place: int) -> None:
        pages, part = self._pages(address, size)
        if advice in (_SET_PREFERRED, _SET_ACCESSED, _UNSET_ACCESSED):
            self._check_place(place)
        if advice in (_SET_MOSTLY, _UNSET_MOSTLY):
            pages.mostly[part] = advice == _SET_MOSTLY
        elif advice in (_SET_PREFERRED, _UNSET_PREFERRED):
            pages.preferred[part] = place if advice == _SET_PREFERRED else _NOWHERE
        elif advice in (_SET_ACCESSED, _UNSET_ACCESSED):
            pages.accessed_by(place)[part] = advice == _SET_ACCESSED
        else:
            raise DriverError(INVALID_VALUE, f"advice {advice} is none of 1 to 6")

    @entry("cuMemAdvise", arguments=(WORD, c_size_t, c_int, WORD), since=12020)
    def advise_location(self, address: int, size: int, advice: int, location: int) -> None:
        self.advise(address, size, advice, self._place(location) if advice >= _SET_PREFERRED else _CPU)

    @entry("cuMemPrefetchAsync", arguments=(WORD, c_size_t, c_int, WORD))
    def prefetch(self, address: int, size: int, place: int, stream: int) -> None:
        pages, part = self._pages(address, size)
        self._check_place(place)

        def move() -> None:
            pages.prefetched[part] = place

        self._submit(stream, Action(move))

    @entry("cuMemPrefetchAsync", arguments=(WORD, c_size_t, WORD, c_uint, WORD), since=12020)
    def prefetch_to_location(self, address: int, size: int, location: int, flags: int, stream: int) -> None:
        if flags:
            raise DriverError(INVALID_VALUE, "a prefetch has flags of 0")
        self.prefetch(address, size, self._place(location), stream)

    @entry(
        "cuMemPrefetchBatchAsync",
        arguments=(WORD_OUT, POINTER(c_size_t), c_size_t, WORD_OUT, POINTER(c_size_t), c_size_t, c_uint64, WORD),
    )
    def prefetch_batch(self, addresses, sizes, count, locations, starts, kinds, flags, stream: int) -> None:
        if flags or not count or not 0 < kinds <= count or starts[0] != 0:
            raise DriverError(INVALID_VALUE, "a batch needs ranges, locations from its first one on, and flags of 0")
        which = 0
        for i in range(count):
            while which + 1 < kinds and starts[which + 1] <= i:
                which += 1
            self.prefetch(addresses[i], sizes[i], self._place(locations[which]), stream)

    @entry("cuMemDiscardBatchAsync", arguments=(WORD_OUT, POINTER(c_size_t), c_size_t, c_uint64, WORD))
    def discard_batch(self, addresses, sizes, count, flags, stream: int) -> None:
        if flags or not count:
            raise DriverError(INVALID_VALUE, "a batch needs ranges, and flags of 0")
        for i in range(count):
            self._pages(addresses[i], sizes[i])  # their contents are undefined from now on, so they may stay

    @entry("cuStreamAttachMemAsync", arguments=(WORD, WORD, c_size_t, c_uint))
    def attach(self, stream: int, address: int, size: int, flags: int) -> None:
        block = self._memory.block_at(address)
        if flags not in (1, 2, 4):
            raise DriverError(INVALID_VALUE, f"managed memory is attached with a flag of 1, 2 or 4, not {flags}")
        if block is None or block.kind != MANAGED or size not in (0, block.allocation.size):
            raise DriverError(
                INVALID_VALUE, f"0x{address or 0:x} is not the start of managed memory, or the size is not all of it"
            )
        self._submit(stream, Action(lambda: None))

    def _check_place(self, place: int) -> None:
        """Raise DriverError unless it is a device or the CPU."""
        if place != _CPU:
            self._contexts.device(place)

    def _place(self, location: int) -> int:
        """The device or _CPU, of a CUmemLocation that was passed by value; raises DriverError."""
        kind, number = ctypes.c_int(location & 0xFFFFFFFF).value, ctypes.c_int(location >> 32).value
        if kind in (_ON_HOST, _ON_NUMA_NODE, _ON_THIS_NODE):
            return _CPU
        if kind != _ON_DEVICE:
            raise DriverError(INVALID_VALUE, f"memory location type {kind} is not known")
        self._contexts.device(number)
        return number

    # ---- questions ------------------------------------------------------------------------------

    @entry("cuMemRangeGetAttribute", arguments=(HOST, c_size_t, c_int, WORD, c_size_t))
    def attribute(self, out: int, out_bytes: int, attribute: int, address: int, size: int) -> None:
        pages, part = self._pages(address, size)
        if not out or out_bytes < 4 or out_bytes % 4 or (attribute != _ACCESSED_BY and out_bytes != 4):
            raise DriverError(INVALID_VALUE, f"{out_bytes} bytes for the result of range attribute {attribute}")
        room = (c_int * (out_bytes // 4)).from_address(out)
        if attribute == _ACCESSED_BY:
            places = [place for place, said in pages.accessed.items() if said[part].all()]
            room[:] = [*places[: len(room)], *[_NOWHERE] * (len(room) - len(places))]
            return
        preferred, prefetched = _same(pages.preferred[part]), _same(pages.prefetched[part])
        values = {
            _MOSTLY: int(pages.mostly[part].all()),
            _PREFERRED: preferred,
            _PREFETCHED: prefetched,
            _PREFERRED_TYPE: _type_of(preferred),
            _PREFERRED_ID: max(0, preferred),
            _PREFETCHED_TYPE: _type_of(prefetched),
            _PREFETCHED_ID: max(0, prefetched),
        }
        if attribute not in values:
            raise DriverError(INVALID_VALUE, f"range attribute {attribute} is not known")
        room[0] = values[attribute]

    @entry(
        "cuMemRangeGetAttributes",
        arguments=(WORD_OUT, POINTER(c_size_t), POINTER(c_int), c_size_t, WORD, c_size_t),
    )
    def attributes(self, outs, sizes, attributes, count: int, address: int, size: int) -> None:
        if not count or not (outs and sizes and attributes):
            raise DriverError(INVALID_VALUE, "no range attributes are asked for")
        for i in range(count):
            self.attribute(outs[i], sizes[i], attributes[i], address, size)


def _same(values: np.ndarray) -> int:
    """The value of all, or nowhere."""
    return int(values[0]) if (values == values[0]).all() else _NOWHERE


def _type_of(place: int) -> int:
    return _ON_DEVICE if place >= 0 else _ON_HOST if place == _CPU else 0
