"""The driver's own records of kernels: CUPTI's activity API, through ctypes.

Mental model: while it is on, CUPTI notes when each kernel began and ended on the GPU, in nanoseconds of the GPU's
timer, and hands the notes over in buffers of ours when asked (:meth:`Activity.records`). Unlike the time between two
events they hold nothing of the launch, and unlike Nsight Compute's counters they need no permission and run the kernel
once.

A record's layout has grown with CUPTI (CUpti_ActivityKernel4 to 13), always at its end; what is read here has stood in
the same place since CUDA 9: checked with ``offsetof`` against cupti_activity.h of the PyPI wheels
nvidia-cuda-cupti-cu11 11.8.87, -cu12 12.1.105 and 12.9.79, and read in that of nvidia-cuda-cupti 13.5.25. The real
libraries of 11.8, 12.1, 12.9 and 13.0, which need no GPU for it, step through a buffer of such records as :func:`parse`
does. Older ones than 11.8 (API version 18) are refused. Every record must lie within its buffer.

Raises SiliconError, naming the call, for whatever CUPTI refuses.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gpusim.errors import SiliconError

try:
    from cuda.pathfinder import load_nvidia_dynamic_lib
except ImportError:  # comes with cuda-bindings of CUDA 12.9 or newer
    load_nvidia_dynamic_lib = None

#: The path of libcupti.so, where it is not found by itself.
VARIABLE = "GPUSIM_CUPTI"
#: Tried in this order when pathfinder is not there or finds none.
NAMES = ("libcupti.so", "libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8")
FOLDERS = ("/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64", "/opt/cuda/extras/CUPTI/lib64")
LEAST_API_VERSION = 18
#: cupti_result.h, cupti_activity.h.
SUCCESS, MAX_LIMIT_REACHED = 0, 12
KERNEL, CONCURRENT_KERNEL = 3, 10
FLUSH_FORCED = 1
BUFFER_BYTES, ALIGNMENT_BYTES = 1 << 20, 8
MOST_RECORDS = 1 << 20
#: kind; start, end (ns); grid x y z, block x y z: offsets of CUpti_ActivityKernel4 and all later ones.
_KIND = struct.Struct("<I")
_TIMES_AT, _TIMES = 16, struct.Struct("<QQ")
_SHAPE_AT, _SHAPE = 52, struct.Struct("<6i")
#: Size of CUpti_ActivityKernel4, the smallest.
LEAST_KERNEL_BYTES = 144

_REQUEST = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
_COMPLETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


@dataclass(frozen=True)
class KernelRecord:
    """One kernel as CUPTI saw it: ``start_ns`` and ``end_ns`` of the GPU's timer."""

    start_ns: int
    end_ns: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]


@lru_cache(maxsize=1)
def open_activity() -> Activity:
    """CUPTI of this process; raises SiliconError where there is none that can be used."""
    return Activity(find_library())


def find_library() -> ctypes.CDLL:
    """The library itself, loaded; raises SiliconError where there is none."""
    given = os.environ.get(VARIABLE)
    if given:
        try:
            return ctypes.CDLL(given)
        except OSError as error:
            raise SiliconError(f"{VARIABLE}={given} cannot be loaded ({error})") from None
    if load_nvidia_dynamic_lib is not None:
        try:
            return ctypes.CDLL(load_nvidia_dynamic_lib("cupti").abs_path)
        except (RuntimeError, ValueError, OSError):
            pass  # not among the wheels, nor in CUDA_HOME: the system's, perhaps
    found = ctypes.util.find_library("cupti")
    for name in [*filter(None, [found]), *NAMES, *(str(Path(folder) / name) for folder in FOLDERS for name in NAMES)]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise SiliconError(f"there is no libcupti here: pip install nvidia-cuda-cupti, or set {VARIABLE} to its path")


