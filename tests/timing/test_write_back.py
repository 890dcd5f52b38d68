"""Are products of warp groups late by what other instructions write into the register file meanwhile?"""

from dataclasses import replace

import pytest
from hand_traces import Asm, build, run_cycles, small_gpu

from gpusim.engine.gpu import simulate
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.trace.record import Flag, MatrixType, PipeClass, Space

GPU = small_gpu()
H800 = load_gpu("h800")


def writing(cycles: float) -> GpuSpec:
    return replace(GPU, register_file=replace(GPU.register_file, product_write_cycles=cycles))


def products(asm: Asm, count: int, columns: int, stall: int = 1) -> Asm:
    for i in range(count):
        flags = Flag.PRODUCT | Flag.PRODUCT_GROUP if i == count - 1 else Flag.PRODUCT
        asm.op(
            PipeClass.TENSOR, stall, matrix_type=int(MatrixType.F16), matrix_macs=16 * columns * 16, space=int(Space.SHARED), access_bytes=32,
            flags=int(flags),
        )  # fmt: skip
    return asm.op(PipeClass.NONE, 1, flags=int(Flag.PRODUCT_WAIT), depbar_level=0)


def storm(asm: Asm, count: int, stall: int, destination: int = 40) -> Asm:
    """Writes of constants, which read nothing."""
    for _ in range(count):
        asm.op(PipeClass.FMA, stall, destination=destination, destination_count=1 if destination >= 0 else 0)
    return asm


def late(columns: int, count: int, stall: int, cycles: float, destination: int = 40) -> int:
    """Cycles by which the last of seven products is late for ``count`` writes, one each ``stall`` cycles."""

    def run(spec: GpuSpec) -> int:
        return run_cycles(simulate(build(storm(products_first(columns), count, stall, destination).op(PipeClass.NONE, 1, flags=int(Flag.PRODUCT_WAIT))), spec))  # fmt: skip

    return run(writing(cycles)) - run(writing(0.0))


def products_first(columns: int) -> Asm:
    asm = products(Asm(), 7, columns)
    asm.rows.pop()  # the wait comes behind the writes
    return asm


@pytest.mark.parametrize("cycles", [0.5, 0.8])
@pytest.mark.parametrize("count", [1, 10, 50])
def test_each_write_takes_its_part_of_the_write_back_of_wide_products(cycles, count):
    assert late(64, count, 2, cycles) == pytest.approx(count * cycles, abs=1)


def test_narrow_products_have_write_back_to_spare():
    """18 cycles of shared memory for 4 accumulators a thread."""
    assert late(8, 40, 2, 0.8) == 0
    # With 16 accumulators 8 cycles of 24 are to spare, of which 8 can be there at once.
    spare = 8 + 100 * 8 / 24
    assert 80 - spare <= late(32, 100, 1, 0.8) < 80 - 8


def test_what_writes_nothing_or_meets_no_product_takes_nothing():
    assert late(64, 50, 2, 0.8, destination=-1) == 0
    # 7 products of 32 cycles: writes from cycle 400 on meet none.
    early, longer = late(64, 100, 4, 0.8), late(64, 400, 4, 0.8)
    assert early == longer


def test_the_others_do_not_wait():
    asm = storm(products_first(64), 100, 2)
    assert run_cycles(simulate(build(asm), writing(0.8))) == run_cycles(simulate(build(asm), writing(0.0)))


@pytest.mark.parametrize(("stalls", "measured_cycles"), [((2, 3), 32 + 15.7), ((2, 1, 2, 1, 2), 32 + 30.7)])
def test_products_beside_writes_take_what_they_were_measured_at(stalls, measured_cycles):
    """NSD, register_bandwidth.md, 64 columns on an H800: beside a constant's write each 2.51 cycles, and an FFMA each
    1.6."""
    asm, count = products_first(64), 20 * len(stalls)
    for i in range(count):
        storm(asm, 1, stalls[i % len(stalls)])
    asm.op(PipeClass.NONE, 1, flags=int(Flag.PRODUCT_WAIT))
    spec = replace(GPU, register_file=H800.register_file)
    lost = run_cycles(simulate(build(asm), spec)) - run_cycles(simulate(build(asm), writing(0.0)))
    beside = count * sum(stalls) / len(stalls)
    assert beside / ((beside - lost) / 32) == pytest.approx(measured_cycles, rel=0.06)


def test_products_of_another_sub_core_are_not_late():
    """Only warps of the product's own sub-core share its write ports."""
    asm = storm(products_first(64), 50, 2).op(PipeClass.NONE, 1, flags=int(Flag.PRODUCT_WAIT))
    one, four = (run_cycles(simulate(build(asm, threads=threads), writing(0.8))) for threads in (32, 128))
    assert one == four
