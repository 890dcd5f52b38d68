"""Graphs: work and what it waits for.

Mental model: a graph's nodes hold :class:`~gpusim.driver.work.Work`; an edge says that one waits for another. To launch
a graph is to run its nodes in an order in which nobody waits, each to its end. What is launched is a copy, made when
the graph is instantiated.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from gpusim.driver.abi import INVALID_VALUE, DriverError
from gpusim.driver.structures import WordNode
from gpusim.driver.work import CHILD, PLAIN_EDGE, Work

# CUgraphExecUpdateResult
UPDATED, UPDATE_ERROR, TOPOLOGY_CHANGED, TYPE_CHANGED, FUNCTION_CHANGED, PARAMETERS_CHANGED, NOT_SUPPORTED = range(7)
ATTRIBUTES_CHANGED = 8
_numbers = itertools.count(1)


@dataclass(eq=False)
class Node:
    """``waits_for``: the nodes before it, with the CUgraphEdgeData of each edge."""

    graph: Graph
    work: Work
    number: int
    handle: int = 0
    waits_for: dict[Node, bytes] = field(default_factory=dict)


@dataclass(eq=False)
class Graph:
    """``nodes`` in the order in which they were added; ``original``: of which it is a clone, by node; made in a context
    of ``device``."""

    nodes: list[Node] = field(default_factory=list)
    handle: int = 0
    number: int = field(default_factory=lambda: next(_numbers))
    original: dict[Node, Node] = field(default_factory=dict)
    objects: dict[int, int] = field(default_factory=dict)
    device: int = 0
    _count: int = 0

    def add(self, work: Work, waits_for: Iterable[Node] = (), edges: Iterable[bytes] = ()) -> Node:
        """A new node; raises DriverError for one that waits for a node of another graph or twice for one."""
        before = list(waits_for)
        if any(node.graph is not self for node in before):
            raise DriverError(INVALID_VALUE, "a node cannot wait for a node of another graph")
        if len(set(before)) != len(before):
            raise DriverError(INVALID_VALUE, "a node waits twice for the same node")
        data = list(edges) or [PLAIN_EDGE] * len(before)
        self._count += 1
        node = Node(self, work, self._count, waits_for=dict(zip(before, data, strict=True)))
        self.nodes.append(node)
        return node

    def remove(self, node: Node) -> None:
        """Take out a node and its edges."""
        self.nodes.remove(node)
        for other in self.nodes:
            other.waits_for.pop(node, None)

    def edges(self) -> list[tuple[Node, Node, bytes]]:
        """(from, to, data) of every edge."""
        return [(before, node, data) for node in self.nodes for before, data in node.waits_for.items()]

    def order(self) -> list[Node]:
        """The nodes, each behind all that it waits for, else in the order they were added; raises DriverError for a
        circle."""
        missing = {node: len(node.waits_for) for node in self.nodes}
        behind: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for before, node, _ in self.edges():
            behind[before].append(node)
        ready = [node for node in self.nodes if not missing[node]]
        found = []
        for node in ready:
            found.append(node)
            for after in behind[node]:
                missing[after] -= 1
                if not missing[after]:
                    ready.append(after)
        if len(found) < len(self.nodes):
            raise DriverError(INVALID_VALUE, "the graph's nodes wait for each other in a circle")
        return found

    def ancestors(self, nodes: Iterable[Node]) -> set[Node]:
        """These nodes and all that must have run before them."""
        seen, open_ = set(), list(nodes)
        while open_:
            node = open_.pop()
            if node not in seen:
                seen.add(node)
                open_ += node.waits_for
        return seen

    def clone(self) -> Graph:
        """A copy that shares nothing with this one but the objects that work speaks of."""
        other = Graph(objects=dict(self.objects))
        new = {node: other.add(node.work.clone()) for node in self.nodes}
        for node, copied in new.items():
            copied.waits_for = {new[before]: data for before, data in node.waits_for.items()}
        other.original = new
        return other


def _run_in_order(nodes: Sequence[Node]) -> None:
    """Run the nodes' work; what waits for nothing but the node that has just run follows it as in a stream."""
    last: Node | None = None
    for node in nodes:
        if last is not None and set(node.waits_for) == {last}:
            node.work.follow(last.work, node.waits_for[last])
        else:
            node.work.follow(None)
        node.work.run()
        last = node


