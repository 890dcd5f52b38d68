"""Do the L2's events come up by tick, and those of a tick in order of birth, however far ahead they lie?"""

from __future__ import annotations

import numpy as np
import pytest
from hand_traces import small_gpu
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.engine.l2 import L2Part
from gpusim.model import l2_state
from gpusim.model.compiled import compiled
from gpusim.model.event_wheel import MARK_WORDS, WHEEL_TICKS, mark, next_marked, unmark
from gpusim.model.l2_state import EVENTS, LAST_TICK, NEXT_EVENT
from gpusim.model.messages import NEVER

#: Beside each other, a turn of the wheel apart, on both sides of its reach.
DELAYS = st.one_of(
    st.integers(0, 70), st.integers(WHEEL_TICKS - 2, WHEEL_TICKS + 2), st.integers(0, 3 * WHEEL_TICKS), st.just(2 * WHEEL_TICKS)
)  # fmt: skip


@compiled
def add(s, time, node):
    l2_state.schedule(s, time, node)


@compiled
def take(s):
    s.scalars[LAST_TICK] = s.scalars[NEXT_EVENT]
    return l2_state.next_event(s)


@pytest.fixture(scope="module")
def part():
    return L2Part(small_gpu())


@settings(deadline=None, max_examples=100)
@given(rounds=st.lists(st.tuples(st.lists(DELAYS, max_size=12), st.integers(0, 8)), min_size=1, max_size=12))
def test_events_come_up_by_tick_and_birth(part, rounds):
    part.reset()
    s, waiting, births = part.state, [], 0
    for delays, taken in [*rounds, ([], 1000)]:
        for delay in delays:
            time = int(s.scalars[LAST_TICK]) + delay
            waiting.append((time, births))
            add(s, time, births)
            births += 1
        for _ in range(min(taken, len(waiting))):
            first = min(waiting)
            waiting.remove(first)
            assert (int(s.scalars[NEXT_EVENT]), take(s)) == first
        assert s.scalars[EVENTS] == len(waiting)
    assert s.scalars[NEXT_EVENT] == NEVER and not s.wheel.any() and not s.marks.any()


@compiled
def marked_from(marks, tick):
    return next_marked(marks, tick)


@compiled
def set_mark(marks, place, on):
    if on:
        mark(marks, place)
    else:
        unmark(marks, place)


@given(
    places=st.sets(st.integers(0, WHEEL_TICKS - 1), min_size=1, max_size=5),
    turns=st.integers(0, 3),
    at=st.integers(0, WHEEL_TICKS - 1),
)
def test_the_next_mark_is_found_around_the_wheel(places, turns, at):
    marks, tick = np.zeros(MARK_WORDS, np.int64), turns * WHEEL_TICKS + at
    for place in places:
        set_mark(marks, place, True)
    assert marked_from(marks, tick) == tick + min((place - tick) % WHEEL_TICKS for place in places)
    for place in places:
        set_mark(marks, place, False)
    assert not marks.any()
