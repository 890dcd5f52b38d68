"""Runs a program as a shell would: its streams and signals are its own, its exit code comes back."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence

from gpusim.errors import UsageError

_SIGNALLED = 128


def run_program(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """The exit code, 128 and the signal's number where one ended it. Raises UsageError for a program that is not there."""
    path = shutil.which(command[0], path=environment.get("PATH"))
    if path is None:
        raise UsageError(f"there is no program {command[0]!r}")
    process = subprocess.Popen([path, *command[1:]], env=dict(environment))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the program too, which decides
    try:
        code = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else _SIGNALLED - code
