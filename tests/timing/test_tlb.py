"""Address translation: a known page costs nothing, another one its miss time, and nothing else waits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles_memory import LruSet
from small_memory import answer_ns, fresh, request

from gpusim.gpus.load import load_gpu
from gpusim.model.tlb import make_pages, page_shift, set_of_page, translate

MISS = 25.0
PAGE_LINES = 4096 // 128
TWO_WAYS = {"tlb__miss_ns": MISS, "tlb__entries": 2, "tlb__ways": 2}


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40)), max_size=200), st.sampled_from([(1, 4), (2, 2), (4, 1)])
)
def test_pages_are_least_recently_used_in_each_set_of_each_sm(touches, shape):
    sets, ways = shape
    pages = np.zeros((2, sets, 2 * ways), np.int64)
    oracle = [[LruSet(ways) for _ in range(sets)] for _ in range(2)]
    for now, (sm, page) in enumerate(touches, 1):
        missed, _ = oracle[sm][int(set_of_page(page, sets))].access(page, {0})
        assert translate(pages, sm, page * 4096 + 4095, 12, now) == (not missed)


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 16, 32]))
def test_neighbouring_pages_fill_all_sets_alike(first, sets):
    assert {int(set_of_page(first // sets * sets + i, sets)) for i in range(sets)} == set(range(sets))


def test_the_built_in_gpus_reach_what_their_files_say():
    tlb = load_gpu("h200").tlb
    assert make_pages(tlb, 3).shape == (3, tlb.entries // tlb.ways, 2 * tlb.ways)
    assert 1 << page_shift(tlb) == tlb.page_bytes


@pytest.mark.parametrize("kind", range(4))
def test_the_first_request_to_a_page_comes_later_by_the_miss_time_and_the_next_does_not(kind):
    def first_and_next(**changes):
        parts = fresh(**changes)
        (warm,) = answer_ns(parts, request(0, 0, kind=kind))
        (again,) = answer_ns(parts, request(10_000, 0, kind=kind))
        return warm, again - 10_000

    without, with_tlb = first_and_next(), first_and_next(**TWO_WAYS)
    assert with_tlb[0] - without[0] == pytest.approx(MISS)
    assert with_tlb[1] == pytest.approx(without[1])


@pytest.mark.parametrize(("pages", "missed"), [(2, False), (3, True)])
def test_a_page_is_forgotten_when_as_many_others_as_the_tlb_holds_came_after_it(pages, missed):
    parts = fresh(**TWO_WAYS)
    free = fresh()
    for machine in (parts, free):
        for page in range(pages):
            answer_ns(machine, request(10_000 * page, page * PAGE_LINES))
    (late,) = answer_ns(parts, request(90_000, 0))
    (soon,) = answer_ns(free, request(90_000, 0))
    assert late - soon == pytest.approx(MISS if missed else 0)
    assert parts[0].counters()["tlb__misses.sum"] == pages + missed


def test_a_miss_holds_up_no_other_request_and_no_other_sm():
    parts = fresh(**TWO_WAYS)
    answer_ns(parts, request(0, 0, sm=0), request(5_000, 0, sm=2, tag=1))
    held, passing = answer_ns(parts, request(10_000, PAGE_LINES, sm=0), request(10_000, 0, sm=0, tag=1))
    free = fresh()
    answer_ns(free, request(0, 0, sm=0), request(5_000, 0, sm=2, tag=1))
    (alone,) = answer_ns(free, request(10_000, 0, sm=0))
    assert passing == pytest.approx(alone) and held > passing
    assert parts[0].counters()["tlb__misses.sum"] == 3


def test_warming_leaves_the_pages_that_it_touched():
    parts = fresh(**TWO_WAYS)
    lines = np.array([0, PAGE_LINES * 128], np.uint64)
    parts[0].warm(lines, np.full(2, 15, np.uint8), np.zeros(2, np.uint8), np.zeros(2, np.int16))
    answer_ns(parts, request(0, 1), request(0, PAGE_LINES + 1, tag=1))
    assert parts[0].counters()["tlb__misses.sum"] == 0
