"""Mutations of a cubin: fields of its headers, sections, symbols, relocations and attributes, wherever its tables say
that they lie.

Mental model: most random bytes of an ELF file hit machine code, which no reader looks at; here the tables are found as
a reader would find them, and one of their fields becomes another number. What no longer has tables is mutated as bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from random import Random

from fuzzing.byte_mutations import MOST_BYTES, WHOLE, mutate_bytes

#: (offset, width) of the fields of the ELF header, of a section header, and of the entries of the tables that sections
#: hold.
_HEADER = (
    (16, 2),
    (18, 2),
    (20, 4),
    (24, 8),
    (32, 8),
    (40, 8),
    (48, 4),
    (52, 2),
    (54, 2),
    (56, 2),
    (58, 2),
    (60, 2),
    (62, 2),
)
_SECTION = ((0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8))
_ENTRIES = {
    2: (24, ((0, 4), (4, 1), (5, 1), (6, 2), (8, 8), (16, 8))),  # symbols
    4: (24, ((0, 8), (8, 4), (12, 4), (16, 8))),  # relocations with addends
    9: (16, ((0, 8), (8, 4), (12, 4))),  # relocations
    0x70000000: (4, ((0, 1), (1, 1), (2, 2))),  # attributes of .nv.info
}
_FORMS = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}


def mutate_elf(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    """Another cubin; a fifth of the time other bytes."""
    tables = _tables(data)
    if not tables or rng.random() < 0.2:
        return mutate_bytes(data, rng, others)
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        what = rng.random()
        if what < 0.1:
            _grow(changed, rng)
        else:
            start, size, count, fields = rng.choice(tables)
            at, width = rng.choice(fields)
            at += start + size * rng.randrange(count)
            if at + width <= len(changed):
                _put(changed, at, width, rng)
    return bytes(changed[:MOST_BYTES])


def _put(data: bytearray, at: int, width: int, rng: Random) -> None:
    (value,) = struct.unpack_from(_FORMS[width], data, at)
    other = rng.choice(
        (
            rng.choice(WHOLE),
            rng.randrange(40),
            value + 1,
            value - 1,
            value * 2,
            value ^ (1 << rng.randrange(8 * width)),
            len(data),
        )
    )
    struct.pack_into(_FORMS[width], data, at, other & ((1 << 8 * width) - 1))


def _grow(data: bytearray, rng: Random) -> None:
    """More section headers: the table moves to the end, with one of its entries many times."""
    (table,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    rows = bytes(data[table : table + 64 * count])
    if len(rows) < 64:
        return
    chosen = 64 * rng.randrange(len(rows) // 64)
    extra = rng.choice((1, 20, 1000))
    struct.pack_into("<Q", data, 40, len(data))
    struct.pack_into("<H", data, 60, min(65535, count + extra))
    data += rows + rows[chosen : chosen + 64] * extra


def _tables(data: bytes) -> list[tuple[int, int, int, tuple[tuple[int, int], ...]]]:
    """(start, bytes of an entry, entries, fields) of each table in the file; none where it has no headers."""
    if len(data) < 64 or data[:4] != b"\x7fELF":
        return []
    found = [(0, 64, 1, _HEADER)]
    (table,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    if count and table + 64 * count <= len(data):
        found += [(table, 64, count, _SECTION)] * 3
        for i in range(count):
            kind, at, size = struct.unpack_from("<4xI16xQQ", data, table + 64 * i)
            width, fields = _ENTRIES.get(kind, (1, ((0, 1),)))
            if size >= width and at + size <= len(data):
                found.append((at, width, size // width, fields))
    return found
