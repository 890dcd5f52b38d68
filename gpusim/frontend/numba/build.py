"""An ordinary ``@cuda.jit`` dispatcher in, the cubin that a launch would load out, with no driver.

Mental model: Numba compiles a kernel at its first launch for the device that it finds. Here the
device is a stand-in that knows nothing but its compute capability, so the very same code of Numba
runs (typing, NVVM, linking of helper libraries, launch bounds, register limits, fast math) and the
machine code is the one that a GPU of that capability would run. Source lines come from a second build
with line information, which leaves the code as it is; the reader of both compares them.
"""

from __future__ import annotations

import re
import threading
import warnings
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.cuda import compiler
from numba.cuda.core import errors as numba_errors
from numba.cuda.core import sigutils
from numba.cuda.cudadrv import devices
from numba.cuda.dispatcher import CUDADispatcher, _Kernel

from gpusim.errors import CompileError, ToolchainError, UsageError
from gpusim.frontend.numba.helper_names import without_unread_ptx
from gpusim.frontend.numba.kept_builds import fingerprint, read_build, write_build
from gpusim.frontend.numba.older_links import linked_for
from gpusim.frontend.toolchain_versions import toolchain
from gpusim.isa.architectures import nearest
from gpusim.launch.binary import KernelBinary

#: Numba's messages are for a terminal.
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
INSTALL_HINT = 'pip install "numba-cuda[cu13]" nvidia-cuda-nvdisasm'

_lock = threading.RLock()
_types: dict[Any, Any] = {}
_builds: weakref.WeakKeyDictionary[CUDADispatcher, dict] = weakref.WeakKeyDictionary()
_device_overloads: weakref.WeakKeyDictionary[CUDADispatcher, dict] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class NumbaBinary(KernelBinary):
    """A kernel that Numba compiled: ``argument_types`` (Numba types), ``extensions`` (argument handlers),
    ``call_helper`` (of a debug build: knows the exceptions that the kernel may raise; else None)."""

    argument_types: tuple[Any, ...] = ()
    extensions: tuple[Any, ...] = ()
    call_helper: Any = None


class _StandInDevice:
    def __init__(self, capability: tuple[int, int]):
        self.compute_capability = capability
        self.id = 0


class _StandInContext:
    def __init__(self, capability: tuple[int, int]):
        self.device = _StandInDevice(capability)


class _StandInRuntime:
    """Answers the one question that compilation asks: which device is current?"""

    def __init__(self, capability: tuple[int, int]):
        self._context = _StandInContext(capability)

    def get_or_create_context(self, device_number: int | None) -> _StandInContext:
        return self._context


class _Flags(compiler.CUDAFlags):
    """Numba's options of one compilation, which it compares for every candidate of every operator: a tenth of the time
    that it takes to compile a kernel. What is set in neither is the same in both, and the names, which are all that
    Numba's own hash is made of, are always the same."""

    __slots__ = ()

    def __hash__(self) -> int:
        return _FLAGS_HASH

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Flags):
            return super().__eq__(other)
        return all(getattr(self, name) == getattr(other, name) for name in self._values.keys() | other._values.keys())


_FLAGS_HASH = hash(tuple(sorted(_Flags.options)))
_Flags.__name__ = compiler.CUDAFlags.__name__  # part of the names of compiled functions


class _Target:
    """While entered, Numba compiles for ``capability``; device functions keep one overload table each
    per capability (Numba keys them by argument types alone)."""

    def __init__(self, capability: tuple[int, int]):
        self.capability = capability
        self._swapped: list[tuple[CUDADispatcher, dict]] = []

    def __enter__(self) -> None:
        _lock.acquire()
        self._runtime = devices._runtime
        self._compile_device = CUDADispatcher.compile_device
        self._flags, compiler.CUDAFlags = compiler.CUDAFlags, _Flags
        devices._runtime = _StandInRuntime(self.capability)
        swapped, capability, compile_device = self._swapped, self.capability, self._compile_device

        def compile_for_target(dispatcher, args, return_type=None):
            tables = _device_overloads.setdefault(dispatcher, {})
            table = tables.get(capability)
            if table is None:
                table = tables[capability] = type(dispatcher.overloads)()
            if dispatcher.overloads is not table:
                swapped.append((dispatcher, dispatcher.overloads))
                dispatcher.overloads = table
            return compile_device(dispatcher, args, return_type)

        CUDADispatcher.compile_device = compile_for_target

    def __exit__(self, *exc_info) -> None:
        CUDADispatcher.compile_device = self._compile_device
        compiler.CUDAFlags = self._flags
        for dispatcher, overloads in reversed(self._swapped):
            dispatcher.overloads = overloads
        devices._runtime = self._runtime
        _lock.release()


