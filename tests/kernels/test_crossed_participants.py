"""Lanes that meet in a function called from several branches, and part for the barriers they set out with.

The double-precision square root's slow path is such a function. Lanes that call it from one branch and lanes that
call it from another run it together once they meet there, yet wait at its convergence barrier for others.
"""

from __future__ import annotations

import cmath
import itertools
import math

import numpy as np
import pytest
from numba import cuda

import gpusim

pytestmark = pytest.mark.usefixtures("without_source_lines")

PARTS = [0.0, -0.0, 1.0, -3.5, math.inf, -math.inf, math.nan, 1e-300, -1e300, math.pi, 1e-4]


@cuda.jit
def square_root(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = cmath.sqrt(x[i])


@cuda.jit
def inverse_cosine(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = cmath.acos(x[i])


@pytest.mark.parametrize("gpu", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("kernel, reference", [(square_root, cmath.sqrt), (inverse_cosine, cmath.acos)])
def test_complex_functions_end_whichever_branches_their_lanes_take(kernel, reference, gpu) -> None:
    x = np.array([complex(real, imaginary) for real, imaginary in itertools.product(PARTS, PARTS)])
    finite = np.isfinite(x) & (np.abs(x) < 1e150)
    out = np.zeros_like(x)
    gpusim.capture(kernel, 1, 128, (x, out), gpu=gpu)
    expected = [reference(value) for value in x[finite]]
    np.testing.assert_allclose(out[finite], expected, rtol=1e-12, atol=1e-300)
