"""What the runtime keeps for a process and for each of its threads, and how it calls the driver.

Mental model: the runtime is a layer over the driver: it makes the primary context of a thread's device current when the
thread first needs one, calls driver functions by their names, and remembers the last error of each thread. Errors of a
launch that failed on the device stay until the device is reset, as on a GPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from gpusim.cudart.errors import INVALID_VALUE, NOT_SUPPORTED, SUCCESS
from gpusim.driver.abi import DriverError
from gpusim.driver.driver import Driver
from gpusim.driver.thread_data import ThreadData
from gpusim.driver.versions import runtime_version

#: Arguments of a launch between ``<<<...>>>`` and the function that it calls: grid, block, shared bytes, stream.
Configuration = tuple[tuple[int, int, int], tuple[int, int, int], int, int]


class _Thread(ThreadData):
    """``error``: the last one; ``ready``: a context is current; ``device``: that was chosen, and is not current yet."""

    error = SUCCESS
    ready = False
    device = 0

    def __init__(self) -> None:
        super().__init__()
        self.configurations: list[Configuration] = []


class State:
    """One process' runtime over ``driver``. ``major``: of the CUDA version whose structures the program has, 12 or
    13."""

    def __init__(self, driver: Driver, major: int):
        self.driver, self.major = driver, major
        self.thread = _Thread()
        self.flags: dict[int, int] = {}
        self._retained: dict[int, int] = {}

    @property
    def version(self) -> int:
        """As cudaRuntimeGetVersion tells it."""
        return runtime_version(self.major)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a driver function; raises DriverError for what it returns. A failed launch's error comes before any
        other."""
        self.ready()
        failure = self.driver.launches.failure
        if failure is not None:
            raise DriverError(failure.code, str(failure.error))
        self.check(self.function(name)(*arguments))

    def function(self, name: str) -> Callable[..., int]:
        """A driver function by the name of one of its symbols; raises DriverError if there is none."""
        function = self.driver.calls.get(name)
        if function is None:
            raise DriverError(NOT_SUPPORTED, f"the emulated driver has no {name}")
        return function

    def check(self, code: int) -> None:
        """Raise DriverError for a code that says so; what it means stands in the driver's notes already."""
        if code != SUCCESS:
            raise DriverError(code)

    def ready(self) -> None:
        """Make the primary context current, if none is."""
        if self.thread.ready:
            return
        calls = self.driver.calls
        current = (ctypes.c_uint64 * 1)()
        self.check(calls["cuInit"](0))
        self.check(calls["cuCtxGetCurrent"](current))
        if not current[0]:
            self._make_current(self.thread.device)
        self.thread.ready = True

    def choose(self, device: int) -> None:
        """Make the primary context of a device current; raises DriverError if there is no such device."""
        self.check(self.driver.calls["cuInit"](0))
        self._make_current(device)
        self.thread.device, self.thread.ready = device, True

    def _make_current(self, device: int) -> None:
        calls, context = self.driver.calls, (ctypes.c_uint64 * 1)()
        if device in self._retained:
            context[0] = self._retained[device]
        else:
            self.check(calls["cuDevicePrimaryCtxRetain"](context, device))
            self._retained[device] = context[0]
        self.check(calls["cuCtxSetCurrent"](context[0]))

    def device(self) -> int:
        """The calling thread's device."""
        return self.driver.contexts.here() if self.thread.ready else self.thread.device

    def word(self, name: str, *arguments: Any) -> int:
        """The 64-bit result that a driver function writes through its first argument."""
        out = (ctypes.c_uint64 * 1)()
        self.call(name, out, *arguments)
        return out[0]

    def number(self, name: str, *arguments: Any) -> int:
        """The same, an int."""
        out = (ctypes.c_int * 1)()
        self.call(name, out, *arguments)
        return out[0]


def write_word(address: int, value: int) -> None:
    """Write 8 bytes to the program's memory; raises DriverError for a null pointer."""
    if not address:
        raise DriverError(INVALID_VALUE, "a pointer for a result is null")
    ctypes.c_uint64.from_address(address).value = value


def write_number(address: int, value: int) -> None:
    """The same, an int of 4 bytes."""
    if not address:
        raise DriverError(INVALID_VALUE, "a pointer for a result is null")
    ctypes.c_int.from_address(address).value = value
