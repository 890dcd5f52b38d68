"""Kernels' names for tables: arguments are left out and parameters cut, so that a name of hundreds of letters stays one
line."""

from __future__ import annotations

#: Letters kept of what stands in one pair of angle brackets, and of a whole text.
INSIDE, WHOLE = 24, 160
_OPENING, _CLOSING = "<([{", ">)]}"


def shortened(text: str, inside: int = INSIDE, most: int = WHOLE) -> str:
    """``text``, of whose outermost angle brackets no more than ``inside`` letters are left each, of others none, and
    ``most`` in all."""
    if len(text) <= most // 2:
        return text
    kept: list[str] = []
    depth = shown = room = 0
    for letter in text:
        depth -= letter in _CLOSING and depth > 0
        if depth == 0:
            kept.append(letter)
            shown, room = 0, inside if letter == "<" else 0
        elif shown < room:
            kept.append(letter)
            shown += 1
        elif shown == room:
            kept.append("...")
            shown += 1
        depth += letter in _OPENING
    found = "".join(kept)
    return found if len(found) <= most else found[: most - 3] + "..."
