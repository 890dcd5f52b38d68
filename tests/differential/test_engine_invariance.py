"""What must not matter does not: window length, order of parts and SMs, threads, JIT."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from hand_traces import Asm, build, small_gpu
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import launches

from gpusim.engine import machine as engine_machine
from gpusim.engine import window as engine_window
from gpusim.engine.gpu import simulate, window_limit_cycles
from gpusim.engine.result import Result
from gpusim.errors import UsageError
from gpusim.model import program as model_program

pytestmark = pytest.mark.usefixtures("without_source_lines")

MACHINES = {
    "two_sms": small_gpu(sm_count=2),
    "five_tight_sms": small_gpu(
        sm_count=5, l1__miss_entries=6, l1__queue_entries=1, launch__block_turnaround_cycles=90
    ),
    "two_cold_sms": small_gpu(
        sm_count=2,
        instruction_cache__line_bytes=64,
        instruction_cache__l0_bytes=128,
        instruction_cache__l0_ways=1,
        instruction_cache__l0_miss_cycles=21,
        instruction_cache__l1_miss_cycles=90,
        instruction_cache__l1_interval_cycles=3,
        instruction_cache__stream_entries=2,
        constant_cache__miss_cycles=40,
        constant_cache__bytes=128,
    ),
}


def facts(result: Result) -> tuple:
    """Everything that a result says, comparable."""
    return (
        result.cycles,
        tuple(sorted(result.counters.items())),
        tuple(result.stalls.items()),
        tuple(tuple(launch.block_end_cycles.tolist()) for launch in result.launches),
        tuple(launch.stalls_by_instruction.tobytes() for launch in result.launches),
    )


@pytest.mark.by_day(1)
@pytest.mark.parametrize("machine", MACHINES)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(trace=launches(), other=launches(), data=st.data())
def test_window_order_and_threads_do_not_show(machine, trace, other, data):
    spec = MACHINES[machine]
    want = facts(simulate([trace, other], spec, threads=1))
    window = data.draw(st.integers(1, window_limit_cycles(spec)), "window")
    seed = data.draw(st.integers(0, 5), "seed")
    threads = data.draw(st.sampled_from([1, 2]), "threads")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_window, "WORTH_A_HAND_OVER_NS", -1)  # these windows are not worth it
        patch.setattr(engine_machine, "_BLOCKS_WORTH_THREADS", 1)
        assert facts(simulate([trace, other], spec, window_cycles=window, order_seed=seed, threads=threads)) == want


@pytest.mark.by_day(1)
@pytest.mark.parametrize("machine", MACHINES)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(trace=launches(), data=st.data())
def test_turns_that_threads_share_do_not_show_whenever_they_begin_and_end(machine, trace, data):
    spec = MACHINES[machine]
    want = facts(simulate(trace, spec, threads=1))
    choices = data.draw(st.lists(st.booleans(), min_size=1, max_size=5), "choices")
    chosen = cycle(choices)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_window, "WORTH_A_HAND_OVER_NS", -1)
        patch.setattr(engine_machine, "_BLOCKS_WORTH_THREADS", 1)
        patch.setattr(engine_machine, "_WINDOWS_TO_DECIDE", data.draw(st.integers(1, 4), "windows"))
        patch.setattr(engine_machine, "turns_pay", lambda *_: next(chosen))
        assert facts(simulate(trace, spec, threads=2)) == want


@pytest.mark.by_day(1)
@pytest.mark.parametrize("machine", ["two_sms", "two_cold_sms"])
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(trace=launches())
def test_plain_instructions_issue_as_all_others_do(machine, trace):
    spec = MACHINES[machine]
    want = facts(simulate(trace, spec, threads=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_program, "_is_plain", lambda table: np.zeros(len(table), bool))
        assert facts(simulate(trace, spec, threads=1)) == want


@pytest.mark.by_day(1)
@pytest.mark.parametrize("machine", ["two_sms", "two_cold_sms"])
@given(trace=launches())
def test_stalls_add_up_and_requests_are_answered(machine, trace):
    result = simulate(trace, MACHINES[machine])
    counters = result.counters
    assert sum(result.stalls.values()) == counters["sm__warps_active.sum"]
    assert result.stalls["selected"] == counters["smsp__inst_executed.sum"] == trace.warp_instructions
    assert counters["sm__ctas_launched.sum"] == trace.launch.blocks
    assert (
        counters["l1tex__m_xbar2l1tex_read_sectors.sum"]
        == counters["lts__t_sectors_op_read.sum"]
        + counters["l2__merged_sectors.sum"]
        + counters["lts__t_sectors_op_atom.sum"]
    )
    ends = result.block_end_cycles
    assert len(ends) == trace.launch.blocks and ends.min() > 0 and ends.max() <= result.cycles
    by_instruction = result.launches[0].stalls_by_instruction
    np.testing.assert_array_equal(by_instruction.sum(axis=0), list(result.stalls.values()))


@given(trace=launches(most_blocks=4))
def test_warming_takes_no_time_and_forgets_nothing(trace):
    spec = MACHINES["two_sms"]
    cold = simulate(trace, spec)
    warm = simulate(trace, spec, warm=trace)
    assert warm.counters["smsp__inst_executed.sum"] == cold.counters["smsp__inst_executed.sum"]
    assert warm.counters["dram__bytes_read.sum"] <= cold.counters["dram__bytes_read.sum"]


def test_a_window_longer_than_the_shortest_latency_is_refused():
    spec = MACHINES["two_sms"]
    trace = build(Asm().exit())
    with pytest.raises(UsageError, match="window_cycles"):
        simulate(trace, spec, window_cycles=window_limit_cycles(spec) + 1)


_CASE = """
import json, sys
from hand_traces import Asm, build, small_gpu
from gpusim.engine.gpu import simulate
from gpusim.trace.record import Flag, MemoryKind, PipeClass, Space
asm = Asm()
asm.op(PipeClass.ALU, 4).load(lambda b, w: ((1 << 30) + (b * 4 + w) * 96, 20), barrier=0)
asm.load(lambda b, w: ((1 << 30) + 8 * b, 0), 8, barrier=1).op(PipeClass.MUFU, 2, write_barrier=2)
asm.op(PipeClass.FMA, 4, wait_mask=7).op(PipeClass.BARRIER, 2, flags=int(Flag.BARRIER_WAIT))
asm.memory(MemoryKind.STORE, Space.SHARED, 4, lambda b, w: (w * 64, 8)).op(PipeClass.SHUFFLE, 2, write_barrier=3)
asm.memory(MemoryKind.ATOMIC, Space.GLOBAL, 4, lambda b, w: ((1 << 31), 0), write_barrier=4)
asm.store(lambda b, w: ((1 << 32) + (b * 4 + w) * 128, 4), wait_mask=24).op(PipeClass.NONE, 1, flags=int(Flag.FENCE))
trace = build(asm.exit(), blocks=5, threads=100)
gpu = small_gpu(sm_count=2, sm__max_blocks=2)
result = simulate([trace, trace], gpu, warm=trace)
json.dump([result.cycles, result.stalls, result.counters, result.block_end_cycles.tolist()], sys.stdout)
"""


def test_plain_python_gives_what_the_compiled_code_gives():
    root = Path(__file__).resolve().parents[2]
    answers = []
    for disable in ("0", "1"):
        environment = os.environ | {"NUMBA_DISABLE_JIT": disable, "PYTHONPATH": f"{root}:{root / 'tests' / 'support'}"}
        done = subprocess.run(
            [sys.executable, "-W", "error::RuntimeWarning", "-c", _CASE],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        answers.append(json.loads(done.stdout))
    assert answers[0] == answers[1]
