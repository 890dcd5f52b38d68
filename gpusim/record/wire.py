"""What a recorded process and the collector say to each other: frames of known length, checked before they are
believed.

Mental model: a frame is eight bytes (payload bytes, type, version, zero) and a payload of at most MOST_FRAME_BYTES. A
batch is a sequence of items, each told by its tag: a GPU, a kernel and an NVTX range before the first row that names
them, and rows. Nothing is allocated by a number that a message tells before its bytes are there.
docs/reference/record-wire.md has the layout.

Raises WireError for whatever is no such frame; the connection that sent it is closed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from gpusim.errors import WireError

VERSION = 1
HELLO, BATCH, EVENTS, ACKNOWLEDGED, CAPTURE, FORWARD, FORWARD_COMPRESSED = 1, 2, 3, 4, 5, 6, 7
FORWARDS = (FORWARD, FORWARD_COMPRESSED)
MOST_FRAME_BYTES = 1 << 20
MOST_ROWS, MOST_NAME_BYTES, MOST_RANGE_BYTES, MOST_BINS, MOST_DEVICES = 4096, 2048, 256, 64, 64
KINDS = ("launch", "cooperative", "graph", "in graph", "captured", "other")
_HEADER = struct.Struct("<IBBH")
HEADER_BYTES = _HEADER.size
_HELLO = struct.Struct("<16sIiB")
_BATCH = struct.Struct("<QQQ")
_GPU = struct.Struct("<B16s")
_KERNEL = struct.Struct("<IQQHIH")
_RANGE = struct.Struct("<HH")
_ROW = struct.Struct("<IIIHHHHHHIHBBQQQQQB")
_BIN = struct.Struct("<hI")
_EVENT = struct.Struct("<QIIHHHHHHIIIBBH4x")
_NUMBER = struct.Struct("<Q")


@dataclass(frozen=True)
class Hello:
    """A process: ``source`` 16 random bytes, its rank or -1, its container's short id or ""."""

    source: bytes
    pid: int
    rank: int
    container: str


@dataclass(frozen=True)
class Kernel:
    """A kernel as the recorder knows it; ``code_hash`` 0 where its code was not seen."""

    name: str
    name_hash: int
    code_hash: int
    registers: int
    static_shared_bytes: int


UNKNOWN = Kernel("", 0, 0, 0, 0)


@dataclass(frozen=True)
class ProcessRow:
    """Launches of one kernel, shape, stream, range, GPU and minute (of Unix time) in one process. ``bins``: see
    :mod:`gpusim.record.sketch`; the three times are 0 where nothing was ``timed``."""

    minute: int
    kernel: Kernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    stream: int
    kind: str
    gpu: str
    nvtx: str
    launches: int
    timed: int
    sum_ns: int
    least_ns: int
    most_ns: int
    bins: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Batch:
    """Rows under a ``number`` that counts up from 1 within a source; ``dropped`` launches since the last one."""

    number: int
    dropped: int
    lost_events: int
    rows: list[ProcessRow]


@dataclass(frozen=True)
class Event:
    """One launch of a full capture, at ``time_ns`` of Unix time, or, where there is a ``duration_ns``, one kernel's
    time on the GPU.

    ``timed``: the launch's time on the GPU is told, if at all, by another event of the same ``correlation``."""

    time_ns: int
    duration_ns: int | None
    kernel: Kernel
    nvtx: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    stream: int
    correlation: int
    device: int
    gpu: str
    kind: str
    timed: bool


class _Reader:
    """Bytes that are taken from the front, never beyond the end."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def take(self, shape: struct.Struct) -> tuple:
        if len(self.data) - self.at < shape.size:
            raise WireError(f"a frame of {len(self.data)} bytes ends within an item at byte {self.at}")
        self.at += shape.size
        return shape.unpack_from(self.data, self.at - shape.size)

    def text(self, count: int, most: int) -> str:
        if count > most or len(self.data) - self.at < count:
            raise WireError(f"a text of {count} bytes at byte {self.at}: at most {most}, and within the frame")
        self.at += count
        return self.data[self.at - count : self.at].decode("utf-8", "replace")


def header(data: bytes) -> tuple[int, int]:
    """(payload bytes, type) of a frame's first eight bytes."""
    count, kind, version, zero = _HEADER.unpack(data)
    if version != VERSION or zero or not HELLO <= kind <= FORWARD_COMPRESSED or count > MOST_FRAME_BYTES:
        raise WireError(f"no frame: version {version}, type {kind}, {count} bytes (at most {MOST_FRAME_BYTES})")
    return count, kind


def frame(kind: int, payload: bytes) -> bytes:
    """A frame ready to be sent."""
    if len(payload) > MOST_FRAME_BYTES:
        raise WireError(f"a frame of {len(payload)} bytes, at most {MOST_FRAME_BYTES}")
    return _HEADER.pack(len(payload), kind, VERSION, 0) + payload


def numbered(kind: int, number: int) -> bytes:
    """An acknowledgement of a batch, or the order to capture for that many seconds."""
    return frame(kind, _NUMBER.pack(number))


