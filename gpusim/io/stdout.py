"""The standard streams of a command, made safe: a reader that has gone, a stream that is closed, a full disk.

Mental model: ``gpusim compare ... --junit out.xml | head -1`` must write its JUnit file and exit with its verdict, so
output that nobody reads is dropped and the command goes on. A stream that the shell has closed (``>&-``) is one that
nobody reads. Where output is lost although somebody wants it (a full disk), the OSError names the stream. What the
stream's encoding cannot hold is no reason to fail: bytes of a file's name stay what they are, other signs are written
as escapes.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import TextIO

#: How a stream writes what its encoding does not have.
AS_ESCAPE = "gpusim_as_escape"


def _as_escape(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeEncodeError):
        text = error.object[error.start : error.end]
        if all("\udc80" <= sign <= "\udcff" for sign in text):  # bytes of a file's name that are no UTF-8
            return bytes(ord(sign) - 0xDC00 for sign in text), error.end
    return codecs.backslashreplace_errors(error)


codecs.register_error(AS_ESCAPE, _as_escape)


class PatientFile(io.FileIO):
    """A file by its descriptor that drops what is written once its reader has gone. ``called``: its name in an
    error."""

    def __init__(self, descriptor: int, called: str) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.called = called

    def write(self, data: bytes) -> int | None:
        """As of a raw file; OSError names it."""
        try:
            return super().write(data)
        except OSError as error:
            # From now on it leads nowhere, so that neither the next write nor Python's exit fails again.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if not isinstance(error, BrokenPipeError):
                raise type(error)(error.errno, error.strerror, self.called) from None
            return len(data)


def patient(stream: TextIO, called: str) -> TextIO:
    """A text stream to where ``stream`` (no terminal) leads, through a :class:`PatientFile`."""
    file = io.BufferedWriter(PatientFile(stream.fileno(), called))
    return io.TextIOWrapper(file, stream.encoding, AS_ESCAPE)


def open_closed_streams() -> None:
    """Let stdin, stdout and stderr that the shell has closed lead nowhere. In this order: each takes the lowest
    free descriptor, so that no file opened later becomes what others take for a standard stream."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode)  # noqa: SIM115 - a standard stream stays open
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
