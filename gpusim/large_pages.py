"""Memory of the host in large pages, for tables that are entered at random.

Mental model: a processor remembers the places of some thousand pages. A simulation of a whole GPU moves through tens of
megabytes of state in pages of 4 KiB, of which it touches others with every SM, and looks most of them up anew, in a
virtual machine twice. In pages of 2 MiB there are few enough to remember. They cost time themselves, as a page is
cleared whole when it is touched first: so they are asked for around the making of tables that a long simulation will
use (:func:`large_pages`), and where the host has none nothing changes.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator
from contextvars import ContextVar

import numpy as np

#: Of x86-64; elsewhere the host rounds as it must.
PAGE_BYTES = 2 << 20
#: Tables share regions of so much, or of what the largest one needs: the rest of a region's last page is not lost with
#: each.
_REGION_BYTES = 32 << 20


class _Region:
    """Bytes in large pages that are handed out one after another; they are freed with the last array made of them."""

    def __init__(self, count: int) -> None:
        pages = mmap.mmap(-1, count + PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(OSError):  # a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE)
        held = np.frombuffer(pages, np.uint8)
        self._left = held[-held.ctypes.data % PAGE_BYTES :]

    def take(self, count: int) -> np.ndarray | None:
        """So many bytes of what is left; None if that is less."""
        if count > len(self._left):
            return None
        taken, self._left = self._left[:count], self._left[count:]
        return taken


class _Regions:
    """The regions of one :func:`large_pages`."""

    def __init__(self) -> None:
        self._last: _Region | None = None

    def take(self, count: int) -> np.ndarray:
        """So many bytes, all zero."""
        taken = None if self._last is None else self._last.take(count)
        if taken is None:
            self._last = _Region(max(count, _REGION_BYTES))
            taken = self._last.take(count)
            assert taken is not None
        return taken


_asked: ContextVar[_Regions | None] = ContextVar("large pages", default=None)


@contextlib.contextmanager
def large_pages(wanted: bool = True) -> Iterator[None]:
    """What :func:`zero_bytes` hands out within comes in large pages, if it is ``wanted`` and the host has them."""
    token = _asked.set(_Regions() if wanted and hasattr(mmap, "MADV_HUGEPAGE") else None)
    try:
        yield
    finally:
        _asked.reset(token)


def zero_bytes(count: int) -> np.ndarray:
    """uint8[count], all zero."""
    regions = _asked.get()
    return np.zeros(count, np.uint8) if regions is None else regions.take(count)
