"""The sizes that profile tables hold: powers of two and what lies half-way."""

from __future__ import annotations

from collections.abc import Iterator


def sizes(most: int, least: int = 1) -> list[int]:
    """From ``least`` to ``most``: 1, 2, 3, 4, 6, 8, 12, 16 ..., and ``most`` itself."""
    return sorted({size for size in _both(most) if size >= least} | {most})


def _both(most: int) -> Iterator[int]:
    size = 1
    while size <= most:
        yield size
        if size > 1 and size * 3 // 2 <= most:
            yield size * 3 // 2
        size *= 2
