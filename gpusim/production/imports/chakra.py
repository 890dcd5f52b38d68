"""Chakra execution traces (MLCommons; ``.et``), as rows of operators, and of kernels where the trace has their durations.

Mental model: a file is messages of protocol buffers, each after its length: the trace's metadata, then nodes. Of a node count its name,
type, duration and a few attributes; everything else is skipped by its length. Nodes that a converter has linked from a profile are
GPU work (attribute ``is_cpu_op`` false) with a duration in microseconds; others are operators of the host.

What a message may be is bounded before it is read: MOST_NODE_BYTES each. No generated code and no library is used: the format's four wire
types take less than their bounds' checks.
Source: mlcommons/chakra, schema/protobuf/et_def.proto (fields and numbers); Protocol Buffers' "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from gpusim.errors import ProductionError
from gpusim.io.progress import task
from gpusim.production.file import Production
from gpusim.production.imports.assembly import rank_in
from gpusim.production.imports.names_seen import cut
from gpusim.production.imports.operators import Operators, operator_row
from gpusim.production.launches import Collective
from gpusim.production.timing.collectives import Collectives

description = "Chakra execution trace, .et"
MOST_NODE_BYTES = 1 << 24
_METADATA_NODE, _MEMORY_NODES, _COLLECTIVE_NODE = 1, (2, 3), 7
COLLECTIVES = ("all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast", "all_to_all", "reduce_scatter",
               "reduce_scatter_block", "barrier")  # fmt: skip
#: Fields of a value in an attribute: varints, and varints in zigzag.
_WHOLE, _ZIGZAG, _TEXT = (7, 9, 11, 13, 27), (15, 17), 29
_LEAST_VERSION = "0.0."
Fields = Iterator[tuple[int, int | bytes]]


def recognises(path: Path, head: bytes) -> bool:
    """Whether the first message is metadata with a version that is one of Chakra's."""
    try:
        size, at = _varint(head, 0)
        if not 2 <= size <= len(head) - at or size > 4096:
            return False
        return _version(head[at : at + size]) is not None
    except ValueError:
        return False


def read(path: Path, collectives: Collectives | None = None) -> Production:
    """The nodes of one rank. Raises ProductionError for a damaged file."""
    operators, size = Operators(), path.stat().st_size
    version = None
    with (
        path.open("rb") as stream,
        task(f"reading {path.name}", size, "bytes", read=lambda: (stream.tell(), stream.tell() / max(1, size))),
    ):
        for number, message in enumerate(_messages(stream, path)):
            try:
                if number == 0:
                    version = _version(message)
                    if version is None:
                        raise ValueError("no version in the first message")
                else:
                    _take(operators, message)
            except (ValueError, UnicodeDecodeError) as error:
                raise ProductionError(f"{path}, message {number}: no node of a Chakra trace ({error})") from None
    if version is None:
        raise ProductionError(f"{path}: an empty Chakra trace")
    rank = rank_in(path.name)
    if rank < 0 and (last := path.stem.rsplit(".", 1)[-1]).isdigit() and len(last) < 10:
        rank = int(last)  # "name.3.et", as simulators want it
    return operators.production(path, "chakra", rank, [f"Chakra {cut(version)[:40]}"])


def _messages(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    while True:
        head = bytearray()
        while byte := stream.read(1):
            head += byte
            if byte[0] < 128 or len(head) == 10:
                break
        if not head:
            return
        try:
            size, _ = _varint(bytes(head), 0)
        except ValueError:
            size = MOST_NODE_BYTES + 1
        if size > MOST_NODE_BYTES:
            raise ProductionError(
                f"{path}, byte {stream.tell()}: a message longer than {MOST_NODE_BYTES} bytes: damaged"
            )
        data = stream.read(size)
        if len(data) < size:
            raise ProductionError(f"{path}: the file is cut short within a message of {size} bytes")
        yield data


def _take(operators: Operators, data: bytes) -> None:
    number = parent = kind = 0
    name, duration, inputs = "", None, b""
    told: dict[str, int | str] = {}
    for field, value in _fields(data):
        if field == 1:
            number = _int(value)
        elif field == 2:
            name = _bytes(value).decode()
        elif field == 3:
            kind = _int(value)
        elif field == 4 and not parent:
            parent = value if isinstance(value, int) else _varint(value, 0)[0] if value else 0
        elif field == 7:
            duration = _int(value)
        elif field == 8:
            inputs = _bytes(value)
        elif field == 10:
            told.update(_attribute(_bytes(value)))
    operators.node(number, parent, name)
    if kind == _METADATA_NODE or not name:
        return
    is_gpu = told.get("is_cpu_op") == 0
    collective = _collective(told) if kind == _COLLECTIVE_NODE else None
    if not is_gpu and collective is None and not told.get("op_schema") and "op_schema" in told:
        return  # a node that only groups others
    known = is_gpu and duration is not None and 0 < duration < 1 << 50
    shapes = dict(_fields(inputs))
    row = operator_row(name, _text(shapes.get(2)), _text(shapes.get(3)), collective, "kernel" if is_gpu else "operator")
    size = told.get("comm_size", told.get("tensor_size") if kind in _MEMORY_NODES else 0)
    moved = size if isinstance(size, int) and 0 <= size < 1 << 48 else 0
    operators.operator(parent, row, duration * 1000 if known and duration else None, moved)


def _collective(told: dict[str, int | str]) -> Collective:
    kind, group, size = told.get("comm_type"), told.get("pg_name", told.get("comm_group", "")), told.get("group_size")
    name = COLLECTIVES[kind] if isinstance(kind, int) and 0 <= kind < len(COLLECTIVES) else "collective"
    return Collective(name, "", None, size if isinstance(size, int) and 0 <= size < 1 << 31 else None, cut(str(group)))


def _attribute(data: bytes) -> dict[str, int | str]:
    name, found = "", None
    for field, value in _fields(data):
        if field == 1:
            name = _bytes(value).decode()
        elif field in _WHOLE and isinstance(value, int):
            found = value - (1 << 64) if value >> 63 else value
        elif field in _ZIGZAG and isinstance(value, int):
            found = (value >> 1) ^ -(value & 1)
        elif field == _TEXT:
            found = cut(_bytes(value).decode("utf-8", "replace"))
    return {} if found is None or not name else {name: found}


def _version(data: bytes) -> str | None:
    for field, value in _fields(data):
        if field == 1 and isinstance(value, bytes):
            text = value.decode("utf-8", "replace")
            return text if text.startswith(_LEAST_VERSION) or text[:2] == "1." else None
    return None


def _fields(data: bytes) -> Fields:
    """(number, value) of a message. Raises ValueError for what is none."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind in (1, 2, 5):
            size = 8 if kind == 1 else 4
            if kind == 2:
                size, at = _varint(data, at)
            if len(data) - at < size:
                raise ValueError(f"a field of {size} bytes at byte {at} of {len(data)}")
            value = data[at : at + size]
            at += size
        else:
            raise ValueError(f"a field of wire type {kind}")
        yield key >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at byte ``at`` and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("a number that is cut short")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, at
    raise ValueError("a number of more than ten bytes")


def _int(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("bytes where a number should stand")
    return value


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number where bytes should stand")
    return value


def _text(value: int | bytes | None) -> str:
    return "" if value is None else _bytes(value).decode("utf-8", "replace")
