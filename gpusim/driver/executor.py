"""The thread that launches run on, as the kernel of a GPU runs beside the program that has launched it.

Mental model: a launch is a job. Whoever launches waits for it, so that memory holds the result when the call returns;
but when a signal comes the call returns without it (:mod:`gpusim.driver.interrupts`), and the launch goes on. What the
program then does is its own affair: if it dies of the signal the job is stopped, if it goes on its next driver call
waits for the job, as a GPU's driver does.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from gpusim.driver.interrupts import WAKE, Interrupts

_DONE = object()


class Stopped(BaseException):
    """The run is over: the job is to end where it stands."""


class Job:
    """``run`` under way; ``error`` is what it has raised."""

    def __init__(self, run: Callable[[], None]):
        self.run, self.error, self.finished = run, None, False
        self.events: SimpleQueue = SimpleQueue()
        self._answers: SimpleQueue = SimpleQueue()

    def execute(self) -> None:
        """Run it, in the executor's thread."""
        try:
            self.run()
        except BaseException as error:
            self.error = error
        self.finished = True
        self.events.put(_DONE)

    def ask(self, function: Callable[[], Any]) -> Any:
        """What ``function`` gives in the thread that waits for the job, whose contexts are the program's; None if
        nobody does."""
        self.events.put(function)
        return self._answers.get()

    def answer(self, value: Any) -> None:
        """The answer to :meth:`ask`."""
        self._answers.put(value)


class Executor:
    """Runs one job after another. ``current`` is the job that nobody has waited for to its end, None mostly."""

    def __init__(self, interrupts: Interrupts):
        self._interrupts = interrupts
        self._jobs: SimpleQueue = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pid = 0
        self.current: Job | None = None
        self.stopping = False
        self._answering = False

    def run(self, function: Callable[[], None]) -> None:
        """Run ``function`` and wait for it, as :meth:`finish` does; within a job, at once. Raises Stopped when the run
        is over."""
        self.check()
        if self.is_this_thread():
            function()
            return
        if self._thread is None or self._pid != os.getpid():  # a process that the program has forked has no threads
            self._jobs, self._pid = SimpleQueue(), os.getpid()
            self._thread = threading.Thread(target=self._serve, args=(self._jobs,), name="gpusim launches", daemon=True)
            self._thread.start()
        self.current = job = Job(function)
        self._jobs.put(job)
        self.finish()

    def is_this_thread(self) -> bool:
        """Whether the caller runs in a job."""
        return self._thread is not None and threading.current_thread() is self._thread

    def finish(self) -> bool:
        """Wait for the job that is under way and raise what it has raised. False if a signal came before its end.
        Raises Stopped when the run is over and the job is not."""
        job = self.current
        if job is None or self._answering:  # what the job has asked for makes driver calls of its own
            return True
        while not job.finished:
            self.check()
            event = self._interrupts.wait(job.events)
            if event is WAKE:
                if self._interrupts.is_held():
                    return False
            elif event is not _DONE:
                self._answering = True
                try:
                    answer = _result(event)
                finally:
                    self._answering = False
                job.answer(answer)
        self.current = None
        if job.error is not None:
            error, job.error = job.error, None
            raise error
        return True

    def check(self) -> None:
        """To be called by a job now and then: raises Stopped when the run is over."""
        if self.stopping:
            raise Stopped

    def stop(self, seconds: float) -> bool:
        """End the job that is under way; False if it has not ended after ``seconds``: it is compiling, say."""
        self.stopping = True
        job, end = self.current, time.monotonic() + seconds
        while job is not None and not job.finished:
            try:
                event = job.events.get(timeout=max(0.0, end - time.monotonic()))
            except Empty:
                return False
            if event is not WAKE and event is not _DONE:
                job.answer(None)
        return True

    @staticmethod
    def _serve(jobs: SimpleQueue) -> None:
        while True:
            jobs.get().execute()


def _result(function: Callable[[], Any]) -> Any:
    """What it gives, None if it fails: whoever has asked must not wait for ever."""
    try:
        return function()
    except Exception:
        return None
