"""Graphs and their nodes as the driver API has them; how they are instantiated and launched:
:mod:`gpusim.driver.graph_runs`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_char_p, c_size_t, c_ubyte, c_uint, c_uint64
from pathlib import Path

from gpusim.driver.abi import (
    HOST,
    INT_OUT,
    INVALID_VALUE,
    OPERATING_SYSTEM,
    UINT_OUT,
    WORD,
    WORD_OUT,
    DriverError,
    Handles,
    entry,
    put,
    put_list,
    words_at,
)
from gpusim.driver.graph_memory import GraphMemory
from gpusim.driver.graphs import Graph, Node
from gpusim.driver.user_objects import UserObjects
from gpusim.driver.work import CHILD, PLAIN_EDGE, Work

_EDGE_BYTES = len(PLAIN_EDGE)
_KINDS = (
    "kernel", "memcpy", "memset", "host", "graph", "empty", "wait event", "record event", "", "", "alloc", "free", "mem ops",
    "conditional",
)  # fmt: skip


class Graphs:
    """Entry points cuGraph* of graphs, nodes and edges."""

    def __init__(self, graph_memory: GraphMemory, objects: UserObjects, here: Callable[[], int]):
        self._graph_memory, self._objects, self.here = graph_memory, objects, here
        self._graphs, self._nodes = Handles(0x1_0000_0000), Handles(0x2_0000_0000)

    def reset(self, device: int) -> None:
        """Forget the graphs that were made in contexts of a device."""
        gone = {node for graph in self._graphs.all() if graph.device == device for node in graph.nodes}
        self._graphs.remove_if(lambda graph: graph.device == device)
        self._nodes.remove_if(gone.__contains__)

    # ---- handles --------------------------------------------------------------------------------

    def graph(self, handle: int) -> Graph:
        """The graph of a handle; raises DriverError."""
        return _known(self._graphs, handle)

    def node(self, handle: int) -> Node:
        """The node of a handle; raises DriverError."""
        return _known(self._nodes, handle)

    def handle_of(self, graph: Graph) -> int:
        """The handle of a graph, which has one from now on."""
        if not graph.handle:
            graph.handle, graph.device = self._graphs.new(graph), self.here()
        return graph.handle

    def node_handle(self, node: Node) -> int:
        """The handle of a node, which has one from now on."""
        if not node.handle:
            node.handle = self._nodes.new(node)
        return node.handle

    def add(self, out, graph: int, before: int, count: int, work: Work, edges: int = 0) -> Node:
        """A new node of ``graph`` behind the nodes whose handles lie at ``before``."""
        if not out or (count and not before):
            raise DriverError(INVALID_VALUE, "the pointer to the new node, or to what it waits for, is null")
        owner = self.graph(graph)
        waits_for = [self.node(handle) for handle in words_at(before, count)]
        node = owner.add(work, waits_for, _edges_at(edges, count))
        put(out, self.node_handle(node))
        return node

    # ---- graphs ---------------------------------------------------------------------------------

    @entry("cuGraphCreate", arguments=(WORD_OUT, c_uint))
    def create(self, out, flags: int) -> None:
        if flags or not out:
            raise DriverError(INVALID_VALUE, "a graph is created with flags of 0")
        put(out, self.handle_of(Graph()))

    @entry("cuGraphDestroy", arguments=(WORD,))
    def destroy(self, handle: int) -> None:
        graph = self.graph(handle)
        self._graphs.remove(handle)
        self._forget(graph)

    def _forget(self, graph: Graph) -> None:
        for node in graph.nodes:
            self._drop(node)
        self._objects.drop(graph)

    def _drop(self, node: Node) -> None:
        self._graph_memory.drop(node.work)
        for graph in node.work.graphs():
            if graph.handle:
                self._graphs.remove(graph.handle)
            self._forget(graph)
        if node.handle:
            self._nodes.remove(node.handle)

    @entry("cuGraphClone", arguments=(WORD_OUT, WORD))
    def clone(self, out, handle: int) -> None:
        graph = self.graph(handle).clone()
        self._objects.cloned(graph)
        put(out, self.handle_of(graph))

    @entry("cuGraphNodeFindInClone", arguments=(WORD_OUT, WORD, WORD))
    def find_in_clone(self, out, node: int, clone: int) -> None:
        found = self.graph(clone).original.get(self.node(node))
        if found is None or found not in found.graph.nodes:
            raise DriverError(INVALID_VALUE, "the graph is no clone of the node's, or has lost the node")
        put(out, self.node_handle(found))

    @entry("cuGraphGetId", arguments=(WORD, UINT_OUT))
    def identity(self, handle: int, out) -> None:
        put(out, self.graph(handle).number)

    @entry("cuGraphGetNodes", arguments=(WORD, WORD_OUT, WORD_OUT))
    def nodes(self, handle: int, out, count) -> None:
        put_list([self.node_handle(node) for node in self.graph(handle).nodes], out, count)

    @entry("cuGraphGetRootNodes", arguments=(WORD, WORD_OUT, WORD_OUT))
    def roots(self, handle: int, out, count) -> None:
        put_list([self.node_handle(node) for node in self.graph(handle).nodes if not node.waits_for], out, count)

    @entry("cuGraphDebugDotPrint", arguments=(WORD, c_char_p, c_uint))
    def dot(self, handle: int, path: bytes, flags: int) -> None:
        graph = self.graph(handle)
        lines = [f'  n{node.number} [label="{node.number} {_KINDS[node.work.kind]}"];' for node in graph.nodes]
        lines += [f"  n{one.number} -> n{other.number};" for one, other, _ in graph.edges()]
        try:
            Path(path.decode()).write_text("\n".join(["digraph dot {", *lines, "}", ""]))
        except OSError as error:
            raise DriverError(OPERATING_SYSTEM, f"{path.decode()}: {error.strerror}") from None

    # ---- user objects ---------------------------------------------------------------------------

    @entry("cuGraphRetainUserObject", arguments=(WORD, WORD, c_uint, c_uint))
    def retain_object(self, handle: int, thing: int, count: int, flags: int) -> None:
        self._objects.give(self.graph(handle), thing, count, flags)

    @entry("cuGraphReleaseUserObject", arguments=(WORD, WORD, c_uint))
    def release_object(self, handle: int, thing: int, count: int) -> None:
        self._objects.take(self.graph(handle), thing, count)

    # ---- edges ----------------------------------------------------------------------------------

    def _edges(self, handle: int, sources, targets, data, count) -> None:
        edges = self.graph(handle).edges()
        _put_edge_data([each[2] for each in edges], data, count)
        if targets:
            room = count[0] if count else 0
            put_list([self.node_handle(target) for _, target, _ in edges], targets, (c_uint64 * 1)(room))
        put_list([self.node_handle(source) for source, _, _ in edges], sources, count)

    @entry("cuGraphGetEdges", arguments=(WORD, WORD_OUT, WORD_OUT, WORD_OUT))
    def edges(self, handle: int, sources, targets, count) -> None:
        self._edges(handle, sources, targets, None, count)

    @entry("cuGraphGetEdges", arguments=(WORD, WORD_OUT, WORD_OUT, HOST, WORD_OUT), since=12030)
    @entry("cuGraphGetEdges_v2", arguments=(WORD, WORD_OUT, WORD_OUT, HOST, WORD_OUT))
    def edges_with_data(self, handle: int, sources, targets, data, count) -> None:
        self._edges(handle, sources, targets, data, count)

    @entry("cuGraphNodeGetDependencies", arguments=(WORD, WORD_OUT, WORD_OUT))
    def before(self, handle: int, out, count) -> None:
        self.before_with_data(handle, out, 0, count)

    @entry("cuGraphNodeGetDependencies", arguments=(WORD, WORD_OUT, HOST, WORD_OUT), since=12030)
    @entry("cuGraphNodeGetDependencies_v2", arguments=(WORD, WORD_OUT, HOST, WORD_OUT))
    def before_with_data(self, handle: int, out, data: int, count) -> None:
        waits_for = self.node(handle).waits_for
        _put_edge_data(list(waits_for.values()), data, count)
        put_list([self.node_handle(node) for node in waits_for], out, count)

    @entry("cuGraphNodeGetDependentNodes", arguments=(WORD, WORD_OUT, WORD_OUT))
    def behind(self, handle: int, out, count) -> None:
        self.behind_with_data(handle, out, 0, count)

    @entry("cuGraphNodeGetDependentNodes", arguments=(WORD, WORD_OUT, HOST, WORD_OUT), since=12030)
    @entry("cuGraphNodeGetDependentNodes_v2", arguments=(WORD, WORD_OUT, HOST, WORD_OUT))
    def behind_with_data(self, handle: int, out, data: int, count) -> None:
        node = self.node(handle)
        found = [other for other in node.graph.nodes if node in other.waits_for]
        _put_edge_data([other.waits_for[node] for other in found], data, count)
        put_list([self.node_handle(other) for other in found], out, count)

    def _pairs(self, handle: int, sources: int, targets: int, count: int) -> list[tuple[Node, Node]]:
        graph = self.graph(handle)
        pairs = [
            (self.node(one), self.node(other))
            for one, other in zip(words_at(sources, count), words_at(targets, count), strict=True)
        ]
        if any(node.graph is not graph for pair in pairs for node in pair):
            raise DriverError(INVALID_VALUE, "an edge joins two nodes of its graph")
        return pairs

    @entry("cuGraphAddDependencies", arguments=(WORD, HOST, HOST, c_size_t))
    def add_edges(self, handle: int, sources: int, targets: int, count: int) -> None:
        self.add_edges_with_data(handle, sources, targets, 0, count)

    @entry("cuGraphAddDependencies", arguments=(WORD, HOST, HOST, HOST, c_size_t), since=12030)
    @entry("cuGraphAddDependencies_v2", arguments=(WORD, HOST, HOST, HOST, c_size_t))
    def add_edges_with_data(self, handle: int, sources: int, targets: int, data: int, count: int) -> None:
        pairs, edges = self._pairs(handle, sources, targets, count), _edges_at(data, count)
        if len(set(pairs)) != len(pairs) or any(one in other.waits_for or one is other for one, other in pairs):
            raise DriverError(INVALID_VALUE, "an edge is there already, or joins a node to itself")
        for (one, other), edge in zip(pairs, edges, strict=True):
            other.waits_for[one] = edge

    @entry("cuGraphRemoveDependencies", arguments=(WORD, HOST, HOST, c_size_t))
    def remove_edges(self, handle: int, sources: int, targets: int, count: int) -> None:
        pairs = self._pairs(handle, sources, targets, count)
        if any(one not in other.waits_for for one, other in pairs):
            raise DriverError(INVALID_VALUE, "there is no such edge to be removed")
        for one, other in pairs:
            del other.waits_for[one]

    @entry("cuGraphRemoveDependencies", arguments=(WORD, HOST, HOST, HOST, c_size_t), since=12030)
    @entry("cuGraphRemoveDependencies_v2", arguments=(WORD, HOST, HOST, HOST, c_size_t))
    def remove_edges_with_data(self, handle: int, sources: int, targets: int, data: int, count: int) -> None:
        self.remove_edges(handle, sources, targets, count)

    # ---- nodes ----------------------------------------------------------------------------------

    @entry("cuGraphDestroyNode", arguments=(WORD,))
    def destroy_node(self, handle: int) -> None:
        node = self.node(handle)
        node.graph.remove(node)
        self._drop(node)

    @entry("cuGraphNodeGetType", arguments=(WORD, INT_OUT))
    def kind(self, handle: int, out) -> None:
        put(out, self.node(handle).work.kind)

    @entry("cuGraphNodeGetContainingGraph", arguments=(WORD, WORD_OUT))
    def containing(self, handle: int, out) -> None:
        put(out, self.handle_of(self.node(handle).graph))

    @entry("cuGraphNodeGetLocalId", arguments=(WORD, UINT_OUT))
    def local_identity(self, handle: int, out) -> None:
        put(out, self.node(handle).number)

    @entry("cuGraphNodeGetToolsId", arguments=(WORD, WORD_OUT))
    def tools_identity(self, handle: int, out) -> None:
        node = self.node(handle)
        put(out, node.graph.number << 32 | node.number)

    @entry("cuGraphChildGraphNodeGetGraph", arguments=(WORD, WORD_OUT))
    def child(self, handle: int, out) -> None:
        node = self.node(handle)
        if node.work.kind != CHILD:
            raise DriverError(INVALID_VALUE, "the node is no graph")
        put(out, self.handle_of(node.work.graph))  # type: ignore[attr-defined]

    def forget_executable(self, graph: Graph) -> None:
        """An instantiated graph is gone."""
        for node in graph.nodes:
            self._graph_memory.drop(node.work)
        self._objects.drop(graph)


def _known(handles: Handles, handle: int):
    try:
        return handles.get(handle)
    except DriverError as error:
        raise DriverError(INVALID_VALUE, error.detail) from None


def _edges_at(address: int, count: int) -> list[bytes]:
    """``count`` CUgraphEdgeData at a host address; plain ones for a null pointer. Raises DriverError for what has no
    meaning."""
    if not address:
        return [PLAIN_EDGE] * count
    data = [ctypes.string_at(address + _EDGE_BYTES * i, _EDGE_BYTES) for i in range(count)]
    if any(each[2] > 1 or any(each[3:]) for each in data):
        raise DriverError(INVALID_VALUE, "an edge's type is 0 or 1, its reserved bytes are zero")
    return data


def _put_edge_data(data: list[bytes], address: int | None, count) -> None:
    if address and count:
        for i, each in enumerate(data[: count[0]]):
            (c_ubyte * _EDGE_BYTES).from_address(address + _EDGE_BYTES * i)[:] = each
