"""Waits that others of the block end, that back off, or that end by themselves when it is time: as long as they should
be, on each GPU."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from polling_kernels import capture_polling
from waiting_kernels import IN_CYCLES, IN_NS, WITHIN_A_BLOCK

from gpusim.engine.gpu import simulate
from gpusim.engine.result import LaunchResult
from gpusim.errors import TraceFormatError
from gpusim.gpus.load import load_gpu
from gpusim.trace.layout import CLOCK_ADDRESS
from gpusim.trace.record import Flag, Trace
from gpusim.trace.validate import check_program

ON = {"sm_90": "h200", "sm_75": "t4", "sm_80": "a100_80gb", "sm_100": "b200", "sm_120": "rtx5090"}
EACH = [gpu if gpu == "sm_90" else pytest.param(gpu, marks=pytest.mark.nightly) for gpu in ON]
#: How often a kernel does its work, one after the other.
TURNS = {
    "mutex": 3,
    "late_flags": 1,
    "block_cas": 3,
    "block_exchange": 3,
    "block_flag": 1,
    "block_both": 1,
    "ring": 8,
    "handoff": 8,
}


@cache
def simulated(name: str, work: int, gpu: str, blocks: int = 1) -> LaunchResult:
    return simulate(capture_polling(name, blocks=blocks, work=work, gpu=gpu), ON[gpu])


@pytest.mark.parametrize("gpu", EACH)
@pytest.mark.parametrize("name", TURNS)
def test_who_waits_waits_for_the_work_of_the_others(name: str, gpu: str) -> None:
    """In proportion to it, also if it is done by turns; ``inside`` does it once, while nobody sleeps."""
    once, short, long = (
        simulated(kernel, work, gpu, 1 if kernel in WITHIN_A_BLOCK else 3)
        for kernel, work in (("inside", 3000), (name, 1000), (name, 3000))
    )
    a_step = (once.cycles - simulated("inside", 1000, gpu).cycles) / 2000
    assert (long.cycles - short.cycles) / 2000 == pytest.approx(TURNS[name] * a_step, rel=0.1)
    polls = [result.counters["sm__inst_issued_polling.sum"] for result in (short, long)]
    assert polls[1] > 1.8 * polls[0] > 0


def test_who_backs_off_looks_less_often() -> None:
    """From the sixth round on it sleeps for 256 ns, before each of which it looks at the L2."""
    spec = load_gpu("h200")
    short, long = (simulated("late_flags", work, "sm_90", 2) for work in (5000, 20000))
    asleep = (long.stalls["sleeping"] - short.stalls["sleeping"]) / (long.cycles - short.cycles)
    assert spec.cycles(256) / (spec.cycles(256) + 600) < asleep < spec.cycles(256) / (spec.cycles(256) + 200)


@pytest.mark.parametrize("gpu", EACH)
@pytest.mark.parametrize("name", [*IN_CYCLES, *IN_NS])
def test_a_loop_that_waits_for_a_time_takes_that_time(name: str, gpu: str) -> None:
    spec = load_gpu(ON[gpu])
    once, twice = (simulated(name, wait, gpu) for wait in (12_000, 24_000))
    longer = spec.cycles(12_000) if name in IN_NS else 12_000
    assert twice.cycles - once.cycles == pytest.approx(longer, abs=300)  # a round of one that sleeps for 100 ns
    assert longer < once.cycles < longer + 4000  # what a launch takes
    assert not once.counters["sm__inst_issued_polling.sum"]  # for nobody else


@pytest.mark.parametrize("gpu", EACH)
def test_rounds_that_are_counted_are_as_many_as_were_made(gpu: str) -> None:
    few, many = (capture_polling("counted", blocks=1, work=wait, gpu=gpu) for wait in (1000, 2000))
    assert not any(len(chunk.polls) for chunk in many.chunks())
    assert many.warp_instructions > few.warp_instructions + 900


def test_a_wait_is_in_the_file_of_its_trace(tmp_path: Path) -> None:
    trace = capture_polling("by_lane", blocks=1, work=9000)
    trace.save(tmp_path / "t.gtrace")
    again = Trace.load(tmp_path / "t.gtrace")
    waits = [chunk.accesses["address"] >= CLOCK_ADDRESS for chunk in again.chunks()]
    times = sorted({int(a) for c, w in zip(again.chunks(), waits, strict=True) for a in c.accesses["address"][w]})
    assert [time - CLOCK_ADDRESS for time in times] == [1, 3000, 6000, 9000]
    assert simulate(again, "h200").cycles == simulate(trace, "h200").cycles


def test_a_wait_from_no_reading_of_the_clock_is_refused() -> None:
    trace = capture_polling("cycles", blocks=1, work=9000)
    code = trace.program.instructions.copy()
    waits = np.flatnonzero(code["flags"] & int(Flag.CLOCK_WAIT))
    assert len(waits) == 1 and code["records"][waits] == 1
    code["constant_offset"][waits] = 16  # a slot that there is not
    with pytest.raises(TraceFormatError, match="constant_offset"):
        check_program(replace(trace.program, instructions=code))
    code["constant_offset"][waits], code["records"][waits] = 0, 0
    with pytest.raises(TraceFormatError, match="records"):
        check_program(replace(trace.program, instructions=code))
