"""A launch's instructions as a blob and back: JSON of columns, deflated.

Mental model: names (files, stall reasons, counters) stand once, rows hold indices, so that the blob stays small. A
store may come from anywhere: decoding is bounded in size and checks every type and index; it raises ValueError.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from gpusim.store.launch import Instruction

#: A kernel of a million instructions is some 100 MB of JSON; nothing asks for more.
MOST_BYTES = 256 << 20


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
        document = json.loads(text) if whole else None
    except (zlib.error, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(document, dict) or set(document) != {"names", "rows"}:
        raise ValueError("it is no table of instructions")
    names = document["names"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("its names are no texts")
    if not isinstance(document["rows"], list):
        raise ValueError("its rows are no list")
    return tuple(_instruction(row, names) for row in document["rows"])


def _instruction(row: Any, names: list[str]) -> Instruction:
    if not isinstance(row, list) or len(row) != 6:
        raise ValueError(f"{row!r:.60} is no instruction")
    address, file, line, text, stalls, work = row
    if not isinstance(text, str):
        raise ValueError(f"{text!r:.60} is no instruction's text")
    where = names[_whole(file, len(names))]
    return Instruction(_whole(address), where, _whole(line), text, _counts(stalls, names), _counts(work, names))


def _counts(pairs: Any, names: list[str]) -> dict[str, int]:
    if not isinstance(pairs, list) or len(pairs) % 2:
        raise ValueError(f"{pairs!r:.60} are no counts")
    counts = zip(pairs[::2], pairs[1::2], strict=True)
    return {names[_whole(name, len(names))]: _whole(value) for name, value in counts}


def _whole(value: Any, below: int = 1 << 62) -> int:
    if type(value) is not int or not 0 <= value < below:
        raise ValueError(f"{value!r:.60} is no count below {below}")
    return value
