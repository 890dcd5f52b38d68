"""Worker processes that never outlive the command that started them.

Mental model: parent and workers hold the two ends of a pipe through which nothing is ever sent. However the parent
ends (its work done, an error, Ctrl-C, SIGKILL), the system closes its end, a thread of each worker sees that, and the
worker exits. The workers of a command that fails end the same way, without waiting for work whose result is not used.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from types import FrameType
from typing import Any

from gpusim.errors import ExecutionError
from gpusim.io.garbage import seldom

#: Exit code of a worker whose parent has gone. Nobody reads it.
ORPHANED = 1


class _Process(SpawnProcess):
    """A worker whose start is not broken off: it would find half of what it is to be told, and show a traceback of its
    own."""

    def start(self) -> None:
        resource_tracker.ensure_running()  # starting it would let through the signals that are held back here
        with _held_back():
            super().start()


class _Context(SpawnContext):
    """Makes workers, and knows them."""

    def __init__(self) -> None:
        super().__init__()
        self._made: list[_Process] = []

    def Process(self, *args: Any, **options: Any) -> _Process:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._made.append(_Process(*args, **options))
        return self._made[-1]

    def kill(self) -> None:
        """End them at once: one that is only beginning would miss what its parent takes away, and show a traceback."""
        for process in self._made:
            if process.pid is not None:
                process.kill()


@contextlib.contextmanager
def _held_back() -> Iterator[None]:
    """Ctrl-C and SIGTERM that come within the block take effect at its end. A process that is started in it never sees
    Ctrl-C, which a terminal sends to it as well: its parent ends it."""
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    mask = signal.pthread_sigmask(
        signal.SIG_BLOCK, (signal.SIGINT,)
    )  # a process inherits the mask of the thread that starts it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


@contextlib.contextmanager
def worker_pool(
    jobs: int, initializer: Callable[..., None] | None = None, initargs: tuple[Any, ...] = ()
) -> Iterator[ProcessPoolExecutor]:
    """A pool of ``jobs`` spawned processes; each calls ``initializer(*initargs)`` first.

    When the block ends well, so do the workers, after all that was submitted; when it raises, they are ended at once
    and what waited is dropped. Raises ExecutionError where a worker has died by itself (killed, out of memory).
    """
    # spawn, not fork: a fork would copy locks of threads that do not exist in the child.
    context = _Context()
    theirs, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(jobs, context, _begin, (theirs, initializer, initargs))
    try:
        yield pool
        pool.shutdown()
    except BrokenProcessPool:
        raise ExecutionError(
            "a worker process died (killed, or out of memory); try again, perhaps with fewer --jobs"
        ) from None
    except BaseException:
        context.kill()
        raise
    finally:
        ours.close()
        pool.shutdown(cancel_futures=True)
        theirs.close()


def _begin(lifeline: Connection, initializer: Callable[..., None] | None, initargs: tuple[Any, ...]) -> None:
    """In a worker: from now on live as long as the parent, and leave Ctrl-C, which reaches both, to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    seldom()  # it loads all that its first task needs
    threading.Thread(target=_end_with, args=(lifeline,), name="lifeline", daemon=True).start()
    if initializer is not None:
        initializer(*initargs)


def _end_with(lifeline: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv_bytes()
    # Not sys.exit: the main thread may be in the middle of minutes of work.
    os._exit(ORPHANED)
