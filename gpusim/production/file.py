"""A ``*.production`` file: what was launched, on which GPUs, from which sources, and what was found about its timing.

Mental model: JSON Lines. The first line has the version; each other line is one record, told by its ``type``: a source,
a GPU, a row of launches, a fact. It is read line by line against declared types with bounds, so that a file from
elsewhere costs memory as its rows do, and is written whole or not at all.

Raises ProductionError, with the path and the line, for a file that is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from gpusim.errors import ProductionError
from gpusim.io.whole_file import replacing
from gpusim.production.facts import Fact, Whole
from gpusim.production.launches import MOST_ROWS, Count, Launch, LaunchTotal, Name, kept, summed

VERSION = 1
MOST_LINE_BYTES = 1 << 20
MOST_SOURCES = MOST_DEVICES = MOST_FACTS = 100_000


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that was imported: its name without folders, how much of it was used. ``damaged``: events with impossible
    times or without what their kind needs; ``notes``: what else there is to know."""

    name: Name
    format: Name
    bytes: Count = 0
    events: Count = 0
    launches: Count = 0
    damaged: Count = 0
    rank: int = -1
    notes: Annotated[list[Name], msgspec.Meta(max_length=64)] = []


class DeviceTime(msgspec.Struct, frozen=True, omit_defaults=True):
    """How long one GPU of one rank was seen, and how long something ran on it: ns of time, not summed over streams.

    ``busy_ns``: any kernel or copy; ``communication_ns``, ``computation_ns``: a kernel of collectives, any other
    kernel;
    ``overlapped_ns``: both."""

    rank: int = -1
    device: Name = ""
    gpu: Name = ""
    first_ns: Whole = 0
    last_ns: Whole = 0
    busy_ns: Count = 0
    communication_ns: Count = 0
    computation_ns: Count = 0
    overlapped_ns: Count = 0
    launches: Count = 0

    @property
    def span_ns(self) -> int:
        """From the first start of a kernel or copy to the last end."""
        return self.last_ns - self.first_ns


class Production(msgspec.Struct):
    """All of one file, or of several together."""

    sources: list[Source] = []
    devices: list[DeviceTime] = []
    totals: list[LaunchTotal] = []
    facts: list[Fact] = []

    @property
    def sum_ns(self) -> float:
        """Time of all launches, by weight."""
        return sum(total.weighted_ns for total in self.totals)


class _Head(msgspec.Struct, tag_field="type", tag="production"):
    version: int


class _Source(Source, frozen=True, omit_defaults=True, tag_field="type", tag="source"):
    pass


class _Device(DeviceTime, frozen=True, omit_defaults=True, tag_field="type", tag="device"):
    pass


class _Total(LaunchTotal, omit_defaults=True, tag_field="type", tag="total"):
    pass


class _Fact(Fact, frozen=True, omit_defaults=True, tag_field="type", tag="fact"):
    pass


_PLAIN = {_Source: Source, _Device: DeviceTime, _Total: LaunchTotal, _Fact: Fact}
_TAGGED = {plain: tagged for tagged, plain in _PLAIN.items()}
_decoder = msgspec.json.Decoder(_Source | _Device | _Total | _Fact)


def together(productions: Iterable[Production]) -> Production:
    """Several as one: rows of the same key are added, the rest stands side by side. Facts that compare ranks are those
    of each."""
    every = list(productions)
    totals = summed(total for each in every for total in each.totals)
    return Production(
        [source for each in every for source in each.sources], [device for each in every for device in each.devices],
        kept(totals), [fact for each in every for fact in each.facts],
    )  # fmt: skip


def write(path: Path, production: Production) -> None:
    """Write it whole; the order of rows is by time, those that took most first."""
    encode = msgspec.json.Encoder().encode
    with replacing(path) as stream:
        stream.write(encode(_Head(VERSION)) + b"\n")
        for record in (*production.sources, *production.devices, *production.facts):
            stream.write(encode(_tagged(record)) + b"\n")
        for total in sorted(production.totals, key=lambda t: (-t.weighted_ns, -t.launches, t.what.kernel)):
            stream.write(encode(_tagged(total)) + b"\n")


def read(path: Path) -> Production:
    """What :func:`write` has written. Raises ProductionError for anything else, OSError for a file that cannot be
    read."""
    production = Production([], [], [], [])
    seen: set[Launch] = set()
    places = {Source: (production.sources, MOST_SOURCES), DeviceTime: (production.devices, MOST_DEVICES),
              LaunchTotal: (production.totals, 2 * MOST_ROWS), Fact: (production.facts, MOST_FACTS)}  # fmt: skip
    for number, record in _records(path):
        into, most = places[type(record)]
        if len(into) >= most:
            raise ProductionError(f"{path}, line {number}: more than {most} records of this type")
        if isinstance(record, LaunchTotal):
            if not record.is_sound():
                raise ProductionError(f"{path}, line {number}: counts that contradict each other")
            if record.what in seen:
                raise ProductionError(
                    f"{path}, line {number}: the row of {record.what.kernel[:60]!r} stands there twice"
                )
            seen.add(record.what)
        into.append(record)
    return production


def _tagged(record: Source | DeviceTime | LaunchTotal | Fact) -> msgspec.Struct:
    return _TAGGED[type(record)](**msgspec.structs.asdict(record))


def _records(path: Path) -> Iterator[tuple[int, Source | DeviceTime | LaunchTotal | Fact]]:
    with path.open("rb") as stream:
        first = stream.readline(MOST_LINE_BYTES)
        try:
            head = msgspec.json.decode(first, type=_Head)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise ProductionError(
                f"{path}: no file of gpusim production; make it with gpusim production import"
            ) from None
        if head.version != VERSION:
            raise ProductionError(
                f"{path}: version {head.version}, this gpusim reads {VERSION}: import the sources again"
            )
        number = 1
        while line := stream.readline(MOST_LINE_BYTES + 1):
            number += 1
            if len(line) > MOST_LINE_BYTES or not line.endswith(b"\n"):
                why = "is cut short" if len(line) <= MOST_LINE_BYTES else f"is longer than {MOST_LINE_BYTES} bytes"
                raise ProductionError(f"{path}, line {number} {why}")
            try:
                tagged = _decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise ProductionError(f"{path}, line {number}: damaged ({error})") from None
            yield number, _PLAIN[type(tagged)](**msgspec.structs.asdict(tagged))
