"""What divergences have in common: found when it is there, silent when it is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpusim.explore.coverage import Coverage
from gpusim.explore.points import POINTS
from gpusim.explore.shared_behaviour import behaviour_of

CONFLICTS = POINTS["bank_conflicts"].bins


def _run(*bins: tuple[str, str]) -> Coverage:
    return Coverage.of(bins, "a workload")


def test_a_threshold_of_an_ordered_point_is_named_with_its_counts():
    runs = {label: _run(("bank_conflicts", label), ("block_tail", "full")) for label in CONFLICTS}
    failing = [runs[label] for label in ("3-4", "5-8", "9-16", "17-32")]
    passing = [runs[label] for label in ("none", "1", "2")]
    found = behaviour_of(failing, passing)
    assert str(found) == "bank_conflicts 3-4 to 17-32 (4 of 4 divergences, 0 of 3 others)"


def test_anything_but_none_is_said_in_a_word():
    failing = [_run(("atomic_lanes", label)) for label in ("1", "2", "3-4")]
    found = behaviour_of(failing, [_run(("atomic_lanes", "none"))] * 2)
    assert str(found) == "some atomic_lanes (3 of 3 divergences, 0 of 2 others)"


def test_two_points_are_named_where_one_is_not_enough():
    both = _run(("pipe", "mufu"), ("block_tail", "partial"))
    passing = [_run(("pipe", "mufu"), ("block_tail", "full"))] * 5 + [_run(("block_tail", "partial"))] * 5
    found = behaviour_of([both] * 5, passing)
    assert {point for point, _ in found.parts} == {"pipe", "block_tail"} and found.misses == 0


def test_nothing_is_said_without_contrast():
    same = _run(("block_tail", "full"))
    assert behaviour_of([same] * 5, [same] * 50) is None
    assert behaviour_of([same] * 5, []) is None
    assert behaviour_of([same] * 2, [_run(("block_tail", "partial"))]) is None
    assert behaviour_of([Coverage()] * 5, [same] * 5) is None


_LABELS = st.sampled_from([(point.name, label) for point in POINTS.values() for label in point.bins])
_RUNS = st.lists(st.sets(_LABELS, min_size=1, max_size=6).map(lambda bins: _run(*bins)), min_size=1, max_size=12)


@given(_RUNS, _RUNS)
def test_its_counts_are_those_of_the_runs(failing, passing):
    found = behaviour_of(failing, passing)
    if found is None:
        return

    def has(run: Coverage) -> bool:
        return all(any(each in run.hits for each in bins) for _, bins in found.parts)

    assert (found.inside, found.escapes) == (sum(map(has, failing)), sum(not has(run) for run in failing))
    assert (found.misses, found.others) == (sum(map(has, passing)), len(passing))
    assert found.inside * len(passing) >= 3 * found.misses * len(failing)
    assert 2 * found.inside >= 0.6 * (len(failing) + found.inside + found.misses)
