"""The runtime of one process: its parts joined, and its functions put behind ``libcudart.so``.

Mental model: every function of the library is one of a part's entry points, a driver function under another name
(:mod:`gpusim.cudart.same`), or one that says that it is not emulated. What an entry point raises becomes the error that
the caller gets and that the thread remembers.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from ctypes import c_int
from typing import Any

from gpusim.cudart import arrays, devices, registration
from gpusim.cudart.arrays import RuntimeArrays
from gpusim.cudart.box_copies import RuntimeBoxCopies
from gpusim.cudart.copying import Copying
from gpusim.cudart.devices import Devices
from gpusim.cudart.errors import ERRORS, NOT_READY, NOT_SUPPORTED, SUCCESS
from gpusim.cudart.graph_nodes import GraphNodes
from gpusim.cudart.launching import Launching
from gpusim.cudart.registration import Registration
from gpusim.cudart.same import same
from gpusim.cudart.state import State
from gpusim.driver.abi import DriverError, entries_of
from gpusim.driver.driver import Driver
from gpusim.driver.exports import base_name
from gpusim.driver.shared_library import SlotLibrary

#: Names that in CUDA 13 mean what CUDA 12 calls by them with ``_v2`` behind.
_SECOND_IN_13 = ("cudaGraphAddNode",)
_LOG = "cudaLogs"
#: Those that leave the last error as it is.
_SILENT = frozenset({"cudaGetLastError", "cudaPeekAtLastError"})
_RESULTS = {**registration.RESULTS, **devices.RESULTS, **arrays.RESULTS}
#: What some functions answer in a forked process: a text, not a number.
FORKED_TEXTS = {"cudaGetErrorName": ERRORS[3][0], "cudaGetErrorString": ERRORS[3][1]}


class Runtime:
    """The runtime of CUDA ``major`` over ``driver``."""

    def __init__(self, driver: Driver, major: int):
        self._driver = driver
        self.state = State(driver, major)
        self._library: SlotLibrary | None = None
        code = Registration(self.state)
        boxes = RuntimeBoxCopies(self.state)
        self._parts = (
            code, Launching(self.state, code), Copying(self.state, code), Devices(self.state, code), boxes,
            RuntimeArrays(self.state), GraphNodes(self.state, code, boxes),
        )  # fmt: skip

    def fill(self, library: SlotLibrary, names: Sequence[str]) -> None:
        """Put Python behind the library's functions ``names``."""
        self._library = library  # its callbacks live as long as it does
        made: dict[str, Any] = {}
        own = {signature.name: (signature, method) for part in self._parts for signature, method in entries_of(part)}
        if self.state.major > 12:
            own |= {name: own[f"{name}_v2"] for name in _SECOND_IN_13}
        table = same(self.state.major)
        for symbol in names:
            if symbol in library.constant:
                if symbol in own and self._driver.device.count > 1:
                    library.replace(symbol, self._callback(symbol, own, table))
                continue
            name = symbol if symbol in own or symbol in table else base_name(symbol)
            if name not in made:
                made[name] = self._callback(name, own, table)
            library.fill(symbol, made[name])

    def _callback(self, name: str, own: dict[str, tuple], table: dict[str, str]) -> Any:
        if name in own:
            signature, method = own[name]
            result = _RESULTS.get(name, c_int)
            function = self._guarded(name, method) if name not in _RESULTS else method
            return ctypes.CFUNCTYPE(result, *signature.arguments)(function)
        target = table.get(name, "")
        signature = self._driver.signature(target)
        if signature is None:
            return ctypes.CFUNCTYPE(c_int)(self._guarded(name, functools.partial(self._refuse, name)))
        call = self._ask if name.startswith(_LOG) else self.state.call
        return ctypes.CFUNCTYPE(c_int, *signature.arguments)(self._guarded(name, functools.partial(call, target)))

    def _ask(self, target: str, *arguments: Any) -> None:
        """Call a driver function that needs no context, and answers after a launch that failed."""
        self.state.check(self.state.function(target)(*arguments))

    def _guarded(self, name: str, method: Callable[..., int | None]) -> Callable[..., int]:
        thread, silent = self.state.thread, name in _SILENT

        def call(*arguments: Any) -> int:
            try:
                return method(*arguments) or SUCCESS
            except DriverError as error:
                if error.detail:
                    self._driver.note(error.detail)
                if not silent and error.code != NOT_READY:
                    thread.error = error.code
                return error.code

        return call

    def _refuse(self, name: str) -> None:
        detail = f"{name} is not emulated: the call returns cudaErrorNotSupported"
        self._driver.ledger.refusal(detail)
        raise DriverError(NOT_SUPPORTED, detail)
