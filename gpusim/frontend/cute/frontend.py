"""The front end of the CuTe DSL: its own compiler makes the machine code, its own host code the launch.

Mental model: a host function is compiled for the GPU asked for, with its arguments as the DSL specialises it for them,
and run with its launches recorded (:mod:`host_code`): once to know the launch, and, when arrays have device addresses,
once more with these in the place of the host's in the tensors' descriptors, which gives the bytes of the parameters.
"""

from __future__ import annotations

import ctypes
import importlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gpusim.errors import CompileError, GpusimError, ToolchainError, UsageError
from gpusim.frontend.cute.host_code import HostCode, HostLaunch
from gpusim.frontend.cute.kernels import CuteKernel
from gpusim.frontend.protocol import FrontEnd
from gpusim.isa.architectures import nearest
from gpusim.isa.binary.device_code import device_code
from gpusim.launch.arrays import HostArrays
from gpusim.launch.binary import KernelBinary
from gpusim.launch.memory import extent

INSTALL_HINT = 'pip install "gpusim[cute]"'
_PREFIX = "gpusim"
_MOST_LETTERS = 400
#: Kinds of devices in DLPack (dlpack.h), and the name of its capsules.
_HOST_DEVICE, _CUDA_DEVICE, _DLTENSOR = 1, 2, b"dltensor"
_name_of, _capsule_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, (ctypes.py_object,)
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


@dataclass(frozen=True, eq=False)
class CuteBinary(KernelBinary):
    """A kernel with the host code that launches it."""

    host: HostCode | None = field(default=None, repr=False)
    compiled: Any = field(default=None, repr=False)


class CuteFrontEnd(FrontEnd):
    """CuTe DSL."""

    name, takes = "cute", "gpusim.cute(a @cute.jit function)"

    def __init__(self) -> None:
        self._compiled: dict[Any, tuple[HostCode, Any]] = {}
        self._binaries: dict[Any, CuteBinary] = {}
        self._lock = threading.RLock()

    def accepts(self, kernel: object) -> bool:
        return isinstance(kernel, CuteKernel)

    def compile(self, kernel: Any, args: tuple, capability: tuple[int, int], *, lines: bool = True) -> KernelBinary:
        with self._lock:
            tensors = [_argument(value, f"argument {place} of {kernel.__name__}") for place, value in enumerate(args)]
            key = (kernel, capability, lines, tuple(map(_kind, tensors)))
            if key not in self._compiled:
                self._compiled[key] = _compile(kernel, tensors, nearest(capability).target, lines)
            host, compiled = self._compiled[key]
            launch = _launch_of(kernel, host, compiled, tensors)
            own = (key, launch.symbol, launch.grid, launch.block, launch.cluster, launch.shared_bytes)
            if own not in self._binaries:
                self._binaries[own] = CuteBinary(
                    _cubin_of(launch, kernel), launch.symbol, kernel.__name__, capability, cooperative=launch.cooperative,
                    toolchain=_version(), block=launch.block, grid=launch.grid, dynamic_shared_bytes=launch.shared_bytes,
                    cluster=None if launch.cluster == (1, 1, 1) else launch.cluster,
                    host=host, compiled=compiled,
                )  # fmt: skip
            return self._binaries[own]

    def pack(self, kernel: Any, binary: KernelBinary, args: tuple, arrays: HostArrays) -> bytes:
        if not isinstance(binary, CuteBinary) or binary.host is None:
            raise UsageError(f"{binary.name}: its host code is not here: capture it from its source")
        tensors, places, pointers, known = [], [], [], list[_Mapped]()
        for place, value in enumerate(args):
            label = f"argument {place}"
            tensor = _argument(value, f"{label} of {kernel.__name__}")
            tensors.append(tensor)
            if _is_tensor(tensor):
                word = ctypes.c_uint64.from_address(int(tensor.__c_pointers__()[0]))
                memory = _memory_of(tensor)
                places.append((word, word.value, arrays.map(memory, label)))
                known.append(_Mapped(memory, places[-1][2]))
            pointers += _pointers_in(tensor)
        for pointer in pointers:
            word = ctypes.c_uint64.from_address(int(pointer.__c_pointers__()[0]))
            places.append((word, word.value, _device_address(word.value, kernel, known, arrays)))
        with self._lock:
            for word, _, device in places:
                word.value = device
            try:
                return _parameters(kernel, binary, tensors)
            finally:
                for word, host, _ in places:
                    word.value = host


