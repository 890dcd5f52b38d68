"""How the trace's own loops are compiled: kept on disk, and recompiled when any source of this package changes.

Mental model: coding a chunk is a few passes over typed arrays that the caller owns. With
``NUMBA_DISABLE_JIT=1`` the decorator leaves functions as they are, and they give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from numba import njit

from gpusim.io.jit_cache import stamp_of, stamped
from gpusim.io.jit_linking import OuterCompiler
from gpusim.io.late_scipy import import_array_functions

_HERE = Path(__file__).parent
SOURCES = stamp_of([*_HERE.glob("*.py"), *_HERE.parent.glob("io/jit_*.py")])
import_array_functions()  # before the first function is compiled or loaded


def compiled(function: Callable) -> Callable:
    """Compile a function that works in its caller's arrays and allocates none."""
    return stamped(njit(nogil=True, _nrt=False, no_cfunc_wrapper=True, pipeline_class=OuterCompiler)(function), SOURCES)


def reading(function: Callable) -> Callable:
    """Compile a function that walks through a trace, of this package or of one above that calls this package's:
    compiled anew when any source here changes. It may allocate."""
    return stamped(njit(pipeline_class=OuterCompiler)(function), SOURCES)
