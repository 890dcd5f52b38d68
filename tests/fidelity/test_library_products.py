"""Projected products beside what libraries took on silicon (a sample; tools/tile_gemm.py takes all)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tile_gemm

SAMPLE = Path(__file__).parents[2] / "traces" / "library" / "gemm_sample.csv"


@pytest.mark.parametrize("gpu", ["a100_80gb", "h100"])
def test_sampled_shapes_of_both_halves_are_followed(gpu):
    for final in (False, True):
        shapes = tile_gemm.measured_shapes(SAMPLE, gpu, final, None)
        off = tile_gemm.errors(gpu, shapes)
        assert len(off) == 40
        assert np.abs(off).mean() < 0.11
        assert abs(off.mean()) < 0.06
