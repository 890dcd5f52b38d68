"""A compiled host function of the CuTe DSL, run with the launches that it makes recorded in place of being made.

Mental model: the DSL gives its host function as an object file that calls the CUDA runtime under names of its own
(``_cudaLaunchKernelEx``). It is loaded here with those names bound to functions that write down what they are given, so
that grid, block, shared memory and the bytes of the parameters are the DSL's own. Sources: ``cudaLaunchConfig_t`` and
``cudaLaunchAttribute`` of the CUDA runtime's header ``driver_types.h``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from llvmlite import binding

from gpusim.errors import CompileError, UsageError

_CLUSTER, _COOPERATIVE = 4, 2
#: What an opt-in limit of shared memory is told to be: what a launch may have is judged where the launch is made.
_PLENTY = 1 << 20
_FAT_BINARY_HEADER = 16


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_size_t),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint32),
    )


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_uint32), ("padding", ctypes.c_uint32), ("value", ctypes.c_uint32 * 16))


@dataclass(frozen=True)
class HostLaunch:
    """A launch as host code asked for it: ``symbol`` of the kernel in the ``code`` (a fat binary) that it loaded;
    ``arguments``: addresses of the parameters' values, good while the host code's call lasts."""

    symbol: str
    code: bytes = field(repr=False)
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)
    cooperative: bool = False
    arguments: int = field(default=0, repr=False)


@dataclass
class _Recorder:
    """What the host code that runs now has asked for; ``take`` is given each launch."""

    take: Callable[[HostLaunch], None]
    code: bytes = b""
    names: list[str] = field(default_factory=list)
    error: Exception | None = None

    def launch(self, config: _Config, kernel: int | None, arguments: int) -> int:
        cluster = 1, 1, 1
        cooperative = False
        for place in range(min(config.attribute_count, 64)):
            one = _Attribute.from_address(config.attributes + place * ctypes.sizeof(_Attribute))
            if one.id == _CLUSTER:
                x, y, z = (max(1, int(side)) for side in one.value[:3])
                cluster = x, y, z
            cooperative |= one.id == _COOPERATIVE and bool(one.value[0])
        symbol = self.names[kernel - 1] if kernel and kernel <= len(self.names) else ""
        try:
            self.take(
                HostLaunch(
                    symbol,
                    self.code,
                    tuple(config.grid),
                    tuple(config.block),
                    config.shared_bytes,
                    cluster,
                    cooperative,
                    arguments,
                )
            )
        except Exception as error:  # C code is between here and whoever asked
            self.error = error
        return 0


#: The recorder of the call that runs now; host code is run one call at a time.
_now: list[_Recorder] = []


class HostCode:
    """The host function ``symbol`` of the object file ``code``, whose entry points begin with ``prefix``."""

    def __init__(self, code: bytes, prefix: str, symbol: str) -> None:
        _bind()
        self._engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _machine())
        self._engine.add_object_file(binding.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self._prefix, self._symbol = prefix, symbol

    def run(self, arguments: Sequence[Any], take: Callable[[HostLaunch], None]) -> None:
        """Call it with ``arguments``, the addresses of its arguments' values; each launch is shown to ``take``, whose
        error is raised."""
        recorder = _Recorder(take)
        _now.append(recorder)
        try:
            library, error, device = ctypes.c_void_p(), ctypes.c_int32(), ctypes.c_int32()
            handle = ctypes.pointer(ctypes.pointer(library))
            self._call("cuda_init", [handle, ctypes.pointer(error)])
            self._call("cuda_load_to_device", [handle, ctypes.pointer(device), ctypes.pointer(error)])
            self._call(self._symbol, [*arguments, ctypes.pointer(error)])
        finally:
            _now.pop()
        if recorder.error is not None:
            raise recorder.error
        if error.value:
            raise CompileError(f"{self._symbol}: the CuTe DSL's host code ends with CUDA error {error.value}")

    def _call(self, name: str, arguments: Sequence[Any]) -> None:
        address = self._engine.get_function_address(f"_mlir_{self._prefix}_{name}")
        if not address:
            raise CompileError(
                f"{self._symbol}: the CuTe DSL's object file has no {name}: another version than gpusim knows"
            )
        packed = (ctypes.c_void_p * len(arguments))()
        for place, each in enumerate(arguments):
            packed[place] = each if isinstance(each, int) else ctypes.cast(each, ctypes.c_void_p).value
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(ctypes.addressof(packed))


@cache
def _machine() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="jitdefault")


_POINTER, _INT = ctypes.c_void_p, ctypes.c_int32


def _put(address: int, value: int, kind: Any = ctypes.c_int32) -> int:
    kind.from_address(address).value = value
    return 0


def _load_library(library: int, code: int, *_options: Any) -> int:
    size = ctypes.c_uint64.from_address(code + 8).value
    if not 0 < size < 1 << 32:
        raise UsageError("the CuTe DSL's host code loads what is no fat binary")
    _now[-1].code = ctypes.string_at(code, _FAT_BINARY_HEADER + size)
    return _put(library, 1, ctypes.c_uint64)


def _get_kernel(kernel: int, _library: int, name: int) -> int:
    _now[-1].names.append(ctypes.string_at(name).decode())
    return _put(kernel, len(_now[-1].names), ctypes.c_uint64)


def _launch_ex(config: int, kernel: int | None, arguments: int) -> int:
    return _now[-1].launch(_Config.from_address(config), kernel, arguments)


def _launch(kernel: int | None, *rest: Any) -> int:
    gx, gy, gz, bx, by, bz, arguments, shared_bytes, _stream = rest
    config = _Config((gx, gy, gz), (bx, by, bz), shared_bytes, None, None, 0)
    return _now[-1].launch(config, kernel, arguments)


#: Name in the object file -> (function, types of its arguments).
_RUNTIME: dict[str, tuple[Callable[..., int], tuple[Any, ...]]] = {
    "_cudaLibraryLoadData": (_load_library, (_POINTER, _POINTER, _POINTER, _POINTER, _INT, _POINTER, _POINTER, _INT)),
    "_cudaLibraryGetKernel": (_get_kernel, (_POINTER, _POINTER, _POINTER)),
    "_cudaLaunchKernelEx": (_launch_ex, (_POINTER, _POINTER, _POINTER)),
    "_cudaLaunchKernel": (_launch, (_POINTER, *(_INT,) * 6, _POINTER, ctypes.c_int64, _POINTER)),
    "_cudaGetDevice": (lambda device: _put(device, 0), (_POINTER,)),
    "_cudaDeviceGetAttribute": (lambda value, *_: _put(value, _PLENTY), (_POINTER, _INT, _INT)),
    "_cuKernelGetAttribute": (lambda value, *_: _put(value, 0), (_POINTER, _INT, _POINTER, _INT)),
    "_cudaKernelSetAttributeForDevice": (lambda *_: 0, (_POINTER, _INT, _INT, _INT)),
    "_cudaFuncSetAttribute": (lambda *_: 0, (_POINTER, _INT, _INT)),
    "_cudaOccupancyMaxActiveBlocksPerMultiprocessor": (lambda count, *_: _put(count, 1), (_POINTER, _POINTER, _INT, ctypes.c_int64)),
}  # fmt: skip


@cache
def _bind() -> tuple[Any, ...]:
    """Bind the names for object files that are loaded from now on; what is returned keeps the functions alive."""
    kept = []
    for name, (function, types) in _RUNTIME.items():
        made = ctypes.CFUNCTYPE(_INT, *types)(function)
        binding.add_symbol(name, ctypes.cast(made, ctypes.c_void_p).value)
        kept.append(made)
    return tuple(kept)
