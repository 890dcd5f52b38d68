"""How Python methods become C functions of the driver library.

Mental model: an entry point is a method with the C name and argument types of the function it stands for.
It writes its results through the pointers that it is given and returns nothing when all is well; a
:class:`DriverError` becomes the ``CUresult`` that the caller sees. Names, signatures and numbers are those
of NVIDIA's cuda.h (CUDA Driver API, version 13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ctypes import POINTER, c_char_p, c_int, c_uint, c_uint64
from dataclasses import dataclass
from typing import Any

INT_OUT, UINT_OUT, WORD_OUT, TEXT_OUT = POINTER(c_int), POINTER(c_uint), POINTER(c_uint64), POINTER(c_char_p)
#: A handle, device pointer, host address or size: 64 bits, zero when absent.
WORD = c_uint64
HOST = c_uint64

# CUresult
SUCCESS = 0
INVALID_VALUE = 1
OUT_OF_MEMORY = 2
NOT_INITIALIZED = 3
DEINITIALIZED = 4
NO_DEVICE = 100
INVALID_DEVICE = 101
INVALID_IMAGE = 200
INVALID_CONTEXT = 201
INVALID_PTX = 218
NO_BINARY_FOR_GPU = 209
UNSUPPORTED_LIMIT = 215
UNSUPPORTED_EXEC_AFFINITY = 224
FILE_NOT_FOUND = 301
OPERATING_SYSTEM = 304
INVALID_HANDLE = 400
NOT_FOUND = 500
ILLEGAL_STATE = 401
ILLEGAL_ADDRESS = 700
LAUNCH_OUT_OF_RESOURCES = 701
LAUNCH_TIMEOUT = 702
PEER_ACCESS_ALREADY_ENABLED = 704
PEER_ACCESS_NOT_ENABLED = 705
PEER_ACCESS_UNSUPPORTED = 217
HOST_MEMORY_ALREADY_REGISTERED = 712
HOST_MEMORY_NOT_REGISTERED = 713
MISALIGNED_ADDRESS = 716
ASSERT = 710
LAUNCH_FAILED = 719
COOPERATIVE_LAUNCH_TOO_LARGE = 720
NOT_PERMITTED = 800
NOT_SUPPORTED = 801
STREAM_CAPTURE_UNSUPPORTED = 900
STREAM_CAPTURE_INVALIDATED = 901
STREAM_CAPTURE_MERGE = 902
STREAM_CAPTURE_UNMATCHED = 903
STREAM_CAPTURE_UNJOINED = 904
STREAM_CAPTURE_ISOLATION = 905
STREAM_CAPTURE_IMPLICIT = 906
CAPTURED_EVENT = 907
STREAM_CAPTURE_WRONG_THREAD = 908
GRAPH_EXEC_UPDATE_FAILURE = 910
INVALID_CLUSTER_SIZE = 912
UNKNOWN = 999


class DriverError(Exception):
    """``code``: the CUresult to return; ``detail``: one line for whoever reads the failed script's output."""

    def __init__(self, code: int, detail: str = ""):
        super().__init__(code, detail)
        self.code, self.detail = code, detail


@dataclass(frozen=True)
class Signature:
    """``name`` as cuGetProcAddress knows it; ``since`` the CUDA version (1000 * major + 10 * minor) from
    which the function has these arguments."""

    name: str
    arguments: tuple[Any, ...]
    since: int = 0

    @property
    def symbol(self) -> str:
        return f"{self.name}_since_{self.since}" if self.since else self.name


def entry(*names: str, arguments: tuple[Any, ...] = (), since: int = 0) -> Callable:
    """Mark a method as the C functions ``names``, which take ``arguments``."""

    def mark(method: Callable) -> Callable:
        marked = [Signature(name, arguments, since) for name in names]
        method.signatures = [*getattr(method, "signatures", ()), *marked]
        return method

    return mark


def entries_of(component: object) -> list[tuple[Signature, Callable]]:
    """(signature, bound method) of every entry point of ``component``."""
    found = []
    for name in dir(type(component)):
        method = getattr(type(component), name)
        for signature in getattr(method, "signatures", ()):
            found.append((signature, getattr(component, name)))
    return found


def put(out: Any, value: Any) -> None:
    """Write a result through a pointer; raises DriverError for a null one."""
    if not out:
        raise DriverError(INVALID_VALUE, "a pointer for a result is null")
    out[0] = value


class Handles:
    """Gives objects the opaque numbers by which C code speaks of them, from ``first`` on."""

    def __init__(self, first: int):
        self._next, self._objects = first, {}

    def new(self, thing: object) -> int:
        handle = self._next
        self._next += 0x10
        self._objects[handle] = thing
        return handle

    def put(self, handle: int, thing: object) -> None:
        """Give ``handle``, one that was given out, to another object."""
        self._objects[handle] = thing

    def get(self, handle: int) -> Any:
        """The object of ``handle``; raises DriverError for one that is unknown or gone."""
        try:
            return self._objects[handle]
        except KeyError:
            raise DriverError(INVALID_HANDLE, f"0x{handle or 0:x} is no handle of this device") from None

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._objects.values()))

    def find(self, handle: int) -> Any:
        """The object of ``handle``, None for one that is unknown or gone."""
        return self._objects.get(handle)

    def remove(self, handle: int) -> Any:
        thing = self.get(handle)
        del self._objects[handle]
        return thing

    def remove_if(self, goes: Callable[[Any], bool]) -> None:
        """Forget the objects for which ``goes`` says so."""
        self._objects = {handle: thing for handle, thing in self._objects.items() if not goes(thing)}

    def all(self) -> list[Any]:
        """Every object that has a handle."""
        return list(self._objects.values())

    def clear(self) -> None:
        self._objects.clear()


def words_at(address: int, count: int) -> list[int]:
    """``count`` 64-bit words at ``address``; none for a null pointer."""
    return list((c_uint64 * count).from_address(address)) if address else []


def structure_at(kind: type, address: int) -> Any:
    """The C structure ``kind`` at ``address``; raises DriverError for a null pointer."""
    if not address:
        raise DriverError(
            INVALID_VALUE, f"a pointer to {kind.__doc__.strip('.') if kind.__doc__ else kind.__name__} is null"
        )
    return kind.from_address(address)


def put_list(values: list[int], out: Any, count_out: Any) -> None:
    """Write handles as CUDA's queries of lists do: without ``out`` only how many there are; otherwise as many as
    ``count_out`` has room for, the rest of the room null, and how many were written."""
    if not count_out:
        raise DriverError(INVALID_VALUE, "the pointer to the number of elements is null")
    if not out:
        count_out[0] = len(values)
        return
    room = count_out[0]
    for i in range(room):
        out[i] = values[i] if i < len(values) else 0
    count_out[0] = min(room, len(values))
