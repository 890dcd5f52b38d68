"""Devices, errors, versions and pointers, as the runtime tells them.

Mental model: each thread has a device, number 0 from the start, until it chooses another. Errors are remembered for
each thread until they are asked for; that of a launch which failed on the device is there for every thread until the
device is reset.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int, c_size_t, c_uint

from gpusim.cudart.errors import ERRORS, INVALID_DEVICE, NO_DEVICE, SUCCESS, UNRECOGNIZED
from gpusim.cudart.properties import Properties12, Properties13, fill
from gpusim.cudart.registration import Registration
from gpusim.cudart.state import State
from gpusim.driver.abi import HOST, INT_OUT, UINT_OUT, WORD, WORD_OUT, DriverError, entry, put
from gpusim.driver.memory import DEVICE, HOST_PAGES, MANAGED, REGISTERED

#: cudaMemoryType
_UNREGISTERED, _HOST, _DEVICE, _MANAGED = range(4)
_TYPES = {DEVICE: _DEVICE, HOST_PAGES: _HOST, REGISTERED: _HOST, MANAGED: _MANAGED}


class PointerAttributes(ctypes.Structure):
    """cudaPointerAttributes of driver_types.h; CUDA 13 adds reserved words behind."""

    _fields_ = [("type", c_int), ("device", c_int), ("device_pointer", WORD), ("host_pointer", WORD)]


class Devices:
    """Entry points cudaGetDeviceCount and -Properties, cudaSetDevice*, cudaGetLastError and their like."""

    def __init__(self, state: State, code: Registration):
        self._state, self._code = state, code

    def _device(self, number: int) -> None:
        """Raise DriverError if there is no device of that number."""
        self._state.driver.contexts.device(number)

    # ---- devices -----------------------------------------------------------------------------

    @entry("cudaGetDeviceCount", arguments=(INT_OUT,))
    def count(self, out) -> None:
        count = self._state.driver.contexts.count
        put(out, count)
        if not count:
            raise DriverError(NO_DEVICE, "CUDA_VISIBLE_DEVICES leaves no device")

    @entry("cudaGetDevice", arguments=(INT_OUT,))
    def get(self, out) -> None:
        put(out, self._state.device())

    @entry("cudaSetDevice", arguments=(c_int,))
    def set(self, number: int) -> None:
        self._device(number)
        self._state.choose(number)

    @entry("cudaInitDevice", arguments=(c_int, c_uint, c_uint))
    def initialise(self, number: int, flags: int, valid: int) -> None:
        before = self._state.device()
        self.set(number)
        self._state.choose(before)  # it is initialised, and not chosen

    @entry("cudaSetValidDevices", arguments=(HOST, c_int))
    def set_valid(self, numbers: int, count: int) -> None:
        for i in range(count):
            self._device(c_int.from_address(numbers + 4 * i).value)

    @entry("cudaChooseDevice", arguments=(INT_OUT, HOST))
    def choose(self, out, properties: int) -> None:
        put(out, 0)

    @entry("cudaSetDeviceFlags", arguments=(c_uint,))
    def set_flags(self, flags: int) -> None:
        self._state.flags[self._state.device()] = flags

    @entry("cudaGetDeviceFlags", arguments=(UINT_OUT,))
    def get_flags(self, out) -> None:
        put(out, self._state.flags.get(self._state.device(), 0))

    @entry("cudaDeviceReset", "cudaThreadExit")
    def reset(self) -> None:
        self._state.ready()
        self._code.reset(self._state.device())
        self._state.check(self._state.function("cuDevicePrimaryCtxReset")(self._state.device()))

    @entry("cudaDeviceSetSharedMemConfig", arguments=(c_int,))
    def set_shared_config(self, config: int) -> None:
        pass

    @entry("cudaGetDeviceProperties", "cudaGetDeviceProperties_v2", arguments=(HOST, c_int))
    def properties(self, out: int, number: int) -> None:
        self._device(number)
        kind = Properties12 if self._state.major == 12 else Properties13
        device = self._state.driver.contexts.device(number)
        found = kind.from_address(out)
        fill(found, device.attributes(), device.name, device.uuid, device.spec.dram.total_bytes)

    @entry("cudaDeviceEnablePeerAccess", arguments=(c_int, c_uint))
    def enable_peer(self, number: int, flags: int) -> None:
        self._state.call("cuCtxEnablePeerAccess", self._peer(number), flags)

    @entry("cudaDeviceDisablePeerAccess", arguments=(c_int,))
    def disable_peer(self, number: int) -> None:
        self._state.call("cuCtxDisablePeerAccess", self._peer(number))

    def _peer(self, number: int) -> int:
        """The primary context of another device; raises DriverError."""
        self._device(number)
        if number == self._state.device():
            raise DriverError(INVALID_DEVICE, f"device {number} is no peer of itself")
        return self._state.driver.contexts.primary_handle(number)

    # ---- versions and errors -----------------------------------------------------------------

    @entry("cudaDriverGetVersion", arguments=(INT_OUT,))
    def driver_version(self, out) -> None:
        self._state.check(self._state.function("cuDriverGetVersion")(out))

    @entry("cudaGetLastError")
    def last_error(self) -> int:
        error, self._state.thread.error = self._error(), SUCCESS
        return error

    @entry("cudaPeekAtLastError")
    def peek_error(self) -> int:
        return self._error()

    def _error(self) -> int:
        failure = self._state.driver.launches.failure
        return self._state.thread.error if failure is None else failure.code

    @entry("cudaGetErrorName", arguments=(c_int,))
    def error_name(self, number: int) -> int:
        return self._text(number, 0)

    @entry("cudaGetErrorString", arguments=(c_int,))
    def error_string(self, number: int) -> int:
        return self._text(number, 1)

    def _text(self, number: int, which: int) -> int:
        text = ERRORS[number][which] if number in ERRORS else UNRECOGNIZED
        kept = _TEXTS.setdefault(text, ctypes.create_string_buffer(text.encode()))
        return ctypes.addressof(kept)

    # ---- pointers, events, streams -----------------------------------------------------------

    @entry("cudaPointerGetAttributes", arguments=(POINTER(PointerAttributes), WORD))
    def pointer(self, out, address: int) -> None:
        self._state.ready()
        block = self._state.driver.memory.block_of(address)
        if block is None:
            out[0] = PointerAttributes(_UNREGISTERED, -2, 0, address)
            return
        allocation, kind = block.allocation, _TYPES[block.kind]
        inside = address - allocation.base if allocation.base <= address < allocation.end else address - allocation.host
        out[0] = PointerAttributes(
            kind, block.device, allocation.base + inside, 0 if kind == _DEVICE else allocation.host + inside
        )

    @entry("cudaMalloc", arguments=(WORD_OUT, c_size_t))
    def allocate(self, out, size: int) -> None:
        self._allocate("cuMemAlloc", out, size)

    @entry("cudaMallocHost", arguments=(WORD_OUT, c_size_t))
    def allocate_host(self, out, size: int) -> None:
        self._allocate("cuMemAllocHost", out, size)

    @entry("cudaHostAlloc", arguments=(WORD_OUT, c_size_t, c_uint))
    def host_allocate(self, out, size: int, flags: int) -> None:
        self._allocate("cuMemHostAlloc", out, size, flags)

    @entry("cudaMallocAsync", arguments=(WORD_OUT, c_size_t, HOST))
    def allocate_in_order(self, out, size: int, stream: int) -> None:
        self._allocate("cuMemAllocAsync", out, size, stream)

    def _allocate(self, name: str, out, size: int, *rest: int) -> None:
        """Of no bytes the runtime makes a null pointer and no error, where the driver's function fails (seen on GPUs:
        StanfordLegion/legion issue 1001 for cudaMalloc, alpaka-group/alpaka pull request 1868 for pinned memory and
        cudaMallocAsync, PyTorch pull request 68532 for pinned memory). Managed memory of no bytes is an error in both
        (CUDA Runtime API, cudaMallocManaged)."""
        if size:
            self._state.call(name, out, size, *rest)
            return
        self._state.ready()
        out[0] = 0

    @entry("cudaMallocManaged", arguments=(WORD_OUT, c_size_t, c_uint))
    def allocate_managed(self, out, size: int, flags: int) -> None:
        self._state.call("cuMemAllocManaged", out, size, flags)

    @entry("cudaFreeHost", arguments=(HOST,))
    def free_host(self, host: int) -> None:
        if host:
            self._state.call("cuMemFreeHost", host)

    @entry("cudaEventCreate", arguments=(WORD_OUT,))
    def create_event(self, out) -> None:
        self._state.call("cuEventCreate", out, 0)

    @entry("cudaStreamCreate", arguments=(WORD_OUT,))
    def create_stream(self, out) -> None:
        self._state.call("cuStreamCreate", out, 0)

    @entry("cudaGetExportTable", arguments=(HOST, HOST))
    def export_table(self, out: int, identity: int) -> None:
        raise DriverError(INVALID_DEVICE, "undocumented tables of functions are not there")


_TEXTS: dict[str, ctypes.Array] = {}
#: Functions whose result is no error: what they return.
RESULTS = dict.fromkeys(("cudaGetErrorName", "cudaGetErrorString"), ctypes.c_uint64)
