"""Runs a program as a shell would: its streams are its own, its exit code comes back, and who would end the caller ends
the program.

Mental model: Ctrl-C reaches both from the terminal, and the program decides. SIGTERM and SIGHUP reach the caller alone
(an init, a batch system), which hands them on and waits, so that what was launched until then is still told.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence

from gpusim.errors import UsageError

_SIGNALLED = 128
_HANDED_ON = (signal.SIGTERM, signal.SIGHUP)


def run_program(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """The exit code, 128 and the signal's number where one ended it. Raises UsageError for a program that is not
    there."""
    path = shutil.which(command[0], path=environment.get("PATH"))
    if path is None:
        raise UsageError(f"there is no program {command[0]!r}")
    process = subprocess.Popen([path, *command[1:]], env=dict(environment))
    handlers = {signal.SIGINT: signal.SIG_IGN} | dict.fromkeys(
        _HANDED_ON, lambda number, _: process.send_signal(number)
    )
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else _SIGNALLED - code