class _Mapped(NamedTuple):
    """Host memory and its device address."""

    array: np.ndarray
    device: int

    def offset(self, address: int) -> int:
        """Of a host address in the memory; -1 if it is not in it."""
        low, size = extent(self.array)
        return address - low if low <= address < low + size else -1


def _pointers_in(value: Any) -> list[Any]:
    """The DSL's pointers in an argument, also within tuples."""
    if isinstance(value, (tuple, list)):
        return [each for item in value for each in _pointers_in(item)]
    return [value] if hasattr(value, "memspace") and hasattr(value, "__c_pointers__") else []


def _device_address(address: int, kernel: CuteKernel, known: list[_Mapped], arrays: HostArrays) -> int:
    """Where the host address of a pointer lies on the device; its array is mapped once and then stands in ``known``.
    Raises UsageError for one in no array."""
    if address == 0:
        return 0
    for array in (None, *kernel.memory):
        if array is not None:
            if _Mapped(array, 0).offset(address) < 0:
                continue
            known.append(
                _Mapped(array, arrays.map(array, "memory of a pointer") - (array.ctypes.data - extent(array)[0]))
            )
        for each in known:
            if (offset := each.offset(address)) >= 0:
                return each.device + offset
    raise UsageError(
        f"{kernel.__name__}: a pointer to 0x{address:x} lies in no array: name the array, gpusim.cute(..., memory=[array])"
    )


def _compile(kernel: CuteKernel, tensors: list[Any], target: str, lines: bool) -> tuple[HostCode, Any]:
    cute = _dsl("cutlass.cute")
    options = f"--gpu-arch {target} {'--generate-line-info' if lines else ''} {kernel.options}".strip()
    try:
        compiled = cute.compile(kernel.function, *tensors, options=options)
        code = compiled.dump_to_object(_PREFIX)
    except GpusimError:
        raise
    except Exception as error:  # the DSL's own errors, and whatever the user's function raises while it is traced
        raise CompileError(f"{kernel.__name__} does not compile for {target}: {_first_line(error)}") from error
    return HostCode(code, _PREFIX, compiled.function_name), compiled


def _launch_of(kernel: CuteKernel, host: HostCode, compiled: Any, tensors: list[Any]) -> HostLaunch:
    """The launch meant of those that the host function makes."""
    launches: list[HostLaunch] = []
    _run(host, compiled, tensors, kernel, launches.append)
    if not launches:
        raise UsageError(f"{kernel.__name__} launches no kernel with these arguments")
    if kernel.launch is None and len(launches) > 1:
        raise UsageError(
            f"{kernel.__name__} makes {len(launches)} launches ({', '.join(each.symbol for each in launches)}): name one, launch=0"
        )
    place = kernel.launch or 0
    if not 0 <= place < len(launches):
        raise UsageError(f"{kernel.__name__} makes {len(launches)} launches: there is no launch {place}")
    return launches[place]


def _parameters(kernel: CuteKernel, binary: CuteBinary, tensors: list[Any]) -> bytes:
    """The parameter bank of the launch meant, by running the host code with tensors that hold device addresses."""
    assert binary.host is not None
    banks: list[bytes] = []
    sizes = [each.size for each in binary.image.parameters]

    def take(launch: HostLaunch) -> None:
        addresses = (ctypes.c_uint64 * len(sizes)).from_address(launch.arguments) if sizes else ()
        banks.append(
            binary.place_parameters([ctypes.string_at(at, size) for at, size in zip(addresses, sizes, strict=True)])
            if launch.symbol == binary.entry_name
            else b""
        )

    _run(binary.host, binary.compiled, tensors, kernel, take)
    return banks[kernel.launch or 0]


def _run(
    host: HostCode, compiled: Any, tensors: list[Any], kernel: CuteKernel, take: Callable[[HostLaunch], None]
) -> None:
    """Run the host code with ``tensors``, showing its launches to ``take``."""
    try:
        taken = compiled.execution_args
        given = _without_constants(taken, tensors)
        # What the second value holds has to live as long as the addresses in the first.
        addresses, kept = taken.generate_execution_args(given, {})
    except Exception as error:
        raise UsageError(f"{kernel.__name__} does not take these arguments: {_first_line(error)}") from error
    host.run(addresses, take)
    del kept


