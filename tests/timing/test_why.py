"""Does the explanation name the unit that a launch was built to be limited by, and not one it does not use?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hand_traces import Asm, build, small_gpu

from gpusim.engine.gpu import simulate
from gpusim.trace.record import Flag, MatrixType, MemoryKind, PipeClass, Space
from gpusim.why.counterfactuals import COUNTERFACTUALS
from gpusim.why.explain import explain

GPU = small_gpu(sm_count=2)


def conflicts(banks_apart: int) -> Asm:
    asm = Asm()
    for i in range(60):
        asm.memory(MemoryKind.LOAD, Space.SHARED, 4, lambda b, w: (0, 4 * banks_apart), write_barrier=i % 6)
    return asm.exit(wait_mask=63)


def dependent_arithmetic() -> Asm:
    asm = Asm()
    for _ in range(800):
        asm.op(PipeClass.FMA, 4)
    return asm.exit()


def double_precision() -> Asm:
    asm = Asm()
    for _ in range(800):
        asm.op(PipeClass.FP64)
    return asm.exit()


def dependent_loads(step: int, lap: int) -> Asm:
    asm = Asm()
    for i in range(60):
        asm.load(lambda b, w, i=i: ((1 << 30) + step * i % lap, 0), barrier=0, wait_mask=1, stall=2)
    return asm.exit(wait_mask=1)


def stream() -> Asm:
    asm = Asm()
    for i in range(6):
        asm.load(lambda b, w, i=i: ((1 << 30) + ((b * 32 + w) * 6 + i) * 512, 16), 16, barrier=i)
    return asm.exit(wait_mask=63)


def one_counter() -> Asm:
    asm = Asm()
    for _ in range(8):
        asm.memory(MemoryKind.ATOMIC, Space.GLOBAL, 4, lambda b, w: (1 << 30, 0), write_barrier=0)
    return asm.exit(wait_mask=1)


def arrivals() -> Asm:
    """All lanes of each warp arrive at one mbarrier."""
    asm = Asm()
    for i in range(30):
        asm.memory(MemoryKind.ATOMIC, Space.SHARED, 8, lambda b, w: (64, 0), write_barrier=i % 6)
    return asm.exit(wait_mask=63)


def warpgroup_products() -> Asm:
    asm = Asm()
    for _ in range(20):
        asm.op(
            PipeClass.TENSOR, matrix_type=int(MatrixType.F16), matrix_macs=1 << 16, access_bytes=32,
            flags=int(Flag.PRODUCT | Flag.PRODUCT_GROUP),
        )  # fmt: skip
    asm.op(PipeClass.NONE, flags=int(Flag.PRODUCT_WAIT))
    return asm.exit()


SLOW_DRAM = small_gpu(sm_count=2, dram__peak_bytes_per_ns=24.0)
FAR_DRAM = small_gpu(sm_count=2, dram__miss_latency_ns=400.0)
FEW_DOUBLES = small_gpu(sm_count=2, fp64__interval_cycles=16, fp64__shared_by_sm=True)
LIMITED = {
    "bank conflicts": (conflicts(32), {"threads": 512}, GPU),
    "shared atomics": (arrivals(), {"threads": 512}, GPU),
    "fixed latencies": (dependent_arithmetic(), {}, GPU),
    "execution pipes": (double_precision(), {"threads": 512}, FEW_DOUBLES),
    "tensor cores": (warpgroup_products(), {"threads": 128}, GPU),
    "DRAM latency": (dependent_loads(1 << 16, 1 << 30), {"mask": 1}, FAR_DRAM),
    "L1 and shared latency": (dependent_loads(0, 128), {"mask": 1}, GPU),
    "DRAM bandwidth": (stream(), {"blocks": 2, "threads": 1024}, SLOW_DRAM),
    "L2 atomics": (one_counter(), {"blocks": 4, "threads": 256}, GPU),
}


@pytest.mark.parametrize("unit", LIMITED)
def test_the_limiter_that_a_launch_was_built_for_is_named(unit):
    asm, launch, gpu = LIMITED[unit]
    trace = build(asm, **launch)
    result = simulate(trace, gpu)
    found = explain([trace], gpu, result)
    assert found.findings[0].unit == unit
    assert found.findings[0].saved_percent > 15 and f"limited most by {unit}" in found.sentence
    assert found.cycles == result.cycles == found.findings[0].cycles + found.findings[0].saved_cycles
    assert max(found.least_cycles.values()) <= result.cycles


def test_a_unit_that_is_not_used_is_not_tried_and_one_that_is_idle_saves_nothing():
    trace = build(dependent_arithmetic())
    found = explain([trace], GPU, simulate(trace, GPU))
    tried = {finding.unit: finding.saved_cycles for finding in found.findings}
    assert not tried.keys() & {
        "DRAM bandwidth",
        "DRAM latency",
        "L2 bandwidth",
        "bank conflicts",
        "barriers",
        "L2 atomics",
    }
    assert tried["execution pipes"] == 0


def test_lanes_on_different_banks_have_no_conflicts_to_save():
    trace = build(conflicts(1), threads=512)
    found = explain([trace], GPU, simulate(trace, GPU))
    assert {f.unit: f.saved_cycles for f in found.findings}["bank conflicts"] == 0


def test_lanes_that_take_turns_at_one_word_are_no_bank_conflicts():
    trace = build(arrivals(), threads=512)
    saved = {f.unit: f.saved_percent for f in explain([trace], GPU, simulate(trace, GPU)).findings}
    assert saved["bank conflicts"] == 0 and saved["shared atomics"] > 50


def test_more_blocks_are_tried_where_registers_hold_them_back():
    asm = dependent_loads(1 << 16, 1 << 30)
    trace = build(asm, blocks=32, threads=128, registers=255, mask=1)
    result = simulate(trace, GPU)
    assert result.occupancy_limiter == "registers"
    saved = {f.unit: f.saved_percent for f in explain([trace], GPU, result).findings}
    assert saved["occupancy"] > 15


def test_counterfactuals_leave_the_machine_and_the_launch_as_they_were():
    trace = build(conflicts(2), threads=64)
    before = simulate(trace, GPU)
    for counterfactual in COUNTERFACTUALS:
        counterfactual.gpu(GPU, [trace])
        counterfactual.traces([trace], GPU)
    assert simulate(trace, GPU).cycles == before.cycles
    assert replace(GPU) == GPU


def test_a_tail_wave_saves_what_its_blocks_spread_over_all_would():
    trace = build(dependent_arithmetic(), blocks=5, shared_bytes=100 * 1024)  # two fit on an SM: waves of 4 and 1
    explanation = explain([trace], GPU, simulate(trace, GPU))
    tail = next(f for f in explanation.findings if f.unit == "tail wave")
    assert tail.saved_percent == pytest.approx(100 * (2 - 5 / 4) / 2, abs=4)
    whole = build(dependent_arithmetic(), blocks=8, shared_bytes=100 * 1024)
    assert "tail wave" not in [f.unit for f in explain([whole], GPU, simulate(whole, GPU)).findings]


def test_lanes_on_lines_of_their_own_are_limited_by_the_tag_stage():
    asm = Asm()
    for i in range(60):
        asm.load(lambda b, w: (1 << 30, 132), barrier=i % 6)  # 32 lines, 32 banks
    trace = build(asm.exit(wait_mask=63), threads=512)
    explanation = explain([trace], GPU, simulate(trace, GPU, warm=trace), warm=[trace])
    assert explanation.findings[0].unit == "L1 tag stage"


def test_ramp_steady_state_and_tail_add_up_and_so_do_savings():
    trace = build(stream(), blocks=3, threads=256)
    result = simulate(trace, SLOW_DRAM, samples=True)
    found = explain([trace], SLOW_DRAM, result)
    assert [part.name for part in found.parts] == ["ramp", "steady state", "tail"]
    assert sum(part.cycles for part in found.parts) == pytest.approx(result.cycles)
    assert sum(part.percent for part in found.parts) == pytest.approx(100)
    for finding in found.findings:
        assert sum(finding.saved_by_part) == pytest.approx(finding.saved_cycles, abs=1e-6), finding.unit
    # Without samples the launch is run once more for them.
    assert explain([trace], SLOW_DRAM, simulate(trace, SLOW_DRAM)).parts == found.parts


def test_the_limiter_of_the_longest_part_is_named_first_even_if_starting_costs_more():
    slow_start = small_gpu(
        sm_count=2, launch__start_cycles=6000, launch__end_cycles=6000, fp64__interval_cycles=2, fp64__shared_by_sm=True
    )
    trace = build(double_precision(), threads=256)
    found = explain([trace], slow_start, simulate(trace, slow_start))
    ramp, steady, tail = found.parts
    assert found.findings[0].unit == ramp.limiter == tail.limiter == "launch overhead"
    assert steady.limiter == "execution pipes" and steady.cycles > max(ramp.cycles, tail.cycles)
    assert f"limited most by execution pipes in its steady state ({steady.percent:.3g} %" in found.sentence
    assert "ramp (" in found.sentence and "tail (" in found.sentence


def test_blocks_that_end_late_are_the_tail():
    trace = build(dependent_arithmetic(), blocks=5, shared_bytes=100 * 1024)  # waves of four blocks and of one
    result = simulate(trace, GPU, samples=True)
    tail = explain([trace], GPU, result).parts[-1]
    assert tail.percent == pytest.approx(50, abs=6)
    # The fifth block would have run beside the others.
    assert tail.limiter == "occupancy" and tail.saved_percent > 95


def test_a_launch_of_which_blocks_were_left_out_has_no_parts():
    trace = build(dependent_arithmetic())
    result = simulate(trace, GPU, sample=True)
    assert explain([trace], GPU, result, sample=True).parts == ()
