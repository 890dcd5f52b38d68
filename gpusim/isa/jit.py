"""The decorators of the interpreter's compiled functions.

Mental model: these functions only read and write arrays that their callers own, so Numba's reference
counting is switched off (``_nrt=False``): it would cost more than the instructions that are emulated, and
twice the compile time. The price: nothing compiled with it may allocate. Division by zero gives what the
machine gives (``error_model``), compiled code is kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from numba import njit
from numba.core import sigutils
from numba.core.ccallback import CFunc

from gpusim.io.jit_cache import stamp_of, stamped
from gpusim.io.jit_linking import InnerCompiler, OuterCompiler, called_as
from gpusim.io.jit_lowering import never_inlined

_GPUSIM = Path(__file__).parents[1]
#: All sources that compiled functions of this package may contain.
SOURCES = stamp_of(
    [
        _GPUSIM / "state_tables.py",
        *_GPUSIM.glob("io/jit_*.py"),
        *(path for path in (_GPUSIM / "isa").rglob("*.py") if path.parent.name != "binary"),
        *(_GPUSIM / "emulator").glob("*.py"),
        _GPUSIM / "sanitizer" / "racecheck.py",
        _GPUSIM / "trace" / "layout.py",
    ]
)
_COMMON = {"error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
#: Numba hands ``forceinline`` down to what a function calls, unless that says otherwise.
_INNER = {**_COMMON, "no_cpython_wrapper": True, "forceinline": False}


def compiled(function: Callable) -> Callable:
    """For functions that Python calls; compiled functions may call them too."""
    outer = njit(pipeline_class=OuterCompiler, **_COMMON)(function)
    return stamped(called_as(outer, inner(function)), SOURCES)


def inner(function: Callable) -> Callable:
    """For functions that only compiled functions call: compiled, and kept on disk, as part of those, and without the
    wrapper that lets Python call them."""
    return njit(pipeline_class=InnerCompiler, **_INNER)(function)


def inlined(function: Callable) -> Callable:
    """For inner functions that take many arrays and are called from one or two places: passing an array costs
    nine words, more than many an instruction that is emulated."""
    return njit(pipeline_class=InnerCompiler, **{**_INNER, "forceinline": True})(function)


def apart(function: Callable) -> Callable:
    """For inner functions that are called from several places, or from a hot loop on occasion: compiled once, never
    inlined, so that their callers stay small and keep their registers."""
    return inner(never_inlined(function, seldom=False))


def seldom(function: Callable) -> Callable:
    """The same for what most launches never call: compiled for size."""
    return inner(never_inlined(function, seldom=True))


@cache
def entry(function: Callable, signature: object) -> CFunc:
    """``function`` compiled to be called at ``.address``, when it is first asked for."""
    # What numba.cfunc does, with the cache stamped before it is looked at.
    options = {"error_model": "numpy", "_nrt": False}
    made = CFunc(
        function, sigutils.normalize_signature(signature), locals={}, options=options, pipeline_class=OuterCompiler
    )
    stamped(made, SOURCES)
    made.compile()
    return made


def allocating(function: Callable) -> Callable:
    """For functions that Python calls and that make new arrays; compiled functions may call them too."""
    outer = njit(pipeline_class=OuterCompiler)(function)
    part = njit(pipeline_class=InnerCompiler, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    return stamped(called_as(outer, part), SOURCES)
