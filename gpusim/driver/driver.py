"""The emulated driver of one process: its parts joined, and its functions put behind ``libcuda.so.1``.

Mental model: once :func:`install` has run, whatever opens the CUDA driver in this process (Numba, cuda.core,
cuda.bindings) finds devices with the described GPU's name and limits, one unless more were asked for. Calls arrive in
the parts' entry points; a failure leaves a sentence in ``details`` beside the CUresult, which alone can pass through C.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_uint64
from types import TracebackType
from typing import Any

from cuda.bindings import driver as binding

from gpusim.driver.abi import (
    DEINITIALIZED,
    INT_OUT,
    INVALID_VALUE,
    NOT_FOUND,
    NOT_SUPPORTED,
    SUCCESS,
    TEXT_OUT,
    UNKNOWN,
    WORD_OUT,
    DriverError,
    Signature,
    entries_of,
    entry,
    put,
)
from gpusim.driver.captures import Captures
from gpusim.driver.contexts import Contexts
from gpusim.driver.device import Device
from gpusim.driver.error_texts import TEXTS
from gpusim.driver.executor import Executor, Stopped
from gpusim.driver.export_tables import ExportTables
from gpusim.driver.exports import exported
from gpusim.driver.interrupts import Interrupts
from gpusim.driver.kernel_source import KernelSource
from gpusim.driver.launches import Launches
from gpusim.driver.ledger import Ledger, simulated_ns
from gpusim.driver.library_files import library_file
from gpusim.driver.library_folder import LINKS, SONAME
from gpusim.driver.logs import Logs
from gpusim.driver.memory import Memory
from gpusim.driver.modules import Modules
from gpusim.driver.occupancy import KernelFacts
from gpusim.driver.parts import make_parts
from gpusim.driver.refused import PackageRefusal, sentence
from gpusim.driver.shared_library import SlotLibrary, open_library
from gpusim.driver.streams import Streams
from gpusim.driver.timing import SimulatedClock
from gpusim.driver.triton_programs import TritonDriver
from gpusim.errors import GpusimError, UsageError

#: Of the message of Triton's launcher about a pointer that the driver does not know.
_TRITON_REFUSES = "cannot be accessed from Triton"
#: Where Triton looks for the folder of the driver's library, which it links its launcher to.
_TRITON_PATH = "TRITON_LIBCUDA_PATH"
#: Package -> its exceptions that say no more than which number a function of the driver or the runtime has returned.
_ERRORS = {
    "cuda": ("CUDAError",),
    "numba": ("CudaAPIError", "CudaSupportError"),
    "torch": ("AcceleratorError",),
}
_PROC_ADDRESS_FOUND, _PROC_ADDRESS_NOT_FOUND = 0, 1
#: What may be asked while a launch is under way, which is so only after a signal: what no kernel can change.
_ANY_TIME = frozenset(
    {
        "cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuGetProcAddress", "cuGetProcAddress_v2",
        "cuDeviceGet", "cuDeviceGetCount", "cuDeviceGetName", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain",
        "cuCtxGetCurrent", "cuCtxSetCurrent", "cuDeviceCanAccessPeer", "cuCtxPushCurrent", "cuCtxPopCurrent", "cuCtxGetDevice",
        "cuLogsRegisterCallback", "cuLogsUnregisterCallback", "cuLogsCurrent", "cuLogsDumpToMemory", "cuLogsDumpToFile",
    }
)  # fmt: skip
#: May wait for the whole device, or be waited for: CUDA's rules for captures forbid them
#: (cuThreadExchangeStreamCaptureMode).
_UNSAFE_WHILE_CAPTURING = frozenset(
    {"cuMemAlloc", "cuMemAllocPitch", "cuMemAllocManaged", "cuMemAllocHost", "cuMemHostAlloc", "cuMemHostRegister"}
)
#: Between two looks of a waiting main thread whether a signal has come.
_LOCK_SECONDS = 0.05
_installed: Driver | None = None


class Driver:
    """All parts of the emulated driver; use it through :class:`installed`."""

    def __init__(self, device: Device, ledger: Ledger, interrupts: Interrupts, source: KernelSource | None = None):
        self.device, self.ledger, self.interrupts = device, ledger, interrupts
        if device.count > 1:
            ledger.number_of = lambda number: self.contexts.device(number).number
        self.executor = ledger.executor = Executor(interrupts)
        self.lines = source or KernelSource()
        self.contexts = Contexts(device, self.reset)
        self.memory = Memory(device.spec.dram.total_bytes, self.contexts.here)
        self.memory.pageable = device.pageable
        self.modules = Modules(device, self.contexts, self.memory, self.lines)
        self.facts = KernelFacts(device, self.modules)
        self.launches = Launches(
            device.target, self.contexts, self.memory, self.modules, self.facts, ledger, self.executor
        )
        self.captures = captures = Captures()
        self.streams = Streams(self.contexts, self.launches.check_alive, captures)
        self.parts = make_parts(
            device,
            self.contexts,
            self.memory,
            self.modules,
            self.launches,
            self.streams,
            captures,
            self.executor,
        )
        self.details: list[str] = []
        self.logs = Logs()
        self.library: SlotLibrary | None = None
        #: symbol -> Python function, as C calls it
        self.calls: dict[str, Callable[..., int]] = {}
        self._signatures: dict[str, Signature] = {}
        self._refused: set[str] = set()
        self._told: set[str] = set()
        self._versions: dict[str, list[Signature]] = {}
        self._names: dict[int, ctypes.Array] = {}
        self._packages = PackageRefusal()
        self._triton = TritonDriver(
            lambda: self.streams.now_ns(self.contexts.here()) / 1e6,
            self._synchronize,
            None if ledger.wanted.simulate else ledger.say,
            ledger.say,
        )
        # Calls may come from several threads; a host callback may call the driver again.
        self._lock = threading.RLock()

    def reset(self, device: int) -> None:
        """What cuDevicePrimaryCtxReset does to a device."""
        for part in self.parts:
            getattr(part, "reset", _nothing)(device)
        self.modules.reset(device)
        self.streams.reset(device)
        self.memory.reset(device)
        self.launches.reset(device)

    # ---- the library ------------------------------------------------------------------------

    def functions(self) -> dict[str, tuple[Signature, Callable[..., int]]]:
        """Symbol -> signature and Python function of everything that the library exports; those that are not emulated
        refuse."""
        parts = (
            self,
            self.contexts,
            self.memory,
            self.streams,
            self.modules,
            self.facts,
            self.launches,
            self.logs,
            *self.parts,
        )
        forms: dict[tuple[str, int], tuple[Signature, Callable[..., int]]] = {}
        for part in parts:
            if isinstance(part, ExportTables):
                part.guard, part.tell = self._guarded, self._tell_once
            for signature, method in entries_of(part):
                if signature.name in _UNSAFE_WHILE_CAPTURING:
                    method = functools.partial(self._unless_capturing, signature.name, method)
                forms[signature.name, signature.since] = signature, self._guarded(signature.name, method)
                self._versions.setdefault(signature.name, []).append(signature)
        for name in _all_names():
            if name not in self._versions:
                signature = Signature(name, ())
                forms[name, 0] = signature, self._guarded(name, functools.partial(self._refuse, name))
                self._versions[name] = [signature]
                self._refused.add(name)
        symbols = exported({name: [form.since for form in found] for name, found in self._versions.items()})
        found = {signature.symbol: (signature, call) for signature, call in forms.values()}
        for symbol, form in symbols.items():
            found.setdefault(symbol, forms[form])
        self.calls = {symbol: call for symbol, (_, call) in found.items()}
        self._signatures = {symbol: signature for symbol, (signature, _) in found.items()}
        self._refused |= {symbol for symbol, (name, _) in symbols.items() if name in self._refused}
        return found

    def open(self, library: SlotLibrary | None = None) -> None:
        """Put the entry points behind the driver's name in this process; ``library``: the open file of that name, else
        it is opened now."""
        found = self.functions()
        names = list(found)
        self.library = library or open_library(library_file(SONAME, names, links=LINKS), names)
        callbacks: dict[int, Any] = {}
        for symbol, (signature, call) in found.items():
            if id(call) not in callbacks:
                callbacks[id(call)] = ctypes.CFUNCTYPE(c_int, *signature.arguments)(call)
            self.library.fill(symbol, callbacks[id(call)])
        self.contexts.when_initialized(self.library.refuse_after_fork)
        # C++ destructors call the driver after Python has gone: they must not come here.
        atexit.register(self.library.close)
        os.environ.setdefault(_TRITON_PATH, str(self.library.path.parent))
        sys.meta_path.insert(0, self._triton)
        self.lines.install()
        sys.meta_path.insert(0, self._packages)

    def signature(self, symbol: str) -> Signature | None:
        """How the function of that symbol is called; None where it is not emulated."""
        found = self._signatures.get(symbol)
        return None if found is None or symbol in self._refused else found

    def close(self) -> None:
        """Stop answering: later calls get CUDA_ERROR_DEINITIALIZED."""
        self.lines.remove()
        for finder in (self._packages, self._triton):
            if finder in sys.meta_path:
                sys.meta_path.remove(finder)

    def tell_simulated(self, clock: SimulatedClock) -> None:
        """From now on events tell the time of ``clock``, which the ledger has."""
        self.streams.now_ns = functools.partial(simulated_ns, self.ledger, clock)

    def _synchronize(self) -> None:
        """What ``cuCtxSynchronize`` does, called from Python."""
        if self.library is not None:
            self.library.handle.cuCtxSynchronize()

    def _guarded(self, name: str, method: Callable) -> Callable[..., int]:
        interrupts = self.interrupts

        def call(*arguments: object) -> int:
            code = self._answer(name, method, arguments)
            # Nothing below gives Python an occasion to run a signal's handler here: either it has run, and the signal
            # is held, or it will run outside.
            held = interrupts.held
            if held is not None:
                held.now  # noqa: B018
            return code

        interrupts.guarded = call.__code__
        return call

    def _answer(self, name: str, method: Callable, arguments: tuple) -> int:
        try:
            if self.executor.is_this_thread():
                # An object of the program is collected in the middle of a launch and frees what it holds. Whoever has
                # the lock waits for this launch, and its call is as good as made from there.
                method(*arguments)
                return SUCCESS
            if not self._lock.acquire(blocking=False) and not self._lock_patiently():
                return UNKNOWN
            try:
                if name not in _ANY_TIME and not self.executor.finish():
                    return UNKNOWN  # the program sees its signal, not this
                method(*arguments)
                if self.ledger.called is not None:
                    self.ledger.called(name, arguments)
                return SUCCESS
            finally:
                self._lock.release()
        except DriverError as error:
            if error.detail:
                self.note(error.detail)
            return error.code
        except GpusimError as error:
            self.note(str(error))
            return NOT_SUPPORTED
        except Stopped:
            if threading.current_thread() is not threading.main_thread():
                threading.Event().wait()  # its program is over, and so will be the process; nothing is left to tell it
            return DEINITIALIZED
        except Exception as error:
            self.note(f"internal error in {name}: {type(error).__name__}: {error}")
            if os.environ.get("GPUSIM_DEBUG"):
                sys.excepthook(type(error), error, error.__traceback__)
            return UNKNOWN

    def _lock_patiently(self) -> bool:
        """Wait while another thread is in the driver; False if a signal came first."""
        while not self._lock.acquire(timeout=_LOCK_SECONDS):
            if self.interrupts.is_held():
                return False
        return True

    def _unless_capturing(self, name: str, method: Callable, *arguments: object) -> None:
        self.captures.refuse_unsafe(name)
        method(*arguments)

    def _refuse(self, name: str, *_arguments: object) -> None:
        if name not in self._told:
            self._told.add(name)
            self.ledger.refusal(sentence(name))
        raise DriverError(NOT_SUPPORTED, sentence(name))

    def _tell_once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self.ledger.say(sentence)

    def note(self, detail: str) -> None:
        """Keep what is wrong, for whoever asks why the program failed."""
        self.details.append(detail)
        del self.details[:-8]
        self.logs.write(detail)

    # ---- errors and addresses ---------------------------------------------------------------

    def _text(self, number: int) -> bytes:
        try:
            return binding.CUresult(number).name.encode()
        except ValueError:
            raise DriverError(INVALID_VALUE) from None

    @entry("cuGetErrorName", arguments=(c_int, TEXT_OUT))
    def error_name(self, number: int, out) -> None:
        text = self._names.setdefault(number, ctypes.create_string_buffer(self._text(number)))
        out[0] = ctypes.cast(text, c_char_p)

    @entry("cuGetErrorString", arguments=(c_int, TEXT_OUT))
    def error_string(self, number: int, out) -> None:
        name = self._text(number).decode().removeprefix("CUDA_ERROR_").replace("_", " ").lower()
        words = TEXTS.get(number, name)
        text = self._names.setdefault(-1 - number, ctypes.create_string_buffer(words.encode()))
        out[0] = ctypes.cast(text, c_char_p)

    @entry("cuGetProcAddress", arguments=(c_char_p, WORD_OUT, c_int, c_uint64))
    def proc_address(self, name: bytes, out, version: int, flags: int) -> None:
        self._find(name, out, version, None)

    @entry(
        "cuGetProcAddress", "cuGetProcAddress_v2", arguments=(c_char_p, WORD_OUT, c_int, c_uint64, INT_OUT), since=12000
    )
    def proc_address_with_status(self, name: bytes, out, version: int, flags: int, status) -> None:
        self._find(name, out, version, status)

    @entry("cuGetProcAddress_v2", arguments=(c_char_p, WORD_OUT, c_int, c_uint64, INT_OUT))
    def exported_proc_address(self, name: bytes, out, version: int, flags: int, status) -> None:
        self._find(name, out, version, status)

    def _find(self, name: bytes, out, version: int, status) -> None:
        forms = [form for form in self._versions.get(name.decode(), ()) if form.since <= version]
        if status:
            status[0] = _PROC_ADDRESS_FOUND if forms else _PROC_ADDRESS_NOT_FOUND
        if not forms:
            put(out, 0)
            raise DriverError(NOT_FOUND)
        newest = max(forms, key=lambda form: form.since)
        put(out, self.library.address_of(newest.symbol))

    def explain(self, error: BaseException) -> str | None:
        """What the emulated driver knows about an exception that a program died of; None if nothing."""
        seen: BaseException | None = error
        while seen is not None:
            package = type(seen).__module__.split(".")[0]
            if type(seen).__name__ in _ERRORS.get(package, ()):
                return self.details[-1] if self.details else None
            if isinstance(seen, ValueError) and _TRITON_REFUSES in str(seen):
                return self.details[-1] if self.details else None
            seen = seen.__cause__ or seen.__context__
        return None


def _nothing(device: int) -> None:
    pass


def installed_driver() -> Driver | None:
    """The one of this process, if it runs under ``gpusim run``."""
    return _installed


def _all_names() -> list[str]:
    """Every driver function that the installed bindings know."""
    return [
        name
        for name in dir(binding)
        if name.startswith("cu") and name[2:3].isupper() and callable(getattr(binding, name))
    ]


class installed:
    """``with installed(device, ledger) as driver``: the device is there while the block runs."""

    def __init__(
        self,
        device: Device,
        ledger: Ledger,
        interrupts: Interrupts | None = None,
        source: KernelSource | None = None,
    ):
        self._driver = Driver(device, ledger, interrupts or Interrupts(lambda: None), source)

    def __enter__(self) -> Driver:
        global _installed
        if _installed is not None:
            raise UsageError("an emulated driver is already installed in this process: use one process a run")
        self._driver.open()
        _installed = self._driver
        return self._driver

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # The library stays open and in use: what the program left behind is freed when the process ends.
        self._driver.close()
