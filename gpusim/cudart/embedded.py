"""The device of a program that is not Python: what runs when it first calls a function of a library of gpusim.

Mental model: the library has started Python in the program's process, or found it running, and calls :func:`attach`,
which makes one driver for the process and puts it behind the library's functions. What becomes of each launch goes to
the account of the run (:mod:`gpusim.driver.session`); output of kernels goes to C's ``stdout``, in step with the
program's own.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import os
import re
import sys
import threading
from pathlib import Path
from typing import Any

from gpusim.cudart.constants import constants
from gpusim.cudart.runtime import Runtime
from gpusim.driver.device import make_device
from gpusim.driver.driver import Driver, installed_driver
from gpusim.driver.interrupts import Interrupts
from gpusim.driver.leaks import leaks_of
from gpusim.driver.ledger import Ledger
from gpusim.driver.library_folder import SONAME, names_of
from gpusim.driver.session import DEFAULT_GPU, GPU_VARIABLE, Options, current
from gpusim.driver.shared_library import open_library
from gpusim.driver.timing import SimulatedClock
from gpusim.driver.wanted import Wanted
from gpusim.engine.gpu import simulate
from gpusim.errors import GpusimError
from gpusim.launch.instruction_limit import DEFAULT_INSTRUCTION_LIMIT
from gpusim.why.explain import explain

_PYTHON_COMPILERS = "gpusim.driver.python_compilers"
_RUNTIME = re.compile(r"libcudart\.so\.(\d+)$")
_process: Process | None = None
_lock = threading.RLock()


class CStandardOutput:
    """A text stream that writes to the C library's ``stdout``."""

    encoding, errors = "utf-8", "surrogateescape"

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        self._stream = ctypes.c_void_p.in_dll(self._libc, "stdout")

    def write(self, text: str) -> int:
        """Append ``text`` to what the program has printed."""
        data = text.encode(self.encoding, self.errors)
        self._libc.fwrite(data, ctypes.c_size_t(1), ctypes.c_size_t(len(data)), self._stream)
        return len(text)

    def flush(self) -> None:
        """As of a file."""
        self._libc.fflush(self._stream)

    def isatty(self) -> bool:
        """Whether somebody looks on."""
        return os.isatty(1)


class Process:
    """The device of this process."""

    def __init__(self, folder: Path):
        self._session = current()
        options = self._session.options() if self._session is not None else _from_environment()
        self.number = self._session.enter() if self._session is not None else 0
        self._options = options
        device = make_device(options.gpu, options.pageable, options.devices)
        wanted = Wanted(
            options.simulate, options.sample, options.cold, options.explain, frozenset(options.checks), options.kernel,
            options.skip, options.count, options.instruction_limit or DEFAULT_INSTRUCTION_LIMIT,
        )  # fmt: skip
        record = Path(options.record) if options.record else None
        if record is not None and self.number:
            record = record / f"process-{self.number}"
            record.mkdir(parents=True, exist_ok=True)
        clock = SimulatedClock(device, wanted) if options.simulate else None
        self._ledger = Ledger(wanted, record, clock, _say)
        self._ledger.told, self._ledger.refusal = self._tell, _say
        interrupts, source = Interrupts(lambda: None), None
        if _is_python():  # the import of Numba, which nothing else needs, would double what the driver costs to load
            source = importlib.import_module(_PYTHON_COMPILERS).PythonCompilers(interrupts)
        self.driver = Driver(device, self._ledger, interrupts, source)
        if self._session is None:  # the variable speaks of this machine's devices, which these are not
            self.driver.contexts.setting = lambda: None
        self.driver.launches.deferred = not _is_python()  # programs of C compare what each call returns
        if clock is not None:
            self.driver.tell_simulated(clock)
        path = folder / SONAME
        self.driver.open(open_library(path, names_of(path)) if path.exists() else None)
        if clock is not None or options.leak_check or "leak" in options.checks:
            self._at_exit = ctypes.CFUNCTYPE(None)(self._end)
            ctypes.CDLL(None).__getattr__("__cxa_atexit")(self._at_exit, None, None)
        self.runtimes: dict[str, Runtime] = {}

    def attach(self, folder: Path, soname: str) -> None:
        """Put the device behind the library ``soname`` of ``folder``."""
        runtime = _RUNTIME.match(soname)
        if runtime is None or soname in self.runtimes:
            return
        path = folder / soname
        names = names_of(path)
        made = self.runtimes[soname] = Runtime(self.driver, int(runtime[1]))
        library = open_library(path, names, constants(made.state.major))
        made.fill(library, names)
        atexit.register(library.close)  # destructors of C++ call the runtime after a Python program has gone
        self.driver.contexts.when_initialized(library.refuse_after_fork)

    # ---- the account -------------------------------------------------------------------------

    def _tell(self, kind: str, record: dict[str, Any]) -> None:
        if self._session is not None:
            self._session.append(kind, {"process": self.number, "pid": os.getpid(), **record})
        if kind == "launch" and self._ledger.kept:
            self._explain()

    def _explain(self) -> None:
        """Say what limits the launches that were kept for it, now: the program may end in any way."""
        kept, self._ledger.kept = self._ledger.kept, []
        spec, sample = self.driver.device.spec, self._options.sample
        for each in kept:
            warm = () if each.before is None else (each.before,)
            result = simulate(each.trace, spec, warm=warm, sample=sample)
            found = explain([each.trace], spec, result, warm=warm, sample=sample)
            self._tell("why", {"launch": each.number, "sentence": found.sentence})

    def _end(self) -> None:
        """The program has come to its end."""
        self._ledger.settle()
        if self._options.leak_check or "leak" in self._options.checks:
            self._show_leaks()

    def _show_leaks(self) -> None:
        """What is left at the end of the program: of the device heap by kernels, and of the device's memory by the
        program."""
        self._ledger.find_heap_leaks()
        if not self._options.leak_check:
            return
        for row in leaks_of(self.driver.memory):
            self._tell("leak", {"row": row})
        self._tell("leaks checked", {})


class _Joined(Process):
    """A process whose device is there already: a Python under ``gpusim run`` that loads the runtime too."""

    def __init__(self, driver: Driver):
        self.driver, self.runtimes = driver, {}


def attach(folder: str, soname: str) -> None:
    """Called by the library ``soname`` of ``folder`` at the first call of one of its functions. What fails is said on
    stderr, and leaves the library's functions to return CUDA_ERROR_NOT_INITIALIZED."""
    global _process
    with _lock:
        try:
            if _process is None:
                driver = installed_driver()
                if driver is not None:
                    _process = _Joined(driver)
                else:
                    if not _is_python():
                        sys.stdout = CStandardOutput()  # pyright: ignore[reportAttributeAccessIssue]
                    _process = Process(Path(folder))
            _process.attach(Path(folder), soname)
        except GpusimError as error:
            _say(f"the device cannot be had: {error}")


def _is_python() -> bool:
    """Whether the program is Python itself, whose output goes where it sends it."""
    return os.path.basename(os.path.realpath("/proc/self/exe")).startswith("python")


def _from_environment() -> Options:
    return Options(gpu=os.environ.get(GPU_VARIABLE) or DEFAULT_GPU)


def _say(line: str) -> None:
    os.write(2, f"gpusim: {line}\n".encode(errors="replace"))
