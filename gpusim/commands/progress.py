"""Say on stderr how far a capture is, once it has taken two seconds; a quick one stays silent.

Mental model: the emulator reports now and then; on a terminal one line is rewritten, elsewhere (a log) a new line is
written at intervals that double, so that an hour leaves a dozen lines.
"""

from __future__ import annotations

import sys
import time

import click

SILENT_SECONDS = 2.0
TERMINAL_SECONDS = 0.5


class CaptureProgress:
    """Called with (kernel, blocks done, blocks in all, warp instructions so far); used as a context manager."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._next = self._start + SILENT_SECONDS
        self._terminal = sys.stderr.isatty()
        self._open = False

    def __enter__(self) -> CaptureProgress:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._open:
            click.echo(err=True)

    def __call__(self, kernel: str, done: int, blocks: int, instructions: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        passed = now - self._start
        self._next = now + (TERMINAL_SECONDS if self._terminal else passed)
        line = f"capturing {kernel}: {done:,} of {blocks:,} blocks, {instructions / 1e6:,.1f} M warp instructions, {passed:.0f} s"
        if self._terminal:
            click.echo(f"\r{line}\x1b[K", nl=False, err=True)
            self._open = True
        else:
            click.echo(line, err=True)
