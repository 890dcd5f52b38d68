"""Projected attention: never faster than the machine, no slower for less work, and split as the library splits it."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gpusim.cli import gpusim, run
from gpusim.errors import SpecError
from gpusim.gpus.load import load_gpu
from gpusim.tile.attention import AttentionShape, attention_library_of, library_for, project_attention
from gpusim.tile.attention_context import ContextShape, context_library_of, project_context
from gpusim.tile.attention_overlap import overlapped
from gpusim.tile.attention_split import RULES, Keys
from gpusim.tile.bands import attention_band, context_band
from gpusim.tile.described_attention import attention_constants_of, described_attention, described_context
from gpusim.tile.library import FRAMEWORKS
from gpusim.tile.machine import tile_machine

LENGTHS = st.sampled_from([1, 2, 127, 128, 129, 4096, 131072])
GPUS = ["a100_80gb", "h100", "b200", "l40"]


@given(
    batch=st.sampled_from([1, 2, 33, 256]), length=LENGTHS, kv_heads=st.sampled_from([1, 2, 8]),
    group=st.sampled_from([1, 4, 7, 65]), head_dim=st.sampled_from([64, 128, 256]), gpu=st.sampled_from(GPUS),
)  # fmt: skip
def test_no_attention_beats_the_bytes_that_it_must_load_or_the_peak(batch, length, kv_heads, group, head_dim, gpu):
    spec = load_gpu(gpu)
    shape = AttentionShape(batch, length, kv_heads * group, kv_heads, head_dim)
    found = project_attention(spec, shape)
    machine = tile_machine(spec, "bf16")
    assert found.seconds * machine.clock_hz > shape.kv_bytes / machine.l2_bytes_per_cycle
    assert found.seconds * machine.clock_hz > found.dram_bytes / machine.dram_bytes_per_cycle
    assert found.flops / found.seconds < machine.flops_per_cycle * machine.sm_count * machine.clock_hz
    assert found.low_seconds < found.seconds < found.high_seconds
    assert 0 <= found.dram_bytes <= shape.kv_bytes <= found.l2_bytes


@pytest.mark.parametrize("gpu", ["a100_80gb", "h100"])
def test_many_more_keys_or_sequences_take_longer_and_a_window_bounds_them(gpu):
    spec = load_gpu(gpu)

    def seconds(batch: int, length: int, window: int = 0) -> float:
        return project_attention(spec, AttentionShape(batch, length, 32, 8, 128, window=window)).seconds

    assert seconds(8, 1024) < seconds(8, 16384) < seconds(64, 16384) < seconds(64, 131072)
    assert 7 < seconds(256, 65536) / seconds(32, 65536) < 9, "all of it from DRAM"
    # A window begins in the midst of a tile of keys, so that it costs up to one more.
    assert seconds(64, 131072, window=1024) == pytest.approx(seconds(64, 4096, window=1024))
    assert seconds(64, 1024) <= seconds(64, 131072, window=1024) <= seconds(64, 1024 + 128) * 1.001


@given(
    batch=st.sampled_from([1, 3, 64]), queries=st.sampled_from([1, 2, 127, 128, 129, 2048, 8192]),
    kv_heads=st.sampled_from([1, 2, 8]), group=st.sampled_from([1, 4, 7]), head_dim=st.sampled_from([64, 128, 256]),
    gpu=st.sampled_from(GPUS),
)  # fmt: skip
def test_no_context_beats_the_peak_and_twice_the_sequences_take_longer(batch, queries, kv_heads, group, head_dim, gpu):
    spec = load_gpu(gpu)
    once, twice = (
        project_context(spec, ContextShape(count, queries, kv_heads * group, kv_heads, head_dim))
        for count in (batch, 2 * batch)
    )
    machine = tile_machine(spec, "bf16")
    assert once.flops / once.seconds < machine.flops_per_cycle * machine.sm_count * machine.clock_hz
    assert once.low_seconds < once.seconds < once.high_seconds
    assert once.seconds <= 1.02 * twice.seconds  # a wave that is full wastes nothing at its end


@pytest.mark.parametrize("gpu", ["a100_80gb", "h100"])
def test_a_long_context_goes_with_the_square_of_its_length(gpu):
    spec = load_gpu(gpu)
    short, long = (project_context(spec, ContextShape(8, n, 32, 8, 128)).seconds for n in (8192, 16384))
    assert 3.6 < long / short < 4.1


def test_a_context_of_one_token_is_generation():
    spec = load_gpu("a100_80gb")
    one = project_context(spec, ContextShape(32, 1, 32, 8, 128))
    assert one == project_attention(spec, AttentionShape(32, 1, 32, 8, 128))


def test_keys_are_split_where_few_sequences_would_leave_most_of_the_gpu_idle():
    h100, a100 = load_gpu("h100"), load_gpu("a100_80gb")
    shared, alone = AttentionShape(1, 65536, 8, 1, 128), AttentionShape(1, 65536, 8, 8, 128)
    assert project_attention(h100, shared).launches == project_attention(h100, alone).launches == 3
    assert project_attention(a100, shared).launches == 3
    assert project_attention(a100, alone).launches == 2, "one block reads all keys of a head"
    full = AttentionShape(64, 65536, 8, 8, 128)
    assert project_attention(h100, full).launches == 2


@pytest.mark.parametrize(
    ("rule", "blocks", "keys", "parts"),
    [
        ("plain", 8, 65536, 23), ("plain", 180, 65536, 1), ("flash2", 8, 65536, 23),  # 23 x 8 of 216 places are the fewest that fill 85 %
        ("xqa", 1, 16384, 32), ("xqa", 64, 256, 2), ("xqa", 1024, 256, 1), ("xqa", 128, 2048, 6),  # the root of 8 x 128; 11 parts would be 13 waves
        ("mmha", 8, 511, 1), ("mmha", 8, 512, 2), ("mmha", 8, 65536, 14), ("mmha", 128, 65536, 1),  # a block of 1,024 threads for each SM
    ],
)  # fmt: skip
def test_each_library_splits_keys_by_its_own_published_rule(rule, blocks, keys, parts):
    assert RULES[rule](Keys(blocks, keys, 128, 2.0, 108, 164 << 10, 2, 128)).parts == parts


@pytest.mark.parametrize(
    ("sequences", "keys", "all_keys", "given", "parts"),
    [
        (1, 131072, 131072, 32, 32), (1, 131072, 131072, 0, 114), (1, 512, 512, 32, 4), (1, 512, 512, 0, 1),  # nine steps an SM; no more than four tiles are not split unasked
        (64, 4096, 4096, 32, 2), (513, 4096, 4096, 32, 1), (1, 128, 4096, 32, 32), (1, 128, 4096, 0, 1),  # a window's parts are those of all keys, if parts are asked for
    ],
)  # fmt: skip
def test_flash_attention_3_gives_each_sm_its_share_of_all_tiles(sequences, keys, all_keys, given, parts):
    of = Keys(sequences, keys, 128, 2.0, 132, 227 << 10, 1, 128, sequences, 1, all_keys, given)
    assert RULES["flash3"](of).parts == parts


def test_waiting_and_bytes_overlap_wholly_only_where_they_are_far_apart():
    assert overlapped(3.0, 4.0, 0.0) == overlapped(-1.0, 4.0, 3.0) == 4.0
    assert overlapped(3.0, 4.0, 2.0) == overlapped(4.0, 3.0, 2.0) == pytest.approx(5.0)
    assert 100.0 <= overlapped(1.0, 100.0, 3.0) < 100.01


def test_a_windows_blocks_take_no_longer_for_the_keys_before_it():
    spec, near = load_gpu("h100"), AttentionShape(8, 4096, 8, 1, 128, window=128)
    far = replace(near, kv_length=65536)
    assert project_attention(spec, far).seconds == pytest.approx(project_attention(spec, near).seconds, rel=0.02)
    whole = replace(near, window=0)
    assert project_attention(spec, near).seconds < project_attention(spec, whole).seconds


def test_keys_in_dram_cost_no_more_than_twice_their_bytes():
    spec = load_gpu("h100")
    for keys in (1, 512, 65536):
        warm = AttentionShape(1, keys, 8, 1, 128)
        more = project_attention(spec, replace(warm, cold=True)).seconds - project_attention(spec, warm).seconds
        assert 0.0 <= more <= 2.0 * warm.kv_bytes / (spec.dram.peak_bytes_per_ns * 1e9 * spec.dram.efficiency) + 1e-12


def test_blocks_an_sm_go_by_its_shared_memory_and_by_their_threads():
    narrow = Keys(8, 4096, 128, 2.0, 142, 100 << 10, 2, 128)
    assert RULES["flash2"](narrow).blocks_per_sm == 1, "a block takes 80 KiB of an L40S's 100"
    assert RULES["flash2"](replace(narrow, shared_bytes=164 << 10)).blocks_per_sm == 2
    for blocks, held, columns in ((8, 1, 512), (142 * 2, 2, 256), (142 * 4, 4, 128)):
        split = RULES["mmha"](replace(narrow, blocks=blocks))
        assert (split.blocks_per_sm, split.columns) == (held, columns)


def test_tensorrt_llm_takes_a_block_a_head_where_few_blocks_share_and_where_none_do():
    spec = load_gpu("a100_80gb")
    few, enough = (AttentionShape(batch, 64, 4, 1, 128, framework="trtllm") for batch in (26, 27))
    assert [library_for(spec, each).rule for each in (few, enough)] == ["mmha", "xqa"]
    assert library_for(spec, replace(enough, batch=512, kv_heads=4)).rule == "mmha"
    assert library_for(spec, replace(enough, framework="vllm")).rule == "flash2"


def test_an_engine_that_splits_no_keys_reads_a_head_by_one_block_and_shares_heads_where_blocks_are_many():
    spec = load_gpu("h100")
    split = AttentionShape(1, 8192, 16, 2, 128, framework="trtllm", cold=True)
    whole = replace(split, splits=False)
    assert [library_for(spec, each).rule for each in (split, whole)] == ["xqa", "mmha"]
    taken = {keys: project_attention(spec, replace(whole, kv_length=keys)).seconds for keys in (4096, 8192)}
    each_key_cycles = (taken[8192] - taken[4096]) / 4096 * spec.clock_hz
    assert project_attention(spec, split).seconds < 0.6 * taken[8192]
    assert 8 < each_key_cycles < 16, "one block reads all keys of a head"
    assert library_for(spec, replace(whole, batch=17)).rule == "xqa", "a quarter of the SMs have a block"
    assert library_for(spec, replace(whole, batch=16)).rule == "mmha"


def test_an_engine_may_split_keys_that_the_librarys_kernels_of_today_leave_whole():
    spec = load_gpu("a100_40gb")
    whole = AttentionShape(1, 3072, 8, 8, 128, framework="vllm", cold=True)
    split = replace(whole, splits_single_heads=True)
    assert project_attention(spec, split).seconds < 0.5 * project_attention(spec, whole).seconds
    shared = replace(whole, kv_heads=2)
    assert project_attention(spec, shared) == project_attention(spec, replace(shared, splits_single_heads=True))


def test_keys_of_8_bits_take_hoppers_arithmetic_as_long_and_have_kernels_for_few_blocks():
    spec = load_gpu("h100")
    alone = AttentionShape(1, 16384, 32, 32, 128, framework="trtllm", splits=False, cold=True)
    narrow, wide = (project_attention(spec, replace(alone, kv_dtype=dtype)).seconds for dtype in ("fp8", "bf16"))
    assert narrow > 0.9 * wide, "half of the bytes, but a head's only block converts them"
    few = AttentionShape(4, 64, 4, 1, 128, framework="trtllm")
    rules = [library_for(spec, replace(few, kv_dtype=dtype)).rule for dtype in ("fp8", "bf16")]
    assert rules == ["xqa_window", "mmha"]
    assert library_for(spec, replace(few, kv_dtype="fp8", splits=False)).rule == "mmha"
    many = replace(alone, batch=64)
    today = project_attention(spec, replace(many, kv_dtype="fp8", splits=True)).seconds
    assert project_attention(spec, replace(many, kv_dtype="fp8")).seconds < today, "DRAM beside arithmetic"


def test_heads_that_share_a_cache_of_8_bits_are_never_left_to_a_block_a_head():
    spec = load_gpu("h100")
    few = AttentionShape(1, 64, 8, 1, 128, framework="trtllm")
    assert library_for(spec, few).rule == "mmha", "one block of keys is too few for shared heads' kernels in 16 bits"
    assert library_for(spec, replace(few, kv_dtype="fp8")).rule == "xqa_window"
    for alone in (replace(few, kv_heads=8, kv_dtype="fp8"), replace(few, heads=64, kv_dtype="fp8")):
        assert library_for(spec, alone).rule == "mmha", "nothing is shared, or by more heads than the kernels take"


def test_a_block_a_head_takes_as_long_a_key_in_8_bits_as_in_16():
    spec = load_gpu("h100")
    for batch, keys in ((1, 8192), (64, 1024), (256, 2048)):
        wide = AttentionShape(batch, keys, 96, 1, 128, framework="trtllm")
        halved, whole = (project_attention(spec, each).seconds for each in (replace(wide, kv_dtype="fp8"), wide))
        assert 0.9 < halved / whole < 1.1, "measured 0.99 to 1.03: its lanes' work bounds it, not the bytes"


def test_hoppers_kernel_for_8_bits_does_nothing_for_keys_before_a_window():
    spec = load_gpu("h100")
    near = AttentionShape(1, 512, 8, 1, 64, window=128, kv_dtype="fp8", framework="trtllm")
    near_us, far_us = (1e6 * project_attention(spec, replace(near, kv_length=keys)).seconds for keys in (512, 131072))
    assert near_us == pytest.approx(9.2, rel=0.1), "measured 9.1 to 9.5 us"
    assert far_us == pytest.approx(9.4, rel=0.2)


def test_more_heads_that_share_keys_make_a_tile_of_more_rows():
    spec = load_gpu("h100")
    us = {
        heads: 1e6 * project_attention(spec, AttentionShape(1, 2, heads, 1, 128, kv_dtype="fp8", framework="trtllm")).seconds
        for heads in (2, 8, 12, 16, 32)
    }  # fmt: skip
    assert us[2] == pytest.approx(us[8], rel=0.02), "tiles have 8 rows at least"
    assert us[8] + 0.5 < us[16] < us[32] - 1.0, "measured 5.9, 7.0 and 8.9 us"
    assert us[12] == pytest.approx(us[16], rel=0.05)


def test_what_cannot_be_projected_is_refused_by_name():
    with pytest.raises(SpecError, match="heads are 6, no multiple of its kv_heads, 4"):
        AttentionShape(1, 1, 6, 4, 64)
    with pytest.raises(SpecError, match="batch is 0"):
        AttentionShape(0, 1, 1, 1, 64)
    with pytest.raises(SpecError, match="window is -1"):
        AttentionShape(1, 1, 1, 1, 64, window=-1)
    with pytest.raises(SpecError, match="dtype is 'fp3'"):
        AttentionShape(1, 1, 1, 1, 64, "fp3")
    for known in (attention_library_of, context_library_of):
        with pytest.raises(SpecError, match="'pascal'"):
            known("pascal")
    with pytest.raises(SpecError, match="queries is 0"):
        ContextShape(1, 0, 1, 1, 64)
    with pytest.raises(SpecError, match="queries is 4194304, not between 1 and 4194303"):
        ContextShape(1, 1 << 22, 1, 1, 64)


def test_attention_of_a_generation_without_rows_goes_by_its_description():
    spec = load_gpu("b200")
    later = replace(spec, generation="later")
    one, many = AttentionShape(64, 4096, 32, 8, 128), ContextShape(2, 4096, 32, 8, 128)
    assert library_for(later, one) == described_attention(later) != library_for(spec, one)
    assert library_for(later, replace(one, kv_dtype="fp8")) != described_attention(later), "no 8-bit rows of two GPUs"
    assert library_for(later, replace(one, framework="trtllm")) == library_for(spec, replace(one, framework="trtllm"))
    seconds = project_context(later, many, limit_watts=math.inf).seconds
    assert seconds == project_context(later, many, described_context(later), limit_watts=math.inf).seconds
    # Exponentials twice as fast shorten what waits for them, and DRAM twice as fast what is read.
    mufu = replace(spec.pipes["mufu"], interval_cycles=spec.pipes["mufu"].interval_cycles // 2)
    quicker = replace(later, pipes=spec.pipes | {"mufu": mufu})
    assert project_context(quicker, many, limit_watts=math.inf).seconds < 0.9 * seconds
    wider = replace(later, dram=replace(spec.dram, peak_bytes_per_ns=2 * spec.dram.peak_bytes_per_ns))
    long = replace(one, kv_length=65536)
    assert project_attention(wider, long).seconds < 0.8 * project_attention(later, long).seconds
    with pytest.raises(SpecError, match="no table 'without_turing'"):
        attention_constants_of("without_turing")


def test_a_context_has_as_many_blocks_an_sm_as_shared_memory_holds():
    figures = replace(context_library_of("ampere"), start_cycles=0.0, tail=0.0)
    spec, one_wave = load_gpu("a100_80gb"), ContextShape(1, 64, 216, 216, 128)
    narrow = replace(spec, sm=replace(spec.sm, shared_max_bytes=100 << 10))
    held, halved = (project_context(each, one_wave, figures, limit_watts=math.inf).seconds for each in (spec, narrow))
    assert held == halved, "the tensor cores' work is the same"
    started = replace(figures, start_cycles=1e6)
    held, halved = (project_context(each, one_wave, started, limit_watts=math.inf).seconds for each in (spec, narrow))
    assert halved > 1.9 * held, "a block takes 80 KiB of 100: two waves of starts"


def test_a_window_costs_the_pages_that_it_begins_in():
    spec = load_gpu("b200")

    def seconds(length: int, window: int = 0) -> float:
        return project_attention(spec, AttentionShape(2048, length, 8, 8, 128, window=window)).seconds

    assert seconds(128) < seconds(256, 128) < seconds(256)
    assert seconds(65536, 128) == seconds(256, 128)
    trtllm = replace(AttentionShape(8, 512, 16, 8, 64, window=128), framework="trtllm")
    found = [project_attention(load_gpu("h100"), replace(trtllm, kv_length=keys)).seconds for keys in (512, 1024, 4096)]
    assert found[0] < found[1] < found[2], "parts go by the whole sequence, and blocks without keys start as well"


def test_a_band_of_what_was_not_measured_says_so_and_is_no_narrower():
    for band, size in ((attention_band, 5e6), (context_band, 1000)):
        known, unknown = band("hopper", "bf16", size), band("turing", "bf16", size)
        assert known.validated and known.shapes > 100
        own = max(band(generation, "bf16", size).factor for generation in ("ampere", "hopper"))
        assert not unknown.validated and unknown.factor > own and "turing" in unknown.reason
    spec = load_gpu("h100")
    assert project_attention(spec, AttentionShape(4, 4096, 8, 8, 128)).validated
    windowed = project_attention(spec, AttentionShape(4, 4096, 8, 8, 128, window=128))
    assert windowed.validated and "window" in windowed.reason
    assert not project_attention(load_gpu("a100_80gb"), AttentionShape(4, 4096, 8, 8, 128, window=128)).validated


def test_a_framework_has_kernels_of_its_own_and_an_unknown_one_is_refused():
    spec = load_gpu("h100")
    for project, shape in (
        (project_attention, AttentionShape(16, 4096, 32, 8, 128)),
        (project_context, ContextShape(2, 2048, 32, 8, 128)),
    ):
        found = [project(spec, replace(shape, framework=each)).seconds for each in FRAMEWORKS]
        assert len(set(found)) == len(FRAMEWORKS)
        with pytest.raises(SpecError, match="framework is 'mine': known are vllm, sglang, trtllm"):
            replace(shape, framework="mine")


def test_heads_that_no_kernel_is_compiled_for_take_as_long_as_wider_ones():
    spec, library = load_gpu("h100"), replace(context_library_of("hopper"), head_passes=0.0, kv_passes=0.0)
    narrow, padded, wide = (
        project_context(spec, ContextShape(4, 8192, 16, 16, width), library, limit_watts=math.inf).seconds
        for width in (64, 80, 96)
    )
    assert narrow < padded == wide


def test_heads_beyond_what_kernels_share_are_read_one_by_one():
    spec, few = load_gpu("h100"), AttentionShape(64, 4096, 32, 1, 128, framework="trtllm")
    many = replace(few, heads=64)
    found = [project_attention(spec, each) for each in (few, many)]
    assert found[0].l2_bytes < 2 * few.kv_bytes and found[1].l2_bytes >= 64 * few.kv_bytes


def test_a_blocks_start_keeps_its_time_at_another_clock():
    spec = load_gpu("a100_80gb")
    faster = replace(spec, clock_hz=2 * spec.clock_hz)
    figures = replace(
        attention_library_of("ampere"),
        rule="plain",
        query_rows=1,
        kv_columns=1,
        step_cycles=0.0,
        head_cycles=0.0,
        combine_cycles=0.0,
        block_bytes_per_cycle=1e9,
    )
    one = AttentionShape(1, 1, 1, 1, 64)
    slow, fast = (project_attention(each, one, figures).seconds for each in (spec, faster))
    start_seconds = figures.start_cycles / (figures.clock_mhz * 1e6)
    assert slow - figures.launch_ns * 1e-9 > start_seconds
    assert abs(slow - fast) < 0.05 * start_seconds
    context = replace(
        context_library_of("ampere"),
        query_rows=1,
        narrow_query_rows=1,
        kv_columns=1,
        score_cycles=0.0,
        kv_passes=0.0,
        head_passes=0.0,
    )
    slow, fast = (
        project_context(each, ContextShape(1, 2, 1, 1, 64), context, limit_watts=math.inf).seconds
        for each in (spec, faster)
    )
    assert abs(slow - fast) < 0.05 * context.start_cycles / (context.clock_mhz * 1e6)


def test_the_command_gives_one_record_and_refuses_in_one_line(capsys):
    words = ["project", "attention", "--batch", "4", "--length", "2048", "--heads", "32", "--kv-heads", "8"]
    done = CliRunner().invoke(gpusim, [*words, "--format", "json"])
    (record,) = json.loads(done.stdout)
    assert record["us_low"] < record["us"] < record["us_high"]
    assert record["kv_bytes"] == 2 * 2 * 4 * 8 * 2048 * 128
    assert run([*words[:-1], "5"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: an attention's heads are 32, no multiple of its kv_heads, 5"
    ]


def test_a_cache_of_eight_bits_has_kernels_of_its_own_and_its_own_interval():
    h100, a100 = load_gpu("h100"), load_gpu("a100_80gb")

    def seconds(length: int, head_dim: int, kv_dtype: str) -> float:
        return project_attention(h100, AttentionShape(16, length, 32, 8, head_dim, kv_dtype=kv_dtype)).seconds

    # Small caches pay for the conversion of queries, large ones gain what they no longer read, wide heads less of it.
    assert seconds(256, 128, "fp8") > seconds(256, 128, "bf16")
    assert seconds(65536, 128, "fp8") < 0.7 * seconds(65536, 128, "bf16")
    assert seconds(65536, 256, "fp8") > 0.9 * seconds(65536, 256, "bf16")
    many = project_context(h100, ContextShape(4, 2048, 32, 8, 128, kv_dtype="fp8"))
    one = project_attention(h100, AttentionShape(4, 2048, 32, 8, 128, kv_dtype="fp8"))
    assert many.validated and one.validated
    assert not project_attention(a100, AttentionShape(4, 2048, 32, 8, 128, kv_dtype="fp8")).validated
    assert attention_library_of("ampere", rows=("fp8_cache",)) == attention_library_of("ampere")


def test_attention_in_triton_shares_keys_out_by_sequences_and_a_window_lies_in_few_parts():
    """vLLM's kernels for heads of 192 elements on a B200: 16 parts up to 128 blocks, one beyond, however many keys."""
    spec = load_gpu("b200")

    def seconds(batch: int, length: int, window: int = 0) -> float:
        shape = AttentionShape(batch, length, 8, 1, 192, window=window, kv_dtype="fp8")
        assert library_for(spec, shape).rule == "segments"
        return project_attention(spec, shape).seconds

    assert seconds(129, 16) < seconds(128, 16), "blocks of empty parts start, and parts are added up"
    assert seconds(1, 8192, 128) > 1.5 * seconds(1, 256, 128), (
        "the window is in one part, which 16 parts share otherwise"
    )
    assert seconds(1, 8192, 128) == seconds(1, 65536, 128) < seconds(1, 65536)


