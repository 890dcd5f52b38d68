"""Keeps Numba's on-disk cache honest when a source file changes.

Mental model: Numba stamps a cached function with the state of the file that defines it and looks at that
file alone; a function compiled together with a callee from another file keeps the callee's old code. So the
stamp here covers all sources that a package's compiled code may contain: a cache written from other
sources, even by a process that still runs them, is never loaded, wherever Numba keeps it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def stamp_of(sources: Iterable[Path]) -> str:
    """A digest of the contents of ``sources``."""
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def stamped(function: object, stamp: str) -> object:
    """Check the cache of a Numba dispatcher or C callback against ``stamp``: against contents alone, so that files
    that were only touched or copied cost nothing. The stamp stands beside Numba's version, which is read first: what
    was compiled from other sources may name classes that are gone, and must not even be unpickled."""
    cache_file = getattr(getattr(function, "_cache", None), "_cache_file", None)
    if hasattr(cache_file, "_source_stamp") and hasattr(cache_file, "_version"):
        cache_file._source_stamp = (stamp,)
        cache_file._version = f"{cache_file._version} {stamp}"
    return function