def check_kernel(kernel: Any) -> CUDADispatcher:
    """Return ``kernel`` if it is a ``@cuda.jit`` kernel; raise UsageError with the remedy otherwise."""
    if not isinstance(kernel, CUDADispatcher):
        if is_simulated(kernel):
            raise UsageError(
                "the kernel belongs to Numba's own simulator: unset NUMBA_ENABLE_CUDASIM before importing numba"
            )
        what = getattr(kernel, "__name__", None) or type(kernel).__name__
        raise UsageError(f"{what!s} is not a CUDA kernel: decorate the function with @numba.cuda.jit")
    if kernel.targetoptions.get("device"):
        raise UsageError(
            f"{kernel.py_func.__name__} is a device function (@cuda.jit(device=True)): launch a kernel that calls it"
        )
    return kernel


def is_simulated(kernel: Any) -> bool:
    """Whether ``kernel`` belongs to Numba's own simulator, which has no machine code."""
    return type(kernel).__module__.startswith("numba.cuda.simulator")


def argument_types(kernel: CUDADispatcher, args: tuple) -> tuple[Any, ...]:
    """Numba types of ``args`` as a launch would type them; raises UsageError for an untypable one."""
    if kernel.specialized:
        return tuple(next(iter(kernel.overloads)))
    types = []
    for position, value in enumerate(args):
        try:
            types.append(_type_of(kernel, value))
        except (ValueError, TypeError, numba_errors.NumbaError) as error:
            raise UsageError(
                f"argument {position} of {kernel.py_func.__name__}: Numba cannot pass a"
                f" {type(value).__name__} to a kernel ({_one_line(error)})"
            ) from error
    return tuple(types)


def _type_of(kernel: CUDADispatcher, value: Any) -> Any:
    """What ``kernel.typeof_pyval`` answers, kept for plain arrays and NumPy's own scalars: theirs depends on the
    layout and the flags alone, and Numba takes longer to tell it than a small launch to run."""
    if type(value) is np.ndarray:
        flags = value.flags
        key = (value.dtype, value.ndim, flags.c_contiguous, flags.f_contiguous, flags.aligned, flags.writeable)
    elif type(value) in (np.float32, np.float64, np.int32, np.int64):
        key = type(value)
    else:
        return kernel.typeof_pyval(value)
    known = _types.get(key)
    if known is None:
        known = _types[key] = kernel.typeof_pyval(value)
    return known


def signature_types(signature: str) -> tuple[Any, ...]:
    """The Numba types of a signature as a decorator takes it: ``"float32, float32[:]"``, with or without
    ``void(...)``."""
    try:
        inside = signature.strip()
        text = inside if inside.startswith("void") else f"void({inside})"
        return tuple(sigutils.normalize_signature(text)[0])
    except Exception as error:  # Numba evaluates the text: anything may come of it
        reason = " ".join(str(error).split())
        raise UsageError(
            f'signature {signature!r}: {reason}; write Numba types, such as "float32, float32[:]"'
        ) from None


def build(
    kernel: CUDADispatcher, types: tuple[Any, ...], capability: tuple[int, int], lines: bool = True
) -> NumbaBinary:
    """Compile ``kernel`` for ``types`` and ``capability``; the result is kept with the dispatcher.

    Without ``lines`` the second build, which is there for source lines, is left out.

    Raises CompileError (one line, first cause) and ToolchainError (with the pip command).
    """
    capability = (int(capability[0]), int(capability[1]))
    key = (types, capability, lines, repr(kernel.targetoptions))
    with _lock:
        known = _builds.setdefault(kernel, {})
        built = known.get(key)
        if built is None and not lines:  # with lines it is the same code
            built = known.get((types, capability, True, key[-1]))
        if built is None:
            built = known[key] = _kept_or_compiled(kernel, types, capability, lines)
    return built


