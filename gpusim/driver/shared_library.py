"""A library of :mod:`gpusim.driver.elf_library`, open in this process, whose functions are Python's.

Mental model: the dynamic loader knows an opened library by its SONAME, so once this one is open, later requests for
``libcuda.so.1`` in this process find it, wherever they come from. Each function is one jump through a slot; filling the
slot with a callback's address makes the function Python's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusim.driver.elf_library import CLOSED, FORKED, FORKED_TABLE, TABLE
from gpusim.errors import ToolchainError

#: What CLOSED returns: CUDA_SUCCESS, since only destructors call while a process is being torn down.
CLOSED_RESULT = 0


@dataclass(frozen=True)
class SlotLibrary:
    """An open library: ``slots``, the number of each function in ``table``, which has their addresses; ``closed`` the
    address of a function that only returns CLOSED_RESULT. ``constant``: functions that the library answers itself, from
    first to last."""

    slots: dict[str, int]
    table: ctypes.Array
    forked_table: ctypes.Array
    closed: int
    handle: ctypes.CDLL
    path: Path
    constant: frozenset[str] = frozenset()
    _callbacks: dict[str, Any] = field(default_factory=dict, repr=False)
    _replaced: dict[str, int] = field(default_factory=dict, repr=False)

    def fill(self, name: str, callback: Any) -> None:
        """From now on ``name`` is ``callback``, a ctypes function; does nothing for a name that the library has not."""
        slot = self.slots.get(name)
        if slot is not None and name not in self.constant:
            self._callbacks[name] = callback
            self.table[slot] = ctypes.cast(callback, ctypes.c_void_p).value

    def replace(self, name: str, callback: Any) -> None:
        """Until :meth:`close`, ``callback`` answers instead of the library itself."""
        slot = self.slots.get(name)
        if slot is not None:
            self._callbacks[name] = callback
            self._replaced.setdefault(name, self.table[slot])
            self.table[slot] = ctypes.cast(callback, ctypes.c_void_p).value

    def close(self) -> None:
        """From now on every function but the constant ones returns CLOSED_RESULT without entering Python."""
        for name, address in self._replaced.items():
            self.table[self.slots[name]] = address
        for table in (self.table, self.forked_table):
            for name, slot in self.slots.items():
                if name not in self.constant:
                    table[slot] = self.closed

    def refuse_after_fork(self) -> None:
        """In processes that this one forks from now on, every function returns CUDA_ERROR_NOT_INITIALIZED."""
        libc = ctypes.CDLL(None)
        handler = ctypes.cast(getattr(self.handle, FORKED), ctypes.c_void_p)
        getattr(libc, "__register_atfork")(None, None, handler, None)

    def address_of(self, name: str) -> int:
        """The address at which C code calls ``name``."""
        return ctypes.cast(getattr(self.handle, name), ctypes.c_void_p).value


def open_library(path: Path, names: Sequence[str], constant: Iterable[str] = ()) -> SlotLibrary:
    """Open the library for the whole process; ``names`` are its functions, ``constant`` those that it answers itself.
    Raises ToolchainError."""
    try:
        handle = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise ToolchainError(
            f"the driver library cannot be opened ({error}): is {path.parent} mounted noexec?"
        ) from None
    table = (ctypes.c_uint64 * len(names)).in_dll(handle, TABLE)
    forked = (ctypes.c_uint64 * len(names)).in_dll(handle, FORKED_TABLE)
    closed = ctypes.cast(getattr(handle, CLOSED), ctypes.c_void_p).value
    slots = {name: i for i, name in enumerate(names)}
    return SlotLibrary(slots, table, forked, closed, handle, path, frozenset(constant))
