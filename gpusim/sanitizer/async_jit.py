"""The decorator of the asynchronous check's compiled entry: kept on disk until a source changes that it may contain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from numba import njit

from gpusim.io.jit_cache import stamp_of, stamped
from gpusim.io.jit_linking import OuterCompiler, called_as
from gpusim.isa.jit import SOURCES, inner

_STAMP = SOURCES + stamp_of(sorted(Path(__file__).parent.glob("async*.py")))


def compiled(function: Callable) -> Callable:
    """For functions that Python calls; nothing in them may allocate (:mod:`gpusim.isa.jit`)."""
    outer = njit(pipeline_class=OuterCompiler, error_model="numpy", _nrt=False, no_cfunc_wrapper=True)(function)
    return stamped(called_as(outer, inner(function)), _STAMP)
