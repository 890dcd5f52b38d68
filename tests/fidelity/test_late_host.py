"""Which rows of tables that are measured cold are of a host that came late: by hand-made tables, and as the stored ones
are marked."""

from __future__ import annotations

import csv

import pytest
from validation.late_host import LADDERS, Ladder, late_rows, lateness_us
from validation.sets import FOLDER, load_sets

LADDER = Ladder(("gpu",), ("kernel",), ("rows", "columns"), "settled")


def row(us: float, columns: int, gpu: str = "t4", kernel: str = "sum", noise: str = "") -> dict[str, str]:
    return {
        "gpu": gpu, "kernel": kernel, "rows": "2", "columns": f"{columns}", "measured_us": f"{us}", "noise_percent": noise,
    }  # fmt: skip


def test_a_launch_that_took_longer_than_a_larger_one_shows_by_how_much_its_host_was_late() -> None:
    table = [row(6.0, 1), row(5.0, 2), row(9.0, 4), row(20.0, 8)]
    assert lateness_us(table, LADDER) == pytest.approx(1.0)
    # A microsecond is more than a tenth of all but the last.
    assert late_rows(table, LADDER) == [True, True, True, False]
    assert late_rows(table[1:], LADDER) == [False] * 3
    # Another kernel is no larger launch of this one; its host is the same. Another host is another.
    other = [row(4.0, 8, kernel="copy"), row(4.0, 8, gpu="v100")]
    assert late_rows([*table[1:], *other], LADDER) == [False] * 5
    assert late_rows([*table, *other], LADDER) == [True, True, True, False, True, False]


def test_launches_of_one_size_show_nothing_of_the_host_and_repeats_that_scatter_do() -> None:
    assert lateness_us([row(6.0, 2), row(5.0, 2)], LADDER) == lateness_us([], LADDER) == 0
    assert late_rows([row(6.0, 1, noise="5.1"), row(7.0, 2, noise="4.9")], LADDER) == [True, False]


@pytest.mark.parametrize("name", LADDERS)
def test_stored_tables_are_marked_as_the_rule_says(name: str) -> None:
    ladder, (known,) = LADDERS[name], load_sets([name])
    with (FOLDER / known.entry["file"]).open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    late = late_rows(rows, ladder)
    counts = known.entry["where"][ladder.column]
    assert any(late)
    for each, is_late in zip(rows, late, strict=True):
        assert not is_late or each[ladder.column] != counts, each
        # Whoever is marked as late is so by the rule; other marks have reasons of their own, which the manifest says.
        if each[ladder.column] == ladder.late and name != "gems_h20":
            assert is_late, each
