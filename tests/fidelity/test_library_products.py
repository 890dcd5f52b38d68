"""Projected products beside what libraries took on silicon (a sample; tools/tile_gemm.py takes all)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tile_gemm
from operators.kinds import KINDS
from operators.l2_state import cold_shares
from operators.measured import as_read

from gpusim.gpus.load import load_gpu
from gpusim.tile.gemm import GemmShape, project_gemm
from gpusim.tile.library import library_of
from gpusim.tile.product import GemmOp, project_product

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


def test_what_each_launch_reads_again_stays_in_the_l2_of_two_dies_where_copies_do_not():
    spec = load_gpu("b200")
    l2_bytes = spec.l2.total_bytes
    again, copies = (
        cold_shares(spec, "vllm", 0.59 * l2_bytes, 0.0, 0.0)[0],
        cold_shares(spec, "vllm", 0.0, 0.1 * l2_bytes, 0.0)[1],
    )
    assert again == 0.0 and 0.4 < copies < 0.6


@pytest.mark.parametrize(
    ("us", "launches", "shown"), [(1.60, 6, 1.7067), (1.85, 6, 1.7067), (1.90, 5, 2.048), (0.01, 5, 0.4096)]
)
def test_rows_of_a_b200_show_whole_steps_of_their_graphs(us, launches, shown):
    assert as_read("b200", us, launches) == pytest.approx(shown, abs=1e-3)
    assert as_read("h100", us, launches) == us


def test_rows_of_nvfp4_that_were_measured_one_call_a_graph_are_compared_in_whole_steps():
    row = SimpleNamespace(m=16, n=4096, k=4096)
    for kind, launches in (("gemm_nvfp4", 1), ("gemm_nvfp4_trtllm", 0)):
        steps = 1e6 * KINDS[kind].seconds(load_gpu("b200"), row, None) / 2.048
        assert (abs(steps - round(steps)) < 1e-6) == bool(launches), kind


def test_few_rows_by_few_columns_are_split_into_no_more_blocks_than_are_allowed():
    spec = load_gpu("b200")
    few, more = (project_gemm(spec, GemmShape(rows, 512, 65536)) for rows in (8, 9))
    assert few.tile.columns == 64 and few.splits * 8 <= 64
    assert few.seconds > 1.3 * more.seconds
    assert project_gemm(spec, GemmShape(8, 4096, 3584)).splits == 1


def test_a_library_with_a_bound_on_parts_splits_no_further():
    spec = load_gpu("a100_80gb")
    few = project_product(spec, GemmOp(16, 128, 16384, "int8_wo"))
    assert (
        few.seconds
        > 1.2
        * project_product(
            spec, GemmOp(16, 128, 16384, "int8_wo"), replace(library_of("ampere", "int8_wo"), most_splits=0.0)
        ).seconds
    )
