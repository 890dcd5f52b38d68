"""Devices and contexts as the driver API has them.

Mental model: each device has a primary context; each thread has a stack of current contexts, the last of which says on
which device its calls work. A context that a program makes for itself has flags, limits and peers of its own and is
else a name for its device's memory and modules, since nothing here could tell two of them apart.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, c_int, c_size_t, c_uint
from dataclasses import dataclass, field
from functools import cached_property

from gpusim.driver.abi import (
    INT_OUT,
    INVALID_CONTEXT,
    INVALID_DEVICE,
    INVALID_VALUE,
    NO_DEVICE,
    NOT_SUPPORTED,
    UINT_OUT,
    UNSUPPORTED_EXEC_AFFINITY,
    UNSUPPORTED_LIMIT,
    WORD,
    WORD_OUT,
    DriverError,
    Handles,
    entry,
    put,
)
from gpusim.driver.device import Device
from gpusim.driver.thread_data import ThreadData
from gpusim.driver.versions import driver_version
from gpusim.driver.visible_devices import setting, visible

PRIMARY, _MADE = 0xC0_0000, 0xC0_1000  # handles of primary contexts, one a device, and of others
_HANDLE_STEP = 0x10
LEAST_PRIORITY, GREATEST_PRIORITY = 0, -5  # of streams, on every GPU since compute capability 7.0
# CUlimit
(_STACK, _PRINT, _HEAP, _SYNC_DEPTH, _PENDING_LAUNCHES, _L2_FETCH, _PERSISTING_L2) = range(7)
_KNOWN_LIMITS = 11
#: In bytes (launches for _PENDING_LAUNCHES): defaults of the CUDA Programming Guide.
LIMITS = {_STACK: 1024, _PRINT: 1 << 20, _HEAP: 8 << 20, _PENDING_LAUNCHES: 2048, _L2_FETCH: 64, _PERSISTING_L2: 0}
_MOST_L2_FETCH = 128
_MOST_STACK = 512 << 10  # local memory a thread (CUDA Programming Guide, "Technical Specifications")
_SCHEDULING, _CONTEXT_FLAGS = 0x7, 0xFF  # CU_CTX_SCHED_MASK, CU_CTX_FLAGS_MASK
_SCHEDULES = (0, 1, 2, 4)
_CACHE_CONFIGS, _BANK_CONFIGS = range(4), range(3)
_PERSISTING_ATTRIBUTE = 108


@dataclass(eq=False)
class Context:
    """``flags`` of CUctx_flags, ``limits`` by CUlimit, CUfunc_cache and CUsharedconfig that were set last. It is of
    ``device``, and its kernels reach the memory of the contexts ``peers`` (:mod:`gpusim.driver.peers`)."""

    number: int
    device: int = 0
    flags: int = 0
    peers: list[Context] = field(default_factory=list)
    limits: dict[int, int] = field(default_factory=lambda: dict(LIMITS))
    cache_config: int = 0
    bank_config: int = 1
    references: int = 1


class _Thread(ThreadData):
    """``stack``: handles of the contexts that were made current, the current one last."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[int] = []


