"""Numba's array functions without SciPy, until somebody's compiled code multiplies matrices.

Mental model: before it compiles or loads anything, Numba imports ``numba.np.arraymath``, which imports SciPy's linear
algebra, a fifth of a second, only to know whether it is there; whatever calls it asks once more, and imports it then.
So here the first question is answered by looking whether SciPy is installed. Nothing of gpusim calls it; a user's own
compiled code may.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys

_ARRAYS, _ALGEBRA = "numba.np.arraymath", "numba.np.linalg"


def import_array_functions() -> None:
    """Import Numba's array functions; SciPy is left to whoever needs it. Where this Numba asks in another way, nothing
    is done: it is right, only later."""
    if _ARRAYS in sys.modules:
        return
    algebra = importlib.import_module(_ALGEBRA)
    names = vars(algebra)
    asked = names.get("ensure_blas")
    if asked is None:
        return
    names["ensure_blas"] = _look_for_scipy
    try:
        importlib.import_module(_ARRAYS)
    finally:
        names["ensure_blas"] = asked


def _look_for_scipy() -> None:
    """Raise ImportError, as what it stands for does, where SciPy is not installed."""
    if importlib.util.find_spec("scipy") is None:
        raise ImportError("SciPy is not installed")
