"""What ``vprintf`` makes of a format string and a buffer of arguments on the device.

Mental model: the compiler has put the arguments one after another into a buffer, each aligned to its own size
(int 4 bytes; long, double and pointers 8), and the format says which comes next. The rules are those of CUDA's
``printf`` (CUDA C++ Programming Guide, "Formatted Output"): C's conversions, the number of arguments as the
result, and a format with more than 32 of them printed as it stands. What a number looks like is left to the host's C
library, which is where a GPU's output is formatted too ("the final formatting of the printf() output takes place on the
host system").
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable

MAX_ARGUMENTS = 32
_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?"
    r"(?P<size>hh|h|ll|l|j|z|t|L)?(?P<kind>[diouxXcsfFeEgGaAp%])"
)
_snprintf = ctypes.CDLL(None).snprintf
_snprintf.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p]  # what follows them is variadic
_LONG = ("l", "ll", "j", "z", "t")


def format_printf(text: str, read: Callable[[int, int], bytes], read_string: Callable[[int], str]) -> tuple[str, int]:
    """(output, number of arguments) of format ``text``.

    ``read(offset, size)`` gives bytes of the argument buffer, ``read_string(pointer)`` a string on the device.
    """
    conversions = [m for m in _CONVERSION.finditer(text) if m["kind"] != "%"]
    if len(conversions) > MAX_ARGUMENTS:
        return text, len(conversions)
    offset = count = 0

    def take(kind: str, size: int) -> int | float:
        nonlocal offset, count
        offset = -(-offset // size) * size
        (value,) = struct.unpack("<" + kind, read(offset, size))
        offset += size
        count += 1
        return value

    def convert(match: re.Match) -> str:
        kind = match["kind"]
        if kind == "%":
            return "%"
        flags, width, precision = match["flags"], match["width"] or "", match["precision"]
        if width == "*":
            width = str(take("i", 4))
        if precision == "*":
            given = take("i", 4)
            precision = str(given) if given >= 0 else None
        shape = "%" + flags + width + ("" if precision is None else f".{precision or 0}")
        if kind == "s":
            pointer = take("Q", 8)
            kept = width if precision is None else f"{width}.{precision or 0}"
            return _text(flags, kept, read_string(pointer) if pointer else "(null)")
        if kind == "c":
            return _text(flags, width, chr(take("i", 4) & 0xFF))
        if kind == "p":
            return _formatted(shape + kind, ctypes.c_void_p(int(take("Q", 8))))
        if kind in "fFeEgGaA":
            return _formatted(shape + kind, ctypes.c_double(take("d", 8)))
        long = match["size"] in _LONG
        signed = kind in "di"
        value = int(take(("q" if signed else "Q") if long else ("i" if signed else "I"), 8 if long else 4))
        size = "ll" if long else match["size"] or ""
        return _formatted(shape + size + kind, ctypes.c_longlong(value) if long else ctypes.c_int(value))

    return _CONVERSION.sub(convert, text), count


def _text(flags: str, width: str, value: str) -> str:
    """``value`` in a field; of the flags only "-" means anything for text."""
    return f"%{'-' if '-' in flags else ''}{width}s" % value


def _formatted(form: str, value: ctypes.c_double | ctypes.c_longlong | ctypes.c_int | ctypes.c_void_p) -> str:
    """``value`` as the host's C library prints it."""
    length = _snprintf(None, 0, form.encode(), value)
    room = ctypes.create_string_buffer(length + 1)
    _snprintf(room, length + 1, form.encode(), value)
    return room.value.decode(errors="replace")
