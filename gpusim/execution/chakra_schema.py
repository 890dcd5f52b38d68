"""Chakra's schema of execution traces: numbers of fields, of node types and of collectives.

Source: mlcommons/chakra, schema/protobuf/et_def.proto; names of attributes as ASTRA-sim's feeder reads and Chakra's
converter writes them.
"""

from __future__ import annotations

import struct

from gpusim.io.protobuf import fields, put_bytes, put_number, put_varint, raw, whole

MOST_NODE_BYTES = 1 << 24
#: Fields of a node.
ID, NAME, TYPE, CONTROL, DATA, START, DURATION, INPUTS, OUTPUTS, ATTRIBUTE = range(1, 11)
#: Types of nodes.
INVALID, METADATA, LOAD, STORE, COMPUTE, SEND, RECEIVE, COLLECTIVE, STORAGE, BATCH, CHECKPOINT = range(11)
COLLECTIVES = ("all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast", "all_to_all", "reduce_scatter",
               "reduce_scatter_block", "barrier")  # fmt: skip
#: Fields of an attribute's value: varints, varints in zigzag, four and eight bytes, text.
_WHOLE, _ZIGZAG, _FIXED, _TEXT = (
    (7, 9, 11, 13, 27),
    (15, 17),
    {3: "<d", 5: "<f", 19: "<I", 21: "<Q", 23: "<i", 25: "<q"},
    29,
)
_INT64, _UINT64, _BOOL, _DOUBLE = 9, 13, 27, 3
VERSION = "0.0.4"
_LEAST_VERSION = "0.0."


def version_of(data: bytes) -> str | None:
    """Of a file's first message; None where it is none of Chakra's. Raises ValueError for what is no message."""
    for field, value in fields(data):
        if field == 1 and isinstance(value, bytes):
            text = value.decode("utf-8", "replace")
            return text if text.startswith(_LEAST_VERSION) or text[:2] == "1." else None
    return None


def attribute_of(data: bytes) -> tuple[str, int | float | str] | None:
    """An attribute's name and value; None for a list, and for one without name or value."""
    name, found = "", None
    for field, value in fields(data):
        if field == 1:
            name = raw(value).decode()
        elif field in _WHOLE:
            number = whole(value)
            found = number - (1 << 64) if number >> 63 else number
        elif field in _ZIGZAG:
            number = whole(value)
            found = (number >> 1) ^ -(number & 1)
        elif field in _FIXED:
            form = _FIXED[field]
            if len(raw(value)) != struct.calcsize(form):
                raise ValueError(f"an attribute of {len(raw(value))} bytes where {struct.calcsize(form)} should stand")
            (found,) = struct.unpack(form, raw(value))
        elif field == _TEXT:
            found = raw(value).decode("utf-8", "replace")
    return None if found is None or not name else (name, found)


def put_attribute(name: str, value: bool | int | float | str, *, signed: bool = False) -> bytes:
    """An attribute of a node. Whole numbers are unsigned where not ``signed``."""
    if isinstance(value, bool):
        said = put_number(_BOOL, int(value))
    elif isinstance(value, int):
        said = put_number(_INT64 if signed else _UINT64, value)
    elif isinstance(value, float):
        said = put_varint(_DOUBLE << 3 | 1) + struct.pack("<d", value)
    else:
        said = put_bytes(_TEXT, value)
    return put_bytes(ATTRIBUTE, put_bytes(1, name) + said)
