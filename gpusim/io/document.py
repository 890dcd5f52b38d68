"""Reading a JSON document of a known version that may come from anywhere.

Mental model: files that gpusim writes for itself (results, coverage, findings, suites) carry a marker with their
version; whoever reads one checks size, form and version here, and then what it is about.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpusim.errors import GpusimError
from gpusim.io.records import read_json


def read_document(
    path: Path, marker: str, version: int, *, most_bytes: int, what: str, made_by: str, error: type[GpusimError]
) -> dict[str, Any]:
    """The JSON object in ``path`` whose key ``marker`` holds ``version``; what it holds beside is the caller's to
    check.

    Raises ``error``, naming the file, for one that is too large, unreadable, no JSON or of another version: ``what``
    says what it should be, ``made_by`` the command that makes one.
    """
    try:
        if path.stat().st_size > most_bytes:
            raise error(f"{path}: larger than {most_bytes} bytes, no {what}")
        document = read_json(path.read_bytes())
    except (OSError, ValueError) as problem:
        raise error(f"{path}: cannot be read as a {what}: {problem}") from None
    if not isinstance(document, dict) or document.get(marker) != version:
        raise error(f"{path}: no {what} of this version ({version}); make it with {made_by}")
    return document
