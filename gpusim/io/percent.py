"""A change in percent as text, of which nothing is ever a negative zero.

Mental model: what is rounded for the eye may come to nothing, and then has no sign: ``+1.2 %``, ``-1.2 %``, ``0.0 %``.
"""

from __future__ import annotations

#: Digits that are no nothing.
_DIGITS = frozenset("123456789")


def signed(value: float, spec: str) -> str:
    """``value`` with its sign by ``spec`` (``.1f``, ``.3g``, ``.1%``), without one where all its written digits are
    zeros."""
    text = f"{value:+{spec}}"
    return text if _DIGITS.intersection(text.partition("e")[0]) or "n" in text else text[1:]


def signed_percent(percent: float, spec: str = ".1f") -> str:
    """A change of so many percent, with its unit: ``+1.2 %``."""
    return f"{signed(percent, spec)} %"
