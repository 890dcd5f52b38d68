"""Projected attention beside what a library took on silicon (a sample; tools/tile_attention.py takes all)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tile_attention

SAMPLES = Path(__file__).parents[2] / "traces" / "library"


@pytest.mark.parametrize("phase", tile_attention.PHASES)
@pytest.mark.parametrize("gpu", ["a100_80gb", "h100"])
def test_sampled_shapes_of_both_halves_are_followed(gpu, phase):
    sample = SAMPLES / f"attention_{phase}_sample.csv"
    for final in (False, True):
        shapes = tile_attention.measured_shapes(sample, gpu, "vllm", final, None, phase)
        off = tile_attention.errors(gpu, shapes)
        assert len(off) == 40
        assert np.abs(off).mean() < 0.11
        assert abs(off.mean()) < 0.06
