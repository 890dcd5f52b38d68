"""SIGINT and SIGTERM of a command: an exception that nobody on its way can lose or change.

Mental model: a signal becomes an exception at whatever Python is about to do. Where that is a function which C code has
called (LLVM's look into Numba's cache, a ``__del__``), Python reports the exception and drops it: the command would go
on, or end with the error of a C library whose question was not answered. So a dropped one is sent again, until it
arrives outside of such a function; and an error that follows a signal is told as the signal.
"""

from __future__ import annotations

import _thread
import signal
import sys
from types import FrameType
from typing import Any


class Terminated(BaseException):
    """Somebody ended this process with SIGTERM; raised so that temporary files go with it."""


class Trip(int):
    """A signal's number. Reading ``now`` raises the signal in the main thread; unlike a call, that gives Python no
    occasion to run its handler before the function that reads it has returned."""

    now = property(_thread.interrupt_main)


_RAISED: dict[int, type[BaseException]] = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}
#: The signals that have arrived.
_arrived: list[int] = []


def listen(*, interrupts: bool) -> None:
    """Let SIGTERM raise in the main thread, and if ``interrupts`` SIGINT too, unless it is ignored as behind a shell.
    Without, this is a process for somebody's program, whose dropped exceptions are its own."""
    signal.signal(signal.SIGTERM, _arrive)
    if not interrupts:
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _arrive)
    sys.unraisablehook = _dropped


def ended_by() -> type[BaseException] | None:
    """What the last signal raised, even if something else was heard of it in the end; None if none has arrived."""
    return _RAISED[_arrived[-1]] if _arrived else None


def _arrive(number: int, frame: FrameType | None) -> None:
    _arrived.append(number)
    raise _RAISED[number]


def _dropped(report: Any) -> None:
    for number, kind in _RAISED.items():
        if report.exc_type is kind:
            return Trip(number).now
    return sys.__unraisablehook__(report)
