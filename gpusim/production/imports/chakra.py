"""Chakra execution traces (MLCommons; ``.et``), as rows of operators, and of kernels where the trace has their
durations.

Mental model: a file is messages of protocol buffers, each after its length: the trace's metadata, then nodes. Of a node
count its name, type, duration and a few attributes; everything else is skipped by its length. Nodes that a converter
has linked from a profile are GPU work (attribute ``is_cpu_op`` false) with a duration in microseconds; others are
operators of the host.

What a message may be is bounded before it is read: MOST_NODE_BYTES each. No generated code and no library is used
(:mod:`gpusim.io.protobuf`).
Source: mlcommons/chakra, schema/protobuf/et_def.proto (fields and numbers); Protocol Buffers' "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from gpusim.errors import ProductionError
from gpusim.execution.chakra_schema import COLLECTIVES, MOST_NODE_BYTES, attribute_of, version_of
from gpusim.io.progress import task
from gpusim.io.protobuf import fields, messages, raw, varint, varints, whole
from gpusim.production.file import Production
from gpusim.production.imports.assembly import rank_in
from gpusim.production.imports.names_seen import cut
from gpusim.production.imports.operators import Operators, operator_row
from gpusim.production.launches import Collective
from gpusim.production.timing.collectives import Collectives

description = "Chakra execution trace, .et"
_METADATA_NODE, _MEMORY_NODES, _COLLECTIVE_NODE = 1, (2, 3), 7


def recognises(path: Path, head: bytes) -> bool:
    """Whether the first message is metadata with a version that is one of Chakra's."""
    try:
        size, at = varint(head, 0)
        if not 2 <= size <= len(head) - at or size > 4096:
            return False
        return version_of(head[at : at + size]) is not None
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
        for number, message in enumerate(_bounded(stream, path)):
            try:
                if number == 0:
                    version = version_of(message)
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


def _bounded(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    try:
        yield from messages(stream, MOST_NODE_BYTES)
    except ValueError as error:
        raise ProductionError(f"{path}, {error}") from None


def _take(operators: Operators, data: bytes) -> None:
    number = parent = kind = 0
    name, duration, inputs = "", None, b""
    told: dict[str, int | float | str] = {}
    for field, value in fields(data):
        if field == 1:
            number = whole(value)
        elif field == 2:
            name = raw(value).decode()
        elif field == 3:
            kind = whole(value)
        elif field == 4 and not parent:
            parent = next(iter(varints(value)), 0)
        elif field == 7:
            duration = whole(value)
        elif field == 8:
            inputs = raw(value)
        elif field == 10:
            told.update(_attribute(raw(value)))
    operators.node(number, parent, name)
    if kind == _METADATA_NODE or not name:
        return
    is_gpu = told.get("is_cpu_op") == 0
    collective = _collective(told) if kind == _COLLECTIVE_NODE else None
    if not is_gpu and collective is None and not told.get("op_schema") and "op_schema" in told:
        return  # a node that only groups others
    known = is_gpu and duration is not None and 0 < duration < 1 << 50
    shapes = dict(fields(inputs))
    row = operator_row(name, _text(shapes.get(2)), _text(shapes.get(3)), collective, "kernel" if is_gpu else "operator")
    size = told.get("comm_size", told.get("tensor_size") if kind in _MEMORY_NODES else 0)
    moved = size if isinstance(size, int) and 0 <= size < 1 << 48 else 0
    operators.operator(parent, row, duration * 1000 if known and duration else None, moved)


def _collective(told: dict[str, int | float | str]) -> Collective:
    kind, group, size = told.get("comm_type"), told.get("pg_name", told.get("comm_group", "")), told.get("group_size")
    name = COLLECTIVES[kind] if isinstance(kind, int) and 0 <= kind < len(COLLECTIVES) else "collective"
    return Collective(name, "", None, size if isinstance(size, int) and 0 <= size < 1 << 31 else None, cut(str(group)))


def _attribute(data: bytes) -> dict[str, int | float | str]:
    found = attribute_of(data)
    if found is None:
        return {}
    name, value = found
    return {name: cut(value) if isinstance(value, str) else value}


def _text(value: int | bytes | None) -> str:
    return "" if value is None else raw(value).decode("utf-8", "replace")
