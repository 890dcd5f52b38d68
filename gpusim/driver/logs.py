"""The driver's log: what is wrong with a call that returns an error, in words, for programs that ask for it.

Mental model: a list of sentences, numbered from the first; the oldest are dropped where it grows too long. A program is
called with each new one, or takes all from a number on.
"""

from __future__ import annotations

import ctypes
from collections import deque
from ctypes import c_char_p, c_uint

from gpusim.driver.abi import HOST, INVALID_VALUE, UINT_OUT, WORD, WORD_OUT, DriverError, Handles, entry, put

#: Bytes of all messages (cuda.h, cuLogsDumpToMemory).
_MOST_BYTES = 25600
_ERROR = 0  # CU_LOG_LEVEL_ERROR
_TRUNCATED = b"earlier messages are left out\n"
_CALLBACK = ctypes.CFUNCTYPE(None, HOST, ctypes.c_int, c_char_p, ctypes.c_size_t)


class Logs:
    """Entry points cuLogs*."""

    def __init__(self) -> None:
        self._callbacks = Handles(0xF8_0000)
        self._lines: deque[bytes] = deque()
        self._end = self._bytes = 0

    def write(self, sentence: str) -> None:
        """Add a message, and call who wants to know."""
        line = sentence.encode("utf-8", "replace").replace(b"\n", b" ")[: _MOST_BYTES - 1] + b"\n"
        self._lines.append(line)
        self._end += 1
        self._bytes += len(line)
        while self._bytes > _MOST_BYTES:
            self._bytes -= len(self._lines.popleft())
        for function, data in self._callbacks.all():
            _CALLBACK(function)(data, _ERROR, line[:-1], len(line) - 1)

    @entry("cuLogsRegisterCallback", arguments=(HOST, HOST, WORD_OUT))
    def register(self, function: int, data: int, out) -> None:
        if not function:
            raise DriverError(INVALID_VALUE, "the callback of the log is null")
        handle = self._callbacks.new((function, data))
        if out:
            put(out, handle)

    @entry("cuLogsUnregisterCallback", arguments=(WORD,))
    def unregister(self, handle: int) -> None:
        self._callbacks.remove(handle)

    @entry("cuLogsCurrent", arguments=(UINT_OUT, c_uint))
    def current(self, out, flags: int) -> None:
        _no(flags)
        put(out, self._end)

    @entry("cuLogsDumpToFile", arguments=(UINT_OUT, c_char_p, c_uint))
    def to_file(self, iterator, path: bytes | None, flags: int) -> None:
        _no(flags)
        if not path:
            raise DriverError(INVALID_VALUE, "the path is null")
        try:
            with open(path, "wb") as stream:
                stream.writelines(self._from(iterator))
        except OSError as error:
            raise DriverError(INVALID_VALUE, f"{path.decode(errors='replace')}: {error.strerror}") from None
        _advance(iterator, self._end)

    @entry("cuLogsDumpToMemory", arguments=(UINT_OUT, HOST, WORD_OUT, c_uint))
    def to_memory(self, iterator, buffer: int, size, flags: int) -> None:
        _no(flags)
        if not buffer or not size:
            raise DriverError(INVALID_VALUE, "the buffer or its size is null")
        room, lines = size[0] - 1, self._from(iterator)
        left_out = sum(map(len, lines)) > room
        if left_out:
            lines = [line for line in lines if line is not _TRUNCATED]
            while lines and sum(map(len, lines)) > room - len(_TRUNCATED):
                del lines[0]
            if not lines:
                size[0] = 0
                raise DriverError(INVALID_VALUE, "the buffer is too small for the last message of the log")
            lines.insert(0, _TRUNCATED)
        text = b"".join(lines)
        ctypes.memmove(buffer, text + b"\0", len(text) + 1)
        size[0] = len(text)
        _advance(iterator, self._end)

    def _from(self, iterator) -> list[bytes]:
        """The messages from ``iterator`` on."""
        first = self._end - len(self._lines)
        start = iterator[0] if iterator else 0
        lines = list(self._lines)[max(0, start - first) :]
        return [_TRUNCATED, *lines] if start < first else lines


def _no(flags: int) -> None:
    if flags:
        raise DriverError(INVALID_VALUE, f"flags {flags} of the log are reserved")


def _advance(iterator, end: int) -> None:
    if iterator:
        iterator[0] = end
