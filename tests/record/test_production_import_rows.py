"""Rows of production: they merge in any order, keep weights as sums, and their file is read back or refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.errors import ProductionError
from gpusim.production.facts import Evidence, Fact
from gpusim.production.file import DeviceTime, Production, Source, read, together, write
from gpusim.production.launches import OTHER, Collective, Launch, LaunchTotal, kept, summed

KEYS = [Launch(name, grid=(g, 1, 1), rank=r) for name in "ab" for g in (1, 2) for r in (0, 1)]
LAUNCHES = st.lists(
    st.tuples(
        st.sampled_from(KEYS), st.none() | st.integers(0, 10**12), st.integers(1, 1000).map(float), st.integers(0, 99)
    ),
    max_size=40,
)


def totals(launches: list) -> list[LaunchTotal]:
    rows = [LaunchTotal(what) for what, *_ in launches]
    for row, (_, duration_ns, weight, moved_bytes) in zip(rows, launches):
        row.launch(duration_ns, weight, moved_bytes)
    return rows


@settings(max_examples=60, deadline=None)
@given(LAUNCHES, st.randoms(use_true_random=False), st.integers(1, 5))
def test_rows_merge_in_any_order_and_grouping(launches, draw, groups) -> None:
    at_once = summed(totals(launches))
    draw.shuffle(launches)
    parts = [Production([], [], list(summed(totals(launches[i::groups])).values()), []) for i in range(groups)]
    merged = {total.what: total for total in together(parts).totals}
    assert merged == at_once and all(total.is_sound() for total in merged.values())
    assert sum(t.weighted_launches for t in merged.values()) == sum(weight for _, _, weight, _ in launches)


def test_weights_are_sums_and_no_averages() -> None:
    """A launch of 10 ns that stands for 9, one of 1000 ns for itself: 1090 ns, not the mean weight's 5,050."""
    one, two = LaunchTotal(KEYS[0]), LaunchTotal(KEYS[0])
    one.launch(10, 9.0)
    two.launch(1000, 1.0)
    one.add(two)
    assert (one.weighted_ns, one.weighted_launches, one.sum_ns, one.launches) == (1090, 10, 1010, 2)


def test_what_is_too_small_to_be_kept_stays_in_the_sums() -> None:
    rows = totals([(key, 10 + i, 1.0, 0) for i, key in enumerate(KEYS)])
    few = kept(summed(rows), 3)
    assert [t.what for t in few[:3]] == KEYS[:-4:-1] and {t.what.kernel for t in few[3:]} == {OTHER}
    assert sum(t.sum_ns for t in few) == sum(t.sum_ns for t in rows)


def production() -> Production:
    what = Launch("k", grid=(1, 2, 3), collective=Collective("allreduce", "Float", 7, 2, "0"), phase="## forward ##")
    row = LaunchTotal(what)
    row.launch(17, 2.0, 28)
    fact = Fact("idle", "nothing ran for 5 ns", 0, "0", "", {"idle_ns": 5.0}, [Evidence("k", 3, 17)])
    return Production(
        [Source("t.json", "kineto", 5, 4, 3, 2, 1, ["note"])], [DeviceTime(0, "0", "H200", 1, 9)], [row], [fact]
    )


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    write(tmp_path / "a.production", production())
    assert read(tmp_path / "a.production") == production()


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda text: text[:-1], "line 5 is cut short"),
        (lambda text: text[:-30] + "\n", "line 5: damaged"),
        (lambda text: "", "no file of gpusim production"),
        (lambda text: "\0" * 10, "no file of gpusim production"),
        (lambda text: text.replace('"version":1', '"version":2'), "version 2"),
        (lambda text: text.replace('"timed":1', '"timed":2'), "line 5: counts that contradict each other"),
        (lambda text: text.replace('"grid":[1,2,3]', '"grid":[1,2,-3]'), "line 5: damaged"),
        (lambda text: text.replace('"sum_ns":17', '"sum_ns":"17"'), "line 5: damaged"),
        (lambda text: text + text.splitlines()[-1] + "\n", "stands there twice"),
        (lambda text: text + '{"type":"source","name":"' + "n" * (1 << 20) + '"}\n', "is longer than"),
        (lambda text: text + "[" * 100_000 + "\n", "damaged"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(tmp_path: Path, change, message: str) -> None:
    path = tmp_path / "a.production"
    write(path, production())
    path.write_text(change(path.read_text()))
    with pytest.raises(ProductionError, match=message):
        read(path)
