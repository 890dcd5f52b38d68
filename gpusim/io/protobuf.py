"""Messages of Protocol Buffers, field by field: the four wire types, bounded, without generated code.

Mental model: a message is fields, each a key (number and wire type) and a value: a whole number of up to ten bytes,
four or eight bytes, or bytes after their length. In a file each message stands after its own length. What a field means
its reader says.

Source: Protocol Buffers' "Encoding". Everything raises ValueError for what is no message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

Fields = Iterator[tuple[int, int | bytes]]
_BYTES = 2


def messages(stream: BinaryIO, most_bytes: int) -> Iterator[bytes]:
    """The messages of a file, each of at most ``most_bytes``."""
    while True:
        head = bytearray()
        while byte := stream.read(1):
            head += byte
            if byte[0] < 128 or len(head) == 10:
                break
        if not head:
            return
        try:
            size, _ = varint(bytes(head), 0)
        except ValueError:
            size = most_bytes + 1
        if size > most_bytes:
            raise ValueError(f"byte {stream.tell()}: a message longer than {most_bytes} bytes: damaged")
        data = stream.read(size)
        if len(data) < size:
            raise ValueError(f"the file is cut short within a message of {size} bytes")
        yield data


def fields(data: bytes) -> Fields:
    """(number, value) of a message, in its order."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind in (1, 2, 5):
            size = 8 if kind == 1 else 4
            if kind == 2:
                size, at = varint(data, at)
            if len(data) - at < size:
                raise ValueError(f"a field of {size} bytes at byte {at} of {len(data)}")
            value = data[at : at + size]
            at += size
        else:
            raise ValueError(f"a field of wire type {kind}")
        yield key >> 3, value


def varint(data: bytes, at: int) -> tuple[int, int]:
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


def varints(value: int | bytes) -> list[int]:
    """Of a repeated field: one number, or several packed."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


def whole(value: int | bytes) -> int:
    """A field's number."""
    if not isinstance(value, int):
        raise ValueError("bytes where a number should stand")
    return value


def raw(value: int | bytes) -> bytes:
    """A field's bytes."""
    if not isinstance(value, bytes):
        raise ValueError("a number where bytes should stand")
    return value


def put_varint(value: int) -> bytes:
    """A number; one below zero as 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def put_number(number: int, value: int) -> bytes:
    """A field that is a whole number."""
    return put_varint(number << 3) + put_varint(value)


def put_bytes(number: int, value: bytes | str) -> bytes:
    """A field that is bytes, a text or a message."""
    data = value.encode() if isinstance(value, str) else value
    return put_varint(number << 3 | _BYTES) + put_varint(len(data)) + data


def put_packed(number: int, values: Iterable[int]) -> bytes:
    """A repeated field of whole numbers, packed; nothing for none."""
    data = b"".join(put_varint(value) for value in values)
    return put_bytes(number, data) if data else b""


def put_message(data: bytes) -> bytes:
    """A message of a file, after its length."""
    return put_varint(len(data)) + data