def _without_constants(taken: Any, tensors: list[Any]) -> tuple[Any, ...]:
    """The arguments but those that the code holds as constants (``cutlass.Constexpr``), which its host code does not
    take; the DSL counts an object that is called, ``self``, as one."""
    constants = {each["argument_name"] for each in taken.get_constexpr_args()}
    names = [name for name in taken.original_signature.parameters if name != "self"]
    return tuple(value for place, value in enumerate(tensors) if place >= len(names) or names[place] not in constants)


def _argument(value: Any, where: str) -> Any:
    """An argument as the DSL takes it: an array as a tensor of its memory."""
    if not isinstance(value, np.ndarray):
        return _in_global_memory(value) if _is_tensor(value) else value
    runtime, cutlass = _dsl("cutlass.cute.runtime"), _dsl("cutlass")
    small = {"bfloat16": "BFloat16", "float8_e4m3fn": "Float8E4M3FN", "float8_e5m2": "Float8E5M2"}.get(value.dtype.name)
    try:
        if small is None:
            return _in_global_memory(runtime.from_dlpack(value))
        tensor = _in_global_memory(runtime.from_dlpack(value.view(f"u{value.itemsize}")))
        tensor.element_type = getattr(cutlass, small)
        return tensor
    except Exception as error:
        raise UsageError(f"{where}: {_first_line(error)}") from error


def _in_global_memory(tensor: Any) -> Any:
    """``tensor``, which says of itself from now on that it lies in a GPU's memory: of what lies in the host's the DSL
    makes generic loads, and it refuses copies that only global memory has. In a DLTensor the kind of device follows the
    address."""
    capsule = getattr(tensor, "_dlpack_data", None)
    if _capsule_name(capsule) == _DLTENSOR:
        kind = ctypes.c_int32.from_address(_capsule_pointer(capsule, _DLTENSOR) + ctypes.sizeof(ctypes.c_void_p))
        kind.value = _CUDA_DEVICE if kind.value == _HOST_DEVICE else kind.value
    return tensor


def _capsule_name(capsule: Any) -> bytes:
    return _name_of(capsule) if type(capsule).__name__ == "PyCapsule" else b""


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "load_dltensor") and hasattr(value, "__c_pointers__")


def _memory_of(tensor: Any) -> np.ndarray:
    """The bytes of host memory that a tensor reaches, as an array on them."""
    tensor.load_dltensor()
    raw = tensor._dltensor_wrapper
    bits = int(tensor.element_type.width)
    reach = sum((int(length) - 1) * int(stride) for length, stride in zip(raw.shape, raw.stride, strict=True))
    size = 0 if any(int(length) == 0 for length in raw.shape) else -(-(reach + 1) * bits // 8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(int(raw.data_ptr)))


def _kind(value: Any) -> Any:
    """What of an argument the DSL may specialise the code for."""
    key = getattr(value, "__cache_key__", None)
    return (type(value).__name__, key if key is not None else repr(value))


def _cubin_of(launch: HostLaunch, kernel: CuteKernel) -> bytes:
    images = [image for module in device_code(launch.code) for image in module.images if not image.is_ptx]
    if not images:
        raise CompileError(f"{kernel.__name__}: the CuTe DSL's host code holds no machine code")
    return images[0].content()


def _first_line(error: Exception) -> str:
    """The line of the DSL's coloured cards that says what is wrong."""
    text = "".join(part.partition("m")[2] if place else part for place, part in enumerate(str(error).split("\x1b[")))
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("error")] or lines or [type(error).__name__]
    return said[-1].removeprefix("error:").strip()[:_MOST_LETTERS]


@cache
def _version() -> str:
    return f"CuTe DSL {getattr(_dsl('cutlass'), '__version__', '')}".strip()


@cache
def _dsl(module: str) -> Any:
    """A module of the DSL, which takes seconds to import; its runtime library is loaded where its object files look for
    names."""
    try:
        found = importlib.import_module(module)
        runtime = importlib.import_module("cutlass.runtime")
        for path in runtime.find_runtime_libraries(enable_tvm_ffi=False):
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    except (ImportError, OSError) as error:
        raise ToolchainError(f"a kernel of the CuTe DSL needs its compiler ({error}): {INSTALL_HINT}") from None
    return found


FRONT_END = CuteFrontEnd()
