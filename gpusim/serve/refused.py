"""A request that is refused: an HTTP status, and what is said."""

from __future__ import annotations


class RefusedError(Exception):
    """Of a request: an HTTP ``status`` and what is said."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text
