"""A search by halves finds a real step, in logarithmic runs, past points without a value; a smallest set is one that
brute force finds, too."""

from __future__ import annotations

import math
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from gpusim.bisect.criterion import Wish, criterion_of
from gpusim.bisect.search import Search, Step
from gpusim.bisect.smallest_set import smallest_set

VALUES = st.one_of(st.none(), st.integers(0, 3).map(float))


@st.composite
def rows(draw: st.DrawFn) -> list[float | None]:
    """Points with and without values whose ends differ."""
    inner = draw(st.lists(VALUES, max_size=60))
    return [0.0, *inner, 4.0]


def same(a: float, b: float) -> bool:
    return a == b


@given(rows(), st.sampled_from([1.0, 2.0, 3.0]))
def test_a_step_that_is_found_lies_between_two_sides_with_only_points_without_a_value_between(row, limit) -> None:
    search = Search(len(row), row.__getitem__)
    search.value(0), search.value(len(row) - 1)
    step = search.step(0, len(row) - 1, lambda value: value >= limit)
    assert row[step.before] < limit <= row[step.after]
    assert all(row[index] is None for index in step.candidates[:-1])


@given(st.integers(2, 3000), st.data())
def test_a_single_step_takes_a_logarithm_of_runs(count: int, data) -> None:
    first = data.draw(st.integers(1, count - 1))
    search = Search(count, lambda index: float(index >= first))
    search.value(0), search.value(count - 1)
    assert search.step(0, count - 1, lambda value: value > 0) == Step(first - 1, first)
    assert len(search.known) <= 2 + math.ceil(math.log2(count))


@given(rows())
def test_every_step_between_points_that_differ_is_found(row) -> None:
    search = Search(len(row), row.__getitem__)
    search.value(0), search.value(len(row) - 1)
    steps = search.steps(same)
    for step in steps:
        assert row[step.before] != row[step.after] and all(row[index] is None for index in step.candidates[:-1])
    # Together they lead from one end's value to the other's: nothing that lasts is left out.
    assert sum(row[step.after] - row[step.before] for step in steps) == row[-1] - row[0]


def test_a_broken_stretch_is_named_whole_and_left_without_reading_it_first() -> None:
    row = [0.0] * 10 + [None] * 20 + [1.0] * 34
    search = Search(len(row), row.__getitem__)
    search.value(0), search.value(63)
    step = search.step(0, 63, bool)
    assert (step.before, step.after, step.is_exact) == (9, 30, False) and list(step.candidates) == list(range(10, 31))
    assert len(search.known) < 36  # the twenty, and not the rest


def test_limited_runs_name_what_was_not_read() -> None:
    search = Search(1024, lambda index: float(index >= 700), most_runs=5)
    search.value(0), search.value(1023)
    step = search.step(0, 1023, bool)
    assert step.before < 700 <= step.after and not step.is_exact and len(search.known) == 5


@given(st.lists(st.frozensets(st.integers(0, 9), min_size=1, max_size=3), min_size=1, max_size=3), st.integers(1, 10))
def test_a_smallest_set_is_as_small_as_brute_force_finds(causes, count: int) -> None:
    """Monotone: the difference is made wherever all members of a cause are changed."""
    changes = tuple(range(count))

    def makes(chosen: tuple[int, ...]) -> bool:
        return any(cause <= set(chosen) for cause in causes)

    found = smallest_set(changes, makes)
    least = next((k for k in range(count + 1) if any(makes(c) for c in combinations(changes, k))), None)
    if least is None:
        assert found is None
        return
    assert found is not None and makes(found.members)
    assert all(not makes(tuple(m for m in found.members if m != left)) for left in found.members)
    if found.is_smallest:
        assert len(found.members) == least


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_a_smallest_set_holds_whatever_the_changes_do_to_each_other(_: list[bool], data) -> None:
    """Not monotone: any answer for any set, drawn once."""
    changes = tuple(range(len(_)))
    answers: dict[tuple[int, ...], bool | None] = {changes: True}

    def makes(chosen: tuple[int, ...]) -> bool | None:
        if chosen not in answers:
            answers[chosen] = data.draw(st.sampled_from([True, False, None]))
        return answers[chosen]

    found = smallest_set(changes, makes)
    assert found is not None and makes(found.members) is True


def test_values_are_told_apart_by_half_a_threshold_a_limit_or_exactly() -> None:
    assert [criterion_of(100, 200, Wish()).is_bad(v) for v in (149, 150, 250)] == [False, True, True]
    assert [criterion_of(200, 100, Wish()).is_bad(v) for v in (151, 150, 90)] == [False, True, True]
    assert [criterion_of(100, 200, Wish(threshold_percent=2)).is_bad(v) for v in (98, 102, 103)] == [False, False, True]
    assert [criterion_of(100, 50, Wish(limit=80)).is_bad(v) for v in (100, 80, 79)] == [False, False, True]
    assert [criterion_of(100, 200, Wish(exact=True)).is_bad(v) for v in (100, 99, 101)] == [False, True, True]
    assert not criterion_of(100, 101, Wish(threshold_percent=2)).differs and not criterion_of(7, 7, Wish()).differs
