"""The driver's export tables: functions without names that NVIDIA's runtime library calls.

Mental model: cuGetExportTable gives, for a number of 16 bytes, an array of functions. They are not documented; what
stands here is what a runtime library of CUDA 12 or 13 that is linked into a program needs before it makes its first
documented call, as public projects that stand in for the driver describe it (github.com/vosen/ZLUDA). Any other table
is refused.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, c_int, c_uint64
from typing import NoReturn

from gpusim.driver.abi import HOST, INVALID_VALUE, NOT_SUPPORTED, WORD, WORD_OUT, DriverError, entry, put
from gpusim.driver.calling_library import calling_library
from gpusim.driver.contexts import Contexts
from gpusim.driver.modules import Modules

_RUNTIME = bytes.fromhex("6bd5fb6c5bf4e74a8987d93912fd9df9")
_TOOLS_STORAGE = bytes.fromhex("42d85a8123f6cb478298f6e78a3aecdc")
_TOOLS_CALLBACKS = bytes.fromhex("a094798c2e742e7493f20800200c0a66")
_CONTEXT_STORAGE = bytes.fromhex("c693336e1121df11a8c368f355d89593")
_CONTEXT_CHECKS = bytes.fromhex("263e88607cd2614392f6bbd5006dfa7e")
#: Without it CUPTI asks for it again, to say that it is not there, until the stack ends; one without functions will do.
_PROFILING = bytes.fromhex("7cb63f9b9ca48e42a484beb66e6aed7f")
#: Tables that runtime libraries and NVRTC do without.
_OPTIONAL = (bytes.fromhex("f8cff95121468b4eb9e2fb469e7c0dd9"), bytes.fromhex("da9151d33ae6cc41a5c04f26d533e328"))
#: By which a runtime library has the driver prove that it is NVIDIA's. gpusim's is not, and does not say that it was.
_PROOF = bytes.fromhex("d4082055bde6704b8d34ba123c66e1f2")
_REMEDY = "programs that load libcudart as a shared library (nvcc -cudart shared) can be run"
_WANTS_PROOF = "wants proof that the driver is NVIDIA's, and gpusim run does not forge that"
#: What stands in for NVIDIA's libraries, by how the names of their files begin.
_REMEDIES = {
    "libcublas": (
        "a matrix product can be a Triton kernel, which torch.compile makes of it with"
        " options={'max_autotune': True, 'max_autotune_gemm_backends': 'TRITON'}"
    ),
    "libcudnn": "torch.backends.cudnn.enabled = False makes PyTorch take its own kernels where it has some",
    **dict.fromkeys(
        ("libcufft", "libcusparse", "libcusolver"), "compute this on the CPU and copy the result to the device"
    ),
    "libcudart": "it was opened by its path, which gpusim's runtime is not found by, but by its name alone (libcudart.so.13)",
    "libnccl": "copies between peers and kernels that reach a peer's memory are there (--devices)",
    "libcupti": "profilers see no kernels, which gpusim run lists, with --simulate their times too",
}
_NAMES = {
    _RUNTIME: "the runtime's own functions",
    _TOOLS_STORAGE: "tools' storage",
    _TOOLS_CALLBACKS: "tools' callbacks",
    _CONTEXT_STORAGE: "storage of contexts",
    _CONTEXT_CHECKS: "checks of contexts",
    _PROFILING: "profilers' functions",
}


class ExportTables:
    """Entry point cuGetExportTable. ``guard`` makes a method a function that C can call, as the driver does with its
    own."""

    def __init__(self, contexts: Contexts, modules: Modules):
        self._contexts, self._modules = contexts, modules
        self.guard: Callable[[str, Callable], Callable[..., int]] = lambda name, method: method
        #: says to the user why a library was refused, which the library itself will not
        self.tell: Callable[[str], None] = lambda sentence: None
        self._tables: dict[bytes, ctypes.Array] = {}
        self._kept: list[object] = []
        self._values: dict[tuple[int, int], int] = {}
        self._rooms = (c_uint64 * 512)(), (c_uint64 * 7)()

    @entry("cuGetExportTable", arguments=(WORD_OUT, HOST))
    def table(self, out, number_at: int) -> None:
        if not number_at:
            raise DriverError(INVALID_VALUE, "the number of the export table is null")
        number = ctypes.string_at(number_at, 16)
        if number == _PROOF:
            self._refuse(out, f"has NVIDIA's CUDA runtime linked into it, which {_WANTS_PROOF}")
        if number not in _NAMES:
            what = "calls functions of the driver that NVIDIA has not documented and gpusim run has not"
            self._refuse(out, f"{what} (export table {number.hex()})", told=number not in _OPTIONAL)
        if number not in self._tables:
            self._tables[number] = self._make(number)
        put(out, ctypes.addressof(self._tables[number]))

    def _refuse(self, out, reason: str, told: bool = True) -> NoReturn:
        """Say why the calling library does not get a table, and what to do instead: the library itself will not."""
        library = calling_library()
        remedy = next((remedy for start, remedy in _REMEDIES.items() if library.startswith(start)), _REMEDY)
        sentence = f"{library or 'this program'} {reason}: {remedy}"
        put(out, 0)
        if told:
            self.tell(sentence)
        raise DriverError(NOT_SUPPORTED, sentence)

    def _make(self, number: bytes) -> ctypes.Array:
        if number == _PROFILING:
            return _sized(1, {})
        if number == _TOOLS_STORAGE:
            return _sized(4, {})
        if number == _TOOLS_CALLBACKS:
            rooms = [
                self._function(f"room {i}", lambda p, n, i=i: self._room(p, n, i), WORD_OUT, WORD_OUT) for i in (0, 1)
            ]
            return _sized(7, {2: rooms[0], 6: rooms[1]})
        if number == _CONTEXT_CHECKS:
            check = self._function("check a context", self._check, WORD, POINTER(c_int), WORD_OUT)
            return _sized(4, {2: check, 3: self._function("nothing", lambda: None)})
        if number == _CONTEXT_STORAGE:  # the one table that does not begin with its size
            functions = (
                self._function("keep a value", self._put, WORD, WORD, WORD, HOST),
                self._function("drop a value", self._delete, WORD, WORD),
                self._function("a value", self._get, WORD_OUT, WORD, WORD),
                0,
            )
            return (c_uint64 * 4)(*functions)
        load = self._function("load a module", self._load, WORD_OUT, HOST)
        load_more = self._function("load a module", self._load, WORD_OUT, HOST, WORD, WORD, WORD)
        load_fat = self._function("load a fat binary", self._load_fat, HOST, WORD_OUT, WORD, WORD, WORD)
        context = self._function("the primary context", self._context, WORD_OUT, c_int)
        nothing = self._function("nothing", lambda: None)
        return _sized(13, {1: load, 2: context, 6: load_more, 7: nothing, 8: load_fat, 12: nothing})

    def _function(self, name: str, method: Callable, *arguments: type) -> int:
        function = ctypes.CFUNCTYPE(c_int, *arguments)(self.guard(f"export table: {name}", method))
        self._kept.append(function)
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def _check(self, context: int, out, other) -> None:
        put(out, 0)  # no context here stands for another one

    def _room(self, out, size_out, which: int) -> None:
        put(out, ctypes.addressof(self._rooms[which]))
        put(size_out, ctypes.sizeof(self._rooms[which]))

    def _context(self, out, number: int) -> None:
        put(out, self._contexts.primary_handle(number))

    def _load(self, out, wrapper: int, *_unknown: int) -> None:
        self._modules.load_module(out, wrapper)

    def _load_fat(self, image: int, out, *_unknown: int) -> None:
        self._modules.load_module(out, image)

    # ---- values that the runtime keeps with a context -------------------------------------------

    def _put(self, context: int, key: int, value: int, destroy: int) -> None:
        self._values[context or self._contexts.current(), key] = value

    def _delete(self, context: int, key: int) -> None:
        self._values.pop((context or self._contexts.current(), key), None)

    def _get(self, out, context: int, key: int) -> None:
        value = self._values.get((context or self._contexts.current(), key))
        if value is None:
            raise DriverError(INVALID_VALUE)
        put(out, value)


def _sized(count: int, functions: dict[int, int]) -> ctypes.Array:
    """A table of ``count`` words, of which the first one is its size in bytes."""
    return (c_uint64 * count)(8 * count, *(functions.get(i, 0) for i in range(1, count)))
