"""Tiles of attention over many query tokens: which there are, into how many parts their keys are split, and when the
last one ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpusim.errors import SpecError
from gpusim.gpus.load import load_gpu
from gpusim.tile.attention_cache import cache_blocks_ns
from gpusim.tile.attention_context import ContextShape, context_library_of, project_context
from gpusim.tile.attention_tiles import TILES, Met, flash3_parts
from gpusim.tile.attention_waves import busy_cycles


@pytest.mark.parametrize(
    ("met", "tile"),
    [
        (Met(64, 2, True, False, True), (192, 128)),
        (Met(64, 2, False, True, True), (192, 160)),
        (Met(128, 2, False, False, False), (128, 176)),
        (Met(192, 2, False, True, True), (128, 96)),
        (Met(256, 2, True, False, True), (128, 80)),
        (Met(256, 1, True, False, True), (128, 128)),
    ],
)
def test_tiles_are_those_of_the_library_source(met, tile):
    rule = TILES["flash3"]
    assert rule is not None and rule(met) == tile


def test_keys_are_split_only_where_tiles_of_queries_are_few():
    # 512 keys of heads of 128 elements are four tiles, which are never split (hopper/heuristics.h says so).
    assert flash3_parts(1, 1, 4, 4, 4, 132) == 1
    assert flash3_parts(1, 8, 16, 16, 16, 132) == 1
    few = flash3_parts(1, 1, 16, 16, 16, 132)
    assert 1 < few <= 16
    # More sequences leave fewer parts to each.
    assert few > flash3_parts(4, 1, 16, 16, 16, 132)
    assert flash3_parts(993, 1, 16, 16, 16, 132) == 1


def test_the_last_tile_ends_no_sooner_than_the_work_and_the_longest_tile_allow():
    steps = np.arange(1, 9)
    for heads, batch in ((1, 1), (3, 1), (2, 5)):
        ends = busy_cycles(steps, heads, batch, 10, 100.0, 50.0, 20.0)
        work = heads * batch * (len(steps) * 50.0 + steps.sum() * 20.0)
        assert ends >= max(work / 10, 100.0 + 8 * 20.0)
        assert ends <= work / 10 + 100.0 + 8 * 20.0
    # Tiles of equal work come in whole waves.
    assert busy_cycles(np.ones(1, int), 11, 1, 10, 100.0, 50.0, 20.0) == 100.0 + 20.0 + 50.0 + 20.0


def test_sequences_that_are_not_given_out_one_by_one_change_little():
    steps = np.arange(1, 17)
    many = busy_cycles(steps, 4, 40, 10, 100.0, 50.0, 20.0)  # of which a quarter is given out
    work = 4 * 40 * (len(steps) * 50.0 + steps.sum() * 20.0)
    assert work / 10 <= many < 1.02 * work / 10


def test_writing_the_cache_takes_a_block_a_token():
    spec = load_gpu("h100")
    one = cache_blocks_ns(spec, 1000.0, 1, 8, 128)
    assert one == cache_blocks_ns(spec, 1000.0, 4 * spec.sm_count, 8, 128) == 1000.0
    assert cache_blocks_ns(spec, 1000.0, 8 * spec.sm_count, 8, 128) == 2000.0
    # Blocks of fewer threads are more at once.
    assert cache_blocks_ns(spec, 1000.0, 8 * spec.sm_count, 1, 128) == 1000.0


def test_sglang_goes_over_the_keys_before_a_wide_window():
    spec = load_gpu("h100")
    times = {
        (framework, window): project_context(
            spec, ContextShape(4, 16384, 8, 4, 256, window=window, framework=framework)
        ).seconds
        for framework in ("vllm", "sglang")
        for window in (0, 1024)
    }
    assert times["vllm", 1024] < times["vllm", 0] / 4
    assert times["sglang", 1024] > times["sglang", 0]


def test_chunks_are_sequences_of_their_own():
    spec = load_gpu("h100")
    sliding = ContextShape(8, 12288, 20, 4, 128, window=8192, framework="sglang")
    chunked = replace(sliding, chunked=True)
    apart = [ContextShape(8, queries, 20, 4, 128, framework="sglang") for queries in (8192, 4096)]
    assert chunked.scores == sum(each.scores for each in apart) < sliding.scores
    seconds = project_context(spec, chunked).seconds
    assert seconds < project_context(spec, sliding).seconds
    assert seconds == pytest.approx(sum(project_context(spec, each).seconds for each in apart), rel=0.1)
    within = replace(chunked, queries=4096)
    assert project_context(spec, within).seconds == pytest.approx(project_context(spec, apart[1]).seconds, rel=0.01)
    for wrong in ({"window": 0}, {"prefix": 64}, {"causal": False}):
        with pytest.raises(SpecError, match="chunk"):
            replace(chunked, **wrong)


def test_blocks_alone_on_a_tpc_work_faster_where_the_kernel_says_so():
    h100 = load_gpu("h100")
    known = context_library_of("hopper", framework="sglang", rows=("heads_256", "triton"))
    assert known.alone_step_share < 1.0
    for tiles, faster in ((60, True), (140, False)):
        shape = ContextShape(1, 128 * tiles, 1, 1, 256, window=1024, framework="sglang")
        alike = project_context(h100, shape, replace(known, alone_step_share=1.0)).seconds
        assert (project_context(h100, shape, known).seconds < 0.8 * alike) == faster
