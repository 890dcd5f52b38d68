"""Mutations that know nothing of a format: bits, bytes, spans, and the whole numbers in a text.

Mental model: a mutation takes bytes and a seeded ``Random`` and gives other bytes; the same seed gives the same bytes.
Those that know a format stand in files of their own and fall back on these.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from random import Random

Mutation = Callable[[bytes, Random, Sequence[bytes]], bytes]

#: Whole numbers at which something changes: signs, widths, one off.
WHOLE = (
    0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 1000, 1023, 1024, 4096, 32767, 32768, 65535, 65536, 1 << 20,
    (1 << 24) - 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 53) + 1, (1 << 62) - 1, (1 << 63) - 1, 1 << 63,
    (1 << 64) - 1,
)  # fmt: skip
#: What may stand for a number in a text.
NUMBERS = (
    "0", "-0", "-1", "1", "3", "0.5", "-2.5", "1e308", "1e309", "-1e400", "1e-400", "NaN", "Infinity", "-inf", "nan", "9" * 25,
    "9" * 5000, "1e5", "0x10", "1_000", "1,5", "1.234,5", "1,234.5", "'1", "", " ", "²", "٣", "18446744073709551616", "true", "null",
)  # fmt: skip
#: What may stand for a word.
WORDS = (
    "", " ", "\0", "\n", '"', "'", "\\", "%s", "{}", "=", ",", ";", "\t", "..", "/", "../../etc/passwd", "\ud800", "\ufeff", "é" * 40,
    "a" * 3000, "\r", "\x1b[31m", "\u2028", ":", "@", "#", "[", "]", "{", "}", "é", "NVIDIA H200", "h200", "saxpy", "None",
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d[\d.,]*(?:[eE][+-]?\d+)?")
_WORD = re.compile(rb"[A-Za-z_][A-Za-z_0-9]*")
MOST_BYTES = 1 << 18


def encoded(text: str) -> bytes:
    """UTF-8, also of half of a surrogate pair."""
    return text.encode("utf-8", "surrogatepass")


def _flip(data: bytearray, rng: Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set(data: bytearray, rng: Random) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, 0x22, 0x2C, 0x0A, rng.randrange(256)))


def _whole(data: bytearray, rng: Random) -> None:
    form = rng.choice(("<H", "<I", "<Q", ">I", ">Q"))
    size = struct.calcsize(form)
    if len(data) >= size:
        at = rng.randrange(len(data) - size + 1)
        if rng.random() < 0.5:
            at -= at % size
        struct.pack_into(form, data, at, rng.choice(WHOLE) & ((1 << 8 * size) - 1))


def _cut(data: bytearray, rng: Random) -> None:
    if data:
        at = rng.randrange(len(data))
        del data[at : at + _length(rng)]


def _repeat(data: bytearray, rng: Random) -> None:
    if data:
        at = rng.randrange(len(data))
        span = data[at : at + _length(rng)]
        data[at:at] = span * rng.choice((1, 1, 2, 20))


def _move(data: bytearray, rng: Random) -> None:
    if data:
        at, size = rng.randrange(len(data)), _length(rng)
        span = data[at : at + size]
        to = rng.randrange(len(data))
        data[to : to + len(span)] = span


def _end(data: bytearray, rng: Random) -> None:
    if data:
        del data[rng.randrange(len(data)) :]


def _insert(data: bytearray, rng: Random) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.choice((encoded(rng.choice(WORDS)), encoded(rng.choice(NUMBERS)), rng.randbytes(_length(rng))))


def _length(rng: Random) -> int:
    return rng.choice((1, 1, 2, 4, 8, 16, 64, 300))


def _replace(pattern: re.Pattern[bytes], others: Sequence[str]) -> Callable[[bytearray, Random], None]:
    def mutate(data: bytearray, rng: Random) -> None:
        found = list(pattern.finditer(bytes(data)))
        if found:
            hit = rng.choice(found)
            if rng.random() < 0.3:  # another one of the same file
                data[hit.start() : hit.end()] = rng.choice(found).group()
            else:
                data[hit.start() : hit.end()] = encoded(rng.choice(others))

    return mutate


def _lines(data: bytearray, rng: Random) -> None:
    lines = bytes(data).split(b"\n")
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    what = rng.randrange(4)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines.insert(to, lines[at])
    elif what == 2:
        lines[at], lines[to] = lines[to], lines[at]
    else:
        lines[at] = lines[to] + lines[at]
    data[:] = b"\n".join(lines)


_BINARY = (_flip, _set, _whole, _cut, _repeat, _move, _end, _insert)
_TEXT = (_replace(_NUMBER, NUMBERS), _replace(_NUMBER, NUMBERS), _replace(_WORD, WORDS), _lines, *_BINARY)


def mutate_bytes(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    """A few random changes of bytes; now and then the head of one input with the tail of another."""
    return _stacked(_BINARY, data, rng, others)


def mutate_text(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    """A few random changes of numbers, words, lines and bytes."""
    return _stacked(_TEXT, data, rng, others)


def _stacked(
    mutations: Sequence[Callable[[bytearray, Random], None]], data: bytes, rng: Random, others: Sequence[bytes]
) -> bytes:
    changed = bytearray(data)
    if others and rng.random() < 0.05:
        other = rng.choice(others)
        changed[rng.randrange(len(changed) + 1) :] = other[rng.randrange(len(other) + 1) :]
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        rng.choice(mutations)(changed, rng)
    return bytes(changed[:MOST_BYTES])
