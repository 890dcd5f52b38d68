"""A line of a source file, as it stands there now.

Mental model: an instruction names the file and line that it was compiled from; its text is what a reader looks for
first. A file may have been edited, moved or deleted since, so results that are kept take the text along when they are
made.
"""

from __future__ import annotations

import linecache

#: No line of source that somebody reads is longer; generated ones are cut here.
MOST_LETTERS = 500


def source_text(file: str, line: int) -> str:
    """The source line, without the spaces around it, where its file can be read here; else empty. A file is read once a
    process."""
    return linecache.getline(file, line).strip()[:MOST_LETTERS] if file and line > 0 else ""
