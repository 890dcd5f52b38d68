"""Experts chosen by random numbers, tiles of versions of a framework, and what a launch finds in L2 at its edge."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpusim.gpus.load import load_gpu
from gpusim.tile.attention_context import ContextShape, project_context
from gpusim.tile.machine import tile_machine
from gpusim.tile.moe import MoeOp, project_moe
from gpusim.tile.moe_library import moe_library_of
from gpusim.tile.routing import all_expert_rows, expert_rows

LAYER = MoeOp(4096, 2048, 1408, 64, 6, distribution="uniform", framework="vllm")


@pytest.mark.parametrize(
    ("tokens", "experts", "top_k"), [(1, 256, 8), (16, 256, 8), (2, 8, 4), (4096, 128, 8), (8, 8, 8)]
)
def test_random_choices_reach_as_many_experts_as_chance_says_and_none_is_lost(tokens, experts, top_k):
    rows = expert_rows(tokens, experts, top_k, 1, "uniform")
    assert sum(rows) == tokens * top_k
    assert max(rows) <= tokens
    reached = experts * (1.0 - (1.0 - top_k / experts) ** tokens)
    assert len(rows) == pytest.approx(reached, abs=1.0)
    own, others = all_expert_rows(tokens, experts, top_k, 4, "uniform")
    assert sum(own) >= sum(others) / 3


def test_versions_of_a_framework_have_their_own_default_tiles():
    spec = load_gpu("a100_80gb")
    today, before = (project_moe(spec, replace(LAYER, earlier=earlier)).seconds for earlier in (False, True))
    # Pull request 34846 of vllm-project/vllm: up to twice as fast where there are many tokens.
    assert 1.3 < before / today < 2.2
    assert project_moe(spec, replace(LAYER, framework="sglang", earlier=True)) == project_moe(
        spec, replace(LAYER, framework="sglang")
    )


def test_an_l2_in_one_piece_loses_over_a_way_of_each_set_and_one_of_two_halves_at_once():
    whole, halves = (tile_machine(load_gpu(name), "bf16") for name in ("rtx5090", "h100"))
    lost = [whole.lost_share(times * whole.l2_bytes, 0.7) for times in (0.5, 0.93, 1.0, 1.03, 1.1)]
    assert lost[:2] == [0.0, 0.0]
    assert lost[2] == pytest.approx(0.5)
    assert lost[2] < lost[3] < lost[4] == 1.0
    assert [halves.lost_share(times * halves.l2_bytes, 0.7) for times in (0.69, 0.71)] == [0.0, 1.0]


def test_a_layer_that_runs_again_on_weights_of_three_quarters_of_an_l2_in_one_piece_comes_from_it():
    spec = load_gpu("rtx_pro_6000_server")
    op = MoeOp(4, 2048, 512, 256, 8, "fp8", distribution="uniform", block_scaled=True, framework="vllm", warm=True)
    # 31 experts of 3.1 MB of an L2 of 128 MiB (vllm-project/vllm, pull request 39183): 41 us, faster than DRAM.
    assert project_moe(spec, op).seconds < 0.6 * project_moe(spec, replace(op, warm=False)).seconds


def test_a_context_without_a_cache_leaves_out_what_writes_it():
    spec = load_gpu("a100_80gb")
    for queries, least, most in ((512, 1.3, 3.0), (8192, 1.0, 1.1)):
        shape = ContextShape(16384 // queries, queries, 32, 32, 64, causal=False)
        cached, plain = (project_context(spec, replace(shape, cached=cached)) for cached in (True, False))
        assert least < cached.seconds / plain.seconds < most
        # Keys and values are written and read no more often than the bytes of their cache say.
        assert cached.dram_bytes - plain.dram_bytes == pytest.approx(2.0 * shape.kv_bytes)


def test_few_choices_are_not_aligned_where_all_experts_are_on_one_gpu_and_the_version_is_new():
    spec = load_gpu("h100")
    few = MoeOp(8, 2048, 512, 256, 8, distribution="uniform", framework="vllm")
    library = moe_library_of("hopper", "bf16", "vllm")
    without = replace(library, aligned_share=0.0)

    def gained(op: MoeOp) -> float:
        return project_moe(spec, op, without).seconds - project_moe(spec, op, library).seconds

    routed = 1e-9 * library.routing_ns + library.routing_cycles / spec.clock_hz
    assert gained(few) == pytest.approx(library.aligned_share * routed)
    for other in (replace(few, tokens=9), replace(few, ep=2), replace(few, earlier=True)):
        assert gained(other) == 0.0


def test_the_sum_of_one_choice_and_of_more_than_four_takes_longer_than_its_bytes_and_that_of_two_does_not():
    spec = load_gpu("h100")
    library = moe_library_of("hopper", "fp8_block", "vllm")
    without = replace(library, sum_one_cycles=0.0, sum_more_cycles=0.0)
    for top_k, cycles in ((1, library.sum_one_cycles), (2, 0.0), (4, 0.0), (8, library.sum_more_cycles)):
        op = MoeOp(4096, 5120, 1024, 64, top_k, "fp8", distribution="balanced", block_scaled=True, framework="vllm")
        more = project_moe(spec, op, library).seconds - project_moe(spec, op, without).seconds
        assert more == pytest.approx(cycles * 4096 * top_k * 5120 / spec.sm_count / spec.clock_hz)
