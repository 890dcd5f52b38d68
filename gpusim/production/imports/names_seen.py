"""Values that come again and again, each kept once and known by a number; a bounded number of them.

Mental model: number 0 stands for what was too much to be kept. What is kept of a text is its first
MOST_NAME_CHARACTERS.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from gpusim.production.launches import MOST_NAME_CHARACTERS

T = TypeVar("T", bound=Hashable)


class Seen(Generic[T]):
    """``other``: what number 0 stands for; ``most``: numbers at all."""

    def __init__(self, other: T, most: int) -> None:
        self.values: list[T] = [other]
        self.most = most
        self.left_out = 0
        self._numbers: dict[T, int] = {other: 0}

    def number(self, value: T) -> int:
        """Of ``value``, new or not."""
        found = self._numbers.get(value)
        if found is None:
            if len(self.values) >= self.most:
                self.left_out += 1
                return 0
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found


def cut(text: str) -> str:
    """``text``, no longer than a name may be."""
    return text if len(text) <= MOST_NAME_CHARACTERS else text[:MOST_NAME_CHARACTERS]
