"""What does wgmma cost: how long the tensor core is busy by shape and operands, and who waits for what?"""

from dataclasses import replace

import pytest
from hand_traces import Asm, build, run_cycles, small_gpu

from gpusim.engine.gpu import simulate
from gpusim.errors import SpecError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.model.tensor import product_timing
from gpusim.theory.bounds import lower_bounds
from gpusim.trace.record import Flag, MatrixType, PipeClass, Space

GPU = small_gpu()
#: Elements of a dense row of A.
DEPTH = {MatrixType.F16: 16, MatrixType.TF32: 8, MatrixType.FP8: 32, MatrixType.INT8: 32}
DENSE, SPARSE = 32, 64  # bytes of a column of B

#: Cycles of a product: Luo et al., arXiv 2402.13499 (H800), but for TF32 and FP8, which have the datasheet's rates.
MEASURED = [
    (MatrixType.F16, 64, Space.SHARED, DENSE, 32),
    (MatrixType.F16, 256, Space.SHARED, DENSE, 128),
    (MatrixType.F16, 256, Space.SHARED, SPARSE, 144),
    (MatrixType.TF32, 128, Space.SHARED, DENSE, 64),
    (MatrixType.FP8, 256, Space.NONE, DENSE, 128),
    # computed, of no measurement at hand; bound by shared memory: 2 KiB of A and 32 N of B at 128 bytes a cycle
    (MatrixType.F16, 8, Space.SHARED, DENSE, 18),
    (MatrixType.F16, 32, Space.SHARED, DENSE, 24),
    (MatrixType.F16, 32, Space.NONE, DENSE, 16),
]


def with_queue(entries: int) -> GpuSpec:
    return replace(GPU, tensor=replace(GPU.tensor, warpgroup_queue_entries=entries))


def product(asm: Asm, columns: int, closes: bool, space=Space.SHARED, kind=MatrixType.F16, column_bytes=DENSE) -> None:
    asm.op(
        PipeClass.TENSOR, 1, matrix_type=int(kind), matrix_macs=16 * columns * DEPTH[kind], space=int(space),
        access_bytes=column_bytes, flags=int(Flag.PRODUCT | Flag.PRODUCT_GROUP if closes else Flag.PRODUCT),
    )  # fmt: skip


def wait(asm: Asm, level: int = 0) -> None:
    asm.op(PipeClass.NONE, 1, flags=int(Flag.PRODUCT_WAIT), depbar_level=level)


def chain(count: int, **how) -> Asm:
    asm = Asm()
    for i in range(count):
        product(asm, closes=i == count - 1, **how)
    wait(asm)
    return asm.exit()


@pytest.mark.parametrize("kind, columns, space, column_bytes, cycles", MEASURED)
def test_products_follow_each_other_at_the_measured_rate(kind, columns, space, column_bytes, cycles):
    """Dependent ones: each adds to the accumulators of the one before it."""
    assert product_timing(kind, 16 * columns * DEPTH[kind], space, column_bytes, GPU)[0] == cycles
    how = {"columns": columns, "space": space, "kind": kind, "column_bytes": column_bytes}
    few, many = (simulate(build(chain(n, **how), threads=128), GPU) for n in (10, 30))
    assert run_cycles(many) - run_cycles(few) == 20 * cycles
    trace = build(chain(30, **how), threads=128)
    assert lower_bounds(trace, GPU).cycles["pipe.tensor"] == pytest.approx(30 * cycles * 4 / (GPU.sm_count * 4))


def test_the_warp_goes_on_and_waits_for_groups_at_the_end():
    asm = Asm()
    for _ in range(4):
        product(asm, 256, closes=True)
    wait(asm, 3)
    for _ in range(100):
        asm.op(PipeClass.ALU, 1)
    wait(asm, 0)
    result = simulate(build(asm.exit(), threads=128), GPU)
    alone = simulate(build(chain(4, columns=256), threads=128), GPU)
    # Other work fits behind the first product: it costs nothing, and one wait is for one product, the other for the
    # rest.
    assert run_cycles(result) <= run_cycles(alone) + 4
    assert 4 * 300 < result.stalls["gmma"] < 4 * 4 * 128 + 4 * 40


@pytest.mark.parametrize("entries", [2, 7])
def test_a_warp_issues_as_many_products_as_the_core_keeps_and_then_one_for_each_that_leaves(entries):
    """Measured on an H800: a burst of products issues fast up to the seventh, then as fast as they are done."""
    gpu = with_queue(entries)

    def issued_after(count: int) -> int:
        asm = Asm()
        for _ in range(count):
            product(asm, 256, closes=True)
        return run_cycles(simulate(build(asm.op(PipeClass.ALU, 1), threads=128), gpu))

    at_once = issued_after(entries)
    assert at_once < 20
    assert [issued_after(entries + more) for more in (1, 2, 10)] == [128 + 1, 2 * 128 + 1, 10 * 128 + 1]


def test_a_group_that_comes_later_does_not_wait_for_all_that_another_has_in_hand():
    """Products are taken in the order in which they come, and one group has no more than seven there: from then on
    seven of each follow in turn."""
    asm = Asm()
    asm.load(lambda _, warp: (0, 4)).op(PipeClass.ALU, 1, wait_mask=1)
    asm.load(lambda _, warp: (1 << 20 if warp >= 4 else 0, 4))  # a miss for the second group
    asm.op(PipeClass.ALU, 1, wait_mask=1)
    for i in range(18):
        product(asm, 256, closes=i == 17)
    wait(asm)
    trace = build(asm.exit(), threads=256)
    in_turns, one_by_one = (simulate(trace, with_queue(entries)).stalls["gmma"] for entries in (7, 16))
    # The first group has a dozen products in before the second one comes, then seven of each follow in turn: its last
    # one is the 25th, where it is the 18th if the core keeps 16 of a warp.
    assert in_turns - one_by_one == pytest.approx((25 - 18) * 128 * 4, abs=256)


@pytest.mark.parametrize(("columns", "cycles"), [(8, 53), (16, 57), (64, 81), (256, 177)])
def test_one_product_and_its_wait_take_what_they_were_measured_at(columns, cycles):
    """NSD, notes on wgmma (H800): issue to the end of the wait."""
    assert run_cycles(simulate(build(chain(1, columns=columns), threads=128), GPU)) == pytest.approx(cycles, abs=4)


def test_two_warp_groups_share_the_tensor_cores():
    one, two = (simulate(build(chain(20, columns=128), threads=n), GPU) for n in (128, 256))
    assert run_cycles(two) - run_cycles(one) == 20 * 64


@pytest.mark.parametrize("entries", [0, 17])
def test_a_queue_that_no_core_has_is_refused(entries):
    with pytest.raises(SpecError, match=f"warpgroup_queue_entries = {entries} is not between 1 and 16"):
        simulate(build(chain(1, columns=64), threads=128), with_queue(entries))


def test_gpus_without_them_say_so():
    with pytest.raises(SpecError, match="warpgroup_f16_macs_per_cycle"):
        product_timing(MatrixType.F16, 1 << 14, Space.SHARED, DENSE, load_gpu("a100_80gb"))
