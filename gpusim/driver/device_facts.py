"""Further facts about the devices: what no other unit needs to know."""

from __future__ import annotations

from ctypes import POINTER, c_int, c_size_t, c_uint

from gpusim.driver.abi import (
    INT_OUT,
    INVALID_VALUE,
    NOT_SUPPORTED,
    UINT_OUT,
    WORD,
    DriverError,
    entry,
    put,
)
from gpusim.driver.arrays import FORMAT_BYTES
from gpusim.driver.contexts import Contexts
from gpusim.driver.device_attributes import LINEAR_TEXTURE_ELEMENTS
from gpusim.driver.structures import DeviceProperties

_LAZY = 2  # CU_MODULE_LAZY_LOADING: code is prepared when it is first asked for


class DeviceFacts:
    """Entry points cuDevice* of properties, and of how modules are loaded."""

    def __init__(self, contexts: Contexts):
        self._contexts = contexts

    @entry("cuDeviceGetProperties", arguments=(POINTER(DeviceProperties), c_int))
    def properties(self, out, number: int) -> None:
        get = self._contexts.attributes_of(number).__getitem__
        dims = c_int * 3
        put(
            out,
            DeviceProperties(
                get(1), dims(*map(get, (2, 3, 4))), dims(*map(get, (5, 6, 7))), *map(get, (8, 9, 10, 11, 12, 13, 14))
            ),
        )

    @entry("cuDeviceGetLuid", arguments=(WORD, UINT_OUT, c_int))
    def luid(self, out: int, mask, number: int) -> None:
        self._contexts.device(number)
        raise DriverError(NOT_SUPPORTED, "a device has a LUID under Windows only")

    @entry("cuDeviceGetTexture1DLinearMaxWidth", arguments=(POINTER(c_size_t), c_int, c_uint, c_int))
    def linear_texture_width(self, out, form: int, channels: int, number: int) -> None:
        self._contexts.device(number)
        if form not in FORMAT_BYTES or channels not in (1, 2, 4):
            raise DriverError(INVALID_VALUE, f"elements of {channels} channels of CUarray_format {form} are not known")
        put(out, LINEAR_TEXTURE_ELEMENTS)

    @entry("cuDeviceGetExecAffinitySupport", arguments=(INT_OUT, c_int, c_int))
    def affinity(self, out, kind: int, number: int) -> None:
        self._contexts.device(number)
        put(out, 0)  # it needs MPS

    @entry("cuDeviceGetHostAtomicCapabilities", arguments=(UINT_OUT, INT_OUT, c_uint, c_int))
    def host_atomics(self, out, operations, count: int, number: int) -> None:
        self._contexts.device(number)
        if not out or not operations or not count:
            raise DriverError(INVALID_VALUE, "no atomic operations are asked for")
        for i in range(count):
            out[i] = 0

    @entry("cuModuleGetLoadingMode", arguments=(INT_OUT,))
    def loading_mode(self, out) -> None:
        put(out, _LAZY)

    @entry("cuFlushGPUDirectRDMAWrites", arguments=(c_int, c_int))
    def flush(self, target: int, scope: int) -> None:
        raise DriverError(NOT_SUPPORTED, "no network card writes into device memory (GPUDirect RDMA)")
