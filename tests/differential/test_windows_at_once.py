"""Does it not matter whether one call of compiled code runs through many windows, or Python through each, and where
such calls end?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hand_traces import Asm, build, small_gpu
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import launches

from gpusim.engine import hbm, l2, window_calls, window_loop
from gpusim.engine.block_dispatcher import Dispatcher
from gpusim.engine.gpu import simulate
from gpusim.engine.result import Result
from gpusim.engine.window_calls import WindowCalls

pytestmark = pytest.mark.usefixtures("without_source_lines")

GPU = small_gpu(sm_count=3, sm__max_blocks=2, l1__miss_entries=6)


def facts(result: Result) -> tuple:
    """Everything that a result says, comparable."""
    return (
        result.cycles,
        tuple(sorted(result.counters.items())),
        tuple(tuple(launch.block_end_cycles.tolist()) for launch in result.launches),
        tuple(launch.stalls_by_instruction.tobytes() for launch in result.launches),
    )


@contextmanager
def little_room(most: int, messages: int = 0) -> Iterator[set[int]]:
    """Calls run through so few windows, and each table, and each box but for so many messages, is too small at first;
    what they left to do."""
    left, do = set(), WindowCalls._do

    def noted(self, what: int) -> None:
        left.update(1 << bit for bit in range(16) if what >> bit & 1)
        do(self, what)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_calls, "MOST_WINDOWS", most)
        patch.setattr(window_calls, "_FIRST_ROOM", messages)
        patch.setattr(l2, "FIRST_NODES", 1)
        patch.setattr(hbm, "FIRST_NODES", 1)
        patch.setattr(WindowCalls, "_do", noted)
        yield left


@contextmanager
def python_alone() -> Iterator[None]:
    """Python runs through each window."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WindowCalls, "fit", staticmethod(lambda parts: False))
        yield


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(trace=launches(), other=launches(), most=st.integers(1, 5))
def test_windows_in_one_call_are_those_of_python(trace, other, most):
    with python_alone():
        want = facts(simulate([trace, other], GPU, threads=1, warm=trace))
    assert facts(simulate([trace, other], GPU, threads=1, warm=trace)) == want
    with little_room(most):
        assert facts(simulate([trace, other], GPU, threads=1, warm=trace)) == want


def test_what_a_call_leaves_is_done_and_the_call_goes_on():
    asm = Asm()
    for i in range(30):
        asm.load(lambda b, w, i=i: ((1 << 30) + (b * 4 + w << 20) + i * 8192, 128), barrier=i % 4)
        asm.store(lambda b, w, i=i: ((1 << 32) + (b * 4 + w << 20) + i * 8192, 128))
    trace = build(asm.exit(wait_mask=15), blocks=21, threads=128, blocks_per_chunk=8)
    with python_alone():
        want = facts(simulate(trace, GPU, threads=1))
    with little_room(3) as left:
        assert facts(simulate(trace, GPU, threads=1)) == want
    with little_room(64, 4096) as left_of_long_calls:
        assert facts(simulate(trace, GPU, threads=1)) == want
    left |= left_of_long_calls
    loop = window_loop
    room = {loop.L2_ROOM, loop.HBM_ROOM, loop.DRAM_REQUESTS, loop.REQUESTS, loop.FILLS}
    assert left == room | {loop.EXITS, loop.ENDS}
    with little_room(3) as left, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dispatcher, "compiled_row", -1)
        assert facts(simulate(trace, GPU, threads=1)) == want
    assert loop.ENDS not in left