@dataclass
class ChildGraph(Work):
    """A graph as a node of another one."""

    graph: Graph
    kind: ClassVar[int] = CHILD

    def run(self) -> None:
        _run_in_order(self.graph.order())

    def begin(self) -> None:
        for node in self.graph.nodes:
            node.work.begin()

    def clone(self) -> ChildGraph:
        return ChildGraph(self.graph.clone())

    def parameters(self) -> WordNode:
        return WordNode(self.graph.handle)

    def why_not(self, old: Work) -> int | None:
        assert isinstance(old, ChildGraph)
        found = difference(old.graph, self.graph)
        return found and found[0]


class Executable:
    """An instantiated graph. ``node_of``: its own node for each of the graph that it was made from; ``off``: those that
    are skipped."""

    def __init__(self, graph: Graph, flags: int):
        graph.order()
        self.flags, self.handle, self.number = flags, 0, next(_numbers)
        self.graph = graph.clone()
        self.node_of = dict(self.graph.original)
        self._numbers = {node.number: copied for node, copied in self.node_of.items()}
        self.off: set[Node] = set()

    def own(self, node: Node) -> Node:
        """The node that stands for ``node`` of the original graph, or of one that has updated it; raises
        DriverError."""
        found = self.node_of.get(node)
        if found is None:
            raise DriverError(INVALID_VALUE, "the node is not one of the graph that was instantiated")
        return found

    def run(self) -> None:
        """Run all nodes that are enabled."""
        for node in self.graph.nodes:
            node.work.begin()
        _run_in_order([node for node in self.graph.order() if node not in self.off])

    def set_work(self, node: Node, work: Work) -> None:
        """Change what a node does; raises DriverError where CUDA does not allow it."""
        own = self.own(node)
        if work.kind != own.work.kind or work.why_not(own.work) is not None:
            raise DriverError(INVALID_VALUE, "an instantiated node cannot become this: its kind or its shape differs")
        own.work = work.clone()

    def update(self, graph: Graph) -> tuple[int, Node | None, Node | None]:
        """(CUgraphExecUpdateResult, node at which it failed, the node that one waits for if an edge differs)."""
        found = difference(self.graph, graph)
        if found is not None:
            return found
        self.node_of = dict(zip(graph.nodes, self.graph.nodes, strict=True))
        for new, own in self.node_of.items():
            own.work = new.work.clone()
        return UPDATED, None, None


def difference(old: Graph, new: Graph) -> tuple[int, Node | None, Node | None] | None:
    """Why ``old``, instantiated, cannot be updated to ``new``: as :meth:`Executable.update` returns; None if it can.
    Nodes are paired in the order in which they were added, as the CUDA Driver API asks of graphs to be updated."""
    if len(old.nodes) != len(new.nodes):
        return TOPOLOGY_CHANGED, None, None
    place = {node: i for i, node in enumerate(old.nodes)} | {node: i for i, node in enumerate(new.nodes)}
    for one, other in zip(old.nodes, new.nodes, strict=True):
        if one.work.kind != other.work.kind:
            return TYPE_CHANGED, other, None
        had = {place[node]: data for node, data in one.waits_for.items()}
        has = {place[node]: data for node, data in other.waits_for.items()}
        if had != has:
            extra = [node for node in other.waits_for if place[node] not in had]
            return TOPOLOGY_CHANGED, other, extra[0] if extra else None
        reason = other.work.why_not(one.work)
        if reason is not None:
            return reason, other, None
    return None