def test_more_heads_than_a_block_takes_read_their_keys_each():
    spec = load_gpu("b200")
    for cache in ("bf16", "fp8"):
        few, many = (
            project_attention(spec, AttentionShape(2048, 16, heads, 1, 64, kv_dtype=cache, framework="trtllm")).seconds
            for heads in (32, 33)
        )
        assert many > 4 * few


def test_eight_bits_have_an_interval_of_their_own_by_framework_window_and_queries():
    spec, h100 = load_gpu("b200"), load_gpu("h100")
    shape = ContextShape(4, 2048, 32, 8, 128, kv_dtype="fp8", framework="trtllm")
    found = [
        project_context(spec, replace(shape, dtype=dtype, window=window))
        for dtype in ("bf16", "fp8")
        for window in (0, 512)
    ]
    assert all(each.validated for each in found) and len({each.reason for each in found}) == 4
    assert found[2].seconds < found[0].seconds, "queries of 8 bits have twice the rate of products"
    assert project_context(h100, replace(shape, dtype="fp8")).validated
    for each in (shape, replace(shape, framework="vllm", window=512)):
        other = project_context(h100, each)
        assert not other.validated and "hopper" in other.reason or "fp8" in other.reason


@pytest.mark.parametrize("queries", [1, 63, 64, 500, 4096])
def test_a_context_executes_what_counts_and_no_more_than_whole_tiles_do(queries: int) -> None:
    """Masked scores take energy where a tile has them; far from the diagonal there are none."""
    found = project_context(load_gpu("h100"), ContextShape(2, max(2, queries), 8, 8, 128))
    shape = ContextShape(2, max(2, queries), 8, 8, 128)
    whole = 4.0 * 2 * 8 * 128 * shape.queries**2
    assert shape.flops < found.executed_flops <= max(whole, 1.3 * shape.flops)