def _kept_or_compiled(
    kernel: CUDADispatcher, types: tuple[Any, ...], capability: tuple[int, int], lines: bool
) -> NumbaBinary:
    """The build of an earlier process if there is one of the very same kernel, or a new one, which is then kept."""
    name = fingerprint(kernel, types, capability, f"{toolchain()}; lines {lines}")
    kept = read_build(name)
    if kept is None and not lines:
        kept = read_build(fingerprint(kernel, types, capability, f"{toolchain()}; lines True"))
    if kept is not None:
        return NumbaBinary(
            name=kernel.py_func.__name__,
            capability=capability,
            toolchain=toolchain(),
            argument_types=types,
            **kept,
        )
    built = _compile(kernel, types, capability, dict(kernel.targetoptions), lines)
    if built.argument_types == types:
        write_build(name, built.cubin, built.line_cubin, built.entry_name, built.cooperative)
    return built


def _compile(
    kernel: CUDADispatcher, types: tuple[Any, ...], capability: tuple[int, int], options: dict, lines: bool
) -> NumbaBinary:
    name = kernel.py_func.__name__
    row = nearest(capability)
    compiled_for = row.compiled_as.capability if not row.built else capability
    target = (*compiled_for, row.suffix)
    asked = bool(options.pop("lineinfo", False))

    def attempt(lineinfo: bool) -> tuple[_Kernel, bytes]:
        # _Kernel appends helper libraries to its ``link`` list: give each attempt its own.
        own = dict(options, link=list(options.get("link") or ()))
        with _Target(compiled_for):
            if not row.built:
                compiled = _Kernel(kernel.py_func, types, lineinfo=lineinfo, **own)
                return compiled, linked_for(row.target, name, compiled._codelibrary, target)
            with without_unread_ptx():
                compiled = _Kernel(kernel.py_func, types, lineinfo=lineinfo, **own)
            library = compiled._codelibrary
            try:
                return compiled, bytes(library.get_cubin(cc=target).code)
            except Exception:
                library.get_asm_str()  # what is wrong with a kernel NVVM says more plainly than the linker, if it finds it
                raise

    try:
        compiled, code = attempt(asked)
    except (CompileError, ToolchainError):
        raise
    except numba_errors.NumbaError as error:
        raise CompileError(f"{name} does not compile: {_one_line(error)}") from error
    except (ImportError, OSError, FileNotFoundError) as error:
        raise ToolchainError(
            f"compiling {name} needs NVIDIA's compiler libraries ({_one_line(error)}): {INSTALL_HINT}"
        ) from error
    except Exception as error:  # NVVM, NVRTC and the linker have error classes of their own
        text = _one_line(error)
        if "not found" in text.lower() or "not installed" in text.lower() or "libnvvm" in text.lower():
            raise ToolchainError(f"compiling {name}: {text}: {INSTALL_HINT}") from error
        raise CompileError(f"{name} does not compile for sm_{capability[0]}{capability[1]}: {text}") from error
    line_code = b""
    if asked:
        line_code = code
    elif lines:
        # The plain build comes first: Numba keeps what it compiled on the way, and line information left
        # in there would break a later link with device code that has none (half precision does that).
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about lines that cannot be found, which nobody asked for
                line_code = attempt(True)[1]
        except Exception:  # lines are a convenience; the kernel itself did compile
            line_code = b""
    return NumbaBinary(
        cubin=code,
        entry_name=compiled.entry_name,
        name=name,
        capability=capability,
        line_cubin=line_code,
        cooperative=bool(compiled.cooperative),
        toolchain=toolchain(),
        argument_types=tuple(compiled.argument_types),
        extensions=tuple(compiled.extensions),
        call_helper=compiled.call_helper if options.get("debug") else None,
    )


def _one_line(error: BaseException) -> str:
    """The telling lines of a compiler's message, joined: no traceback, no banner, no colours, at most 300
    characters."""
    lines = [line.strip() for line in _COLOUR.sub("", str(error)).splitlines()]
    lines = [line for line in lines if line and not line.startswith(("Failed in", "During:", "raised from", "- "))]
    text = "; ".join(lines) or type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."
