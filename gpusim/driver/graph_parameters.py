"""Nodes added to graphs, and their parameters asked for and changed, as the driver API has them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_int, c_size_t

from gpusim.driver.abi import HOST, INVALID_VALUE, WORD, WORD_OUT, DriverError, entry
from gpusim.driver.events import WaitEvent
from gpusim.driver.graph_calls import Graphs
from gpusim.driver.graph_nodes import V1_BYTES, NodeWorks, describe
from gpusim.driver.graph_runs import GraphRuns
from gpusim.driver.graphs import Node
from gpusim.driver.launch_options import NODE_ATTRIBUTES, VALUE_BYTES
from gpusim.driver.launches import KernelLaunchWork
from gpusim.driver.structures import AllocationNode, CopyNode, KernelNode, NodeParameters
from gpusim.driver.work import (
    ALLOCATE,
    CONDITIONAL,
    COPY,
    FILL,
    FREE,
    HOST_FUNCTION,
    KERNEL,
    MEMORY_OPERATIONS,
    RECORD_EVENT,
    WAIT_EVENT,
    Work,
)

_ADD = (WORD_OUT, WORD, HOST, c_size_t)  # node, graph, what it waits for, of how many nodes


class GraphParameters:
    """Entry points cuGraphAdd*Node, cuGraph*Node*Params and cuGraphExec*SetParams."""

    def __init__(self, graphs: Graphs, runs: GraphRuns, works: NodeWorks):
        self._graphs, self._runs, self._works = graphs, runs, works

    # ---- adding ---------------------------------------------------------------------------------

    @entry("cuGraphAddEmptyNode", arguments=_ADD)
    def add_empty(self, out, graph: int, before: int, count: int) -> None:
        self._graphs.add(out, graph, before, count, Work())

    @entry("cuGraphAddKernelNode", arguments=(*_ADD, HOST))
    def add_kernel_v1(self, out, graph: int, before: int, count: int, parameters: int) -> None:
        self._graphs.add(out, graph, before, count, self._works.kernel(parameters, version=1))

    @entry("cuGraphAddKernelNode", arguments=(*_ADD, HOST), since=12000)
    @entry("cuGraphAddKernelNode_v2", arguments=(*_ADD, HOST))
    def add_kernel(self, out, graph: int, before: int, count: int, parameters: int) -> None:
        self._graphs.add(out, graph, before, count, self._works.kernel(parameters))

    @entry("cuGraphAddMemcpyNode", arguments=(*_ADD, HOST, WORD))
    def add_copy(self, out, graph: int, before: int, count: int, parameters: int, context: int) -> None:
        self._graphs.add(out, graph, before, count, self._works.copy(parameters))

    @entry("cuGraphAddMemsetNode", arguments=(*_ADD, HOST, WORD))
    def add_fill(self, out, graph: int, before: int, count: int, parameters: int, context: int) -> None:
        self._graphs.add(out, graph, before, count, self._works.fill(parameters))

    @entry("cuGraphAddHostNode", arguments=(*_ADD, HOST))
    def add_host(self, out, graph: int, before: int, count: int, parameters: int) -> None:
        self._graphs.add(out, graph, before, count, self._works.host(parameters))

    @entry("cuGraphAddChildGraphNode", arguments=(*_ADD, WORD))
    def add_child(self, out, graph: int, before: int, count: int, child: int) -> None:
        self._graphs.add(out, graph, before, count, self._works.child(child))

    @entry("cuGraphAddEventRecordNode", arguments=(*_ADD, WORD))
    def add_record(self, out, graph: int, before: int, count: int, event: int) -> None:
        self._graphs.add(out, graph, before, count, self._works.events.recording(event))

    @entry("cuGraphAddEventWaitNode", arguments=(*_ADD, WORD))
    def add_wait(self, out, graph: int, before: int, count: int, event: int) -> None:
        self._graphs.add(out, graph, before, count, WaitEvent(self._works.events.get(event)))

    @entry("cuGraphAddBatchMemOpNode", arguments=(*_ADD, HOST))
    def add_batch(self, out, graph: int, before: int, count: int, parameters: int) -> None:
        self._graphs.add(out, graph, before, count, self._works.batch(parameters))

    @entry("cuGraphAddMemAllocNode", arguments=(*_ADD, HOST))
    def add_allocation(self, out, graph: int, before: int, count: int, parameters: int) -> None:
        self._graphs.add(out, graph, before, count, self._works.allocation(parameters))

    @entry("cuGraphAddMemFreeNode", arguments=(*_ADD, WORD))
    def add_free(self, out, graph: int, before: int, count: int, address: int) -> None:
        self._graphs.add(out, graph, before, count, self._works.graph_memory.freeing(address))

    @entry("cuGraphAddNode", arguments=(*_ADD, HOST))
    def add_any(self, out, graph: int, before: int, count: int, parameters: int) -> None:
        self._graphs.add(out, graph, before, count, self._works.any(parameters))

    @entry("cuGraphAddNode", arguments=(WORD_OUT, WORD, HOST, HOST, c_size_t, HOST), since=12030)
    @entry("cuGraphAddNode_v2", "cuGraphAddNode_v3", arguments=(WORD_OUT, WORD, HOST, HOST, c_size_t, HOST))
    def add_any_with_edges(self, out, graph: int, before: int, edges: int, count: int, parameters: int) -> None:
        self._graphs.add(out, graph, before, count, self._works.any(parameters), edges)

    # ---- asking ---------------------------------------------------------------------------------

    def _tell(self, handle: int, kind: int, out: int, size: int = 0, skip: int = 0) -> None:
        """Write ``size`` bytes (0: all) of a node's parameters, from byte ``skip`` of the structure on."""
        node = self._of_kind(handle, kind)
        found = node.work.parameters()
        if not out or found is None:
            raise DriverError(INVALID_VALUE, "a pointer for a result is null")
        ctypes.memmove(out, ctypes.addressof(found) + skip, size or ctypes.sizeof(found) - skip)

    def _of_kind(self, handle: int, kind: int) -> Node:
        node = self._graphs.node(handle)
        if node.work.kind != kind:
            raise DriverError(INVALID_VALUE, f"the node is of type {node.work.kind}, not {kind}")
        return node

    @entry("cuGraphKernelNodeGetParams", arguments=(WORD, HOST))
    def kernel_v1(self, handle: int, out: int) -> None:
        self._tell(handle, KERNEL, out, V1_BYTES[KERNEL])

    @entry("cuGraphKernelNodeGetParams", arguments=(WORD, HOST), since=12000)
    @entry("cuGraphKernelNodeGetParams_v2", arguments=(WORD, HOST))
    def kernel(self, handle: int, out: int) -> None:
        self._tell(handle, KERNEL, out, ctypes.sizeof(KernelNode))

    @entry("cuGraphMemcpyNodeGetParams", arguments=(WORD, HOST))
    def copy(self, handle: int, out: int) -> None:
        self._tell(handle, COPY, out, skip=CopyNode.copy.offset)

    @entry("cuGraphMemsetNodeGetParams", arguments=(WORD, HOST))
    def fill(self, handle: int, out: int) -> None:
        self._tell(handle, FILL, out, V1_BYTES[FILL])

    @entry("cuGraphHostNodeGetParams", arguments=(WORD, HOST))
    def host(self, handle: int, out: int) -> None:
        self._tell(handle, HOST_FUNCTION, out, V1_BYTES[HOST_FUNCTION])

    @entry("cuGraphEventRecordNodeGetEvent", arguments=(WORD, HOST))
    def record(self, handle: int, out: int) -> None:
        self._tell(handle, RECORD_EVENT, out)

    @entry("cuGraphEventWaitNodeGetEvent", arguments=(WORD, HOST))
    def wait(self, handle: int, out: int) -> None:
        self._tell(handle, WAIT_EVENT, out)

    @entry("cuGraphBatchMemOpNodeGetParams", arguments=(WORD, HOST))
    def batch(self, handle: int, out: int) -> None:
        self._tell(handle, MEMORY_OPERATIONS, out)

    @entry("cuGraphMemAllocNodeGetParams", arguments=(WORD, HOST))
    def allocation(self, handle: int, out: int) -> None:
        self._tell(handle, ALLOCATE, out, ctypes.sizeof(AllocationNode))

    @entry("cuGraphMemFreeNodeGetParams", arguments=(WORD, HOST))
    def free(self, handle: int, out: int) -> None:
        self._tell(handle, FREE, out)

    @entry("cuGraphNodeGetParams", arguments=(WORD, HOST))
    def any(self, handle: int, out: int) -> None:
        describe(self._graphs.node(handle).work, out)

    # ---- changing -------------------------------------------------------------------------------

    def _set(self, handle: int, kind: int, make: Callable[[], Work]) -> None:
        node = self._of_kind(handle, kind)
        node.work = make()

    def _set_run(self, executable: int, handle: int, kind: int, make: Callable[[], Work]) -> None:
        node = self._graphs.node(handle)
        found = self._runs.get(executable)
        if found.own(node).work.kind != kind:
            raise DriverError(INVALID_VALUE, f"the node is of type {node.work.kind}, not {kind}")
        found.set_work(node, make())

    @entry("cuGraphKernelNodeSetParams", arguments=(WORD, HOST))
    def set_kernel_v1(self, handle: int, parameters: int) -> None:
        self._set(handle, KERNEL, lambda: self._works.kernel(parameters, version=1))

    @entry("cuGraphKernelNodeSetParams", arguments=(WORD, HOST), since=12000)
    @entry("cuGraphKernelNodeSetParams_v2", arguments=(WORD, HOST))
    def set_kernel(self, handle: int, parameters: int) -> None:
        self._set(handle, KERNEL, lambda: self._works.kernel(parameters))

    @entry("cuGraphMemcpyNodeSetParams", arguments=(WORD, HOST))
    def set_copy(self, handle: int, parameters: int) -> None:
        self._set(handle, COPY, lambda: self._works.copy(parameters))

    @entry("cuGraphMemsetNodeSetParams", arguments=(WORD, HOST))
    def set_fill(self, handle: int, parameters: int) -> None:
        self._set(handle, FILL, lambda: self._works.fill(parameters))

    @entry("cuGraphHostNodeSetParams", arguments=(WORD, HOST))
    def set_host(self, handle: int, parameters: int) -> None:
        self._set(handle, HOST_FUNCTION, lambda: self._works.host(parameters))

    @entry("cuGraphEventRecordNodeSetEvent", arguments=(WORD, WORD))
    def set_record(self, handle: int, event: int) -> None:
        self._set(handle, RECORD_EVENT, lambda: self._works.events.recording(event))

    @entry("cuGraphEventWaitNodeSetEvent", arguments=(WORD, WORD))
    def set_wait(self, handle: int, event: int) -> None:
        self._set(handle, WAIT_EVENT, lambda: WaitEvent(self._works.events.get(event)))

    @entry("cuGraphBatchMemOpNodeSetParams", arguments=(WORD, HOST))
    def set_batch(self, handle: int, parameters: int) -> None:
        self._set(handle, MEMORY_OPERATIONS, lambda: self._works.batch(parameters))

    @entry("cuGraphNodeSetParams", "cuGraphNodeSetParams_v2", arguments=(WORD, HOST))
    def set_any(self, handle: int, parameters: int) -> None:
        kind = NodeParameters.from_address(parameters).type if parameters else -1
        if kind in (ALLOCATE, CONDITIONAL):
            raise DriverError(INVALID_VALUE, "an allocation and a conditional node cannot be changed")
        self._set(handle, kind, lambda: self._works.any(parameters))

    @entry("cuGraphExecKernelNodeSetParams", arguments=(WORD, WORD, HOST))
    def set_run_kernel_v1(self, executable: int, handle: int, parameters: int) -> None:
        self._set_run(executable, handle, KERNEL, lambda: self._works.kernel(parameters, version=1))

    @entry("cuGraphExecKernelNodeSetParams", arguments=(WORD, WORD, HOST), since=12000)
    @entry("cuGraphExecKernelNodeSetParams_v2", arguments=(WORD, WORD, HOST))
    def set_run_kernel(self, executable: int, handle: int, parameters: int) -> None:
        self._set_run(executable, handle, KERNEL, lambda: self._works.kernel(parameters))

    @entry("cuGraphExecMemcpyNodeSetParams", arguments=(WORD, WORD, HOST, WORD))
    def set_run_copy(self, executable: int, handle: int, parameters: int, context: int) -> None:
        self._set_run(executable, handle, COPY, lambda: self._works.copy(parameters))

    @entry("cuGraphExecMemsetNodeSetParams", arguments=(WORD, WORD, HOST, WORD))
    def set_run_fill(self, executable: int, handle: int, parameters: int, context: int) -> None:
        self._set_run(executable, handle, FILL, lambda: self._works.fill(parameters))

    @entry("cuGraphExecHostNodeSetParams", arguments=(WORD, WORD, HOST))
    def set_run_host(self, executable: int, handle: int, parameters: int) -> None:
        self._set_run(executable, handle, HOST_FUNCTION, lambda: self._works.host(parameters))

    @entry("cuGraphExecChildGraphNodeSetParams", arguments=(WORD, WORD, WORD))
    def set_run_child(self, executable: int, handle: int, child: int) -> None:
        work = self._works.child(child)
        self._set_run(executable, handle, work.kind, lambda: work)

    @entry("cuGraphExecEventRecordNodeSetEvent", arguments=(WORD, WORD, WORD))
    def set_run_record(self, executable: int, handle: int, event: int) -> None:
        self._set_run(executable, handle, RECORD_EVENT, lambda: self._works.events.recording(event))

    @entry("cuGraphExecEventWaitNodeSetEvent", arguments=(WORD, WORD, WORD))
    def set_run_wait(self, executable: int, handle: int, event: int) -> None:
        self._set_run(executable, handle, WAIT_EVENT, lambda: WaitEvent(self._works.events.get(event)))

    @entry("cuGraphExecBatchMemOpNodeSetParams", arguments=(WORD, WORD, HOST))
    def set_run_batch(self, executable: int, handle: int, parameters: int) -> None:
        self._set_run(executable, handle, MEMORY_OPERATIONS, lambda: self._works.batch(parameters))

    @entry("cuGraphExecNodeSetParams", arguments=(WORD, WORD, HOST))
    def set_run_any(self, executable: int, handle: int, parameters: int) -> None:
        kind = NodeParameters.from_address(parameters).type if parameters else -1
        if kind == CONDITIONAL:
            raise DriverError(INVALID_VALUE, "a conditional node cannot be changed")
        self._set_run(executable, handle, kind, lambda: self._works.any(parameters))

    # ---- attributes of kernels ------------------------------------------------------------------

    def _launch(self, handle: int) -> tuple[Node, KernelLaunchWork]:
        node = self._of_kind(handle, KERNEL)
        assert isinstance(node.work, KernelLaunchWork)
        return node, node.work

    @entry("cuGraphKernelNodeGetAttribute", arguments=(WORD, c_int, HOST))
    def attribute(self, handle: int, attribute: int, out: int) -> None:
        _, work = self._launch(handle)
        size = _attribute_bytes(attribute, out)
        ctypes.memmove(out, work.options.values.get(attribute, bytes(size)).ljust(size, b"\0"), size)

    @entry("cuGraphKernelNodeSetAttribute", arguments=(WORD, c_int, HOST))
    def set_attribute(self, handle: int, attribute: int, value: int) -> None:
        node, work = self._launch(handle)
        size = _attribute_bytes(attribute, value)
        node.work = work.with_attribute(attribute, ctypes.string_at(value, size).ljust(VALUE_BYTES, b"\0"))

    @entry("cuGraphKernelNodeCopyAttributes", arguments=(WORD, WORD))
    def copy_attributes(self, target: int, source: int) -> None:
        node, work = self._launch(target)
        for kind, value in self._launch(source)[1].options.values.items():
            work = work.with_attribute(kind, value)
        node.work = work


def _attribute_bytes(attribute: int, pointer: int) -> int:
    if attribute not in NODE_ATTRIBUTES or not pointer:
        raise DriverError(INVALID_VALUE, f"a kernel node has no attribute {attribute}, or the value's pointer is null")
    return NODE_ATTRIBUTES[attribute]
