"""What commands print, as pages show it: whole, or some of its lines.

Mental model: a page says which command and which lines, counted from 1::

    <!-- output of: gpusim simulate saxpy --gpu h200; lines 1-4, 9 -->
    (a block of text; "..." stands for what is left out)
    <!-- end: output -->

``python tools/write_docs.py --outputs`` runs the commands again; the test that runs every shown command holds the block
against what it printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

OUTPUT = re.compile(r"(<!-- output of: (.+?)(?:; lines ([\d, -]+))? -->\n)(.*?)(<!-- end: output -->)", re.DOTALL)


def _excerpt(output: str, lines: str | None) -> str:
    """The block of ``output``'s lines that ``lines`` names, with its fences. Raises ValueError where there are not so
    many."""
    found = [line.rstrip() for line in output.strip("\n").splitlines()]
    if not lines:
        return "\n".join(["```text", *found, "```"])
    kept, behind = ["```text"], 0
    for part in lines.split(","):
        first, _, last = part.strip().partition("-")
        begin, end = int(first), int(last or first)
        if not behind < begin <= end <= len(found):
            raise ValueError(f"lines {part.strip()} are not behind line {behind} of {len(found)}")
        kept += (["..."] if begin > behind + 1 else []) + found[begin - 1 : end]
        behind = end
    return "\n".join([*kept, *(["..."] if behind < len(found) else []), "```"])


def printed_again(text: str, run: Callable[[str], str]) -> str:
    """``text`` with each block as ``run`` (a command's line to what it prints) has it."""
    return OUTPUT.sub(lambda found: f"{found[1]}\n{_excerpt(run(found[2]), found[3])}\n\n{found[5]}", text)


def stale(text: str, command: str, output: str) -> Iterator[str]:
    """The blocks of ``command`` in ``text`` that are not what it printed."""
    for found in OUTPUT.finditer(text):
        if found[2] == command and found[4].strip() != _excerpt(output, found[3]):
            yield found[0]
