"""The GPU of this machine, through the CUDA driver API.

Mental model: thin: one method of :class:`gpusim.measure.driver.Driver` is one or two calls of ``cuda.bindings``
(a dependency of numba-cuda), checked. It holds the device's primary context and one stream of its own. NVML, if
``nvidia-ml-py`` is installed, adds the driver's version and the reasons for a clock that is held back; neither
it nor anything else here changes a setting of the GPU.
"""

from __future__ import annotations

import ctypes
import hashlib
import time

import numpy as np
from cuda.bindings import driver as cuda

from gpusim.errors import SiliconError
from gpusim.launch.kernel_launch import KernelLaunch
from gpusim.measure.cupti import Activity, open_activity
from gpusim.measure.driver import DeviceFacts

try:
    import pynvml
except ImportError:  # optional: nvidia-ml-py
    pynvml = None

_ATTRIBUTE = cuda.CUdevice_attribute
_NAME_BYTES = 256
NO_GPU = "`gpusim doctor` says what is missing; published curves need no GPU (gpusim compare --against published)"


class CudaDriver:
    """Device ``ordinal`` of this machine; a :class:`gpusim.measure.driver.Driver`. Use it as a context manager."""

    def __init__(self, ordinal: int = 0):
        self._bound: dict[int, tuple] = {}
        self._modules: list[object] = []
        self._events: list[object] = []
        self._allocated: set[int] = set()
        self._functions: dict[int, object] = {}
        self._activity: Activity | None = None
        try:
            (result, *_) = cuda.cuInit(0)
        except RuntimeError:  # of cuda.bindings, in words of its own
            raise SiliconError(f"there is no CUDA driver here (no libcuda could be loaded): {NO_GPU}") from None
        if result != cuda.CUresult.CUDA_SUCCESS:
            raise SiliconError(f"the CUDA driver cannot start ({_name(result)}): {NO_GPU}")
        count = self._call(cuda.cuDeviceGetCount)
        if not 0 <= ordinal < count:
            raise SiliconError(f"there is no GPU number {ordinal}, this machine has {count}: {NO_GPU}")
        self._device = self._call(cuda.cuDeviceGet, ordinal)
        self._context = self._call(cuda.cuDevicePrimaryCtxRetain, self._device)
        self._call(cuda.cuCtxSetCurrent, self._context)
        self._stream = self._call(cuda.cuStreamCreate, 0)
        self._nvml = self._open_nvml()

    def __enter__(self) -> CudaDriver:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _call(self, function, *arguments):
        """Call the driver; its one answer, or None. Raises SiliconError with the call's name."""
        try:
            result, *answers = function(*arguments)
        except RuntimeError as error:
            raise SiliconError(f"{function.__name__} is not in this driver ({_short(error)})") from None
        if result != cuda.CUresult.CUDA_SUCCESS:
            raise SiliconError(f"{function.__name__} failed: {_name(result)}")
        return answers[0] if answers else None

    def _open_nvml(self) -> object | None:
        if pynvml is None:
            return None
        try:
            pynvml.nvmlInit()
            bus = self._call(cuda.cuDeviceGetPCIBusId, 32, self._device)
            return pynvml.nvmlDeviceGetHandleByPciBusId(bytes(bus).split(b"\0")[0])
        except (pynvml.NVMLError, SiliconError):
            return None  # a container without libnvidia-ml: a driver all the same

    # ---- what it is -------------------------------------------------------------------------

    def facts(self) -> DeviceFacts:
        name = bytes(self._call(cuda.cuDeviceGetName, _NAME_BYTES, self._device)).split(b"\0")[0]
        uuid = bytes(self._call(cuda.cuDeviceGetUuid, self._device).bytes)
        version = self._call(cuda.cuDriverGetVersion)
        text = f"CUDA {version // 1000}.{version % 1000 // 10}"
        if self._nvml is not None:
            installed = pynvml.nvmlSystemGetDriverVersion()
            text = f"{installed.decode() if isinstance(installed, bytes) else installed}, {text}"
        return DeviceFacts(
            name=name.decode("utf-8", "replace"),
            uuid_hash=hashlib.sha256(uuid).hexdigest()[:16],
            driver=text,
            capability=(
                self._attribute(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                self._attribute(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
            ),
            sm_count=self._attribute(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
            l2_bytes=self._attribute(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
            memory_bytes=int(self._call(cuda.cuDeviceTotalMem, self._device)),
            sm_clock_khz=self._attribute(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
            memory_clock_khz=self._attribute(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
        )

    def _attribute(self, number: object) -> int:
        return int(self._call(cuda.cuDeviceGetAttribute, number, self._device))

    def now_seconds(self) -> float:
        return time.monotonic()

    def throttle_reasons(self) -> int | None:
        if self._nvml is None:
            return None
        read = getattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        read = read or getattr(pynvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None)
        try:
            return int(read(self._nvml)) if read else None
        except pynvml.NVMLError:
            return None

    # ---- memory -----------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        try:
            address = int(self._call(cuda.cuMemAlloc, max(1, size)))
        except SiliconError as error:
            raise SiliconError(
                f"no room for {size} bytes on the GPU ({error}): measure fewer kernels at a time"
            ) from None
        self._allocated.add(address)
        return address

    def free(self, address: int) -> None:
        self._allocated.discard(address)
        self._call(cuda.cuMemFree, address)

    def upload(self, address: int, data: np.ndarray) -> None:
        if data.nbytes:
            self.synchronize()
            self._call(cuda.cuMemcpyHtoD, address, data.ctypes.data, data.nbytes)

    def download(self, address: int, size: int) -> np.ndarray:
        data = np.empty(size, np.uint8)
        if size:
            self.synchronize()
            self._call(cuda.cuMemcpyDtoH, data.ctypes.data, address, size)
        return data

    def copy(self, target: int, source: int, size: int) -> None:
        self._call(cuda.cuMemcpyDtoDAsync, target, source, size, self._stream)

    def fill(self, address: int, word: int, words: int) -> None:
        self._call(cuda.cuMemsetD32Async, address, word, words, self._stream)

    # ---- kernels ----------------------------------------------------------------------------

    def load(self, cubin: bytes, entry: str, dynamic_shared_bytes: int) -> int:
        module = self._call(cuda.cuModuleLoadData, cubin)
        self._modules.append(module)
        function = self._call(cuda.cuModuleGetFunction, module, entry.encode())
        attribute = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        if dynamic_shared_bytes:
            self._call(cuda.cuFuncSetAttribute, function, attribute, dynamic_shared_bytes)
        handle = int(function)
        self._functions[handle] = function
        return handle

    def bind(self, function: int, launch: KernelLaunch) -> int:
        # Each parameter is passed by a pointer into the packed bank, which must outlive the launch.
        bank = ctypes.create_string_buffer(launch.parameters, max(1, len(launch.parameters)))
        start, offsets = ctypes.addressof(bank), [parameter.offset for parameter in launch.image.parameters]
        pointers = (ctypes.c_void_p * max(1, len(offsets)))(*(start + offset for offset in offsets))
        arguments = (
            self._functions[function],
            *launch.grid,
            *launch.block,
            launch.dynamic_shared_bytes,
            self._stream,
            ctypes.addressof(pointers),
        )
        call = cuda.cuLaunchCooperativeKernel if launch.binary.cooperative else cuda.cuLaunchKernel
        if not launch.binary.cooperative:
            arguments += (0,)
        handle = len(self._bound) + 1
        self._bound[handle] = call, arguments, bank, pointers
        return handle

    def launch(self, bound: int) -> None:
        call, arguments, _bank, _pointers = self._bound[bound]
        self._call(call, *arguments)

    # ---- time -------------------------------------------------------------------------------

    def event(self) -> int:
        event = self._call(cuda.cuEventCreate, 0)
        self._events.append(event)
        return len(self._events) - 1

    def record(self, event: int) -> None:
        self._call(cuda.cuEventRecord, self._events[event], self._stream)

    def has_passed(self, event: int) -> bool:
        (result, *_) = cuda.cuEventQuery(self._events[event])
        if result not in (cuda.CUresult.CUDA_SUCCESS, cuda.CUresult.CUDA_ERROR_NOT_READY):
            raise SiliconError(f"cuEventQuery failed: {_name(result)}")
        return result == cuda.CUresult.CUDA_SUCCESS

    def elapsed_us(self, start: int, end: int) -> float:
        return 1e3 * float(self._call(cuda.cuEventElapsedTime, self._events[start], self._events[end]))

    def synchronize(self) -> None:
        self._call(cuda.cuStreamSynchronize, self._stream)

    def trace(self, on: bool) -> str:
        try:
            if on:
                self._activity = open_activity()
                self._activity.start()
            elif self._activity is not None:
                activity, self._activity = self._activity, None
                activity.stop()
        except SiliconError as error:
            return str(error)
        return ""

    def traced(self, least: int) -> list[list[int]]:
        if self._activity is None:
            raise SiliconError("kernels are not being traced: trace(True) comes first")
        self.synchronize()
        return [[r.start_ns, r.end_ns, *r.grid, *r.block] for r in self._activity.records(least)]

    def profile(self, on: bool) -> None:
        self.synchronize()
        self._call(cuda.cuProfilerStart if on else cuda.cuProfilerStop)

    def close(self) -> None:
        """Release what this object made; errors of a context that a kernel has broken are of no use here."""
        self.trace(False)
        for address in self._allocated:
            cuda.cuMemFree(address)
        for event in self._events:
            cuda.cuEventDestroy(event)
        for module in self._modules:
            cuda.cuModuleUnload(module)
        self._allocated.clear()
        self._events.clear()
        self._modules.clear()
        if self._stream is not None:
            cuda.cuStreamDestroy(self._stream)
            cuda.cuDevicePrimaryCtxRelease(self._device)
            self._stream = None


def _name(result: object) -> str:
    return getattr(result, "name", str(result))


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 160 else text[:157] + "..."
