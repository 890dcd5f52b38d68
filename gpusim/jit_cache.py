"""Keeps Numba's on-disk cache honest when a source file changes.

Mental model: Numba caches a compiled function beside the file that defines it and looks at that file alone;
a function compiled together with a callee from another file keeps the callee's old code. So the compiled
files of a package are dropped as soon as any of the sources that they may contain has changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_STAMP = "numba_sources.stamp"


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
