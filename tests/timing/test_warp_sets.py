"""The scheduler's sets of warps against looking at every warp in every cycle."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpusim.model.bit_sets import highest, lowest, population
from gpusim.model.compiled import compiled
from gpusim.model.messages import NEVER
from gpusim.model.scheduler import (
    DUE,
    FREE,
    MOST_WARPS,
    PORT,
    PORT_TABLE,
    SET_TABLE,
    SLOT_TABLE,
    hold,
    lost,
    note_start,
    pick_warp,
    sleep,
)

PORTS = 3


@compiled
def pick(known, slots, ports, sets, last, now):
    return pick_warp(known, slots, ports, sets, 0, 0, last, now)


@compiled
def losses(slots, ports, sets, warp):
    return lost(slots, ports, sets, 0, warp)


@compiled
def keep_from_issuing(sets, start, end):
    hold(sets, 0, start, end)


@compiled
def start(slots, count, warp, age, fellows):
    note_start(slots, 0, count, warp, age, fellows)


@compiled
def know(known, sets, warp, cycle):
    sleep(known, sets, 0, 0, warp, cycle)


@compiled
def of_a_set(mask):
    return population(mask), lowest(mask), highest(mask)


@given(st.sets(st.integers(0, 62), min_size=1))
def test_a_set_has_a_size_and_two_ends(members):
    assert of_a_set(sum(1 << member for member in members)) == (len(members), min(members), max(members))


@given(st.integers(1, MOST_WARPS), st.data())
def test_the_sets_pick_whom_a_look_at_all_warps_would_pick(count, data):
    slots, ports, sets = SLOT_TABLE.zeros(count), PORT_TABLE.zeros(1, PORTS), SET_TABLE.zeros(1)
    known = np.full(count, NEVER, np.int64)
    sets[:, DUE] = NEVER
    ages = data.draw(st.permutations(range(1, count + 1)))
    random = data.draw(st.randoms(use_true_random=False))
    ready, port = [NEVER] * count, [0] * count
    passed, held = [0] * count, [0] * count
    block_of, block = {}, 0
    for age in range(1, count + 1):
        block += random.random() < 0.3
        warp = ages.index(age)
        start(slots, count, warp, age, sum(1 << other for other in block_of if block_of[other] == block))
        block_of[warp] = block
    for warp in range(count):
        ready[warp], port[warp] = random.randrange(6), random.randrange(PORTS)
        slots[warp, PORT] = port[warp]
        know(known, sets, warp, ready[warp])
    last, now = -1, 0
    while now < 60:
        candidates = [w for w in range(count) if ready[w] <= now and ports[0, port[w], FREE] <= now]
        want = last if last in candidates else min(candidates, key=lambda w: (block_of[w], -ages[w]), default=-1)
        got, later = pick(known, slots, ports, sets, last, now)
        assert got == want
        waits = [max(ready[w], ports[0, port[w], FREE]) for w in range(count) if w not in candidates]
        assert later <= (now + 1 if len(candidates) > 1 else min(waits, default=NEVER))
        if got < 0:
            now += 1
            continue
        for warp in candidates:
            passed[warp] += warp != got
        assert losses(slots, ports, sets, got) == (passed[got], held[got])
        passed[got] = held[got] = 0
        last = got if random.random() < 0.5 else -1
        ports[0, port[got], FREE] = now + random.randrange(1, 4)
        ready[got], port[got] = now + random.randrange(1, 9), random.randrange(PORTS)
        slots[got, PORT] = port[got]
        know(known, sets, got, ready[got])
        end = now + 1
        if random.random() < 0.3:  # operand reads keep the sub-core
            end += random.randrange(1, 5)
            keep_from_issuing(sets, now + 1, end)
            for warp in range(count):
                held[warp] += max(0, end - max(ready[warp], now + 1))
        now = end
