"""SIGINT and SIGTERM of a program under ``gpusim run``.

Mental model: a driver call is C code to the program, and an exception cannot pass through C. So a signal that comes
while the driver is at work is held back, whatever waits there is woken, and the program's handler is called as soon as
the call has returned, in the program's own code: as if the signal had come just then. Everywhere else it is called at
once. The program sees its own handlers, by default Python's KeyboardInterrupt; a SIGTERM that it does not handle ends
it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import CodeType, FrameType
from typing import Any

from gpusim.io.signalled import Trip

#: What a woken waiter finds in its queue.
WAKE = object()
_HANDLED = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """``with Interrupts(terminate) as interrupts``: keeps signals out of the frames that run ``guarded`` code.
    ``terminate`` ends the process after a SIGTERM that the program does not handle. Outside the main thread, where
    Python cannot set handlers, it does nothing."""

    def __init__(self, terminate: Callable[[], None]):
        self.guarded: CodeType | None = None
        #: the signal that waits for the driver call to return
        self.held: Trip | None = None
        self._terminate, self._pid = terminate, os.getpid()
        self._handlers: dict[int, Any] = {}  # what the program sees
        self._before: dict[int, Any] = {}
        self._pending: list[int] = []
        self._waiting: SimpleQueue | None = None
        self._set, self._get = signal.signal, signal.getsignal

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in _HANDLED:
            found = self._get(number)
            # Not one that is ignored, as under nohup.
            if callable(found) or (number == signal.SIGTERM and found == signal.SIG_DFL):
                self._before[number] = found
                self._handlers[number] = found if number == signal.SIGINT else signal.SIG_DFL
                self._set(number, self._arrived)
        signal.signal, signal.getsignal = self._set_seen, self._get_seen
        return self

    def __exit__(self, *exc_info: object) -> None:
        if signal.signal == self._set_seen:
            signal.signal, signal.getsignal = self._set, self._get
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._before.items():
                self._set(number, handler)

    # ---- what the program calls in place of signal.signal and signal.getsignal --------------------

    def _set_seen(self, number: int, handler: Any) -> Any:
        if number not in _HANDLED:
            return self._set(number, handler)
        seen = self._get_seen(number)
        terminates = number == signal.SIGTERM and handler == signal.SIG_DFL
        self._set(number, self._arrived if callable(handler) or terminates else handler)
        self._handlers[number] = handler
        return seen

    def _get_seen(self, number: int) -> Any:
        return self._handlers[number] if number in self._handlers else self._get(number)

    # ---- signals -----------------------------------------------------------------------------

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        handler = self._handlers.get(number)
        if handler == signal.SIG_DFL:
            self._end()
        if self.inside(frame):
            if number not in self._pending:
                self._pending.append(number)
            self.held = Trip(self._pending[0])
            if self._waiting is not None:
                self._waiting.put(WAKE)
            return
        numbers = [*self._pending, *([] if number in self._pending else [number])]
        self._pending, self.held = [], None
        for each in numbers:
            self._handlers[each](each, frame)

    def inside(self, frame: FrameType | None) -> bool:
        """Whether ``frame`` is part of a driver call."""
        while frame is not None:
            if frame.f_code is self.guarded:
                return True
            frame = frame.f_back
        return False

    def _end(self) -> None:
        if os.getpid() == self._pid:
            self._terminate()
        self._set(signal.SIGTERM, signal.SIG_DFL)  # a process that the program has forked
        os.kill(os.getpid(), signal.SIGTERM)

    def wait(self, queue: SimpleQueue) -> Any:
        """The next item of ``queue``; WAKE, in the main thread, as soon as a signal is held back."""
        if threading.current_thread() is not threading.main_thread():
            return queue.get()
        self._waiting = queue
        try:
            return WAKE if self.held is not None else queue.get()
        finally:
            self._waiting = None

    def is_held(self) -> bool:
        """Whether the calling thread is to return to the program, where a signal waits for it."""
        return self.held is not None and threading.current_thread() is threading.main_thread()
