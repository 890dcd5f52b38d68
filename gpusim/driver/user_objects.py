"""Objects of the program whose life ends with the last graph that needs them.

Mental model: a user object is a pointer, a function that destroys it, and a count of references. Graphs hold some of
them; when the count falls to nothing, the function is called.
"""

from __future__ import annotations

import ctypes
from ctypes import c_uint
from dataclasses import dataclass

from gpusim.driver.abi import HOST, INVALID_VALUE, WORD, WORD_OUT, DriverError, Handles, entry, put
from gpusim.driver.graphs import Graph

_NO_DESTRUCTOR_SYNC, _MOVE = 1, 1
_DESTROY = ctypes.CFUNCTYPE(None, ctypes.c_uint64)


@dataclass(eq=False)
class UserObject:
    """``references``: the program's and the graphs' together."""

    pointer: int
    destroy: int
    references: int


class UserObjects:
    """Entry points cuUserObject*."""

    def __init__(self) -> None:
        self._objects = Handles(0xF0_0000)

    @entry("cuUserObjectCreate", arguments=(WORD_OUT, HOST, HOST, c_uint, c_uint))
    def create(self, out, pointer: int, destroy: int, references: int, flags: int) -> None:
        if flags != _NO_DESTRUCTOR_SYNC or not destroy or not 0 < references < 2**31:
            raise DriverError(
                INVALID_VALUE,
                "a user object needs a function, references, and the flag CU_USER_OBJECT_NO_DESTRUCTOR_SYNC",
            )
        put(out, self._objects.new(UserObject(pointer, destroy, references)))

    @entry("cuUserObjectRetain", arguments=(WORD, c_uint))
    def retain(self, handle: int, count: int) -> None:
        if not 0 < count < 2**31:
            raise DriverError(INVALID_VALUE, f"{count} references")
        self._objects.get(handle).references += count

    @entry("cuUserObjectRelease", arguments=(WORD, c_uint))
    def release(self, handle: int, count: int) -> None:
        found = self._objects.get(handle)
        if not 0 < count <= found.references:
            raise DriverError(INVALID_VALUE, f"{count} references, there are {found.references}")
        found.references -= count
        if not found.references:
            self._objects.remove(handle)
            _DESTROY(found.destroy)(found.pointer)

    def give(self, graph: Graph, handle: int, count: int, flags: int) -> None:
        """Let ``graph`` hold references: the caller's own with CU_GRAPH_USER_OBJECT_MOVE."""
        if flags & ~_MOVE:
            raise DriverError(INVALID_VALUE, f"a graph retains an object with flags of 0 or 1, not {flags}")
        if not flags & _MOVE:
            self.retain(handle, count)
        graph.objects[handle] = graph.objects.get(handle, 0) + count

    def take(self, graph: Graph, handle: int, count: int) -> None:
        """Release references that ``graph`` holds; raises DriverError where it holds fewer."""
        held = graph.objects.get(handle, 0)
        if not 0 < count <= held:
            raise DriverError(INVALID_VALUE, f"{count} references, the graph holds {held}")
        graph.objects[handle] = held - count
        if held == count:
            del graph.objects[handle]
        self.release(handle, count)

    def cloned(self, graph: Graph) -> None:
        """A copy of a graph holds references of its own."""
        for handle, count in graph.objects.items():
            self.retain(handle, count)

    def drop(self, graph: Graph) -> None:
        """A graph is gone."""
        for handle, count in list(graph.objects.items()):
            self.take(graph, handle, count)
