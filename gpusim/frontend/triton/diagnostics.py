"""What Triton's C++ passes say of a kernel that they refuse.

Mental model: MLIR writes its errors, and the whole module behind them, to the process's file descriptor 2; the
exception that reaches Python says only that a pass failed. So while Triton compiles, descriptor 2 leads through a pipe:
a thread passes on what comes (progress, warnings) at once, but holds back from the first error on. An exception then
gets its reason from there; where none comes, it is passed on after all.
"""

from __future__ import annotations

import linecache
import os
import re
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_STDERR, _PART_BYTES = 2, 1 << 16
#: Seconds to wait for the end of the pipe, which a process that was started meanwhile may still hold.
_PATIENCE_SECONDS = 1.0
#: Seconds after which half a line is taken as it is.
_LINE_SECONDS = 0.1
_ERROR = re.compile(r"^(?:loc\(.*?\): |(?P<file>[^\n:]+):(?P<line>\d+):\d+: )?error: (?P<reason>.+)$", re.MULTILINE)
#: How MLIR says that a pass failed, of whose reason an error before it tells.
_PASS_FAILED = "Failures have been detected"
_PASS = re.compile(r"Pipeline failed while executing \[`(\w+)`")


class Diagnostics:
    """Passes on what is written to descriptor 2 until MLIR's first error; :attr:`held` is what has come from there
    on."""

    def __init__(self) -> None:
        self.held = b""
        self._real = os.dup(_STDERR)
        self._read, write = os.pipe()
        os.dup2(write, _STDERR)
        os.close(write)
        self._holding = True
        self._thread = threading.Thread(target=self._relay, name="triton diagnostics", daemon=True)
        self._thread.start()

    def _relay(self) -> None:
        pending = b""
        while part := os.read(self._read, _PART_BYTES):
            pending += part
            if not pending.endswith((b"\n", b"\r")) and select.select([self._read], [], [], _LINE_SECONDS)[0]:
                continue  # MLIR writes a line in pieces
            if self._holding and (self.held or _ERROR.search(pending.decode(errors="replace"))):
                self.held += pending
            else:
                self._pass_on(pending)
            pending = b""
        os.close(self._read)
        os.close(self._real)

    def _pass_on(self, part: bytes) -> None:
        with suppress(OSError):  # a stderr that is gone is no reason to stop a compilation
            while part:
                part = part[os.write(self._real, part) :]

    def end(self) -> None:
        """Give descriptor 2 back."""
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os.dup2(self._real, _STDERR)
        self._thread.join(_PATIENCE_SECONDS)
        self._holding = False

    def reason(self) -> str:
        """The first error in one line, with its place in the kernel's source and the pass that it is of; empty where
        there is none."""
        text = self.held.decode(errors="replace")
        found = [error for error in _ERROR.finditer(text) if not error["reason"].startswith(_PASS_FAILED)]
        failed = _PASS.search(text)
        if not found:
            return f"Triton's pass {failed[1]} fails" if failed else ""
        said = found[0]["reason"].strip()
        if found[0]["file"]:
            line = linecache.getline(found[0]["file"], int(found[0]["line"])).strip()
            said += f" ({Path(found[0]['file']).name}:{found[0]['line']}" + (f", `{line}`)" if line else ")")
        return f"{said}, in Triton's pass {failed[1]}" if failed else said


@contextmanager
def diagnostics() -> Iterator[Diagnostics | None]:
    """While it is entered, errors of MLIR are held back; what has been by a block that raises nothing is passed on at
    its end. None where the process has no stderr."""
    try:
        heard = Diagnostics()
    except OSError:
        yield None
        return
    try:
        yield heard
    except BaseException:
        heard.end()
        raise
    heard.end()
    with suppress(OSError):
        os.write(_STDERR, heard.held)
