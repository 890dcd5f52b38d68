"""Keeps a program's answers to signals while Python's modules are loaded into it.

Mental model: a Python that is part of another program has no business with its Ctrl-C; some modules set handlers all
the same when they are imported. What the C library had before is put back as it was.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

#: SIGHUP, SIGINT, SIGPIPE, SIGTERM by number: importing ``signal`` itself sets a handler.
_NUMBERS = (1, 2, 13, 15)
#: More than any system's ``struct sigaction``.
_ACTION_BYTES = 256


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """``with kept()``: handlers that are set meanwhile are undone."""
    libc = ctypes.CDLL(None)
    before = {number: ctypes.create_string_buffer(_ACTION_BYTES) for number in _NUMBERS}
    for number, action in before.items():
        libc.sigaction(number, None, action)
    try:
        yield
    finally:
        for number, action in before.items():
            libc.sigaction(number, action, None)
