"""What a figure of gpusim depends on beside its input: gpusim itself.

Mental model: rows that are kept to go on from later hold as long as the code and the figures that made them do. A
version number does not say that (a checkout changes without one), so it is the text of the package: all of it, because
whatever is left out will one day decide a figure.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_SUFFIXES = (".py", ".toml", ".json")
_PACKAGE = Path(__file__).parents[1]


@cache
def package_digest() -> str:
    """32 hexadecimal digits that change with any file of code or figures of this package; about a fifth of a second,
    once a process."""
    digest = hashlib.sha256()
    for path in sorted(path for path in _PACKAGE.rglob("*") if path.suffix in _SUFFIXES):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]
