"""Laws that hold for any launch: never faster than light, never slower for more of anything."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hand_traces import Asm, build, run_cycles, small_gpu
from hypothesis import given
from hypothesis import strategies as st
from random_programs import launches

from gpusim.engine.gpu import simulate
from gpusim.theory.bounds import lower_bounds
from gpusim.trace.record import PipeClass

GPU = small_gpu(sm_count=2)


@given(trace=launches())
def test_no_launch_beats_its_lower_bounds(trace):
    bounds = lower_bounds(trace, GPU)
    assert simulate(trace, GPU).cycles >= bounds.least_cycles, bounds.limiter


def _chain(loads: int, footprint: int) -> Asm:
    asm = Asm()
    for i in range(loads):
        asm.load(lambda b, w, i=i: ((1 << 30) + i * 4096 % footprint, 0), barrier=0, wait_mask=1, stall=2)
        asm.op(PipeClass.MUFU, 2, wait_mask=1, write_barrier=1).op(PipeClass.FMA, 4, wait_mask=2)
    return asm.exit(wait_mask=1)


@pytest.mark.parametrize(
    ("field", "better", "worse"),
    [
        ("l1__hit_latency_cycles", 20, 40),
        ("l1__fill_bytes_per_cycle", 128, 16),
        ("mufu__latency_cycles", 10, 30),
        ("fma__interval_cycles", 1, 4),
        ("crossbar__request_latency_ns", 30.0, 60.0),
        ("l2__hit_latency_ns", 30.0, 90.0),
        ("dram__miss_latency_ns", 100.0, 300.0),
        ("dram__peak_bytes_per_ns", 4800.0, 600.0),
        ("launch__end_cycles", 0, 100),
    ],
)
@given(footprint=st.sampled_from([4096, 1 << 16, 1 << 24]))
def test_a_dependent_chain_is_never_slower_on_a_better_machine(field, better, worse, footprint):
    trace = build(_chain(12, footprint), mask=1)
    fast = simulate(trace, small_gpu(sm_count=1, **{field: better})).cycles
    slow = simulate(trace, small_gpu(sm_count=1, **{field: worse})).cycles
    assert fast <= slow


@given(trace=launches(most_blocks=6))
def test_the_same_launch_twice_is_the_same_launch(trace):
    assert simulate(trace, GPU).counters == simulate(trace, GPU).counters


def test_more_sms_finish_many_equal_blocks_sooner():
    asm = Asm()
    for _ in range(200):
        asm.op(PipeClass.FMA, 4)
    trace = build(asm.exit(), blocks=64, threads=1024)
    few, many = (run_cycles(simulate(trace, replace(GPU, sm_count=n))) for n in (2, 8))
    assert few > 3 * many
