"""Keeps Numba's on-disk cache honest when a source file changes.

Mental model: Numba stamps a cached function with the state of the file that defines it and looks at that
file alone; a function compiled together with a callee from another file keeps the callee's old code. So the
stamp here covers all sources that a package's compiled code may contain: a cache written from other
sources, even by a process that still runs them, is never loaded. :func:`drop_stale` is the blunter tool:
it empties a package's cache when its sources have changed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

_STAMP = "numba_sources.stamp"


def stamp_of(sources: Iterable[Path]) -> str:
    """A digest of the contents of ``sources``."""
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def stamped(function: object, stamp: str) -> object:
    """Add ``stamp`` to what the cache of a Numba dispatcher or C callback is checked against."""
    cache_file = getattr(getattr(function, "_cache", None), "_cache_file", None)
    if hasattr(cache_file, "_source_stamp"):
        cache_file._source_stamp = (cache_file._source_stamp, stamp)
    return function


def drop_stale(folder: Path, sources: Iterable[Path]) -> bool:
    """Delete Numba's cache files of ``folder`` unless they were made from these very ``sources``.

    Returns True if they were dropped. A folder that cannot be written is left alone: Numba then keeps its
    cache elsewhere, by the hash of the path.
    """
    cache = folder / "__pycache__"
    stamp = "\n".join(f"{path.name} {path.stat().st_mtime_ns} {path.stat().st_size}" for path in sorted(sources))
    marker = cache / _STAMP
    try:
        if marker.read_text(encoding="utf-8") == stamp:
            return False
    except (OSError, ValueError):
        pass
    try:
        cache.mkdir(exist_ok=True)
        for pattern in ("*.nbi", "*.nbc"):
            for path in cache.glob(pattern):
                path.unlink(missing_ok=True)
        temporary = cache / f"{_STAMP}.{os.getpid()}"
        temporary.write_text(stamp, encoding="utf-8")
        os.replace(temporary, marker)
    except OSError:
        return False
    return True
