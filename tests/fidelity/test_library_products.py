"""Projected products beside what libraries took on silicon (a sample; tools/tile_gemm.py takes all)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tile_gemm
from operators.l2_state import cold_shares

from gpusim.gpus.load import load_gpu

SAMPLE = Path(__file__).parents[2] / "traces" / "library" / "gemm_sample.csv"


@pytest.mark.parametrize("gpu", ["a100_80gb", "h100"])
def test_sampled_shapes_of_both_halves_are_followed(gpu):
    for final in (False, True):
        shapes = tile_gemm.measured_shapes(SAMPLE, gpu, final, None)
        off = tile_gemm.errors(gpu, shapes)
        assert len(off) == 40
        assert np.abs(off).mean() < 0.11
        assert abs(off.mean()) < 0.06


def test_what_l2_holds_when_a_measured_launch_starts_depends_on_whose_copies_the_run_goes_over():
    spec = load_gpu("h100")
    l2_bytes = spec.l2.total_bytes
    for framework, weights, cold in (
        ("vllm", 0.05, 0.0),
        ("vllm", 0.2, 1.0),
        ("trtllm", 0.11, 0.0),
        ("trtllm", 0.3, 1.0),
        ("trtllm", 1.5, 1.0),
    ):
        assert cold_shares(spec, framework, 1e3, weights * l2_bytes, 1e3)[1] == cold, (framework, weights)
    # SGLang's copies are of both operands.
    assert cold_shares(spec, "sglang", 0.1 * l2_bytes, 0.1 * l2_bytes, 1e3) == (1.0, 1.0)
    assert cold_shares(spec, "vllm", 0.1 * l2_bytes, 0.2 * l2_bytes, 1e3) == (0.0, 1.0)
