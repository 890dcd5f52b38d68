"""What lines that come into the L1 take of its data banks, and lines of stores of the way out: cycle by cycle, from
both sides."""

from __future__ import annotations

import numpy as np
import pytest
from hand_traces import FULL, Asm, build, run_cycles, small_gpu

from gpusim.engine.gpu import simulate
from gpusim.errors import SpecError
from gpusim.model.shared_memory import data_wavefronts
from gpusim.trace.record import Flag, MemoryKind, PipeClass, Space

BASE = 1 << 30


def beside_shared_loads(asm: Asm, pass_bytes: int, width: int = 16, stride: int = 16) -> tuple[int, float]:
    """Cycles, and passes that fills took, of ``asm`` before loads of shared memory that keep the data stage busy for
    some 4,000 cycles."""
    passes = data_wavefronts(stride * np.arange(32), FULL, width, 1, 32, *np.zeros((3, 160), np.int64))
    for _ in range(4000 // passes):
        asm.memory(MemoryKind.LOAD, Space.SHARED, width, lambda block, warp: (0, stride))
    result = simulate(build(asm.exit(), shared_bytes=4096), small_gpu(sm_count=1, l1__fill_pass_bytes=pass_bytes))
    return run_cycles(result), result.counters["l1tex__data_fill_wavefronts.sum"]


@pytest.mark.parametrize(("sectors", "width"), [(1, 1), (2, 2), (4, 4)])
def test_lines_that_come_take_passes_from_loads_of_shared_memory(sectors, width):
    def run(pass_bytes: int) -> tuple[int, float]:
        asm = Asm()
        for i in range(40):
            asm.load(lambda block, warp, i=i: (BASE + 128 * i, width), width=width)
        return beside_shared_loads(asm, pass_bytes)

    narrow, narrow_passes = run(32)
    wide, wide_passes = run(128)
    assert (narrow_passes, wide_passes) == (40 * sectors, 10 * sectors)
    # All of them come while the data stage has work: each pass more is a cycle more.
    assert narrow - wide == pytest.approx(30 * sectors, abs=2)


def test_lines_that_come_use_the_banks_that_conflicts_leave_idle():
    def run(pass_bytes: int) -> tuple[int, float]:
        asm = Asm()
        for i in range(10):
            asm.load(lambda block, warp, i=i: (BASE + 128 * i, 4))
        return beside_shared_loads(asm, pass_bytes, 4, 128)  # all lanes on one bank

    # An access has 32 passes, 31 of them by conflicts: room for all that comes meanwhile.
    assert run(64) == run(128) and run(64)[1] == 0


def test_a_line_that_comes_while_the_data_stage_idles_takes_nothing():
    def run(pass_bytes: int) -> int:
        asm = Asm().load(lambda block, warp: (BASE, 4)).op(PipeClass.ALU, wait_mask=1).exit()
        return run_cycles(simulate(build(asm), small_gpu(sm_count=1, l1__fill_pass_bytes=pass_bytes)))

    assert run(32) == run(128)


@pytest.mark.parametrize(
    "kind", [MemoryKind.ATOMIC, MemoryKind.LOAD, MemoryKind.ASYNC_COPY], ids=lambda kind: kind.name.lower()
)
def test_data_that_no_line_of_the_l1_keeps_take_no_passes_of_fills(kind):
    def run(pass_bytes: int) -> tuple[int, float]:
        asm = Asm()
        for i in range(40):
            asm.memory(
                kind, Space.GLOBAL, 4, lambda block, warp, i=i: (BASE + 128 * i, 4), write_barrier=0, flags=int(Flag.BYPASS_L1)
            )  # fmt: skip
        return beside_shared_loads(asm, pass_bytes)

    assert run(32) == run(128) and run(32)[1] == 0


@pytest.mark.parametrize("key", ["fill_pass_bytes", "store_slot_bytes"])
def test_what_is_no_part_of_a_line_is_refused(key):
    with pytest.raises(SpecError, match=rf"{key} = 48.*32.*64.*128"):
        simulate(build(Asm().exit()), small_gpu(sm_count=1, **{f"l1__{key}": 48}))


def port_cycles(
    width: int, slot_bytes: int, kind: MemoryKind = MemoryKind.STORE, count: int = 300
) -> tuple[float, float]:
    """Cycles a line, and sectors of padding a line, of ``count`` stores of a warp, each into lines of its own of which
    the lanes cover 32 * width bytes."""

    def run(stores: int) -> tuple[int, float]:
        asm = Asm()
        for i in range(stores):
            asm.memory(kind, Space.GLOBAL, width, lambda block, warp, i=i: (BASE + 128 * i, width))
        gpu = small_gpu(
            sm_count=1, l1__store_slot_bytes=slot_bytes, l1__store_entries=1024, l1__store_bytes_per_cycle=32
        )
        result = simulate(build(asm.exit()), gpu)
        return run_cycles(result), result.counters["l1tex__m_l1tex2xbar_write_padding.sum"]

    (long, padding), (short, _) = run(2 * count), run(count)
    return (long - short) / count, padding / (2 * count)


@pytest.mark.parametrize(("width", "sectors"), [(1, 1), (2, 2), (4, 4)])
@pytest.mark.parametrize("slot_bytes", [32, 64, 128])
def test_a_line_of_a_store_takes_its_slot_of_the_output_port(width, sectors, slot_bytes):
    cycles, padding = port_cycles(width, slot_bytes)
    slots = max(sectors, slot_bytes // 32)
    assert padding == slots - sectors
    # 32 bytes a cycle, and a quarter of a sector's time for the header.
    assert cycles == pytest.approx(slots + 0.25, rel=0.06)


def test_a_reduction_takes_its_sectors_of_the_output_port():
    (by_line, padding), (by_sectors, _) = (port_cycles(4, slot, MemoryKind.REDUCTION) for slot in (128, 32))
    assert by_line == by_sectors and padding == 0


@pytest.mark.parametrize(
    ("space", "width", "stride", "wide", "narrow"),
    [
        (Space.SHARED, 4, 4, 1, 2),  # a pass without conflicts takes the way to the registers twice as long
        (Space.SHARED, 16, 16, 4, 8),
        (Space.SHARED, 16, 0, 2, 4),  # what a pass returns to equal lanes is packed
        (Space.SHARED, 4, 8, 2, 2),  # what conflicts add needs no more of that way
        (Space.SHARED, 4, 128, 32, 32),
        (Space.GLOBAL, 4, 4, 1, 2),
        (Space.GLOBAL, 4, 8, 2, 4),  # each pass over lines of the L1 returns data
    ],
)
def test_a_way_to_the_registers_of_half_the_width_takes_twice_as_long(space, width, stride, wide, narrow):
    def run(return_bytes: int) -> float:
        asm = Asm()
        for _ in range(1000):
            asm.memory(
                MemoryKind.LOAD, space, width, lambda block, warp: (BASE if space == Space.GLOBAL else 0, stride)
            )
        spec = small_gpu(sm_count=1, l1__return_bytes_per_cycle=return_bytes)
        result = simulate(build(asm.exit(), shared_bytes=4096), spec)
        assert result.counters["l1tex__data_pipe_lsu_wavefronts.sum"] == 1000 * (
            wide if return_bytes == 128 else narrow
        )
        return run_cycles(result)

    more = max(0, narrow - 1) - max(0, wide - 1)  # an instruction takes a cycle at least
    assert run(64) - run(128) == pytest.approx(1000 * more, rel=0.02, abs=4)
