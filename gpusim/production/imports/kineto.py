"""Traces of the profiler of PyTorch (Kineto), as rows and facts: ``torch.profiler``'s ``export_chrome_trace``, and
JAX's likes with GPU events.

Mental model: an event of category ``kernel``, ``gpu_memcpy`` or ``gpu_memset`` is work, with its shape in ``args``;
``cuda_runtime`` and ``cuda_driver`` are host calls, joined to work by ``correlation``; ``cpu_op`` is an operator, with
the shapes of its inputs where the profiler recorded them; ``user_annotation`` is a range. All other events (arrows,
memory, Python functions) are passed over. Which rank and GPUs it was stands around the events.

Source of the names: Kineto's ``output_json.cpp`` and traces of schema 1, 2022 to 2024.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from gpusim.errors import ProductionError
from gpusim.io.progress import task
from gpusim.production.file import Production
from gpusim.production.imports.assembly import Assembly, rank_in
from gpusim.production.imports.json_events import Event, JsonList, trace_events
from gpusim.production.imports.names_seen import cut
from gpusim.production.launches import Collective, Dim3, Kind, Launch
from gpusim.production.timing.collectives import Collectives

description = "PyTorch's profiler (Kineto), Chrome trace"
#: Of texts that are kept as they were and on one line.
_MOST_LINES = 100_000
#: Times in us whose ns a record holds, and some more.
_MOST_US = 1 << 60
_WORK: dict[str, Kind] = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
_OWN_CATEGORIES = {"Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset", "Runtime": "cuda_runtime",
                   "Operator": "cpu_op", "cuda_profiler_range": ""}  # fmt: skip
_CALLS = {"cuda_runtime", "cuda_driver", "hip_runtime"}
#: CUPTI's number of the first context's default stream; 0 is the null stream itself.
_DEFAULT_STREAMS = (0, 7)
#: Bytes of an element, by what NCCL's annotations and PyTorch call a type.
_ELEMENT_BYTES = {"float": 4, "half": 2, "bfloat16": 2, "double": 8, "int": 4, "long": 8, "byte": 1, "char": 1, "bool": 1, "short": 2,
                  "float8_e4m3fn": 1, "float8_e5m2": 1}  # fmt: skip


class _Work(msgspec.Struct, gc=False):
    """``args`` of a kernel or copy."""

    device: int | None = None
    stream: int | None = None
    correlation: int | None = None
    registers: int | None = msgspec.field(default=None, name="registers per thread")
    shared: int | None = msgspec.field(default=None, name="shared memory")
    grid: Dim3 | None = None
    block: Dim3 | None = None
    bytes: int | None = None
    collective: str | None = msgspec.field(default=None, name="Collective name")
    elements: int | None = msgspec.field(default=None, name="In msg nelems")
    dtype: str = ""
    group_size: int | None = msgspec.field(default=None, name="Group size")
    group: str = msgspec.field(default="", name="Process Group Name")
    ranks: str = msgspec.field(default="", name="Process Group Ranks")


class _Call(msgspec.Struct, gc=False):
    correlation: int | None = None


class _Operator(msgspec.Struct, gc=False):
    dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Input type")


_work = msgspec.json.Decoder(_Work)
_call = msgspec.json.Decoder(_Call)
_operator = msgspec.json.Decoder(_Operator)


def recognises(path: Path, head: bytes) -> bool:
    """Whether it begins like a Chrome trace; ``head`` is not gzipped."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] == b"[":
        return b'"ph"' in head
    return start[:1] == b"{" and (
        b'"traceEvents"' in head or b'"deviceProperties"' in head or b'"distributedInfo"' in head
    )


def read(path: Path, collectives: Collectives | None = None) -> Production:
    """One rank's trace. Raises ProductionError for a file that is damaged; OSError for one that cannot be read."""
    events = trace_events(path)
    size = path.stat().st_size
    try:
        with task(
            f"reading {path.name}", size, "bytes", read=lambda: (events.read_bytes, events.read_bytes / max(1, size))
        ):
            reader = _Reader(path, events, collectives)
            for batch in events.batches():
                reader.take(batch)
    finally:
        events.close()
    with task(f"putting {path.name} in order"):
        return reader.assembled(size)


class _Reader:
    def __init__(self, path: Path, events: JsonList[Event], collectives: Collectives | None) -> None:
        self.events = events
        self.assembly = Assembly(path.name, "kineto", -1, collectives)
        self._lines: dict[bytes, str] = {}
        self._devices: dict[int, int] = {}
        self._place = path

    def take(self, batch: list[Event]) -> None:
        """More events."""
        for event in batch:
            if event.ph != "X" or event.cat is None:
                continue
            category = _OWN_CATEGORIES.get(event.cat, event.cat)
            if category in _CALLS:
                self._call(event)
            elif category == "cpu_op":
                self._operator(event)
            elif category in _WORK:
                self._work(event, _WORK[category])
            elif category == "user_annotation" and (times := self._times(event)):
                self.assembly.range(*times, (event.pid, event.tid), event.name)

    def assembled(self, size: int) -> Production:
        """All of it."""
        told = self.events.about.get("distributedInfo")
        rank = told.get("rank") if isinstance(told, dict) else None
        if not isinstance(rank, int) or not 0 <= rank < 1 << 31:
            rank = rank_in(self._place.name)
        self.assembly.rank = rank
        names = _gpu_names(self.events.about.get("deviceProperties"))
        self.assembly.devices = [(str(d), names.get(d, "")) for d in self._devices]
        if not self.assembly.launches:
            self.assembly.note("no kernel and no copy: was the GPU recorded (ProfilerActivity.CUDA)?")
        production = self.assembly.production(size, self.events.count)
        gpus = {str(d): names.get(d, "") for d in self._devices}
        for total in production.totals:
            total.what = msgspec.structs.replace(total.what, gpu=gpus.get(total.what.device, ""))
        return production

    def _times(self, event: Event) -> tuple[int, int] | None:
        """Begin and end in ns; None for an event without."""
        length = event.dur or 0
        if event.ts is None or abs(event.ts) >= _MOST_US or abs(length) >= _MOST_US:  # also those that no integer holds
            self.assembly.damaged += 1
            return None
        begin = _ns(event.ts)
        end = begin + _ns(length)
        if end < begin or abs(begin) >= 1 << 61 or end >= 1 << 61:
            self.assembly.damaged += 1
            return None
        return begin, end

    def _call(self, event: Event) -> None:
        correlation = self._args(event, _call).correlation
        if (
            correlation is not None
            and event.ts is not None
            and 0 < correlation < 1 << 61
            and (times := self._times(event))
        ):
            self.assembly.call(times[0], (event.pid, event.tid), correlation)

    def _operator(self, event: Event) -> None:
        if times := self._times(event):
            told = self._args(event, _operator)
            operator = cut(event.name), self._line(told.dims), self._line(told.types)
            self.assembly.operator(*times, (event.pid, event.tid), operator)

    def _line(self, raw: msgspec.Raw) -> str:
        """JSON on one line, whatever its white space was."""
        data = bytes(raw)
        if (found := self._lines.get(data)) is None:
            found = cut(msgspec.json.format(data, indent=0).decode("utf-8", "replace")) if data else ""
            if len(self._lines) < _MOST_LINES:
                self._lines[data] = found
        return found

    def _work(self, event: Event, kind: Kind) -> None:
        told = self._args(event, _work)
        if event.ts is None or abs(event.ts) >= 1e15 * 2 or told.device is None or told.device < 0:
            self.assembly.damaged += 1
            return
        begin = _ns(event.ts)
        end = None if event.dur is None or abs(event.dur) >= 1e15 else begin + _ns(event.dur)
        device = self._devices.setdefault(told.device, len(self._devices))
        stream = told.stream if told.stream is not None and abs(told.stream) < 1 << 62 else -1
        elements = told.elements if told.elements is not None and 0 <= told.elements < 1 << 48 else None
        collective = None
        if told.collective:
            group = cut(f"{told.group} {told.ranks}".strip())
            size = told.group_size if told.group_size is not None and 0 <= told.group_size < 1 << 31 else None
            collective = Collective(cut(told.collective), cut(told.dtype), elements, size, group)
        moved = told.bytes if told.bytes is not None else (elements or 0) * _ELEMENT_BYTES.get(told.dtype.lower(), 0)
        launch = Launch(
            cut(event.name), kind, told.grid, told.block, _count(told.shared), _count(told.registers) or None,
            device=str(told.device), stream_kind="default" if stream in _DEFAULT_STREAMS else "other" if stream >= 0 else "",
            collective=collective,
        )  # fmt: skip
        self.assembly.work(launch, begin, end, told.correlation, device, stream, moved if 0 <= moved < 1 << 48 else 0)

    def _args(self, event: Event, decoder: msgspec.json.Decoder) -> Any:
        empty: Any = decoder.type
        try:
            return decoder.decode(event.args) if event.args else empty()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            place = f"{self._place}, about event {self.events.count}, {event.cat} {event.name[:60]!r}"
            raise ProductionError(f"{place}: damaged args ({error})") from None


def _ns(microseconds: int | float) -> int:
    return microseconds * 1000 if isinstance(microseconds, int) else round(microseconds * 1000)


def _count(number: int | None) -> int | None:
    return number if number is not None and 0 <= number < 1 << 48 else None


def _gpu_names(properties: object) -> dict[int, str]:
    """By number, of ``deviceProperties``."""
    found = {}
    for each in properties if isinstance(properties, list) else ():
        if isinstance(each, dict) and isinstance(each.get("id"), int) and isinstance(each.get("name"), str):
            found[each["id"]] = cut(each["name"])
    return found
