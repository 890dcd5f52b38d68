"""The value that a command line writes for an axis of the suite, as the type of the axis' default.

Mental model: what the default is says how a text is read; that a whole number may also be a fraction, the kernel's
``make`` says.

Raises ValueError, with what is wrong with the text.
"""

from __future__ import annotations

from typing import Any

from gpusim.cases.arguments import TRUTHS
from gpusim.cases.numbers import parse_integer, parse_number


def parse_value(text: str, like: Any, fractional: bool) -> Any:
    """``text`` as the type of ``like``; ``fractional``: where ``like`` is whole, a fraction will do, as for a size in
    KiB."""
    if isinstance(like, str):
        return text
    if isinstance(like, bool):
        if text.lower() not in TRUTHS:
            raise ValueError("it is true or false")
        return TRUTHS[text.lower()]
    if isinstance(like, float):
        return float(parse_number(text))
    if not fractional:
        return parse_integer(text)
    value = parse_number(text)
    return int(value) if isinstance(value, float) and value.is_integer() else value
