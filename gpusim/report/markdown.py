"""A report as a Markdown comment, as a bot puts it under a pull request.

Mental model: the verdict first, then a table, then details that unfold. Text from outside (kernel names, source lines)
is escaped, so that it can neither break a table nor become a link, an image or HTML.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

from gpusim.report.tables import format_records

#: GitHub refuses a comment of more than 65,536 characters.
MOST_CHARACTERS = 60_000
#: What is said in words before the tables: the eye takes in no more.
MOST_SENTENCES, MOST_SENTENCE_CHARACTERS = 8, 2000
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#|~!@])")


def markdown_comment(
    title: str, summary: str, tables: Sequence[tuple[str, Sequence[dict[str, Any]]]], sentences: Sequence[str] = ()
) -> str:
    """``title`` and ``summary`` in words, the first :data:`MOST_SENTENCES` of ``sentences`` as a list, the first of
    ``tables`` (heading, records) open, the others folded. What does not fit into a comment is left out, and said to
    be."""
    parts = [f"## {escape(title)}", "", escape(summary), ""]
    shown = [f"- {escape(each[:MOST_SENTENCE_CHARACTERS])}" for each in sentences[:MOST_SENTENCES]]
    if len(sentences) > MOST_SENTENCES:
        shown.append(f"- and {len(sentences) - MOST_SENTENCES} more")
    parts += ["\n".join(shown), ""] if shown else []
    length = sum(map(len, parts))
    for index, (heading, records) in enumerate(tables):
        if not records:
            continue
        table = format_records([{key: _cell(value) for key, value in record.items()} for record in records], "md")
        part = f"{table}\n"
        if index:
            part = f"<details><summary>{html.escape(' '.join(heading.split()))}</summary>\n\n{table}\n\n</details>\n"
        if length + len(part) > MOST_CHARACTERS:
            parts.append(f"{len(tables) - index} more tables do not fit into a comment; see `--format json`.")
            break
        parts.append(part)
        length += len(part)
    return "\n".join(parts).rstrip() + "\n"


def escape(text: str) -> str:
    """``text`` as Markdown that shows it as it is, on one line."""
    return html.escape(_SPECIAL.sub(r"\\\1", " ".join(text.split())), quote=False)


def _cell(value: Any) -> Any:
    return escape(value) if isinstance(value, str) else value