def number_of(payload: bytes) -> int:
    """What :func:`numbered` has packed."""
    if len(payload) != _NUMBER.size:
        raise WireError(f"a number of {len(payload)} bytes, not {_NUMBER.size}")
    return _NUMBER.unpack(payload)[0]


def read_hello(payload: bytes) -> Hello:
    """The first frame of a connection."""
    reader = _Reader(payload)
    source, pid, rank, count = reader.take(_HELLO)
    container = reader.text(count, 64)
    if reader.at != len(payload) or not -1 <= rank < 1 << 30 or not container.isascii():
        raise WireError(f"no greeting: {len(payload)} bytes, rank {rank}")
    return Hello(source, pid, rank, container)


def read_events(payload: bytes) -> list[Event]:
    """Launches and times of a full capture, with what they name."""
    reader, names, found = _Reader(payload), _Names(), list[Event]()
    while reader.at < len(payload):
        tag = payload[reader.at]
        reader.at += 1
        if tag in b"ET":
            values = reader.take(_EVENT)
            (duration_ns,) = reader.take(_NUMBER) if tag == ord("T") else (None,)
            found.append(_event(values, duration_ns, names))
        else:
            names.take(tag, reader)
    return found


def read_batch(payload: bytes) -> Batch:
    """Rows, with what they name."""
    reader = _Reader(payload)
    number, dropped, lost = reader.take(_BATCH)
    names, rows = _Names(), list[ProcessRow]()
    while reader.at < len(payload):
        tag = payload[reader.at]
        reader.at += 1
        if tag == ord("W") and len(rows) < MOST_ROWS:
            rows.append(_row(reader, names.gpus, names.kernels, names.ranges))
        else:
            names.take(tag, reader)
    return Batch(number, dropped, lost, rows)


class _Names:
    """What a frame has told so far."""

    def __init__(self) -> None:
        self.gpus: dict[int, str] = {}
        self.kernels: dict[int, Kernel] = {0: UNKNOWN}
        self.ranges: dict[int, str] = {0: ""}

    def take(self, tag: int, reader: _Reader) -> None:
        """One more. Raises WireError for another tag."""
        if tag == ord("K") and len(self.kernels) <= MOST_ROWS:
            slot, name_hash, code_hash, registers, shared, count = reader.take(_KERNEL)
            self.kernels[slot] = Kernel(reader.text(count, MOST_NAME_BYTES), name_hash, code_hash, registers, shared)
        elif tag == ord("R") and len(self.ranges) <= MOST_ROWS:
            slot, count = reader.take(_RANGE)
            self.ranges[slot] = reader.text(count, MOST_RANGE_BYTES)
        elif tag == ord("G") and len(self.gpus) < MOST_DEVICES:
            device, uuid = reader.take(_GPU)
            self.gpus[device] = uuid.hex()
        else:
            raise WireError(f"an item of tag {tag} at byte {reader.at - 1}")


def _event(values: tuple, duration_ns: int | None, names: _Names) -> Event:
    t, kernel, gx, gy, gz, bx, by, bz, nvtx, shared, stream, number, device, kind, flags = values
    if kernel not in names.kernels or nvtx not in names.ranges or max(t, duration_ns or 0) >= 1 << 62:
        raise WireError(f"an event at {t} ns names kernel {kernel}, range {nvtx}: one is not told, or its time is none")
    return Event(
        t, duration_ns, names.kernels[kernel], names.ranges[nvtx], (gx, gy, gz), (bx, by, bz), shared, stream, number,
        device, names.gpus.get(device, ""), _kind(kind), bool(flags & 1),
    )  # fmt: skip


def _kind(number: int) -> str:
    if number >= len(KINDS):
        raise WireError(f"a launch of kind {number}")
    return KINDS[number]


def _row(reader: _Reader, gpus: dict[int, str], kernels: dict[int, Kernel], ranges: dict[int, str]) -> ProcessRow:
    (minute, kernel, gx, gy, gz, bx, by, bz, nvtx, shared, stream, device, kind, launches, timed, total, least, most, count) = (
        reader.take(_ROW)
    )  # fmt: skip
    if kernel not in kernels or nvtx not in ranges or count > MOST_BINS:
        raise WireError(f"a row at byte {reader.at} names kernel {kernel}, range {nvtx}, {count} bins: one is not told")
    bins: dict[int, int] = {}
    for _ in range(count):
        index, number = reader.take(_BIN)
        bins[index] = bins.get(index, 0) + number
    if sum(bins.values()) != timed or max(launches, timed, total) >= 1 << 62:
        raise WireError(f"a row at byte {reader.at}: {timed} timed launches, {sum(bins.values())} in its sketch")
    gpu = gpus.get(device, "" if device == 255 else str(device))
    times = (total, least, most) if timed else (0, 0, 0)
    return ProcessRow(
        minute, kernels[kernel], (gx, gy, gz), (bx, by, bz), shared, stream, _kind(kind), gpu, ranges[nvtx], launches, timed,
        *times, bins,
    )  # fmt: skip