class Activity:
    """Kernel records from ``library``. One a process: CUPTI has one pair of callbacks."""

    def __init__(self, library: ctypes.CDLL):
        self._library = library
        self._buffers: dict[int, ctypes.Array] = {}
        self._records: list[KernelRecord] = []
        self._problem = ""
        self._declare()
        version = ctypes.c_uint32()
        self._call("cuptiGetVersion", ctypes.byref(version))
        if version.value < LEAST_API_VERSION:
            raise SiliconError(
                f"CUPTI's API version {version.value} is older than {LEAST_API_VERSION} (CUDA 11.8): install a newer one"
            )
        # CUPTI calls these from threads of its own as long as the process lives.
        self._callbacks = _REQUEST(self._requested), _COMPLETE(self._completed)
        self._call("cuptiActivityRegisterCallbacks", *self._callbacks)

    def _declare(self) -> None:
        void, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
        for name, arguments in {
            "cuptiGetVersion": [ctypes.POINTER(number)],
            "cuptiGetResultString": [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)],
            "cuptiActivityRegisterCallbacks": [_REQUEST, _COMPLETE],
            "cuptiActivityEnable": [ctypes.c_int],
            "cuptiActivityDisable": [ctypes.c_int],
            "cuptiActivityFlushAll": [number],
            "cuptiActivityGetNextRecord": [void, size, ctypes.POINTER(void)],
            "cuptiActivityGetNumDroppedRecords": [void, number, ctypes.POINTER(size)],
        }.items():
            try:
                function = getattr(self._library, name)
            except AttributeError:
                raise SiliconError(f"{self._library._name} has no {name}: it is no libcupti") from None
            function.argtypes, function.restype = arguments, ctypes.c_int

    def _call(self, name: str, *arguments: object) -> None:
        result = getattr(self._library, name)(*arguments)
        if result != SUCCESS:
            raise SiliconError(f"{name} failed: {self._said(result)}")

    def _said(self, result: int) -> str:
        text = ctypes.c_char_p()
        known = self._library.cuptiGetResultString(result, ctypes.byref(text)) == SUCCESS and text.value
        return text.value.decode("ascii", "replace") if known else f"result {result}"

    # ---- what CUPTI calls: nothing may be raised here ----

    def _requested(self, buffer: object, size: object, records: object) -> None:
        memory = ctypes.create_string_buffer(BUFFER_BYTES + ALIGNMENT_BYTES)
        start = -(-ctypes.addressof(memory) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        self._buffers[start] = memory
        buffer[0], size[0], records[0] = start, BUFFER_BYTES, 0  # 0: as many records as fit

    def _completed(self, _context: int, _stream: int, buffer: int, _size: int, valid_bytes: int) -> None:
        try:
            memory = self._buffers.pop(buffer or 0)
            if valid_bytes > BUFFER_BYTES:
                raise SiliconError(f"CUPTI filled {valid_bytes} bytes of a buffer of {BUFFER_BYTES}")
            self._records += parse(self._library, buffer, valid_bytes)
            del memory
        except KeyError:
            self._problem = "CUPTI gave back a buffer that it never got"
        except SiliconError as error:
            self._problem = str(error)

    # ---- what a measurement calls ----

    def start(self) -> None:
        """Note kernels from now on."""
        self._call("cuptiActivityEnable", CONCURRENT_KERNEL)

    def stop(self) -> None:
        """Note no more kernels; what was not fetched is lost."""
        self._call("cuptiActivityDisable", CONCURRENT_KERNEL)
        self._call("cuptiActivityFlushAll", FLUSH_FORCED)
        self._records.clear()

    def records(self, least: int) -> list[KernelRecord]:
        """Kernels that ended since the last call, in order of their start; the stream must have been waited for. Fewer
        than ``least`` make it insist."""
        self._call("cuptiActivityFlushAll", 0)
        if len(self._records) < least:
            self._call("cuptiActivityFlushAll", FLUSH_FORCED)
        dropped = ctypes.c_size_t()
        self._call("cuptiActivityGetNumDroppedRecords", None, 0, ctypes.byref(dropped))
        problem, self._problem = self._problem, ""
        if dropped.value:
            problem = problem or f"CUPTI dropped {dropped.value} records"
        found, self._records = sorted(self._records, key=lambda record: record.start_ns), []
        if problem:
            raise SiliconError(problem)
        return found


def parse(library: ctypes.CDLL, buffer: int, valid_bytes: int) -> Iterator[KernelRecord]:
    """The kernels among the records in ``valid_bytes`` at address ``buffer``."""
    record = ctypes.c_void_p()
    last = buffer - 1
    for _ in range(MOST_RECORDS):
        result = library.cuptiActivityGetNextRecord(buffer, valid_bytes, ctypes.byref(record))
        if result == MAX_LIMIT_REACHED:
            return
        at = record.value or 0
        if result != SUCCESS:
            raise SiliconError(f"cuptiActivityGetNextRecord failed: result {result}")
        if not last < at <= buffer + valid_bytes - _KIND.size:
            raise SiliconError("a record of CUPTI lies outside its buffer")
        last = at
        (kind,) = _KIND.unpack(ctypes.string_at(at, _KIND.size))
        if kind not in (KERNEL, CONCURRENT_KERNEL):
            continue
        if at + LEAST_KERNEL_BYTES > buffer + valid_bytes:
            raise SiliconError("a kernel's record of CUPTI is cut short by the end of its buffer")
        data = ctypes.string_at(at, LEAST_KERNEL_BYTES)
        start, end = _TIMES.unpack_from(data, _TIMES_AT)
        shape = _SHAPE.unpack_from(data, _SHAPE_AT)
        if not 0 < start <= end or min(shape) < 1:
            raise SiliconError(f"CUPTI could not time a kernel (start {start}, end {end}, launch {shape})")
        yield KernelRecord(start, end, shape[:3], shape[3:])
    raise SiliconError(f"a buffer of CUPTI holds more than {MOST_RECORDS} records")
