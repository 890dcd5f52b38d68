"""A last parameter of less than a word: the code reads the whole word that it begins."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import gpusim


@cuda.jit
def keep(out, value):
    out[0] = value


@pytest.mark.parametrize("gpu", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("value", [np.uint8(200), np.int16(-3), np.uint16(0xFFFF), np.float16(1.5), np.bool_(True)])
def test_a_small_last_parameter_arrives(gpu, value) -> None:
    out = np.zeros(1, np.float64)
    gpusim.capture(keep, 1, 1, (out, value), gpu=gpu)
    assert out[0] == float(value)
