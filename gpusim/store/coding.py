"""A launch's instructions as a blob and back: JSON of columns, deflated.

Mental model: names (files, stall reasons, counters) stand once, rows hold indices, so that the blob stays small. A
store may come from anywhere: decoding is bounded in size and checks every type and index; it raises ValueError.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec

from gpusim.store.launch import Instruction

#: A kernel of a million instructions is some 100 MB of JSON; nothing asks for more.
MOST_BYTES = 256 << 20
_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class _Row(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """An instruction as a list; ``file`` and every other number of ``stalls`` and ``work`` are places among the
    names."""

    address: _Count
    file: _Count
    line: _Count
    text: str
    stalls: list[_Count]
    work: list[_Count]


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    names: list[str]
    rows: list[_Row]


def pack(instructions: Iterable[Instruction]) -> bytes:
    """The blob of ``instructions``."""
    names: dict[str, int] = {}

    def index(name: str) -> int:
        return names.setdefault(name, len(names))

    def pairs(values: Mapping[str, int]) -> list[int]:
        return [number for name, value in values.items() for number in (index(name), value)]

    rows = [[i.address, index(i.file), i.line, i.text, pairs(i.stalls), pairs(i.work)] for i in instructions]
    return zlib.compress(json.dumps({"names": list(names), "rows": rows}, separators=(",", ":")).encode())


def unpack(blob: bytes) -> tuple[Instruction, ...]:
    """The instructions of a blob of :func:`pack`. Raises ValueError for anything else."""
    inflater = zlib.decompressobj()
    try:
        text = inflater.decompress(blob, MOST_BYTES)
        whole = inflater.eof and not inflater.unused_data
        if not whole:
            raise ValueError("it is torn, or too large")
        table = msgspec.json.decode(text, type=_Table)
    except (zlib.error, RecursionError) as error:
        raise ValueError(str(error)) from None
    return tuple(_instruction(row, table.names) for row in table.rows)


def _instruction(row: _Row, names: list[str]) -> Instruction:
    stalls, work = _counts(row.stalls, names), _counts(row.work, names)
    return Instruction(row.address, _named(names, row.file), row.line, row.text, stalls, work)


def _counts(pairs: list[int], names: list[str]) -> dict[str, int]:
    if len(pairs) % 2:
        raise ValueError(f"{pairs!r:.60} are no counts")
    return {_named(names, name): value for name, value in zip(pairs[::2], pairs[1::2], strict=True)}


def _named(names: list[str], index: int) -> str:
    if index >= len(names):
        raise ValueError(f"name {index} is none of {len(names)}")
    return names[index]
