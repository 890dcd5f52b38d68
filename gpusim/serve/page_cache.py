"""Pages as they were sent last, for as long as the store has not changed.

Mental model: a page's key is its path and the filters that it knows; its value, the bytes, plain and compressed, with
the stamp of the store that they were made at. Many who ask at once for a page that is not there wait for one that makes
it. What was asked for longest ago goes first when there is too much.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gpusim.serve.board import KEPT_SECONDS, Stamp

MOST_BYTES = 96 << 20
_LEVEL = 5  # twice as fast as the best, and a few percent larger
_LEAST_BYTES = 500


@dataclass(frozen=True)
class Kept:
    """``plain`` and ``compressed`` (empty where it does not pay) bytes of a page, and its ``etag``; ``status``: 200, or
    404."""

    plain: bytes
    compressed: bytes
    etag: str
    stamp: Stamp
    made: float
    status: int


class PageCache:
    """Of one event loop."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._kept: OrderedDict[tuple, Kept] = OrderedDict()
        self._making: dict[tuple, asyncio.Future[Kept]] = {}

    def look(self, key: tuple, stamp: Stamp) -> Kept | None:
        """The page of ``key`` if it is as the store is."""
        kept = self._kept.get(key)
        if kept is None or kept.stamp != stamp or time.monotonic() > kept.made + KEPT_SECONDS:
            return None
        self._kept.move_to_end(key)
        return kept

    async def make(self, key: tuple, render: Callable[[], Awaitable[Kept]]) -> Kept:
        """The page of ``key``, made by ``render`` unless somebody is making it."""
        under_way = self._making.get(key)
        if under_way is not None:
            return await asyncio.shield(under_way)
        future: asyncio.Future[Kept] = asyncio.get_running_loop().create_future()
        self._making[key] = future
        try:
            kept = await render()
            self._put(key, kept)
            future.set_result(kept)
            return kept
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # nobody need be waiting
            raise
        finally:
            del self._making[key]

    def _put(self, key: tuple, kept: Kept) -> None:
        old = self._kept.pop(key, None)
        self._bytes += _size(kept) - (_size(old) if old else 0)
        self._kept[key] = kept
        while self._bytes > self._most_bytes and self._kept:
            _, gone = self._kept.popitem(last=False)
            self._bytes -= _size(gone)


def as_kept(text: str, status: int, stamp: Stamp) -> Kept:
    """The bytes of a page's text."""
    plain = text.encode("utf-8", "replace")
    packed = gzip.compress(plain, _LEVEL, mtime=0) if len(plain) > _LEAST_BYTES else b""
    return Kept(plain, packed, f'"{hashlib.sha256(plain).hexdigest()[:32]}"', stamp, time.monotonic(), status)


def _size(kept: Kept) -> int:
    return len(kept.plain) + len(kept.compressed) + 500
