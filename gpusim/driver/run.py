"""Runs a program as ``python`` would, on the emulated device.

Mental model: the script is the main module, ``sys.argv`` and ``sys.path[0]`` are what it expects, and its
exceptions, exits and exit code are its own. Around it stands the driver; behind it comes the account of its
launches, whichever way it ended.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures.thread import _worker as executor_worker
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from gpusim.driver.device import Device
from gpusim.driver.driver import Driver, installed
from gpusim.driver.interrupts import Interrupts
from gpusim.driver.leaks import leaks_of
from gpusim.driver.ledger import Ledger
from gpusim.driver.python_compilers import PythonCompilers
from gpusim.driver.recording import open_folder
from gpusim.driver.timing import SimulatedClock
from gpusim.driver.wanted import Wanted
from gpusim.errors import GpusimError, UsageError
from gpusim.io.real_path import real_path

SCRIPT_FAILED = 1
INTERRUPTED = 130
#: How long a program that was interrupted may take to come to rest: its last launch, and its threads.
REST_SECONDS = 0.4
_MACHINERY = ("<frozen runpy>", runpy.__file__)
_PACKAGE = str(Path(__file__).parents[1])


@dataclass(frozen=True)
class Ending:
    """How a program ended: ``exit_code``, and what the driver has to say about it, or None. ``at_rest``: nothing of it
    runs any more; otherwise the process must be ended without waiting for its threads."""

    exit_code: int
    explanation: str | None = None
    at_rest: bool = True

    @property
    def interrupted(self) -> bool:
        """It died of a KeyboardInterrupt."""
        return self.explanation == _INTERRUPTED.explanation


def run_program(
    program: str,
    arguments: Sequence[str],
    device: Device,
    *,
    as_module: bool = False,
    wanted: Wanted | None = None,
    record: Path | None = None,
    force: bool = False,
    leak_check: bool = False,
    say: Callable[[str], None] = lambda line: None,
    on_terminated: Callable[[Ledger], None] = lambda ledger: None,
    called: Callable[[str, tuple], None] | None = None,
) -> tuple[Ending, Ledger]:
    """Run the script ``program`` (a module's name if ``as_module``) with ``arguments`` on ``device``.

    ``wanted``: what is to be done with which of its launches; where they are simulated, events tell predicted time.
    ``record``: keep the traces in that folder. ``leak_check``: list the device memory that is left at the end
    (``Ledger.leaks``). ``on_terminated`` is called with what there is when a SIGTERM comes that the
    program does not handle, and ends the process. ``called`` is told of each driver function that has succeeded. The
    script's own output goes where it sends it; its traceback goes to stderr. Raises UsageError for a script that does
    not exist and for settings under which it cannot run.
    """
    wanted = wanted or Wanted()
    if not as_module and not Path(program).exists():
        raise UsageError(f"there is no program {program}")
    folder = open_folder(record, force) if record is not None else None
    clock = SimulatedClock(device, wanted) if wanted.simulate else None
    ledger = Ledger(wanted, folder, clock, say)
    ledger.called = called

    def terminate() -> None:
        if ledger.executor is not None:
            ledger.executor.stop(REST_SECONDS)
        ledger.close(device.spec.name)
        on_terminated(ledger)

    at_rest = False
    try:
        with (
            Interrupts(terminate) as interrupts,
            installed(device, ledger, interrupts, PythonCompilers(interrupts)) as driver,
        ):
            if clock is not None:
                driver.tell_simulated(clock)
            ending = _run(program, arguments, as_module, driver)
            ledger.settle()
            ledger.find_heap_leaks()
            if leak_check:
                ledger.leaks = leaks_of(driver.memory)
            at_rest = driver.executor.stop(REST_SECONDS) and _threads_end(REST_SECONDS)
    finally:
        if clock is not None and at_rest:
            clock.close()
        ledger.close(device.spec.name)
    return replace(ending, at_rest=at_rest), ledger


_INTERRUPTED = Ending(INTERRUPTED, "interrupted")


def _run(program: str, arguments: Sequence[str], as_module: bool, driver: Driver) -> Ending:
    """Run the program and its threads to their end, or to a KeyboardInterrupt."""
    ending = _run_main(program, arguments, as_module, driver)
    try:
        if not ending.interrupted:
            for thread in _threads_of_the_program():
                thread.join()
    except KeyboardInterrupt:
        return _INTERRUPTED
    return ending


def _run_main(program: str, arguments: Sequence[str], as_module: bool, driver: Driver) -> Ending:
    before = list(sys.argv), list(sys.path)
    sys.argv[:] = [program, *arguments]
    # ``gpusim`` itself was started by a script of its own, whose folder is no business of the program.
    sys.path[0] = os.getcwd() if as_module else str(real_path(program).parent)
    try:
        if as_module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program, run_name="__main__")
        return Ending(0)
    except SystemExit as exit_:
        return Ending(_exit_code(exit_))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BaseException as error:
        explanation = driver.explain(error)
        _show(error)
        failure = driver.launches.last_failure or driver.launches.refusal
        if isinstance(error, GpusimError):
            return Ending(error.exit_code)
        if explanation is not None and failure is not None and str(failure.error) == explanation:
            return Ending(failure.error.exit_code, explanation)
        return Ending(SCRIPT_FAILED, explanation)
    finally:
        sys.argv[:], sys.path[:] = before


def _exit_code(exit_: SystemExit) -> int:
    if exit_.code is None:
        return 0
    if isinstance(exit_.code, int):
        return exit_.code & 0xFF
    print(exit_.code, file=sys.stderr)
    return SCRIPT_FAILED


def _show(error: BaseException) -> None:
    """Print the traceback as Python would, without the frames of what runs the program."""
    error.__traceback__ = _own_frames(error.__traceback__)
    if sys.excepthook is sys.__excepthook__:
        traceback.print_exception(error)
    else:
        sys.excepthook(type(error), error, error.__traceback__)


def _own_frames(start: TracebackType | None) -> TracebackType | None:
    while start is not None:
        name = start.tb_frame.f_code.co_filename
        if name not in _MACHINERY and not name.startswith(_PACKAGE):
            return start
        start = start.tb_next
    return None


def _threads_of_the_program() -> list[threading.Thread]:
    """Those that may still launch, which a program waits for at its end; those of executors wait for work for ever."""
    return [
        thread
        for thread in threading.enumerate()
        if thread is not threading.current_thread()
        and not thread.daemon
        and getattr(thread, "_target", None) is not executor_worker
    ]


def _threads_end(seconds: float) -> bool:
    """Whether no thread of the program is left after ``seconds``."""
    end = time.monotonic() + seconds
    for thread in _threads_of_the_program():
        thread.join(max(0.0, end - time.monotonic()))
    return not _threads_of_the_program()
