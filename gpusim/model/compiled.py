"""How the model's inner functions are compiled: cached, without the GIL, without reference counting.

Mental model: component functions get all arrays from their caller and allocate nothing, so nobody needs
to count references; counting them would cost two atomic operations an array and call, which is more
than most of these functions do. Nor do their indices count from an array's end. With ``NUMBA_DISABLE_JIT=1`` the
decorator leaves functions as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from numba import njit

from gpusim.io.jit_cache import stamp_of, stamped
from gpusim.io.jit_linking import InnerFromStart, OuterFromStart, called_as

F = TypeVar("F", bound=Callable[..., object])
_GPUSIM = Path(__file__).parents[1]
#: All sources that compiled functions of the model and of the engine may contain.
SOURCES = stamp_of(
    [
        _GPUSIM / "state_tables.py",
        *_GPUSIM.glob("io/jit_*.py"),
        _GPUSIM / "trace" / "layout.py",
        *_GPUSIM.glob("engine/*.py"),
        *_GPUSIM.glob("model/*.py"),
    ]
)


_COMMON = {"nogil": True, "_nrt": False, "no_cfunc_wrapper": True}
#: What an inlined function calls is inlined too: Numba hands ``forceinline`` down, and the engine is a tenth faster for
#: it.
_INNER = {**_COMMON, "no_cpython_wrapper": True}


def compiled(function: F) -> F:
    """Compile a function that works in its caller's arrays and allocates none."""
    outer = njit(pipeline_class=OuterFromStart, **_COMMON)(function)
    return stamped(called_as(outer, inner(function)), SOURCES)


def inner(function: F) -> F:
    """As :func:`compiled`, for functions that only compiled functions call: compiled, and kept on disk, as part of
    those, and without the wrapper that lets Python call them."""
    return njit(pipeline_class=InnerFromStart, **_INNER)(function)


def inlined(function: F) -> F:
    """As :func:`inner`, for functions that take many arrays and are called from few places: passing an array costs
    nine words, and an issue would pass thirty of them."""
    return njit(pipeline_class=InnerFromStart, **{**_INNER, "forceinline": True})(function)
