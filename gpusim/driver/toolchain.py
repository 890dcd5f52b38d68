"""Keeps Ctrl-C alive while Numba's compilers are at work.

Mental model: NVVM and nvJitLink are C code that may take seconds over a large kernel, in which Python runs no signal's
handler. So the main thread lets another thread call them and waits for it, which a signal does end; what the compiler
was asked for is then dropped when it is ready.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from numba.cuda.cudadrv.driver import _Linker  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]
from numba.cuda.cudadrv.nvvm import CompilationUnit  # pyright: ignore[reportMissingImports]

from gpusim.driver.interrupts import Interrupts

#: The calls that take long.
_CALLS = ((CompilationUnit, "compile"), (_Linker, "complete"), (_Linker, "get_linked_ptx"))


class InterruptibleCompilers:
    """While installed, a signal ends the main thread's wait for a compiler; not within a driver call, which holds
    ``interrupts`` back anyway, and whose lock the other thread might need."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._originals: list[Callable] = []

    def install(self) -> None:
        """From now on."""
        self._originals = [getattr(owner, name) for owner, name in _CALLS]
        for (owner, name), original in zip(_CALLS, self._originals, strict=True):
            setattr(owner, name, self._interruptible(original))

    def remove(self) -> None:
        """Leave Numba as it was."""
        for (owner, name), original in zip(_CALLS, self._originals, strict=False):
            setattr(owner, name, original)
        self._originals = []

    def _interruptible(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            if threading.current_thread() is not threading.main_thread() or self._interrupts.inside(sys._getframe()):
                return function(*arguments, **options)
            ended: SimpleQueue = SimpleQueue()

            def work() -> None:
                try:
                    ended.put((function(*arguments, **options), None))
                except BaseException as error:
                    ended.put((None, error))

            threading.Thread(target=work, name="gpusim compiler", daemon=True).start()
            result, error = ended.get()
            if error is not None:
                raise error
            return result

        return call
