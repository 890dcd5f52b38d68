"""Calls a compiled function without asking each time which of its versions to call.

Mental model: Numba works out the type of every argument of every call, array by array, to find the machine code that
was compiled for them. Where a caller hands over the same arrays, or others like them, thousands of times a second, that
takes ten times as long as the call. A direct call asks once, for its first arguments, and then calls that version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core.dispatcher import Dispatcher


def direct(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, a compiled one, for a caller whose arguments have the same types in every call: arrays of as many
    dimensions and the same element type, integers, tuples of those. Others would be read as if they were like the
    first."""
    if not isinstance(function, Dispatcher):  # under NUMBA_DISABLE_JIT
        return function
    version: Callable[..., Any] | None = None

    def call(*arguments: Any) -> Any:
        nonlocal version
        if version is None:
            result = function(*arguments)
            signature = tuple(function.typeof_pyval(each) for each in arguments)
            version = function.overloads[signature].entry_point
            return result
        return version(*arguments)

    return call
