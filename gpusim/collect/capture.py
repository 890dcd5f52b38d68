"""Full captures as files: single launches of a process, as a Chrome trace that trace viewers and ``gpusim production
import`` read.

Mental model: a process whose events arrive writes one gzip file in the form of PyTorch's profiler (categories
``kernel`` and ``cuda_driver``, joined by ``correlation``). A kernel without CUPTI has no duration. The file is named
``.part`` until it is complete: after FILE_BYTES, when its process goes, or after QUIET_S without events. The folder is
bounded: the oldest go when all together are more than FOLDER_BYTES. Files have mode 0600.
"""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path

import msgspec

from gpusim.record.wire import Event, Hello

FOLDER = "captures"
#: Of one file before it is compressed, and of all as they lie on the disk. Both are guesses at what is handy and never
#: in the way.
FILE_BYTES, FOLDER_BYTES = 64 << 20, 256 << 20
#: Processes that are captured at once; the events of more are not kept.
MOST_FILES = 256
QUIET_S = 15.0
_encode = msgspec.json.Encoder().encode


class Captures:
    """The files of a collector. Raises OSError where the disk does; what is kept stays valid."""

    def __init__(self, folder: Path, file_bytes: int = FILE_BYTES, folder_bytes: int = FOLDER_BYTES):
        self.folder, self.file_bytes, self.folder_bytes = folder / FOLDER, file_bytes, folder_bytes
        self.events = self.lost = 0
        self._open: dict[bytes, _File] = {}

    def take(self, hello: Hello, user: int, events: list[Event]) -> None:
        """Events of a process."""
        source = hello.source + user.to_bytes(4, "little")
        file = self._open.get(source)
        if file is None:
            if len(self._open) >= MOST_FILES:
                self.lost += len(events)
                return
            self.folder.mkdir(mode=0o700, exist_ok=True)
            file = self._open[source] = _File(self.folder, hello, user)
        try:
            for event in events:
                file.write(event)
        except OSError:
            del self._open[source]
            file.abandon()
            self.lost += len(events)
            raise
        self.events += len(events)
        if file.bytes >= self.file_bytes:
            self.end(hello, user)

    def end(self, hello: Hello, user: int) -> None:
        """The process has gone, or its file is full."""
        file = self._open.pop(hello.source + user.to_bytes(4, "little"), None)
        if file is not None:
            file.close()
            self._forget()

    def end_quiet(self, after_s: float = QUIET_S) -> None:
        """Complete the files that have got nothing for a while."""
        for source, file in list(self._open.items()):
            if time.monotonic() - file.last >= after_s:
                del self._open[source]
                file.close()
                self._forget()

    def _forget(self) -> None:
        found = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in self.folder.glob("*.json.gz"))
        total = sum(size for _, size, _ in found)
        for _, size, path in found[:-1]:
            if total <= self.folder_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size


class _File:
    def __init__(self, folder: Path, hello: Hello, user: int):
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        rank = f"-rank{hello.rank}" if hello.rank >= 0 else ""
        self.path = folder / f"{stamp}-{time.monotonic_ns() % 10**9:09d}-user{user}-pid{hello.pid}{rank}.json.gz"
        self._draft = self.path.with_name(self.path.name + ".part")
        handle = os.open(self._draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        self._raw = os.fdopen(handle, "wb")
        self._out = gzip.GzipFile(filename="", fileobj=self._raw, mode="wb", compresslevel=1)
        self.pid, self.bytes, self.last, self._gpus = hello.pid, 0, time.monotonic(), dict[int, str]()
        self._some = False
        about = (
            {"schemaVersion": 1, "distributedInfo": {"rank": hello.rank}} if hello.rank >= 0 else {"schemaVersion": 1}
        )
        self._about, self._base_ns = _encode(about)[:-1], 0

    def write(self, event: Event) -> None:
        if not self._base_ns:  # times as differences: a double has no microseconds' parts of Unix time
            self._base_ns = max(1, event.time_ns // 10**9 * 10**9)
            self._put(self._about + b',"baseTimeNanoseconds":%d,"traceEvents":[\n' % self._base_ns)
        self.last = time.monotonic()
        if event.gpu:
            self._gpus[event.device] = event.gpu
        if event.duration_ns is None:
            self._event(self._call(event))
            if event.timed or event.kind in ("graph", "captured"):
                return  # what runs on the GPU is told by CUPTI, or is nothing
        self._event(self._kernel(event))

    def close(self) -> None:
        properties = [{"id": device, "uuid": uuid} for device, uuid in sorted(self._gpus.items())]
        self._put(b'\n],"deviceProperties":' + _encode(properties) + b"}\n")
        self._out.close()
        self._raw.close()
        os.replace(self._draft, self.path)

    def abandon(self) -> None:
        """The disk is full: nothing half is left behind."""
        self._draft.unlink(missing_ok=True)
        try:
            self._raw.close()
        except OSError:
            return

    def _event(self, event: dict) -> None:
        self._put((b",\n" if self._some else b"") + _encode(event))
        self._some = True

    def _put(self, data: bytes) -> None:
        self._out.write(data)
        self.bytes += len(data)

    def _us(self, event: Event) -> float:
        return (event.time_ns - self._base_ns) / 1000

    def _call(self, event: Event) -> dict:
        name = "cuGraphLaunch" if event.kind == "graph" else "cuLaunchKernel"
        arguments = {"correlation": event.correlation, "kernel": event.kernel.name}
        return {"ph": "X", "cat": "cuda_driver", "name": name, "pid": self.pid, "tid": self.pid, "ts": self._us(event), "dur": 0,
                "args": arguments | ({"nvtx": event.nvtx} if event.nvtx else {})}  # fmt: skip

    def _kernel(self, event: Event) -> dict:
        arguments = {
            "device": event.device, "stream": event.stream, "correlation": event.correlation, "grid": event.grid, "block": event.block,
            "registers per thread": event.kernel.registers,
            "shared memory": event.kernel.static_shared_bytes + event.dynamic_shared_bytes,
        }  # fmt: skip
        if event.kind in ("in graph", "cooperative"):
            arguments["kind"] = event.kind
        if event.nvtx:
            arguments["nvtx"] = event.nvtx
        time_us = {"ts": self._us(event)} | ({} if event.duration_ns is None else {"dur": event.duration_ns / 1000})
        return {"ph": "X", "cat": "kernel", "name": event.kernel.name or "unknown", "pid": event.device, "tid": event.stream,
                **time_us, "args": arguments}  # fmt: skip
