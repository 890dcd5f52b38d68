"""Traces of XLA's profiler, as rows: what JAX and TensorFlow write (``*.trace.json.gz``, ``perfetto_trace.json.gz``).

Mental model: a Chrome trace whose processes are devices (``/device:GPU:0``) and whose threads are their streams
(``Stream #13(Compute)``) and what is derived from these (``XLA Ops``, ``XLA Modules``), which would count everything
twice and is passed over. An event on a stream is a kernel or copy; ``kernel_details`` in its ``args`` has the shape,
``hlo_op`` the operator, ``hlo_module`` the compiled function, which stands as the phase. The trace tells neither the
GPU's model nor inputs' shapes.

Sources: XLA's ``xla/backends/profiler/gpu/cupti_collector.cc`` and ``kernel_details.h`` (``ToXStat``), 2024.

Raises ProductionError for a file that is cut short or damaged.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from gpusim.production.file import Production, Source
from gpusim.production.imports.json_events import Event, trace_events
from gpusim.production.imports.names_seen import cut
from gpusim.production.launches import Kind, Launch, LaunchTotal, kept
from gpusim.production.timing.collectives import Collectives

description = "XLA's profiler (JAX, TensorFlow), Chrome trace"
_DEVICE = re.compile(r"/device:GPU:(\d{1,6})(?!\d)")
_STREAM = "Stream #"
_KINDS: dict[str, Kind] = {"memcpy": "memcpy", "memset": "memset"}
MOST_NS = 1 << 61
_Key = tuple[object, object]


class _Args(msgspec.Struct, gc=False):
    name: str = ""
    details: str = msgspec.field(default="", name="kernel_details")
    copied: str = msgspec.field(default="", name="memcpy_details")
    operator: str = msgspec.field(default="", name="hlo_op")
    module: str = msgspec.field(default="", name="hlo_module")


_args = msgspec.json.Decoder(_Args)


def recognises(path: Path, head: bytes) -> bool:
    """Whether it begins like such a trace: its first process is a device or host of XLA."""
    return b'"traceEvents"' in head and (b'"/host:CPU"' in head or b'"/device:GPU:' in head)


def read(path: Path, collectives: Collectives | None = None) -> Production:
    """All kernels and copies of the trace; of ``collectives`` it tells nothing."""
    events = trace_events(path)
    reader = _Reader()
    try:
        for batch in events.batches():
            for event in batch:
                reader.take(event)
    finally:
        events.close()
    launches = sum(total.launches for total in reader.totals.values())
    notes = [] if launches else ["no kernel and no copy: was a GPU used?"]
    source = Source(cut(path.name), "xla", path.stat().st_size, events.count, launches, reader.damaged, notes=notes)
    return Production([source], [], kept(reader.totals), [])


class _Reader:
    def __init__(self) -> None:
        self.totals: dict[Launch, LaunchTotal] = {}
        self.damaged = 0
        self._devices: dict[object, str] = {}
        self._streams: set[_Key] = set()

    def take(self, event: Event) -> None:
        """Names of processes and threads stand before their events."""
        if event.ph == "M":
            self._named(event)
        elif event.ph == "X" and (event.pid, event.tid) in self._streams and event.pid in self._devices:
            self._work(event)

    def _named(self, event: Event) -> None:
        told = self._told(event)
        if told is None:
            return
        if event.name == "process_name" and (found := _DEVICE.search(told.name[:200])):
            self._devices[event.pid] = found[1]
        elif event.name == "thread_name" and told.name.startswith(_STREAM):
            self._streams.add((event.pid, event.tid))

    def _work(self, event: Event) -> None:
        told = self._told(event)
        duration = event.dur
        if told is None or duration is None or not 0 <= duration < MOST_NS / 1000:
            self.damaged += 1
            return
        kind = _KINDS.get(event.name[:6].lower(), "kernel")
        words = _words(told.details)
        static, dynamic = _number(words.get("static_shared")), _number(words.get("dynamic_shared"))
        launch = Launch(
            cut(event.name), kind, _extent(words.get("grid")), _extent(words.get("block")),
            None if static is None and dynamic is None else (static or 0) + (dynamic or 0), _number(words.get("regs")) or None,
            device=self._devices[event.pid], phase=cut(told.module), operator=cut(told.operator),
        )  # fmt: skip
        self.totals.setdefault(launch, LaunchTotal(launch)).launch(
            round(1000 * duration), 1.0, _copied_bytes(told.copied)
        )

    def _told(self, event: Event) -> _Args | None:
        try:
            return _args.decode(event.args) if event.args else _Args()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.damaged += 1
            return None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 12 else None


def _extent(text: str | None) -> tuple[int, int, int] | None:
    parts = [_number(part) for part in (text or "").split(",", 3)]
    if len(parts) != 3 or any(part is None or not 0 < part < 1 << 32 for part in parts):
        return None
    return parts[0], parts[1], parts[2]  # type: ignore[return-value]


def _copied_bytes(text: str) -> int:
    """Of ``kind_src:device kind_dst:pinned size:1024 dest:0 async:1``."""
    return _number(_words(text).get("size")) or 0


def _words(text: str) -> dict[str, str]:
    """``name:value`` and blanks between."""
    parts = (word.partition(":") for word in text[:400].split())
    return {name: value for name, _, value in parts}
