"""The events of a Chrome trace, some megabytes at a time.

Mental model: a trace is an object whose key ``traceEvents`` holds a list of events, or that list alone. A piece of the
file is cut where one event ends and the next begins ("}, {"), and decoded as a list; a cut that was none (within a
text, within an event) is no list, so that a piece that is one is right. The list's end is where the decoder finds more
than a list. What stands around the list is kept in :attr:`JsonList.about`.

Format: "Trace Event Format" of Chromium; events of the profiler of PyTorch (Kineto, ``output_json.cpp``). Not numbers
(nan, inf), which older Kineto writes, are read as -1.

Raises ProductionError, with the number of the event, for a file that is cut short or damaged.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import msgspec

from gpusim.errors import ProductionError
from gpusim.io.records import whole_escapes

CHUNK_BYTES = 1 << 20
#: What may stand before the list, what after it, and how long one event may be.
MOST_AROUND_BYTES = MOST_EVENT_BYTES = 1 << 25
GZIP = b"\x1f\x8b"
_NEXT = re.compile(rb"\s*,\s*\{")
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_NOT_NUMBER = re.compile(rb"(?<=:)\s*[-+]?(?:nan|NaN|inf|Infinity)(?=\s*[,}\]])")
_NOT_UTF8 = re.compile(r"[\udc80-\udcff]")
_CUTS = 16


class Event(msgspec.Struct, gc=False):
    """One event; times in microseconds. ``args`` is decoded by who needs it."""

    ph: str = ""
    cat: str | None = None
    name: str = ""
    ts: int | float | None = None
    dur: int | float | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"")


T = TypeVar("T")


class JsonList(Generic[T]):
    """What the list under ``key`` in ``path``, gzipped or not, holds: objects that are read as ``kind``. ``alone``: the
    file may be the list alone. ``read_bytes``: of the file so far, for progress."""

    def __init__(self, path: Path, key: str, kind: type[T], alone: bool = False) -> None:
        self.path, self.about, self.count = path, {}, 0
        self._key, self._alone = key, alone
        self._list = re.compile(rb'"%s"\s*:\s*\[' % key.encode())
        listed: Any = list.__class_getitem__(kind)  # a type that is known at run time alone
        self._decoder: msgspec.json.Decoder[list[T]] = msgspec.json.Decoder(listed)
        self._file: BinaryIO = path.open("rb")
        self._stream: BinaryIO = self._file
        if self._file.read(2) == GZIP:
            self._file.seek(0)
            self._stream = gzip.GzipFile(fileobj=self._file)  # type: ignore[assignment]
        else:
            self._file.seek(0)

    @property
    def read_bytes(self) -> int:
        """Of the file as it lies on the disk."""
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def batches(self) -> Iterator[list[T]]:
        """All events, a list after another; afterwards ``about`` is complete."""
        waiting = self._head()
        while True:
            more = self._read(CHUNK_BYTES)
            waiting += more
            if not more:
                break
            for end in self._ends(waiting):
                events, ended = self._decoded(waiting[:end])
                if events is None:
                    continue
                if ended is not None:
                    yield self._counted(events)
                    self._tail(waiting[ended:])
                    return
                yield self._counted(events)
                waiting = waiting[waiting.index(b"{", end) :]
                break
            else:
                if len(waiting) > MOST_EVENT_BYTES:
                    raise self._wrong(f"more than {MOST_EVENT_BYTES} bytes that are no events")
        yield from self._rest(waiting)

    def _rest(self, waiting: bytes) -> Iterator[list[T]]:
        """What is left when the file has ended: the last events and what follows the list."""
        if not self._bare or b"]" in waiting[-16:]:
            events, ended = self._decoded(waiting, b"")
            if events is not None:
                yield self._counted(events)
                if ended is not None:
                    self._tail(waiting[ended:])
                elif not self._bare:
                    raise self._wrong("the file is cut short after the events")
                return
        if self._bare:  # the list's end may be left out, says the format
            events, _ = self._decoded(waiting.rstrip(b", \r\n\t"))
            if events is not None:
                yield self._counted(events)
                return
        raise self._wrong("the file is cut short")

    def _head(self) -> bytes:
        """Read up to the list; what has been read of the list."""
        data = b""
        while len(data) < MOST_AROUND_BYTES:
            more = self._read(CHUNK_BYTES)
            data += more
            stripped = data.removeprefix(b"\xef\xbb\xbf").lstrip()
            self._bare = self._alone and stripped[:1] == b"["
            if self._bare:
                return stripped[1:]
            if stripped[:1] not in (b"{", b""):
                break
            for found in self._list.finditer(stripped):
                try:
                    self.about = _object(stripped[: found.end()] + b"]}")
                except ValueError:
                    continue
                return stripped[found.end() :]
            if not more:
                break
        raise ProductionError(f"{self.path}: no trace: no list {self._key} in a JSON object")

    def _tail(self, data: bytes) -> None:
        while len(data) <= MOST_AROUND_BYTES and (more := self._read(CHUNK_BYTES)):
            data += more
        if self._bare:
            if data.strip():
                raise self._wrong("something follows the list of events")
            return
        try:
            self.about |= _object(b'{"":0' + data)
        except ValueError as error:
            raise self._wrong(f"what follows the events is damaged ({error})") from None

    def _ends(self, data: bytes) -> Iterator[int]:
        """Where events may end, from the last on, a few of them; at last all of the data, which may hold the list's
        end."""
        at, tried = len(data), 0
        while tried < _CUTS and (at := data.rfind(b"}", 0, at)) >= 0:
            if _NEXT.match(data, at + 1):
                yield at + 1
                tried += 1

    def _decoded(self, piece: bytes, end: bytes = b"]") -> tuple[list[T] | None, int | None]:
        """The events of a piece and, where the list ends within it, the place behind that; None if the piece is no
        list."""
        data, message = b"[" + piece + end, ""
        for _ in range(2):
            try:
                return self._decoder.decode(data), None if end else len(piece)
            except msgspec.ValidationError as error:
                raise self._wrong(f"nothing that stands in a list {self._key}: {error}") from None
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                message = str(error)
                if trailing := _TRAILING.search(message):
                    at = int(trailing[1]) - 1  # it counts the character that is too much
                    return self._decoder.decode(data[:at]), at - 1
                if "truncated" in message:
                    return None, None
                if (mended := _mended(data)) == data:
                    break
                data = mended
        raise self._wrong(f"damaged ({message})")

    def _counted(self, events: list[T]) -> list[T]:
        self.count += len(events)
        return events

    def _wrong(self, what: str) -> ProductionError:
        return ProductionError(f"{self.path}, after {self.count} of {self._key}: {what}")

    def _read(self, count: int) -> bytes:
        try:
            return self._stream.read(count)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self._wrong(f"the gzip file is damaged or cut short ({error})") from None


def trace_events(path: Path) -> JsonList[Event]:
    """The events of a Chrome trace."""
    return JsonList(path, "traceEvents", Event, alone=True)


def _mended(data: bytes) -> bytes:
    """A text of the same length without what older profilers write and JSON has not: numbers that are none (they become
    -1, which no time can be), bytes that are no UTF-8, halves of surrogate pairs."""
    data = _NOT_NUMBER.sub(lambda found: b"-1".ljust(len(found[0])), data)
    text = data.decode("utf-8", "surrogateescape")
    return whole_escapes(_NOT_UTF8.sub("?", text).encode())


def _object(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(_mended(data), type=dict[str, Any])
    except RecursionError:
        raise ValueError("nested too deeply") from None
