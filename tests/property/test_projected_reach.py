"""Shapes far beyond all measured ones: their interval is wider and says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpusim.gpus.load import load_gpu
from gpusim.tile.operators import (
    AttentionOp,
    GemmOp,
    MoeOp,
    project_attention_op,
    project_gemm_op,
    project_moe_op,
)
from gpusim.tile.reach import TIMES

H100 = load_gpu("h100")
PRODUCT, EXPERTS = GemmOp(64, 4096, 4096), MoeOp(64, 4096, 1536, 128, 8)
GENERATION = AttentionOp("generation", 1, 1, 4096, 8, 1, 128)
CONTEXT, LATENT = AttentionOp("context", 1, 1024, 1024, 8, 1, 128), replace(GENERATION, kind="mla")


@pytest.mark.parametrize(
    ("project", "inside", "sizes", "most"),
    [
        (project_gemm_op, PRODUCT, ("rows",), 32768),
        (project_gemm_op, PRODUCT, ("columns",), 65536),
        (project_gemm_op, replace(PRODUCT, dtype="fp8"), ("depth",), 65536),
        (project_attention_op, GENERATION, ("keys",), 131072),
        (project_attention_op, GENERATION, ("head_dim",), 512),
        (project_attention_op, CONTEXT, ("queries", "keys"), 32768),
        (project_attention_op, LATENT, ("keys",), 131072),
        (project_moe_op, EXPERTS, ("hidden",), 8192),
    ],
)
def test_beyond_reach_of_measured_sizes_an_interval_is_wider_and_names_the_size(project, inside, sizes, most):
    near, within, beyond = (
        project(H100, replace(inside, **dict.fromkeys(sizes, size))) if size else project(H100, inside)
        for size in (0, TIMES * most, TIMES * most + 16)
    )
    assert near.validated and within.validated and not beyond.validated
    assert "outside of what was measured" in beyond.reason and f"{TIMES * most + 16:,}" in beyond.reason

    def width(found):
        return found.high_seconds / found.seconds

    assert width(beyond) >= max(width(near), width(within)) and width(beyond) > width(near)
    assert beyond.seconds > near.seconds
