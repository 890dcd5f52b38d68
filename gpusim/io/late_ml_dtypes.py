"""The number types that NumPy lacks (bfloat16, 8-bit floats), from ml_dtypes where it is installed.

Mental model: imported when such a type is asked for, since few are.
"""

from __future__ import annotations

import importlib

import numpy as np


def small_float(name: str) -> np.dtype:
    """ml_dtypes' type ``name``; ValueError, with what installs it, where it is not there."""
    try:
        return np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    except ImportError:
        raise ValueError(f"{name} needs ml_dtypes: pip install ml_dtypes") from None