class Contexts:
    """Entry points cuInit, cuDevice* and cuCtx*; ``on_reset`` frees what the primary context of a device holds.
    ``node``: the first of the node's devices."""

    def __init__(self, node: Device, on_reset: Callable[[int], None]):
        self._node, self._on_reset = node, on_reset
        #: what CUDA_VISIBLE_DEVICES is set to, read once
        self.setting: Callable[[], str | None] = setting
        self._threads = _Thread()
        self._made = Handles(_MADE)
        self._primary: dict[int, Context] = {}
        self._numbers = 0
        self._retained: dict[int, int] = {}
        self._initialized = False
        self._waiting: list[Callable[[], None]] = []

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """Those that this process finds, by the number that it knows them by; read from the environment when the first
        is asked for."""
        return visible(self._node.all(), self.setting())

    @property
    def count(self) -> int:
        """How many devices this process finds."""
        return len(self.devices)

    @cached_property
    def _attributes(self) -> tuple[dict[int, int], ...]:
        return tuple(device.attributes() for device in self.devices)

    def device(self, number: int) -> Device:
        """The device of that number; raises DriverError if there is none."""
        if not 0 <= number < len(self.devices):
            count = len(self.devices)
            there = "there is one device, number 0" if count == 1 else f"there are {count} devices, numbered from 0"
            raise DriverError(INVALID_DEVICE, f"{there}; {number} was asked for")
        return self.devices[number]

    def attributes_of(self, number: int) -> dict[int, int]:
        """``CUdevice_attribute`` number -> value of a device; raises DriverError if there is none."""
        self.device(number)
        return self._attributes[number]

    def here(self) -> int:
        """The device of the calling thread's current context, 0 if it has none."""
        current = self.current()
        if PRIMARY <= current < _MADE:
            return (current - PRIMARY) // _HANDLE_STEP
        made = self._made.find(current)
        return made.device if made is not None else 0

    def primary(self, number: int) -> Context:
        """The primary context of a device."""
        if number not in self._primary:
            self._numbers += 1
            self._primary[number] = Context(self._numbers, number)
        return self._primary[number]

    def primary_handle(self, number: int) -> int:
        """That context's handle; raises DriverError if there is no such device."""
        self.device(number)
        return PRIMARY + _HANDLE_STEP * number

    def all(self) -> list[Context]:
        """Every context that there is."""
        return [*self._primary.values(), *self._made.all()]

    def when_initialized(self, action: Callable[[], None]) -> None:
        """Have ``action`` called once the program has initialised the driver, at once if it has."""
        self._waiting.append(action)
        if self._initialized:
            self._waiting.pop()()

    def _stack(self) -> list[int]:
        return self._threads.stack

    def current(self) -> int:
        """The calling thread's current context, 0 if it has none."""
        stack = self._stack()
        return stack[-1] if stack else 0

    def find(self, context: int) -> Context:
        """The context of a handle, the current one for 0; raises DriverError."""
        context = context or self.need()
        if PRIMARY <= context < _MADE and context % _HANDLE_STEP == 0:
            number = (context - PRIMARY) // _HANDLE_STEP
            if number < len(self.devices):
                return self.primary(number)
        try:
            return self._made.get(context)
        except DriverError as error:
            raise DriverError(INVALID_CONTEXT, error.detail) from None

    def _here(self) -> Context:
        return self.find(0)

    @entry("cuInit", arguments=(c_uint,))
    def initialize(self, flags: int) -> None:
        if not self.devices:
            raise DriverError(
                NO_DEVICE, f"CUDA_VISIBLE_DEVICES={self.setting() or ''} leaves none of {self._node.count} devices"
            )
        self._initialized = True
        while self._waiting:
            self._waiting.pop()()

    @entry("cuDriverGetVersion", arguments=(INT_OUT,))
    def driver_version(self, out) -> None:
        put(out, driver_version())

    @entry("cuDeviceGetCount", arguments=(INT_OUT,))
    def tell_count(self, out) -> None:
        put(out, self.count)

    @entry("cuDeviceGet", arguments=(INT_OUT, c_int))
    def get(self, out, number: int) -> None:
        self.device(number)
        put(out, number)

    @entry("cuDeviceGetName", arguments=(WORD, c_int, c_int))
    def name(self, out: int, size: int, number: int) -> None:
        data = self.device(number).name.encode()[: size - 1] + b"\0"
        ctypes.memmove(out, data, len(data))

    @entry("cuDeviceGetUuid", arguments=(WORD, c_int))
    def uuid(self, out: int, number: int) -> None:
        ctypes.memmove(out, self.device(number).uuid, 16)

    @entry("cuDeviceTotalMem", arguments=(WORD_OUT, c_int))
    def total_memory(self, out, number: int) -> None:
        put(out, self.device(number).spec.dram.total_bytes)

    @entry("cuDeviceGetAttribute", arguments=(INT_OUT, c_int, c_int))
    def attribute(self, out, attribute: int, number: int) -> None:
        known = self.attributes_of(number)
        if attribute not in known:
            raise DriverError(INVALID_VALUE, f"device attribute {attribute} is not known")
        put(out, known[attribute])

    @entry("cuDeviceComputeCapability", arguments=(INT_OUT, INT_OUT, c_int))
    def capability(self, major, minor, number: int) -> None:
        capability = self.device(number).spec.capability
        put(major, capability[0])
        put(minor, capability[1])

    @entry("cuDeviceGetPCIBusId", arguments=(WORD, c_int, c_int))
    def pci_bus_id(self, out: int, size: int, number: int) -> None:
        data = self.device(number).pci_bus_id[: size - 1] + b"\0"
        ctypes.memmove(out, data, len(data))

    @entry("cuDeviceGetByPCIBusId", arguments=(INT_OUT, ctypes.c_char_p))
    def by_pci_bus_id(self, out, text: bytes) -> None:
        found = [number for number, device in enumerate(self.devices) if device.pci_bus_id == text]
        if not found:
            raise DriverError(INVALID_DEVICE, f"no device at {text!r}")
        put(out, found[0])

    @entry("cuDevicePrimaryCtxRetain", arguments=(WORD_OUT, c_int))
    def retain(self, out, number: int) -> None:
        put(out, self.primary_handle(number))
        self._retained[number] = self._retained.get(number, 0) + 1

    @entry("cuDevicePrimaryCtxRelease", arguments=(c_int,))
    def release(self, number: int) -> None:
        self.device(number)
        # Numba releases it after each reset although cuda.core, which retains it once, holds on to it.
        self._retained[number] = max(0, self._retained.get(number, 0) - 1)

    @entry("cuDevicePrimaryCtxReset", arguments=(c_int,))
    def reset(self, number: int) -> None:
        self.device(number)
        gone = self._primary.pop(number, None)
        for context in self.all():
            context.peers = [peer for peer in context.peers if peer is not gone]
        self._on_reset(number)

    @entry("cuDevicePrimaryCtxGetState", arguments=(c_int, UINT_OUT, INT_OUT))
    def state(self, number: int, flags, active) -> None:
        self.device(number)
        put(flags, self.primary(number).flags)
        put(active, int(self._retained.get(number, 0) > 0))

    @entry("cuDevicePrimaryCtxSetFlags", arguments=(c_int, c_uint))
    def set_primary_flags(self, number: int, flags: int) -> None:
        self.device(number)
        self.primary(number).flags = _flags(flags)

    # ---- which one is current -------------------------------------------------------------------

    @entry("cuCtxGetCurrent", arguments=(WORD_OUT,))
    def get_current(self, out) -> None:
        put(out, self.current())

    @entry("cuCtxSetCurrent", arguments=(WORD,))
    def set_current(self, context: int) -> None:
        if context:
            self.find(context)
        stack = self._stack()
        if stack:
            stack.pop()
        if context:
            stack.append(context)

    @entry("cuCtxPushCurrent", arguments=(WORD,))
    def push(self, context: int) -> None:
        if not context:
            raise DriverError(INVALID_CONTEXT, "the context is null")
        self.find(context)
        self._stack().append(context)

    @entry("cuCtxPopCurrent", arguments=(WORD_OUT,))
    def pop(self, out) -> None:
        if not self._stack():
            raise DriverError(INVALID_CONTEXT, "no context is current in this thread")
        popped = self._stack().pop()
        if out:
            out[0] = popped

    def need(self) -> int:
        """The current context; raises DriverError if there is none."""
        if not self.current():
            raise DriverError(INVALID_CONTEXT, "no context is current in this thread")
        return self.current()

    # ---- making and breaking --------------------------------------------------------------------

    @entry("cuCtxCreate", arguments=(WORD_OUT, c_uint, c_int))
    def create(self, out, flags: int, number: int) -> None:
        self.device(number)
        self._numbers += 1
        handle = self._made.new(Context(self._numbers, number, _flags(flags)))
        self._stack().append(handle)
        put(out, handle)

    @entry("cuCtxCreate", arguments=(WORD_OUT, WORD, c_int, c_uint, c_int), since=11040)
    def create_with_affinity(self, out, parameters: int, count: int, flags: int, number: int) -> None:
        if parameters and count:
            raise DriverError(
                UNSUPPORTED_EXEC_AFFINITY, "a part of the SMs for a context needs MPS, which is not emulated"
            )
        self.create(out, flags, number)

    @entry("cuCtxCreate", arguments=(WORD_OUT, WORD, c_uint, c_int), since=12050)
    def create_with_parameters(self, out, parameters: int, flags: int, number: int) -> None:
        if parameters and any((ctypes.c_uint64 * 3).from_address(parameters)):
            raise DriverError(NOT_SUPPORTED, "contexts for a part of the SMs or for graphics are not emulated")
        self.create(out, flags, number)

    @entry("cuCtxDestroy", "cuCtxDetach", arguments=(WORD,))
    def destroy(self, context: int) -> None:
        made = self.find(context)
        if made in self._primary.values() or not context:
            raise DriverError(INVALID_CONTEXT, "the primary context is released, not destroyed")
        self._made.remove(context)
        for other in self.all():
            other.peers = [peer for peer in other.peers if peer is not made]
        stack = self._stack()
        if stack and stack[-1] == context:
            stack.pop()

    @entry("cuCtxAttach", arguments=(WORD_OUT, c_uint))
    def attach(self, out, flags: int) -> None:
        if flags:
            raise DriverError(INVALID_VALUE, "flags must be 0")
        put(out, self.need())

    # ---- facts ----------------------------------------------------------------------------------

    @entry("cuCtxGetDevice", arguments=(INT_OUT,))
    def context_device(self, out) -> None:
        put(out, self._here().device)

    @entry("cuCtxGetDevice", arguments=(INT_OUT, WORD), since=13000)
    @entry("cuCtxGetDevice_v2", arguments=(INT_OUT, WORD))
    def device_of(self, out, context: int) -> None:
        put(out, self.find(context).device)

    @entry("cuCtxGetFlags", arguments=(UINT_OUT,))
    def flags(self, out) -> None:
        put(out, self._here().flags)

    @entry("cuCtxSetFlags", arguments=(c_uint,))
    def set_flags(self, flags: int) -> None:
        self._here().flags = _flags(flags)

    @entry("cuCtxGetId", arguments=(WORD, WORD_OUT))
    def identity(self, context: int, out) -> None:
        put(out, self.find(context).number)

    @entry("cuCtxGetApiVersion", arguments=(WORD, UINT_OUT))
    def api_version(self, context: int, out) -> None:
        self.find(context)
        put(out, _API_VERSION)

    @entry("cuCtxGetLimit", arguments=(WORD_OUT, c_int))
    def get_limit(self, out, limit: int) -> None:
        put(out, self._limits(limit)[limit])

    @entry("cuCtxSetLimit", arguments=(c_int, c_size_t))
    def set_limit(self, limit: int, value: int) -> None:
        limits = self._limits(limit)
        if limit == _PERSISTING_L2:
            value = min(value, self._attributes[self.here()][_PERSISTING_ATTRIBUTE])
        if (limit == _L2_FETCH and value > _MOST_L2_FETCH) or (limit == _STACK and value > _MOST_STACK):
            raise DriverError(INVALID_VALUE, f"limit {limit} cannot be {value}")
        limits[limit] = value

    def _limits(self, limit: int) -> dict[int, int]:
        limits = self._here().limits
        if limit not in limits or (
            limit == _PERSISTING_L2 and not self._attributes[self.here()][_PERSISTING_ATTRIBUTE]
        ):
            known = 0 <= limit < _KNOWN_LIMITS
            raise DriverError(UNSUPPORTED_LIMIT if known else INVALID_VALUE, f"this device has no limit {limit}")
        return limits

    def stack_bytes(self) -> int:
        """Limit of a thread's stack where the compiler sets none (CU_LIMIT_STACK_SIZE)."""
        return self._here().limits[_STACK]

    def print_bytes(self) -> int:
        """Size of the buffer that kernels print to (CU_LIMIT_PRINTF_FIFO_SIZE)."""
        return self._here().limits[_PRINT]

    def heap_bytes(self) -> int:
        """Size of the heap that kernels allocate from (CU_LIMIT_MALLOC_HEAP_SIZE)."""
        return self._here().limits[_HEAP]

    @entry("cuCtxResetPersistingL2Cache")
    def reset_persisting(self) -> None:
        self.need()

    @entry("cuCtxGetStreamPriorityRange", arguments=(INT_OUT, INT_OUT))
    def priorities(self, least, greatest) -> None:
        self.need()
        for out, value in ((least, LEAST_PRIORITY), (greatest, GREATEST_PRIORITY)):
            if out:
                out[0] = value

    @entry("cuCtxGetCacheConfig", arguments=(INT_OUT,))
    def get_cache_config(self, out) -> None:
        put(out, self._here().cache_config)

    @entry("cuCtxSetCacheConfig", arguments=(c_int,))
    def set_cache_config(self, config: int) -> None:
        if config not in _CACHE_CONFIGS:
            raise DriverError(INVALID_VALUE, f"cache configuration {config} is none of 0 to 3")
        self._here().cache_config = config

    @entry("cuCtxGetSharedMemConfig", arguments=(INT_OUT,))
    def get_bank_config(self, out) -> None:
        put(out, self._here().bank_config)

    @entry("cuCtxSetSharedMemConfig", arguments=(c_int,))
    def set_bank_config(self, config: int) -> None:
        if config not in _BANK_CONFIGS:
            raise DriverError(INVALID_VALUE, f"shared memory configuration {config} is none of 0 to 2")
        self._here()  # banks are four bytes wide on every GPU since compute capability 5.0

    @entry("cuCtxGetExecAffinity", arguments=(POINTER(c_int * 2), c_int))
    def affinity(self, out, kind: int) -> None:
        self.need()
        if kind != 0:
            raise DriverError(UNSUPPORTED_EXEC_AFFINITY, f"execution affinity {kind} is not known")
        put(out, (c_int * 2)(kind, self.device(self.here()).spec.sm_count))


_API_VERSION = 3020  # of the contexts that cuCtxCreate_v2 and its successors make


def _flags(flags: int) -> int:
    """Checked CUctx_flags; raises DriverError."""
    if flags & ~_CONTEXT_FLAGS or flags & _SCHEDULING not in _SCHEDULES:
        raise DriverError(INVALID_VALUE, f"a context has no flags 0x{flags:x}")
    return flags
