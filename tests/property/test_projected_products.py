"""Projected products: never faster than the machine, and no slower for less work."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.energy.power import HeldWatts
from gpusim.errors import SpecError
from gpusim.gpus.load import load_gpu
from gpusim.tile.bands import gemm_band
from gpusim.tile.described import described_library, library_on
from gpusim.tile.gemm import GemmShape, project_gemm
from gpusim.tile.library import Tile, kernels_of, library_of
from gpusim.tile.machine import tile_machine
from gpusim.tile.product import GemmOp, project_product

SIZES = st.sampled_from([1, 7, 16, 33, 128, 257, 1024, 2049])
GPUS = ["a100_80gb", "h100", "b200", "l40", "t4"]


@given(rows=SIZES, columns=SIZES, depth=SIZES, gpu=st.sampled_from(GPUS))
def test_no_product_beats_the_peak_or_the_bytes_that_it_must_load(rows, columns, depth, gpu):
    spec = load_gpu(gpu)
    dtype = "fp16" if gpu == "t4" else "bf16"
    found = project_gemm(spec, GemmShape(rows, columns, depth, dtype))
    machine = tile_machine(spec, dtype)
    peak = machine.flops_per_cycle * machine.sm_count * machine.clock_hz
    assert found.flops_per_second < peak
    assert found.dram_bytes >= 2.0 * columns * depth
    assert found.seconds > found.dram_bytes / (machine.dram_bytes_per_cycle * machine.clock_hz)


@pytest.mark.parametrize("gpu", ["a100_80gb", "h100"])
def test_a_product_of_twice_the_depth_takes_longer(gpu):
    spec = load_gpu(gpu)
    for rows in (1, 100, 3000):
        once, twice = (project_gemm(spec, GemmShape(rows, 4096, depth)).seconds for depth in (4096, 8192))
        assert once < twice < 2.2 * once


def test_a_deep_product_whose_last_wave_would_be_nearly_empty_is_split_into_parts_that_fill_many():
    spec = load_gpu("a100_80gb")
    shape = GemmShape(1024, 4096, 51200)
    found = project_gemm(spec, shape, limit_watts=math.inf)
    tiles = shape.tiles(found.tile.rows) * -(-shape.columns // found.tile.columns)
    assert found.splits > 1 and tiles * found.splits > 2 * spec.sm_count * found.tile.blocks
    whole = replace(library_of("ampere"), split_k_cycles=1e12)
    assert project_gemm(spec, shape, whole, limit_watts=math.inf).seconds > 1.05 * found.seconds


def test_few_rows_by_large_weights_reach_more_of_dram_the_larger_they_are_up_to_a_bound():
    spec = load_gpu("a100_80gb")
    library = library_of("ampere")

    def share(columns, of=library):
        found = project_gemm(spec, GemmShape(8, columns, 16384), of)
        return found.dram_bytes / found.seconds / 1e9 / (spec.dram.peak_bytes_per_ns * spec.dram.efficiency)

    flat = replace(library, dram_share_per_doubling=0.0)
    assert share(4096) == share(4096, flat)  # 3.2 L2-fuls
    assert share(32768) > 1.1 * share(32768, flat)
    assert share(1 << 20) < 0.92 < 1.1 * share(1 << 20)


def test_a_limit_of_power_slows_long_products_and_spares_short_ones():
    spec = load_gpu("h100")
    long = project_gemm(spec, GemmShape(16384, 16384, 16384))
    assert 500e12 < long.flops_per_second < 850e12
    machine = tile_machine(spec, "bf16")
    short = project_gemm(spec, GemmShape(2112, 2048, 1024))
    assert short.seconds < 1e-4 and machine.clock_hz == spec.clock_hz
    assert long.limiter == "power" != short.limiter
    assert project_gemm(spec, GemmShape(16384, 16384, 16384), limit_watts=math.inf).limiter == "tensor cores"


def test_what_a_gpu_does_not_have_is_refused_by_name():
    with pytest.raises(SpecError, match="a40.*fp8"):
        project_gemm(load_gpu("a40"), GemmShape(16, 16, 16, "fp8"))
    with pytest.raises(SpecError, match="'fp3'.*known are"):
        tile_machine(load_gpu("h100"), "fp3")
    with pytest.raises(SpecError, match="'pascal'"):
        library_of("pascal")
    with pytest.raises(SpecError, match="rows is 0"):
        GemmShape(0, 1, 1)


def test_a_band_of_what_was_not_measured_says_so_and_is_no_narrower():
    known, unknown = gemm_band("hopper", "bf16", 64), gemm_band("turing", "bf16", 64)
    assert known.validated and known.shapes > 50
    assert not unknown.validated and unknown.factor >= known.factor and "turing" in unknown.reason
    assert not gemm_band("hopper", "fp8", 64).validated


def test_products_in_fp32_and_tf32_have_the_band_of_square_products_of_other_gpus_where_there_were_any():
    for dtype, rows in (("fp32", 4096), ("tf32", 4096), ("tf32", 1024)):
        known = gemm_band("ada", dtype, rows)
        assert known.validated and dtype.upper() in known.reason and 1.05 < known.factor < 1.3
    # Few rows, where no square product is, and generations whose rows set the rates or that have none.
    for generation, dtype, rows in (("ada", "fp32", 64), ("ada", "fp32", 1024), ("volta", "fp32", 4096), ("later", "tf32", 4096)):  # fmt: skip
        unknown = gemm_band(generation, dtype, rows)
        assert not unknown.validated and "outside of what was measured" in unknown.reason
        assert unknown.factor >= gemm_band("ada", dtype, 4096).factor
    assert project_product(load_gpu("l40s"), GemmOp(4096, 4096, 4096, "fp32")).validated


def test_a_generation_with_figures_of_another_is_less_sure_than_those_are_of_their_own():
    own = max(gemm_band(generation, "bf16", 64).factor for generation in ("ampere", "hopper"))
    borrowed = gemm_band("ada", "bf16", 64)
    assert borrowed.factor > own and "each other's figures" in borrowed.reason


@pytest.mark.parametrize("gpu", ["l4", "l40s"])
def test_a_board_of_few_watts_is_slower_in_arithmetic_and_not_in_launches(gpu):
    spec = load_gpu(gpu)
    large, small = GemmShape(4096, 4096, 4096), GemmShape(1, 128, 128)
    assert project_gemm(spec, large).seconds > 1.1 * project_gemm(spec, large, limit_watts=math.inf).seconds
    assert project_gemm(spec, small).seconds < 1.02 * project_gemm(spec, small, limit_watts=math.inf).seconds


@pytest.mark.parametrize(
    ("gpu", "figures"),
    [("b200", "blackwell"), ("gb200", "blackwell"), ("h200", "hopper"), ("rtx5090", "ampere"), ("rtx_pro_6000", "ampere"), ("l40s", "ampere")],
)  # fmt: skip
def test_what_feeds_the_tensor_cores_decides_whose_kernels_run(gpu, figures):
    spec = load_gpu(gpu)
    assert library_of(kernels_of(spec)).generation == figures
    assert gemm_band(kernels_of(spec), "bf16", 64).validated == (figures == spec.generation)


def test_a_generation_that_no_table_has_goes_by_its_tensor_cores():
    for gpu, family in (("b200", "blackwell"), ("h100", "hopper"), ("a100_80gb", "ampere")):
        assert kernels_of(replace(load_gpu(gpu), generation="later")) == family


def test_a_generation_that_no_table_has_takes_what_its_description_says_and_says_so():
    for gpu in ("b200", "h100", "a100_80gb"):
        spec = load_gpu(gpu)
        later = replace(spec, name="later", generation="later")
        assert library_on(later) == described_library(later) != library_on(spec) == library_of(spec.generation)
        # Constants that are alike for all GPUs, beside those that this one's rows set.
        seconds = project_gemm(spec, GemmShape(512, 8192, 8192), limit_watts=math.inf).seconds
        assert 0.75 < project_gemm(later, GemmShape(512, 8192, 8192)).seconds / seconds < 1.33
        assert not project_product(later, GemmOp(64, 8192, 8192)).validated
        assert project_product(spec, GemmOp(64, 8192, 8192)).validated


def test_what_feeds_tensor_cores_holds_slow_ones_back_less():
    """An H100 of a seventh of the tensor cores' rate, as boards for some markets are: tiles of few rows reach the same
    operations a cycle, which is most of what these have."""
    spec = load_gpu("h100")
    slow = replace(
        spec, tensor=replace(spec.tensor, warpgroup_f16_macs_per_cycle=spec.tensor.warpgroup_f16_macs_per_cycle / 7)
    )
    shape = GemmShape(64, 16384, 512, cold_b=0.0)
    least = shape.flops / (tile_machine(slow, "bf16").flops_per_cycle * slow.sm_count * slow.clock_hz)
    library = replace(library_of("hopper"), rate_small=0.3)
    taken = project_gemm(slow, shape, library, limit_watts=math.inf)
    assert taken.tile.outputs < 8192
    assert taken.seconds - 1e-9 * library.launch_ns < least / 0.5
    assert project_gemm(spec, shape).seconds < taken.seconds


def test_an_operand_that_l2_holds_in_part_comes_from_dram_for_the_rest():
    spec = load_gpu("h100")
    found, half, lost = (project_gemm(spec, GemmShape(16, 2048, 2048, cold_b=cold)) for cold in (0.0, 0.5, 1.0))
    assert half.dram_bytes == pytest.approx((found.dram_bytes + lost.dram_bytes) / 2)
    assert found.seconds < half.seconds < lost.seconds
    assert lost.dram_bytes - found.dram_bytes == pytest.approx(2 * 2048 * 2048)
    with pytest.raises(SpecError, match="cold_b.*between 0 and 1"):
        GemmShape(16, 16, 16, cold_b=1.5)


def test_a_tile_of_one_wave_is_not_taken_for_two():
    """Rows of results that tiles of 64 x 256 cut with less left over, but not in one wave."""
    spec, library = load_gpu("a100_80gb"), library_of("ampere")
    free = replace(library, tiles=tuple(replace(tile, one_wave=False) for tile in library.tiles))
    shape = GemmShape(257, 10240, 1536)
    assert (project_gemm(spec, shape, free).tile.rows, project_gemm(spec, shape, free).tile.columns) == (64, 256)
    assert project_gemm(spec, shape).tile.outputs != 16384 or project_gemm(spec, shape).tile.rows == 128
    assert project_gemm(spec, GemmShape(192, 8192, 3072)).tile in library.tiles


def test_reads_take_their_own_share_of_the_rate_where_one_is_known():
    spec = load_gpu("h200")
    less = replace(spec, dram=replace(spec.dram, read_efficiency=0.0))
    rates = [tile_machine(each, "bf16").dram_bytes_per_cycle for each in (spec, less)]
    assert rates[0] / rates[1] == pytest.approx(spec.dram.read_efficiency / spec.dram.efficiency)


def test_fp8_products_wider_than_measured_ones_on_blackwell_do_not_read_their_operands_again_and_again() -> None:
    spec = load_gpu("b200")
    narrow, wide, widest = (project_product(spec, GemmOp(8192, columns, 4096, "fp8")) for columns in (2560, 2568, 28672))  # fmt: skip
    assert narrow.validated
    assert not wide.validated and "2,560 columns" in wide.reason
    assert wide.high_seconds / wide.seconds > narrow.high_seconds / narrow.seconds
    # Where one set of figures ends and the other begins they are near each other.
    assert wide.seconds == pytest.approx(narrow.seconds, rel=0.2)
    # Operands and results once, and the conversion.
    moved = 8192 * 4096 * 4 + 28672 * 4096 + 2 * 8192 * 28672
    assert widest.dram_bytes < 2 * moved


def test_pairs_of_blocks_ask_l2_for_half_of_the_larger_operand():
    spec, shape = load_gpu("b200"), GemmShape(1024, 3072, 1024, cold_b=0.0)
    own = library_of("blackwell", "bf16")
    alone = replace(own, pairs=False, shared_loads=1.0)
    pairs, each = (project_gemm(spec, shape, replace(of, tiles=own.tiles[14:15])) for of in (own, alone))
    tile = own.tiles[14]
    larger = max(tile.rows, tile.columns) / (tile.rows + tile.columns)
    assert pairs.l2_bytes == pytest.approx((1 - larger / 2) * each.l2_bytes, rel=1e-3)
    assert pairs.seconds < each.seconds


def test_one_block_that_adds_up_a_split_depth_takes_longer_the_more_parts_and_outputs_there_are():
    spec = load_gpu("b200")
    own = replace(library_of("blackwell", "bf16"), tiles=(Tile(128, 64, 64, 6, 2),))
    everywhere = replace(own, joined_elements_per_cycle=0.0)

    def added(rows):
        shape = GemmShape(rows, 64, 16384, cold_b=0.0)
        one, all_sms = (project_gemm(spec, shape, of) for of in (own, everywhere))
        assert one.splits > 1
        return one.splits, one.seconds - all_sms.seconds

    few, many = added(2), added(128)
    assert few[0] > many[0]
    assert 0 < few[1] < many[1]


def test_the_power_limit_holds_more_of_a_product_in_a_longer_run():
    spec = load_gpu("b200")
    once, some, own, many = (
        project_product(spec, GemmOp(8192, 8192, 8192, run_launches=launches)).seconds
        for launches in (1, 36, 0, 1_000_000)
    )
    assert once < some < own < many
    with pytest.raises(SpecError, match="-1 launches"):
        GemmOp(1, 1, 1, run_launches=-1)


def test_a_run_that_outlasts_the_boards_control_is_slower_than_what_it_holds_at_once():
    # An H100's product of 1.4 ms: 20 launches end before 45 ms are over, a long run draws what the limit allows.
    spec, held = load_gpu("h100"), HeldWatts(700.0)
    op = GemmOp(8192, 8192, 8192)

    def seconds(launches):
        return project_product(spec, replace(op, run_launches=launches)).seconds

    at_once, long = seconds(20), seconds(1_000_000)
    settled = project_product(spec, op, limit_watts=held).seconds
    assert long == pytest.approx(settled, rel=0.001)
    # Products of random operands in runs of 150 ms take 1.05 times what shorter runs of the same power say.
    assert 1.04 < long / at_once < 1.12
    assert seconds(30) < seconds(60) < seconds(600) < long


def test_the_tile_of_few_rows_on_a_b200_follows_from_the_shape_within_its_bounds_alone():
    spec = load_gpu("b200")
    inside, beyond = (
        ((8, 2048, 2048), (9, 2048, 2048)),
        ((17, 1024, 2048), (8, 640, 2048), (8, 4097, 2048), (8, 2048, 2560), (8, 1024, 511), (8, 4096, 3585)),
    )
    (few, more), others = (
        [project_gemm(spec, GemmShape(*shape, cold_b=0.0)) for shape in each] for each in (inside, beyond)
    )
    assert few.tile.step_cycles and not any(found.tile.step_cycles for found in (more, *others))
    assert few.seconds > 1.2 * more.seconds


#: Weights of which the plugin has kernels: row of the table -> bytes of an element, columns of a block without tensor
#: cores.
PLUGIN = {"int4_wo": (0.5, 32), "int8_wo": (1.0, 16)}


@pytest.mark.parametrize("row", PLUGIN)
def test_a_library_of_whole_parts_splits_the_depth_into_as_many_steps_each(row):
    spec, kernels = load_gpu("a100_80gb"), library_of("ampere", row)

    def splits(steps, of=kernels):
        return project_gemm(spec, GemmShape(16, 128, 64 * steps, "fp16", b_bytes=PLUGIN[row][0]), of).splits

    taken = {steps: splits(steps) for steps in (96, 112, 160, 256, 257)}
    assert taken == {96: 6, 112: 7, 160: 5, 256: 4, 257: 1}
    assert splits(256, replace(kernels, whole_parts=False)) == 6
    assert splits(256, replace(kernels, most_splits=0.0)) in (8, 16, 32, 64), "no bound but whole steps"


@pytest.mark.parametrize("row", PLUGIN)
def test_a_kernel_that_is_offered_is_taken_where_it_is_the_fastest_and_its_depth_is_whole(row):
    spec, kernels = load_gpu("a100_80gb"), library_of("ampere", row)
    few, deep, more = (
        project_gemm(spec, GemmShape(rows, 512, depth, "fp16", b_bytes=PLUGIN[row][0]), kernels)
        for rows, depth in ((2, 4096), (2, 65536), (16, 4096))
    )
    assert (few.tile.columns, few.splits) == (PLUGIN[row][1], 1)
    assert deep.tile.columns == 128, "of 65,536 deep ones tensor cores split the depth"
    assert more.tile.columns == 128


@pytest.mark.parametrize("row", PLUGIN)
def test_work_of_lanes_is_shared_by_the_blocks_of_an_sm(row):
    spec, kernels = load_gpu("a100_80gb"), library_of("ampere", row)
    b_bytes, columns = PLUGIN[row]
    alone, shared = (
        project_gemm(
            spec, GemmShape(4, blocks * columns * 108, 4096, "fp16", b_bytes=b_bytes, cold_b=0.0), replace(kernels, tiles=())
        ).seconds
        for blocks in (1, 2)
    )  # fmt: skip
    assert shared > 1.2 * alone, "measured 1.3 to 1.5"


@pytest.mark.parametrize("row", PLUGIN)
def test_kernels_of_few_rows_take_work_in_proportion_to_a_block_and_its_rows(row):
    one, two, four, eight = (each.tile for each in library_of("ampere", row).offered)
    a_row = two.work_cycles - one.work_cycles
    assert a_row > 0 and one.work_cycles > a_row, "weights are widened once for all rows"
    for tile in (four, eight):
        assert tile.work_cycles == pytest.approx(one.work_cycles + (tile.rows - 1) * a_row, rel=0.01)


def test_frameworks_have_their_own_products_of_int4_weights_where_they_are_known():
    op = GemmOp(1, 4096, 4096, "int4_wo")
    for name in ("a100_80gb", "l4"):
        spec = load_gpu(name)
        plugin, marlin = (project_product(spec, replace(op, framework=each)).seconds for each in ("trtllm", "vllm"))
        assert plugin == project_product(spec, op).seconds != marlin
    hopper = load_gpu("h100")
    assert project_product(hopper, replace(op, framework="vllm")).seconds == project_product(hopper, op).seconds


@pytest.mark.parametrize("gpu", ["h100", "l40s"])
def test_a_row_of_many_columns_takes_as_long_as_parts_of_it_do(gpu):
    """Of many waves the middle is not simulated: of one row of tiles as little as of many."""
    spec, library = load_gpu(gpu), library_on(load_gpu(gpu))
    few, many, most = (
        project_gemm(spec, GemmShape(16, columns, 512), limit_watts=math.inf)
        for columns in (300_000, 4_800_000, (1 << 31) - 1)
    )
    times = [found.seconds - 1e-9 * library.launch_ns for found in (few, many, most)]
    assert times[1] / times[0] == pytest.approx(16, rel=0.05)
    assert times[2] / times[1] == pytest.approx(((1 << 31) - 1) / 4_800_000, rel=0.02)
    assert many.dram_bytes == pytest.approx(2 * (512 + 16) * 4_800_000, rel=0.01)
