"""Which files beside a source it includes: by these, and not by its own text alone, it is known to be the source that
it was.

Mental model: ``#include "name"`` of a file in the source's own folder, and what that includes in turn. Headers of
libraries are not followed: they are many and do not change between two captures.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.M)


def beside(source: str, folder: str) -> tuple[tuple[str, int, int], ...]:
    """(path, size in bytes, time of change in ns) of each file that ``source``, a text of a file in ``folder``,
    includes from there."""
    found: dict[str, tuple[int, int]] = {}
    waiting = [(source, Path(folder))]
    while waiting:
        text, place = waiting.pop()
        for name in _INCLUDE.findall(text):
            path = place / name
            if str(path) in found:
                continue
            with contextlib.suppress(OSError, ValueError):
                about = path.stat()
                found[str(path)] = about.st_size, about.st_mtime_ns
                waiting.append((path.read_text(errors="replace"), path.parent))
    return tuple((path, *about) for path, about in sorted(found.items()))
