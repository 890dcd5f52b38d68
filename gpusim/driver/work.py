"""What a program can put into a stream or a graph: one thing to be done, described fully when it is asked for.

Mental model: a call that takes a stream makes a :class:`Work` and submits it. Outside a capture it runs at once; while
the stream is captured it becomes a node of a graph, which runs it at every launch.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from gpusim.driver.structures import HostNode

# CUgraphNodeType
(KERNEL, COPY, FILL, HOST_FUNCTION, CHILD, EMPTY, WAIT_EVENT, RECORD_EVENT) = range(8)
ALLOCATE, FREE, MEMORY_OPERATIONS, CONDITIONAL = 10, 11, 12, 13

#: CUgraphEdgeData (outgoing port, incoming port, type, reserved) of an edge that simply waits, and of one by which a
#: kernel may begin when the one before lets it (CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
#: CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC).
PLAIN_EDGE, PROGRAMMATIC_EDGE = bytes(8), bytes([1, 0, 1, 0, 0, 0, 0, 0])

_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_uint64)


class Work:
    """``kind``: a CUgraphNodeType. ``run`` does it; raises DriverError and what a launch raises."""

    kind: ClassVar[int] = EMPTY

    def run(self) -> None:
        """Do it now."""

    def follow(self, before: Work | None, edge: bytes = PLAIN_EDGE) -> None:
        """It is to run in a stream directly behind ``before``; None: there was nothing before. ``edge``: of the graph
        that both are nodes of."""

    def edge_behind(self, before: Work) -> bytes:
        """The CUgraphEdgeData with which it waits for ``before`` if a stream is captured in which it follows that."""
        return PLAIN_EDGE

    def begin(self) -> None:
        """A graph that it is part of is launched."""

    def graphs(self) -> list[Any]:
        """The graphs that belong to it and have handles of their own."""
        return []

    def clone(self) -> Work:
        """The same work, for a graph of its own."""
        return copy.copy(self)

    def parameters(self) -> ctypes.Structure | None:
        """The structure that cuda.h describes such a node with; None for a node that has nothing to tell."""
        return None

    def why_not(self, old: Work) -> int | None:
        """The CUgraphExecUpdateResult for which an instantiated ``old`` cannot become this; None if it can."""
        return None


@dataclass
class HostFunction(Work):
    """A call of a function of the program: ``void function(void *data)``."""

    function: int
    data: int
    kind: ClassVar[int] = HOST_FUNCTION

    def run(self) -> None:
        _HOST_FUNCTION(self.function)(self.data)

    def parameters(self) -> HostNode:
        return HostNode(self.function, self.data)


@dataclass
class Action(Work):
    """A call that no graph can hold as a node of its own: it runs at once or not at all."""

    function: Callable[[], None]

    def run(self) -> None:
        self.function()
