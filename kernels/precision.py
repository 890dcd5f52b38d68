"""The floating types of kernels that compute in single precision and keep their data in another.

Mental model: an axis ``dtype`` names how arrays are stored ("float32", "float16"); arithmetic is single
precision throughout, as is usual for everything in a network but its matrix products. What differs is
the traffic, and one rounding at the end.
"""

from __future__ import annotations

import numpy as np
from numba import float32, types

from .case import require_choice

#: Axis value -> the type as Numba calls it in a kernel.
STORED = {"float32": float32, "float16": types.float16}


def stored_type(dtype: str):
    """The Numba type of a stored ``dtype``; ValueError for one that these kernels do not know."""
    require_choice("dtype", dtype, STORED)
    return STORED[dtype]


def tolerance(dtype: str, relative: float = 1e-5) -> float:
    """The relative error to allow: ``relative`` for the arithmetic, or one rounding to a half if larger."""
    return max(relative, 1.01 * float(np.finfo(dtype).eps) / 2)
