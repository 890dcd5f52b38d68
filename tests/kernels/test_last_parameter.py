"""A last parameter of less than a word: the code reads the whole word that it begins."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import gpusim

pytestmark = pytest.mark.usefixtures("without_source_lines")


@cuda.jit
def keep(out, value):
    out[0] = value


GPUS = ("sm_75", "sm_90", "sm_120")
VALUES = (np.uint8(200), np.int16(-3), np.uint16(0xFFFF), np.float16(1.5), np.bool_(True))


#: How a parameter is placed depends on its size alone: each type by day on one architecture, each architecture with a
#: type of one byte or two at least; nightly all on all.
@pytest.mark.parametrize(
    ("gpu", "value"),
    [
        pytest.param(gpu, value, marks=() if i % len(GPUS) == j else pytest.mark.nightly, id=f"{gpu}-{value.dtype}")
        for i, value in enumerate(VALUES)
        for j, gpu in enumerate(GPUS)
    ],
)
def test_a_small_last_parameter_arrives(gpu, value) -> None:
    out = np.zeros(1, np.float64)
    gpusim.capture(keep, 1, 1, (out, value), gpu=gpu)
    assert out[0] == float(value)
