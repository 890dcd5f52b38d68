"""What a SASS text names: the opcode and its modifiers, without guard predicate and operands."""

from __future__ import annotations


def opcode_parts(text: str) -> tuple[str, ...]:
    """``("SHFL", "DOWN")`` of ``@!P0 SHFL.DOWN PT, R3, ...``; ``("",)`` of a text without an opcode."""
    words = text.split()
    if words and words[0].startswith("@"):
        words = words[1:]
    return tuple(words[0].rstrip(";").split(".")) if words else ("",)


__all__ = ["opcode_parts"]
