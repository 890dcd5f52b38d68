"""Instantiated graphs as the driver API has them: made, changed, launched.

Mental model: an instantiated graph is a copy whose nodes run one after another, as one job, each time it is launched;
its kernels stand in the account of the run as if they had been launched one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import POINTER, c_size_t, c_uint, c_uint64
from dataclasses import dataclass
from typing import ClassVar

from gpusim.driver.abi import (
    GRAPH_EXEC_UPDATE_FAILURE,
    HOST,
    INT_OUT,
    INVALID_VALUE,
    NOT_SUPPORTED,
    UINT_OUT,
    WORD,
    WORD_OUT,
    DriverError,
    Handles,
    entry,
    put,
)
from gpusim.driver.executor import Executor
from gpusim.driver.graph_calls import Graphs
from gpusim.driver.graph_memory import GraphMemory
from gpusim.driver.graphs import UPDATED, ChildGraph, Executable, Node
from gpusim.driver.streams import Streams
from gpusim.driver.structures import InstantiateParameters, UpdateResult
from gpusim.driver.user_objects import UserObjects
from gpusim.driver.work import CHILD, COPY, FILL, KERNEL, Work

_AUTO_FREE, _UPLOAD, _DEVICE_LAUNCH, _NODE_PRIORITY = 1, 2, 4, 8
_FAILED = 1  # CUDA_GRAPH_INSTANTIATE_ERROR


@dataclass
class GraphLaunch(Work):
    """A launch of an instantiated graph; in another graph it is a child of it."""

    executable: Executable
    run_all: Callable[[Executable], None]
    kind: ClassVar[int] = CHILD

    def run(self) -> None:
        self.run_all(self.executable)


class GraphRuns:
    """Entry points cuGraphInstantiate*, cuGraphLaunch and cuGraphExec*."""

    def __init__(
        self, graphs: Graphs, graph_memory: GraphMemory, objects: UserObjects, streams: Streams, executor: Executor
    ):
        self._graphs, self._memory, self._objects = graphs, graph_memory, objects
        self._streams, self._executor = streams, executor
        self._executables = Handles(0x3_0000_0000)

    def reset(self, device: int) -> None:
        """Forget the graphs that were instantiated in contexts of a device."""
        self._executables.remove_if(lambda executable: executable.graph.device == device)

    def get(self, handle: int) -> Executable:
        """The instantiated graph of a handle; raises DriverError."""
        try:
            return self._executables.get(handle)
        except DriverError as error:
            raise DriverError(INVALID_VALUE, error.detail) from None

    # ---- making ---------------------------------------------------------------------------------

    @entry("cuGraphInstantiate", arguments=(WORD_OUT, WORD, WORD_OUT, HOST, c_size_t))
    def instantiate_with_log(self, out, graph: int, error_node, log: int, log_bytes: int) -> None:
        if error_node:
            error_node[0] = 0
        self.instantiate(out, graph, 0)

    @entry("cuGraphInstantiate", arguments=(WORD_OUT, WORD, c_uint64), since=12000)
    @entry("cuGraphInstantiateWithFlags", arguments=(WORD_OUT, WORD, c_uint64))
    def instantiate(self, out, graph: int, flags: int) -> None:
        if flags & ~(_AUTO_FREE | _UPLOAD | _DEVICE_LAUNCH | _NODE_PRIORITY):
            raise DriverError(INVALID_VALUE, f"a graph is not instantiated with flags 0x{flags:x}")
        if flags & _DEVICE_LAUNCH:
            raise DriverError(NOT_SUPPORTED, "graphs that a kernel launches are not emulated")
        executable = Executable(self._graphs.graph(graph), flags)
        executable.graph.device = self._graphs.here()
        self._objects.cloned(executable.graph)
        executable.handle = self._executables.new(executable)
        put(out, executable.handle)

    @entry("cuGraphInstantiateWithParams", arguments=(WORD_OUT, WORD, POINTER(InstantiateParameters)))
    def instantiate_with_parameters(self, out, graph: int, parameters) -> None:
        if not parameters:
            raise DriverError(INVALID_VALUE, "the parameters are null")
        parameters[0].error_node, parameters[0].result = 0, _FAILED
        self.instantiate(out, graph, parameters[0].flags)
        parameters[0].result = 0

    @entry("cuGraphExecDestroy", arguments=(WORD,))
    def destroy(self, handle: int) -> None:
        executable = self.get(handle)
        self._executables.remove(handle)
        self._graphs.forget_executable(executable.graph)

    @entry("cuGraphExecGetFlags", arguments=(WORD, WORD_OUT))
    def flags(self, handle: int, out) -> None:
        put(out, self.get(handle).flags)

    @entry("cuGraphExecGetId", arguments=(WORD, UINT_OUT))
    def identity(self, handle: int, out) -> None:
        put(out, self.get(handle).number)

    # ---- launching ------------------------------------------------------------------------------

    @entry("cuGraphUpload", arguments=(WORD, WORD))
    def upload(self, handle: int, stream: int) -> None:
        self.get(handle)
        self._streams.check(stream)

    @entry("cuGraphLaunch", arguments=(WORD, WORD))
    def launch(self, handle: int, stream: int) -> None:
        executable = self.get(handle)
        self._streams.check_alive(self._streams.check(stream).device)
        if self._streams.is_captured(stream):
            self._streams.submit(stream, ChildGraph(executable.graph.clone()))
        else:
            self._streams.submit(stream, GraphLaunch(executable, self._run))

    def _run(self, executable: Executable) -> None:
        if executable.flags & _AUTO_FREE:
            for block in self._memory.live_blocks():
                if any(getattr(node.work, "found", None) is block for node in executable.graph.nodes):
                    block.take_away()
        self._executor.run(executable.run)

    # ---- changing -------------------------------------------------------------------------------

    @entry("cuGraphExecUpdate", arguments=(WORD, WORD, WORD_OUT, INT_OUT))
    def update_with_node(self, handle: int, graph: int, error_node, result_out) -> None:
        result, node, _ = self.get(handle).update(self._graphs.graph(graph))
        put(result_out, result)
        if error_node:
            error_node[0] = self._graphs.node_handle(node) if node else 0
        _raise(result)

    @entry("cuGraphExecUpdate", arguments=(WORD, WORD, POINTER(UpdateResult)), since=12000)
    @entry("cuGraphExecUpdate_v2", arguments=(WORD, WORD, POINTER(UpdateResult)))
    def update(self, handle: int, graph: int, out) -> None:
        result, node, from_node = self.get(handle).update(self._graphs.graph(graph))
        handles = [self._graphs.node_handle(each) if each else 0 for each in (node, from_node)]
        put(out, UpdateResult(result, *handles))
        _raise(result)

    def _switchable(self, handle: int, node: int) -> tuple[Executable, Node]:
        executable = self.get(handle)
        own = executable.own(self._graphs.node(node))
        if own.work.kind not in (KERNEL, COPY, FILL):
            raise DriverError(INVALID_VALUE, "kernels, copies and fills can be disabled, other nodes cannot")
        return executable, own

    @entry("cuGraphNodeSetEnabled", arguments=(WORD, WORD, c_uint))
    def set_enabled(self, handle: int, node: int, enabled: int) -> None:
        executable, own = self._switchable(handle, node)
        (executable.off.discard if enabled else executable.off.add)(own)

    @entry("cuGraphNodeGetEnabled", arguments=(WORD, WORD, UINT_OUT))
    def enabled(self, handle: int, node: int, out) -> None:
        executable, own = self._switchable(handle, node)
        put(out, int(own not in executable.off))


def _raise(result: int) -> None:
    if result != UPDATED:
        raise DriverError(GRAPH_EXEC_UPDATE_FAILURE, f"the instantiated graph cannot become that one (result {result})")
