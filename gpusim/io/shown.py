"""A value from outside as a few characters of a message, whatever it is.

Mental model: a file may hold where a number should stand a text of a megabyte, a list nested as deep as the stack, a
number of thousands of digits; a message shows the beginning and the end of it. Python's own ``repr`` fails for the
latter two.
"""

from __future__ import annotations

import reprlib

_MOST_SHOWN = 60
#: Python turns no longer number into decimal digits.
_MOST_BITS = 14_000

_REPR = reprlib.Repr()
_REPR.maxlevel = 3
_REPR.maxstring = _REPR.maxlong = _REPR.maxother = _MOST_SHOWN


def shown(value: object) -> str:
    """``value`` as Python would write it, shortened."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    text = _REPR.repr(value)
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."
