"""How the model's inner functions are compiled: cached, without the GIL, without reference counting.

Mental model: component functions get all arrays from their caller and allocate nothing, so nobody needs
to count references; counting them would cost two atomic operations an array and call, which is more
than most of these functions do. With ``NUMBA_DISABLE_JIT=1`` the decorator leaves functions as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile a function that works in its caller's arrays and allocates none."""
    return njit(cache=True, nogil=True, _nrt=False)(function)


def inner(function: F) -> F:
    """As :func:`compiled`, for functions that only compiled functions call: without the wrappers that
    let Python call them, which take longer to compile than the functions themselves."""
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(cache=True, nogil=True, _nrt=False, **options)(function)
