"""Conditional nodes of graphs: graphs that are run, or run again, as a value says that kernels set.

Mental model: a handle stands for a value, which ``cudaGraphSetConditional`` of a kernel changes and which may begin at
a default whenever the graph is launched. A conditional node holds one handle and the graphs among which it chooses.
"""

from __future__ import annotations

import ctypes
from ctypes import c_uint
from dataclasses import dataclass, field
from typing import ClassVar

from gpusim.driver.abi import INVALID_VALUE, WORD, WORD_OUT, DriverError, entry, put
from gpusim.driver.graph_calls import Graphs
from gpusim.driver.graphs import PARAMETERS_CHANGED, Graph, difference
from gpusim.driver.structures import ConditionalNode
from gpusim.driver.work import CONDITIONAL, Work

# CUgraphConditionalNodeType
IF, WHILE, SWITCH = range(3)
_MOST_BODIES = {IF: 2, WHILE: 1}
_ASSIGN_DEFAULT = 1  # CU_GRAPH_COND_ASSIGN_DEFAULT
_FIRST_HANDLE = 0x5_0000_0000


@dataclass
class Condition:
    """The value behind a handle; ``default``: what it is when ``graph`` is launched, None: what it was."""

    graph: Graph
    default: int | None
    value: int = 0


@dataclass
class ConditionalGraph(Work):
    """A choice among ``bodies`` by the ``condition`` of ``handle``; ``choice``: IF, WHILE or SWITCH. ``told``: the
    array of their handles that the program was given."""

    handle: int
    condition: Condition
    choice: int
    bodies: list[Graph]
    told: ctypes.Array | None = field(default=None, compare=False)
    kind: ClassVar[int] = CONDITIONAL

    def chosen(self) -> int:
        """Index of the graph to run now; there may be none of that index."""
        if self.choice == SWITCH:
            return self.condition.value
        return int(self.condition.value == 0)

    def run(self) -> None:
        while self.chosen() < len(self.bodies):
            for node in self.bodies[self.chosen()].order():
                node.work.run()
            if self.choice != WHILE:
                break

    def begin(self) -> None:
        if self.condition.default is not None:
            self.condition.value = self.condition.default
        for body in self.bodies:
            for node in body.nodes:
                node.work.begin()

    def graphs(self) -> list[Graph]:
        return self.bodies

    def clone(self) -> ConditionalGraph:
        return ConditionalGraph(self.handle, self.condition, self.choice, [body.clone() for body in self.bodies])

    def parameters(self) -> ConditionalNode:
        return ConditionalNode(
            self.handle, self.choice, len(self.bodies), ctypes.addressof(self.told) if self.told else 0
        )

    def why_not(self, old: Work) -> int | None:
        assert isinstance(old, ConditionalGraph)
        if (old.choice, len(old.bodies)) != (self.choice, len(self.bodies)):
            return PARAMETERS_CHANGED
        found = [difference(one, other) for one, other in zip(old.bodies, self.bodies, strict=True)]
        return next((each[0] for each in found if each), None)


class Conditions:
    """Entry point cuGraphConditionalHandleCreate, and the values of all handles."""

    def __init__(self, graphs: Graphs):
        self._graphs = graphs
        self._known: dict[int, Condition] = {}

    @entry("cuGraphConditionalHandleCreate", arguments=(WORD_OUT, WORD, WORD, c_uint, c_uint))
    def create(self, out, graph: int, context: int, default: int, flags: int) -> None:
        if flags & ~_ASSIGN_DEFAULT or not out:
            raise DriverError(
                INVALID_VALUE, "a conditional handle is created with flags of 0 or 1, and a pointer to it"
            )
        handle = _FIRST_HANDLE + len(self._known)
        self._known[handle] = Condition(self._graphs.graph(graph), default if flags else None)
        put(out, handle)

    def set(self, handle: int, value: int) -> bool:
        """What a kernel asks for by cudaGraphSetConditional; False: there is no such handle."""
        if handle not in self._known:
            return False
        self._known[handle].value = value
        return True

    def work(self, address: int) -> ConditionalGraph:
        """CUDA_CONDITIONAL_NODE_PARAMS; writes where the handles of the graphs lie into it. Raises DriverError."""
        node = ConditionalNode.from_address(address)
        condition = self._known.get(node.handle)
        if condition is None:
            raise DriverError(INVALID_VALUE, f"0x{node.handle:x} is no conditional handle")
        if node.choice not in (IF, WHILE, SWITCH) or not 0 < node.size <= _MOST_BODIES.get(node.choice, node.size):
            raise DriverError(
                INVALID_VALUE, f"a conditional node of type {node.choice} does not choose among {node.size} graphs"
            )
        bodies = [Graph() for _ in range(node.size)]
        told = (WORD * node.size)(*(self._graphs.handle_of(body) for body in bodies))
        node.graphs = ctypes.addressof(told)
        return ConditionalGraph(node.handle, condition, node.choice, bodies, told)
