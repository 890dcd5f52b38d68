"""Devices and contexts as the driver API has them.

Mental model: there is one device and one primary context; each thread has a stack of current contexts. A
context that a program makes for itself is a name for the same memory and modules, since nothing here could
tell two of them apart.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from ctypes import c_int, c_size_t, c_uint

from gpusim.driver.abi import (
    INT_OUT,
    INVALID_CONTEXT,
    INVALID_DEVICE,
    INVALID_VALUE,
    PEER_ACCESS_UNSUPPORTED,
    UINT_OUT,
    WORD,
    WORD_OUT,
    DriverError,
    Handles,
    entry,
    put,
)
from gpusim.driver.device import Device

DRIVER_VERSION = 13000
PRIMARY = 0xC0_0000
PCI_BUS_ID = b"0000:01:00.0"
#: cuCtxGetLimit: stack, printf buffer and heap in bytes (defaults of the CUDA C++ Programming Guide).
LIMITS = {0: 1024, 1: 1 << 20, 2: 8 << 20, 3: 2, 4: 2048, 5: 64, 6: 0}
SCHEDULE_AUTO = 0


class Contexts:
    """Entry points cuInit, cuDevice* and cuCtx*; ``on_reset`` frees what the primary context holds."""

    def __init__(self, device: Device, on_reset: Callable[[], None]):
        self.device, self._on_reset = device, on_reset
        self._attributes = device.attributes()
        self._threads = threading.local()
        self._made = Handles(PRIMARY + 0x10)
        self._retained = 0
        self._limits = dict(LIMITS)
        self._initialized = False
        self._waiting: list[Callable[[], None]] = []

    def when_initialized(self, action: Callable[[], None]) -> None:
        """Have ``action`` called once the program has initialised the driver, at once if it has."""
        self._waiting.append(action)
        if self._initialized:
            self._waiting.pop()()

    def _stack(self) -> list[int]:
        if not hasattr(self._threads, "stack"):
            self._threads.stack = []
        return self._threads.stack

    def current(self) -> int:
        """The calling thread's current context, 0 if it has none."""
        stack = self._stack()
        return stack[-1] if stack else 0

    def _check_device(self, number: int) -> None:
        if number != 0:
            raise DriverError(INVALID_DEVICE, f"there is one device, number 0; {number} was asked for")

    @entry("cuInit", arguments=(c_uint,))
    def initialize(self, flags: int) -> None:
        self._initialized = True
        while self._waiting:
            self._waiting.pop()()

    @entry("cuDriverGetVersion", arguments=(INT_OUT,))
    def driver_version(self, out) -> None:
        put(out, DRIVER_VERSION)

    @entry("cuDeviceGetCount", arguments=(INT_OUT,))
    def count(self, out) -> None:
        put(out, 1)

    @entry("cuDeviceGet", arguments=(INT_OUT, c_int))
    def get(self, out, number: int) -> None:
        self._check_device(number)
        put(out, number)

    @entry("cuDeviceGetName", arguments=(WORD, c_int, c_int))
    def name(self, out: int, size: int, number: int) -> None:
        self._check_device(number)
        data = self.device.name.encode()[: size - 1] + b"\0"
        ctypes.memmove(out, data, len(data))

    @entry("cuDeviceGetUuid", arguments=(WORD, c_int))
    def uuid(self, out: int, number: int) -> None:
        self._check_device(number)
        ctypes.memmove(out, self.device.uuid, 16)

    @entry("cuDeviceTotalMem", arguments=(WORD_OUT, c_int))
    def total_memory(self, out, number: int) -> None:
        self._check_device(number)
        put(out, self.device.spec.dram.total_bytes)

    @entry("cuDeviceGetAttribute", arguments=(INT_OUT, c_int, c_int))
    def attribute(self, out, attribute: int, number: int) -> None:
        self._check_device(number)
        put(out, self._attributes.get(attribute, 0))

    @entry("cuDeviceComputeCapability", arguments=(INT_OUT, INT_OUT, c_int))
    def capability(self, major, minor, number: int) -> None:
        self._check_device(number)
        put(major, self.device.spec.capability[0])
        put(minor, self.device.spec.capability[1])

    @entry("cuDeviceGetPCIBusId", arguments=(WORD, c_int, c_int))
    def pci_bus_id(self, out: int, size: int, number: int) -> None:
        self._check_device(number)
        data = PCI_BUS_ID[: size - 1] + b"\0"
        ctypes.memmove(out, data, len(data))

    @entry("cuDeviceGetByPCIBusId", arguments=(INT_OUT, ctypes.c_char_p))
    def by_pci_bus_id(self, out, text: bytes) -> None:
        if text != PCI_BUS_ID:
            raise DriverError(INVALID_DEVICE, f"no device at {text!r}")
        put(out, 0)

    @entry("cuDeviceCanAccessPeer", arguments=(INT_OUT, c_int, c_int))
    def can_access_peer(self, out, one: int, other: int) -> None:
        self._check_device(one)
        self._check_device(other)
        put(out, 0)

    @entry("cuCtxEnablePeerAccess", "cuCtxDisablePeerAccess", arguments=(WORD, c_uint))
    def peer_access(self, context: int, flags: int) -> None:
        raise DriverError(PEER_ACCESS_UNSUPPORTED, "there is one device and no peer of it")

    @entry("cuDevicePrimaryCtxRetain", arguments=(WORD_OUT, c_int))
    def retain(self, out, number: int) -> None:
        self._check_device(number)
        self._retained += 1
        put(out, PRIMARY)

    @entry("cuDevicePrimaryCtxRelease", arguments=(c_int,))
    def release(self, number: int) -> None:
        self._check_device(number)
        self._retained = max(0, self._retained - 1)

    @entry("cuDevicePrimaryCtxReset", arguments=(c_int,))
    def reset(self, number: int) -> None:
        self._check_device(number)
        self._on_reset()

    @entry("cuDevicePrimaryCtxGetState", arguments=(c_int, UINT_OUT, INT_OUT))
    def state(self, number: int, flags, active) -> None:
        self._check_device(number)
        put(flags, SCHEDULE_AUTO)
        put(active, int(self._retained > 0))

    @entry("cuDevicePrimaryCtxSetFlags", arguments=(c_int, c_uint))
    def set_flags(self, number: int, flags: int) -> None:
        self._check_device(number)

    @entry("cuCtxGetCurrent", arguments=(WORD_OUT,))
    def get_current(self, out) -> None:
        put(out, self.current())

    @entry("cuCtxSetCurrent", arguments=(WORD,))
    def set_current(self, context: int) -> None:
        stack = self._stack()
        if stack:
            stack.pop()
        if context:
            stack.append(self._check(context))

    @entry("cuCtxPushCurrent", arguments=(WORD,))
    def push(self, context: int) -> None:
        self._stack().append(self._check(context))

    @entry("cuCtxPopCurrent", arguments=(WORD_OUT,))
    def pop(self, out) -> None:
        if not self._stack():
            raise DriverError(INVALID_CONTEXT, "no context is current in this thread")
        popped = self._stack().pop()
        if out:
            out[0] = popped

    def _check(self, context: int) -> int:
        if context != PRIMARY:
            self._made.get(context)
        return context

    def need(self) -> int:
        """The current context; raises DriverError if there is none."""
        if not self.current():
            raise DriverError(INVALID_CONTEXT, "no context is current in this thread")
        return self.current()

    @entry("cuCtxCreate", arguments=(WORD_OUT, c_uint, c_int))
    def create(self, out, flags: int, number: int) -> None:
        self._check_device(number)
        handle = self._made.new("context")
        self._stack().append(handle)
        put(out, handle)

    @entry("cuCtxCreate", arguments=(WORD_OUT, WORD, c_int, c_uint, c_int), since=11040)
    def create_with_affinity(self, out, parameters: int, count: int, flags: int, number: int) -> None:
        self.create(out, flags, number)

    @entry("cuCtxCreate", arguments=(WORD_OUT, WORD, c_uint, c_int), since=12050)
    def create_with_parameters(self, out, parameters: int, flags: int, number: int) -> None:
        self.create(out, flags, number)

    @entry("cuCtxDestroy", arguments=(WORD,))
    def destroy(self, context: int) -> None:
        self._made.remove(context)
        stack = self._stack()
        if stack and stack[-1] == context:
            stack.pop()

    @entry("cuCtxGetDevice", arguments=(INT_OUT,))
    def context_device(self, out) -> None:
        self.need()
        put(out, 0)

    @entry("cuCtxGetFlags", arguments=(UINT_OUT,))
    def flags(self, out) -> None:
        self.need()
        put(out, SCHEDULE_AUTO)

    @entry("cuCtxGetId", arguments=(WORD, WORD_OUT))
    def identity(self, context: int, out) -> None:
        put(out, context or self.need())

    @entry("cuCtxGetApiVersion", arguments=(WORD, UINT_OUT))
    def api_version(self, context: int, out) -> None:
        put(out, DRIVER_VERSION)

    @entry("cuCtxGetLimit", arguments=(WORD_OUT, c_int))
    def get_limit(self, out, limit: int) -> None:
        if limit not in self._limits:
            raise DriverError(INVALID_VALUE, f"limit {limit} is not known")
        put(out, self._limits[limit])

    @entry("cuCtxSetLimit", arguments=(c_int, c_size_t))
    def set_limit(self, limit: int, value: int) -> None:
        if limit not in self._limits:
            raise DriverError(INVALID_VALUE, f"limit {limit} is not known")
        self._limits[limit] = value

    def print_bytes(self) -> int:
        """Size of the buffer that kernels print to (CU_LIMIT_PRINTF_FIFO_SIZE)."""
        return self._limits[1]

    def heap_bytes(self) -> int:
        """Size of the heap that kernels allocate from (CU_LIMIT_MALLOC_HEAP_SIZE)."""
        return self._limits[2]

    @entry("cuCtxGetStreamPriorityRange", arguments=(INT_OUT, INT_OUT))
    def priorities(self, least, greatest) -> None:
        put(least, 0)
        put(greatest, -5)

    @entry("cuCtxGetCacheConfig", arguments=(INT_OUT,))
    def get_cache_config(self, out) -> None:
        put(out, 0)

    @entry("cuCtxSetCacheConfig", arguments=(c_int,))
    def set_cache_config(self, config: int) -> None:
        pass
