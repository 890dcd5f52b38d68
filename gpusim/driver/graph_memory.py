"""Memory that a graph allocates and frees.

Mental model: the address is fixed when the node is made, so that later nodes can be told it; the memory is there from
the allocation's run to its free's, within one launch of the graph or over several. cuMemAllocAsync in a captured stream
makes such a node.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int, c_uint64
from dataclasses import dataclass, field
from typing import ClassVar

from gpusim.driver.abi import HOST, INVALID_VALUE, DriverError, entry
from gpusim.driver.captures import Captures
from gpusim.driver.contexts import Contexts
from gpusim.driver.memory import Block, Memory
from gpusim.driver.pools import ON_DEVICE, PINNED, Pool
from gpusim.driver.structures import AllocationNode, PoolProperties, WordNode
from gpusim.driver.work import ALLOCATE, FREE, Work


@dataclass(eq=False)
class GraphBlock:
    """Memory of a graph at a fixed address; ``live`` between its allocation and its free. ``users``: nodes, also of
    instantiated graphs, that allocate it."""

    memory: Memory
    block: Block
    live: bool = False
    users: int = 1

    def bring(self) -> None:
        """The allocation runs; raises DriverError if the last one was not freed."""
        if self.live:
            raise DriverError(INVALID_VALUE, "the graph's memory of its last launch has not been freed yet")
        self.memory.show(self.block)
        self.memory.owners[self.block.allocation.base] = self._freed_outside
        self.live = True

    def take_away(self) -> None:
        """The free runs."""
        address = self.block.allocation.base
        here = self.memory.block_at(address)
        if not self.live or here is None:
            raise DriverError(INVALID_VALUE, f"0x{address:x} is not allocated")
        self.memory.owners.pop(address, None)
        self.memory.withdraw(here)
        self.live = False

    def _freed_outside(self, address: int) -> None:
        """cuMemFree or cuMemFreeAsync has freed it; the graph may allocate it again."""
        self.live = False
        self.memory.hold(self.block)


@dataclass
class Allocate(Work):
    """A graph's allocation."""

    found: GraphBlock
    properties: PoolProperties
    kind: ClassVar[int] = ALLOCATE

    def run(self) -> None:
        self.found.bring()

    def clone(self) -> Allocate:
        self.found.users += 1
        return Allocate(self.found, self.properties)

    def parameters(self) -> AllocationNode:
        allocation = self.found.block.allocation
        return AllocationNode(self.properties, 0, 0, allocation.size, allocation.base)


@dataclass
class Free(Work):
    """A graph's free; ``found`` is None for memory that another one allocates, or no graph at all."""

    address: int
    free: Callable[[int], None]
    found: GraphBlock | None
    kind: ClassVar[int] = FREE

    def run(self) -> None:
        if self.found is not None:
            self.found.take_away()
        else:
            self.free(self.address)

    def parameters(self) -> WordNode:
        return WordNode(self.address)


@dataclass
class GraphMemory:
    """Makes the work of graphs' memory, and the entry points cuDevice*GraphMem*."""

    memory: Memory
    contexts: Contexts
    captures: Captures
    free_outside: Callable[[int], None]
    _blocks: dict[int, GraphBlock] = field(default_factory=dict)
    _high: dict[int, int] = field(default_factory=dict)  # bytes, by device

    def allocation(self, size: int, properties: PoolProperties) -> Allocate:
        """A node's allocation; raises DriverError."""
        device = properties.location.id
        if properties.location.type != ON_DEVICE or properties.type != PINNED:
            raise DriverError(INVALID_VALUE, "a graph allocates memory of a device")
        self.contexts.device(device)
        block = self.memory.allocate(size, device=device, granted={device})
        self.memory.withdraw(block)
        found = self._blocks[block.allocation.base] = GraphBlock(self.memory, block)
        self._high[device] = max(self._high.get(device, 0), self._reserved(device))
        return Allocate(found, PoolProperties.from_buffer_copy(properties))

    def freeing(self, address: int) -> Free:
        """A node's free; raises DriverError for an address that is none of a graph's."""
        if address not in self._blocks:
            raise DriverError(INVALID_VALUE, f"0x{address or 0:x} was not allocated by a graph")
        return Free(address, self.free_outside, self._blocks[address])

    def capture_allocation(self, stream: int, size: int, pool: Pool) -> int | None:
        """The address of an allocation in a captured stream; None if it is not captured."""
        if self.captures.of(stream) is None:
            return None
        work = self.allocation(size, pool.properties)
        self.captures.take(stream, work)
        return work.found.block.allocation.base

    def capture_free(self, stream: int, address: int) -> bool:
        """Write down a free in a captured stream; False if it is not captured."""
        if self.captures.of(stream) is None:
            return False
        self.captures.take(stream, Free(address, self.free_outside, self._blocks.get(address)))
        return True

    def drop(self, work: Work) -> None:
        """A node of an allocation is gone, and with it its memory unless it is in use."""
        if isinstance(work, Allocate):
            work.found.users -= 1
            address = work.found.block.allocation.base
            if not work.found.users and not work.found.live and self._blocks.pop(address, None) is not None:
                self.memory.forget(work.found.block)

    def live_blocks(self) -> list[GraphBlock]:
        """Allocations that graphs have made and nobody has freed."""
        return [each for each in self._blocks.values() if each.live]

    def reset(self, device: int) -> None:
        """Forget a device's; the memory goes with the device's."""
        for each in self._of(device):
            if not each.live:
                self.memory.forget(each.block)
            del self._blocks[each.block.allocation.base]
        self._high.pop(device, None)

    def _of(self, device: int) -> list[GraphBlock]:
        return [each for each in self._blocks.values() if each.block.device == device]

    def _reserved(self, device: int) -> int:
        return sum(each.block.allocation.size for each in self._of(device))

    @entry("cuDeviceGetGraphMemAttribute", arguments=(c_int, c_int, HOST))
    def attribute(self, number: int, attribute: int, out: int) -> None:
        self.contexts.device(number)
        used = sum(each.block.allocation.size for each in self._of(number) if each.live)
        high = self._high.get(number, 0)
        values = (used, high, self._reserved(number), high)
        if not out or not 0 <= attribute < len(values):
            raise DriverError(INVALID_VALUE, f"graph memory attribute {attribute} is none of 0 to 3")
        c_uint64.from_address(out).value = values[attribute]

    @entry("cuDeviceSetGraphMemAttribute", arguments=(c_int, c_int, HOST))
    def set_attribute(self, number: int, attribute: int, value: int) -> None:
        self.contexts.device(number)
        if attribute not in (1, 3) or not value or c_uint64.from_address(value).value:
            raise DriverError(INVALID_VALUE, "a high-water mark can be set, to 0, and nothing else")
        self._high[number] = self._reserved(number)

    @entry("cuDeviceGraphMemTrim", arguments=(c_int,))
    def trim(self, number: int) -> None:
        self.contexts.device(number)
