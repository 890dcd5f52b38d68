"""Changes of measured histories: what noise explains is none, what it does not is found, and it belongs to what it
belongs to."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.cli import run
from gpusim.watch.change import COMMIT, DRIFT, SHARE, STEP, UNRECORDED, Change, alert_numbers
from gpusim.watch.changes import all_changes
from gpusim.watch.clock_states import clock_states
from gpusim.watch.detect import analyse
from gpusim.watch.history import History, Point
from gpusim.watch.launch_noise import expected_noise
from gpusim.watch.measured import measured_changes
from tools.watch_annotated import f1
from tools.watch_power import annotated, grouping
from tools.watch_series import DRIFTING, NULLS

POINTS = 100


def noise(seed: int, n: int = POINTS) -> np.ndarray:
    return 100 + 0.5 * np.random.default_rng(seed).normal(0, 1, n)


def after(place: int, n: int = POINTS) -> np.ndarray:
    return np.arange(n) >= place


def history(values: Sequence[float] | np.ndarray, name: str = "s", **method: Sequence[str]) -> History:
    points = tuple(
        Point(
            f"c{i}",
            float(value),
            {key: each[i] for key, each in method.items() if key != "cubin"},
            method.get("cubin", [""] * POINTS)[i],
        )
        for i, value in enumerate(values)
    )
    return History(name, points, measured=True, groups=("all",))


def found(values: np.ndarray) -> list[tuple[str, int]]:
    return [(each.kind, each.index) for each in analyse(values).changes]


@pytest.mark.parametrize("kind", sorted(NULLS))
def test_noise_of_every_kind_is_no_change(kind: str) -> None:
    random = np.random.default_rng(5)
    assert sum(bool(found(100 + 0.5 * NULLS[kind](random, POINTS))) for _ in range(12)) <= 1


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(15, 90), st.sampled_from([-1, 1]), st.floats(1e-3, 1e6))
def test_a_clear_step_is_found_where_it_is_in_any_unit(seed: int, place: int, way: int, unit: float) -> None:
    changes = analyse(unit * (noise(seed) + 4 * way * after(place))).changes
    (step,) = [each for each in changes if each.kind == STEP and each.low <= place <= each.high]
    assert abs(step.index - place) <= 2 and (step.after > step.before) == (way > 0)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.lists(st.floats(-1e12, 1e12), max_size=40))
def test_any_values_are_judged(values: list[float]) -> None:
    for each in analyse(np.array(values)).changes:
        assert 0 <= each.low <= each.index <= each.high < len(values)


def test_each_kind_of_history_gives_its_kind_of_change() -> None:
    random = np.random.default_rng(1)
    assert found(np.repeat([5.0, 6.0], [30, 6])) == [(STEP, 30)]
    assert found(noise(2) + 6 * (after(50) ^ after(54))) == []  # went away
    (drift,) = analyse(noise(3) + np.interp(np.arange(POINTS), [30, 70], [0, 5])).changes
    assert drift.kind == DRIFT and abs(drift.index - 30) < 10 and drift.last is not None and abs(drift.last - 70) < 10
    mode = np.concatenate([random.random(100) < 0.2, random.random(60) < 0.8])
    ((kind, place),) = found(noise(4, 160) + 4 * mode)
    assert kind == SHARE and abs(place - 100) <= 8
    ((kind, place),) = found(noise(5, 160) + 4 * (random.random(160) < 0.4) + 1.5 * after(100, 160))
    assert kind == STEP and abs(place - 100) <= 3
    ((kind, place),) = found(noise(6, 150) + np.resize([0, 0, 0, 0, 0, 2, 2], 150) + 1.5 * after(100, 150))
    assert kind == STEP and abs(place - 100) <= 3


def test_a_slow_drift_is_no_row_of_steps_and_a_row_of_steps_no_drift() -> None:
    drifting = [analyse(noise(seed) + 0.025 * np.arange(POINTS)).changes for seed in range(20)]
    assert sum(any(each.kind != DRIFT for each in changes) for changes in drifting) <= 1
    assert sum(any(each.kind == DRIFT for each in changes) for changes in drifting) >= 15
    (row,) = grouping(2, 5)
    assert row["alerts"] == row["causes_named"] == 6


def test_a_level_that_wanders_under_noise_makes_no_steps() -> None:
    random = np.random.default_rng(8)
    drawn = [analyse(100 + 0.5 * DRIFTING["level that wanders"](random, 300)).changes for _ in range(30)]
    assert sum(any(each.kind != DRIFT for each in changes) for changes in drawn) <= 1


@pytest.mark.parametrize("kind", ["AR(1), 0.8", "AR(1), 0.9"])
def test_few_correlated_points_are_no_change(kind: str) -> None:
    random = np.random.default_rng(8)
    assert sum(bool(found(100 + 0.5 * NULLS[kind](random, 30))) for _ in range(60)) <= 1


def test_a_method_is_blamed_before_a_commit() -> None:
    driver = ["550"] * 60 + ["570"] * 40
    (change,) = measured_changes(history(noise(1) + 3 * after(60), driver=driver))
    assert (change.cause, change.who, change.candidates) == ("driver", "driver 550 -> 570", ())
    hosts = [["a", "b"][i // 7 % 2] for i in range(POINTS)]
    offset = 8 * (np.array(hosts) == "b")
    assert measured_changes(history(noise(2) + offset, host=hosts)) == []
    (change,) = measured_changes(history(noise(3) + offset + 3 * after(60), host=hosts))
    assert change.cause == COMMIT and "c60" in change.candidates and change.confidence > 0.99


def test_machine_code_says_which_commits_it_may_be() -> None:
    values = noise(1) + 1.0 * after(60)
    codes = [str(i // 20) for i in range(POINTS)]
    (change,) = measured_changes(history(values, cubin=codes))
    assert (change.who, change.candidates) == ("c60", ("c60",))
    (change,) = measured_changes(history(noise(2) + 4 * after(60), cubin=["x"] * POINTS))
    assert change.cause == UNRECORDED


def test_commits_without_a_value_may_be_the_first() -> None:
    values = noise(1) + 4 * after(60)
    values[58:60] = np.nan
    (change,) = measured_changes(history(values))
    assert change.index == 60 and set(change.candidates) >= {"c58", "c59", "c60"}


def test_one_cause_is_one_alert_and_small_steps_add_up() -> None:
    histories = [history((1 + i) * (noise(i) + 0.5 * after(70)), f"s{i}") for i in range(12)]
    assert not any(measured_changes(each) for each in histories[:3])
    changes = all_changes(histories)
    assert set(alert_numbers(changes)) == {1} and len({each.series for each in changes}) >= 6
    assert all("c70" in each.candidates and each.after > each.before for each in changes)
    assert len({each.candidates for each in changes}) == 1


def test_a_simulated_step_names_the_commit_of_a_measured_one() -> None:
    cycles = tuple(Point(f"c{i}", 1000.0 + (i >= 61)) for i in range(POINTS))
    changes = all_changes([History("sim", cycles), history(noise(1) + 1.2 * after(60))])
    assert [each.who for each in changes] == ["c61", "c61"] and set(alert_numbers(changes)) == {1}


def test_short_launches_are_expected_to_be_noisy() -> None:
    short = History("short", tuple(Point(f"c{i}", 5.0) for i in range(6)), True, "us")
    long = History("long", tuple(Point(f"c{i}", 5000.0) for i in range(6)), True, "us")
    other = History("other", tuple(Point(f"c{i}", 6.0 * v / 100) for i, v in enumerate(noise(1))), True, "us")
    bare = expected_noise([short, long])
    assert bare[0].expected / 5 > 5 * bare[1].expected / 5000 > 0
    assert expected_noise([short, other])[0].expected / 5 == pytest.approx(0.005, rel=0.3)


def test_clock_states_are_told_apart() -> None:
    assert clock_states([1.98e9, 0.0, 1.755e9, 1.975e9]) == ["1975 MHz", "", "1755 MHz", "1975 MHz"]


def test_the_score_is_that_of_the_annotated_set() -> None:
    marks = {"one": {60}, "two": {60, 90}}
    assert f1(marks, []) == pytest.approx(2 * 1 * (1 / 2 + 1 / 3) / 2 / (1 + (1 / 2 + 1 / 3) / 2))
    assert f1(marks, [64, 86]) == 1.0
    assert f1(marks, [66, 90]) < 1.0


def test_watch_power_scores_a_folder(tmp_path: Path) -> None:
    (tmp_path / "annotations.csv").write_text("series,annotator,index\na,1,40\na,2,-1\n")
    with gzip.open(tmp_path / "series.csv.gz", "wt") as text:
        text.write("series,variable,index,value\n")
        for i, value in enumerate(noise(1, 80) + 5 * after(40, 80)):
            text.write(f"a,V1,{i},{value}\n")
    rows = list(annotated(tmp_path, "all"))
    assert rows[0]["found"] == "40" and rows[0]["f1"] == 1.0
    assert rows[0]["f1_of_none"] == pytest.approx(6 / 7)


def test_the_command_prints_confidence_candidates_and_alerts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "times.csv"
    lines = [f"s{s},c{i},{v}" for s in range(2) for i, v in enumerate(noise(s) + 4 * after(70))]
    path.write_text("\n".join(["series,commit,value", *lines]))
    assert run(["watch", "changes", str(path), "--measured", "--unit", "us", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(r["alert"], r["kind"], r["candidates"]) for r in rows] == [(1, "step", "c70")] * 2
    assert all(0.99 < r["confidence"] <= 1 and r["unit"] == "us" for r in rows)
    assert run(["watch", "changes", "--plan", "x", "--measured"]) == 2


def test_changes_of_a_kind_keep_their_form() -> None:
    """What alerts are built on: a fact has confidence 1 and no candidates."""
    change = Change("s", 1, "c1", 1.0, 2.0, COMMIT, "c1")
    assert (change.kind, change.confidence, change.candidates, change.percent) == (STEP, 1.0, (), 100.0)


def test_many_steps_do_not_hide_each_other() -> None:
    # Of several steps each makes the means of longer stretches differ, which by itself is what a level that wanders
    # does.
    places, n = (41, 73, 121, 148, 199, 231, 262), 300
    level = sum(
        size * after(place, n) for place, size in zip(places, (2.5, 2.0, -3.0, 2.5, 3.0, -2.0, 2.5), strict=True)
    )
    found = [each for each in analyse(noise(3, n) + level).changes if each.kind == STEP]
    assert len(found) >= 6
    assert all(min(abs(each.index - place) for place in places) <= 1 for each in found)
