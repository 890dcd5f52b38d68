"""Making an input small that shows a fault: spans go as long as the fault keeps its name (delta debugging, Zeller
2002).

Spans of lines first, where the input has lines, then of bytes; what an archive or a database holds is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

#: Reads for one input.
_MOST_TRIES = 1500


def minimised(data: bytes, shows: Callable[[bytes], bool]) -> bytes:
    """The smallest input found for which ``shows`` still holds; ``data`` itself where it does not hold for that."""
    if not shows(data):
        return data
    left = _MOST_TRIES
    for split in (
        lambda each: each.splitlines(keepends=True),
        lambda each: [each[i : i + 1] for i in range(len(each))],
    ):
        parts = split(data)
        size = max(1, len(parts) // 2)
        while size and left > 0:
            at, shorter = 0, False
            while at < len(parts) and left > 0:
                fewer = parts[:at] + parts[at + size :]
                left -= 1
                if shows(_joined(fewer)):
                    parts, shorter = fewer, True
                else:
                    at += size
            if not shorter or size > len(parts):
                size //= 2
        data = _joined(parts)
    return data


def _joined(parts: Sequence[bytes]) -> bytes:
    return b"".join(parts)
