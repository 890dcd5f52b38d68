"""Replaying one point of a pointer chase: cycles that a dependent load takes in a buffer of some size.

Mental model: three regimes, each simulated as far as it can differ. Within L1's reach a run of laps, from an
empty L1 and from a full one; in L2's reach a stretch of a lap in the state that a lap leaves; beyond, loads of
lines that no cache can hold, scattered over the whole buffer, of which the rest is never touched.
"""

from __future__ import annotations

from gpusim.cases.suite import capture_case, make_case
from gpusim.compare.replay_bench import Bench
from gpusim.engine.result import LaunchResult, Result
from gpusim.silicon.published import PublishedPoint

#: Laps that visit every element of a line once, and the loads that a published run makes in all: each run begins
#: with an empty L1, which shows as a slow rise with the buffer (A100 0.8 cycles at 146 KiB, GH200 1.6 at 213 KiB, as
#: four sectors a line and 2**20 loads give). The laps are simulated from an empty L1 and from the one they leave.
CHASE_LAPS, CHASE_LEAST_LOADS, CHASE_PUBLISHED_LOADS = 16, 4096, 1 << 20
#: In buffers up to this many times the L1's size some lines may be found there.
CHASE_L1_SIZES = 2
#: Dependent loads that are timed beyond L1. From so many times L2's size on no lap finds a line of the one before;
#: a chain of ``first`` loads then fills the TLB, and what a longer chain takes more is the measurement.
CHASE_LOADS, CHASE_L2_SIZES, CHASE_FIRST_LOADS = 4096, 3, 2048


def chase(bench: Bench, point: PublishedPoint) -> float:
    """Cycles a dependent load takes in a buffer that earlier laps have walked."""
    gpu, size, shape = bench.gpu, point.axis("buffer_kib"), dict(point.axes)
    if size * 1024 <= CHASE_L1_SIZES * gpu.l1.total_bytes:
        return _chase_in_l1(bench, shape)
    if size * 1024 >= CHASE_L2_SIZES * gpu.l2.total_bytes:
        return _chase_beyond_l2(bench, shape)
    case = make_case("pointer_chase", {**shape, "loads": CHASE_LOADS}, gpu)
    *before, timed = (launch.trace for launch in capture_case(case, gpu))
    return _chase_cycles(bench, bench.run([timed], before)) / case.work["loads"]


def _chase_in_l1(bench: Bench, shape: dict) -> float:
    """A run that begins with an empty L1 and a full L2 and TLB, from two stretches of it."""
    lines = int(shape["buffer_kib"] * 1024 / shape.get("step_bytes", 128))
    loads = CHASE_LAPS * lines * max(1, CHASE_LEAST_LOADS // (CHASE_LAPS * lines))
    case = make_case("pointer_chase", {**shape, "loads": loads}, bench.gpu)
    *before, timed = (launch.trace for launch in capture_case(case, bench.gpu))
    steady, first = bench.run([timed, timed], [*before, timed]).launches  # the second finds its L1 empty
    loads = case.work["loads"]
    rest = CHASE_PUBLISHED_LOADS / loads - 1
    cycles = _chase_cycles(bench, first) + rest * _chase_cycles(bench, steady)
    return cycles / CHASE_PUBLISHED_LOADS


def _chase_beyond_l2(bench: Bench, shape: dict) -> float:
    """Loads of lines that no cache holds, all over the buffer."""
    cycles, loads = [], []
    longest = CHASE_FIRST_LOADS + CHASE_LOADS
    for wanted in (CHASE_FIRST_LOADS, longest):
        case = make_case("pointer_chase", {**shape, "loads": wanted, "visited_lines": longest}, bench.gpu)
        cycles.append(bench.run([capture_case(case, bench.gpu)[-1].trace]).cycles)
        loads.append(case.work["loads"])
    return (cycles[1] - cycles[0]) / (loads[1] - loads[0])


def _chase_cycles(bench: Bench, result: Result | LaunchResult) -> float:
    """What a launch took less its fixed overhead."""
    return result.cycles - bench.gpu.launch.start_cycles - bench.gpu.launch.end_cycles
