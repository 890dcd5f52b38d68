"""Mutations of fat binaries and of the files that carry them: fields of the headers of containers, images and archive
members.

Mental model: as for cubins (:mod:`fuzzing.elf_mutations`), whose mutations stand in for those of host files: headers
are found by their magic numbers and one field of one becomes another number.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from random import Random

from fuzzing.byte_mutations import MOST_BYTES, WHOLE
from fuzzing.elf_mutations import mutate_elf

_MAGIC = re.compile(rb"\x50\xed\x55\xba")
_CONTAINER = ((4, "<H"), (6, "<H"), (8, "<Q"))
_IMAGE = (
    (0, "<H"), (4, "<I"), (8, "<Q"), (16, "<I"), (20, "<I"), (28, "<I"), (40, "<Q"), (56, "<Q"),
)  # fmt: skip


def mutate_fat(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    """Another file; a third of the time a host file's tables, or any bytes, are what changes."""
    fields = _fields(data)
    if not fields or rng.random() < 0.3:
        return mutate_elf(data, rng, others)
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at, form = rng.choice(fields)
        (value,) = struct.unpack_from(form, changed, at)
        bits = 8 * struct.calcsize(form)
        near = (value + 1, value - 1, value * 2, value ^ (1 << rng.randrange(bits)), len(data), rng.randrange(200))
        struct.pack_into(form, changed, at, rng.choice((rng.choice(WHOLE), *near)) & ((1 << bits) - 1))
    if rng.random() < 0.1:
        changed += changed[rng.randrange(len(changed)) :]
    return bytes(changed[:MOST_BYTES])


def _fields(data: bytes) -> list[tuple[int, str]]:
    """(offset, form) of the fields of every container's header and of the images in it."""
    found: list[tuple[int, str]] = []
    for match in _MAGIC.finditer(data):
        start = match.start()
        if start + 16 > len(data):
            break
        found += [(start + at, form) for at, form in _CONTAINER]
        place = start + 16
        while place + 64 <= len(data) and len(found) < 2000 and data[place] in (1, 2):
            found += [(place + at, form) for at, form in _IMAGE]
            header, size = struct.unpack_from("<IQ", data, place + 4)
            place += max(64, header + size)
    return found
