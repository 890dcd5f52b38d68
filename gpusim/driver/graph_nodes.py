"""From cuda.h's descriptions of graph nodes to work, and back.

Mental model: each kind of node has a structure of parameters; here it becomes :class:`~gpusim.driver.work.Work`,
checked as the call would check it that puts the same work into a stream.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

from gpusim.driver.abi import INVALID_VALUE, NOT_SUPPORTED, DriverError, structure_at
from gpusim.driver.box_copies import BoxCopies
from gpusim.driver.conditions import Conditions
from gpusim.driver.events import Events, WaitEvent
from gpusim.driver.graph_memory import Allocate, GraphMemory
from gpusim.driver.graphs import ChildGraph, Graph
from gpusim.driver.launches import KernelLaunchWork, Launches
from gpusim.driver.memory import Memory
from gpusim.driver.memory_operations import MemoryOperationCalls
from gpusim.driver.structures import (
    FILL_NODE_V1_BYTES,
    HOST_NODE_V1_BYTES,
    KERNEL_NODE_V1_BYTES,
    AllocationNode,
    Copy3D,
    CopyNode,
    FillNode,
    HostNode,
    KernelNode,
    MemoryOperationsNode,
    NodeParameters,
    WordNode,
)
from gpusim.driver.transfers import Fill
from gpusim.driver.work import (
    ALLOCATE,
    CHILD,
    CONDITIONAL,
    COPY,
    EMPTY,
    FILL,
    FREE,
    HOST_FUNCTION,
    KERNEL,
    MEMORY_OPERATIONS,
    RECORD_EVENT,
    WAIT_EVENT,
    HostFunction,
    Work,
)

_ADDRESS_OFFSET = AllocationNode.address.offset


@dataclass
class NodeWorks:
    """Makes work of parameter structures at host addresses; ``graph`` finds a graph by its handle. All raise
    DriverError."""

    launches: Launches
    copies: BoxCopies
    memory: Memory
    events: Events
    operations: MemoryOperationCalls
    graph_memory: GraphMemory
    graph: Callable[[int], Graph]
    conditions: Conditions

    def kernel(self, address: int, version: int = 2) -> KernelLaunchWork:
        """CUDA_KERNEL_NODE_PARAMS."""
        node = structure_at(_V1_KERNEL if version == 1 else KernelNode, address)
        handle = node.function or (node.kernel if version > 1 else 0)
        work = self.launches.work(
            handle, tuple(node.grid), tuple(node.block), node.shared_bytes, node.parameters, node.extra
        )
        self.launches.validate(work)
        return work

    def copy(self, address: int) -> Work:
        """CUDA_MEMCPY3D."""
        return self.copies.work(structure_at(Copy3D, address))

    def fill(self, address: int) -> Fill:
        """CUDA_MEMSET_NODE_PARAMS, of which version 2 only adds a context."""
        node = structure_at(_V1_FILL, address)
        return Fill(
            self.memory, node.target, node.value, node.element_bytes, node.width, node.height, node.pitch
        ).check()

    def host(self, address: int) -> HostFunction:
        """CUDA_HOST_NODE_PARAMS, of which version 2 only adds a context and how to wait."""
        node = structure_at(_V1_HOST, address)
        if not node.function:
            raise DriverError(INVALID_VALUE, "the host function is null")
        return HostFunction(node.function, node.data)

    def batch(self, address: int) -> Work:
        """CUDA_BATCH_MEM_OP_NODE_PARAMS."""
        node = structure_at(MemoryOperationsNode, address)
        return self.operations.work(node.operations, node.count, node.flags)

    def allocation(self, address: int) -> Allocate:
        """CUDA_MEM_ALLOC_NODE_PARAMS; writes the address of the memory into it."""
        node = structure_at(AllocationNode, address)
        work = self.graph_memory.allocation(node.size, node.properties)
        node.address = work.found.block.allocation.base
        return work

    def child(self, handle: int) -> ChildGraph:
        """A copy of a graph."""
        return ChildGraph(self.graph(handle).clone())

    def any(self, address: int) -> Work:
        """CUgraphNodeParams, of whichever kind."""
        parameters = structure_at(NodeParameters, address)
        body = address + NodeParameters.body.offset
        word = WordNode.from_address(body).value
        if parameters.type == ALLOCATE:
            return self.allocation(body)
        makers: dict[int, Callable[[], Work]] = {
            KERNEL: lambda: self.kernel(body),
            COPY: lambda: self.copy(body + CopyNode.copy.offset),
            FILL: lambda: self.fill(body),
            HOST_FUNCTION: lambda: self.host(body),
            CHILD: lambda: self.child(word),
            EMPTY: Work,
            WAIT_EVENT: lambda: WaitEvent(self.events.get(word)),
            RECORD_EVENT: lambda: self.events.recording(word),
            FREE: lambda: self.graph_memory.freeing(word),
            MEMORY_OPERATIONS: lambda: self.batch(body),
            CONDITIONAL: lambda: self.conditions.work(body),
        }
        if parameters.type not in makers:
            raise DriverError(
                NOT_SUPPORTED,
                f"graph nodes of type {parameters.type} (external semaphores, batches of copies) are not emulated",
            )
        return makers[parameters.type]()


def describe(work: Work, address: int) -> None:
    """Write CUgraphNodeParams of a node."""
    found = work.parameters()
    if not address:
        raise DriverError(INVALID_VALUE, "a pointer for a result is null")
    parameters = NodeParameters(type=work.kind)
    if found is not None:
        ctypes.memmove(
            ctypes.addressof(parameters) + NodeParameters.body.offset, ctypes.addressof(found), ctypes.sizeof(found)
        )
    ctypes.memmove(address, ctypes.addressof(parameters), ctypes.sizeof(parameters))


def _first(kind: type[ctypes.Structure], size: int) -> type[ctypes.Structure]:
    """The structure ``kind`` up to the field at ``size``."""
    fields = [field for field in kind._fields_ if getattr(kind, field[0]).offset < size]
    return type(f"{kind.__name__}V1", (ctypes.Structure,), {"_fields_": fields, "__doc__": kind.__doc__})


_V1_KERNEL = _first(KernelNode, KERNEL_NODE_V1_BYTES)
_V1_FILL = _first(FillNode, FILL_NODE_V1_BYTES)
_V1_HOST = _first(HostNode, HOST_NODE_V1_BYTES)
#: Bytes that a query may write, by kind: what the oldest structure of that call holds.
V1_BYTES = {KERNEL: KERNEL_NODE_V1_BYTES, FILL: FILL_NODE_V1_BYTES, HOST_FUNCTION: HOST_NODE_V1_BYTES}
