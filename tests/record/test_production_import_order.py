"""Putting records in order on the disk gives what putting them in order in memory gives."""

from __future__ import annotations

import random
from pathlib import Path

import import_speed
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.production.imports import sorted_records
from gpusim.production.imports.importing import imported
from gpusim.production.imports.sorted_records import SortedRecords

PAIR = np.dtype([("key", "i8"), ("tie", "i8"), ("value", "i8")])


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 3)), max_size=300), st.integers(1, 40), st.booleans())
def test_runs_on_the_disk_are_merged(rows, most: int, singly: bool) -> None:
    records = SortedRecords(PAIR, most)
    whole = np.array([(key, tie, i) for i, (key, tie) in enumerate(rows)], PAIR)
    for begin in range(0, len(rows), 7):
        if singly:
            for row in whole[begin : begin + 7].tolist():
                records.append(row)
        else:
            records.extend(whole[begin : begin + 7])
    found = np.concatenate([np.empty(0, PAIR), *records.batches()])
    assert (np.diff(found["key"]) >= 0).all() and records.count == len(rows)
    assert sorted(found["value"].tolist()) == list(range(len(rows)))


def test_blocks_of_runs_are_read_as_they_are_used() -> None:
    """Runs longer than a block: 1024 rows are read of each at a time."""
    records = SortedRecords(PAIR, 4000)
    keys = np.random.default_rng(3).integers(0, 9999, 30_000)
    for part in np.split(keys, 30):
        block = np.zeros(1000, PAIR)
        block["key"] = part
        records.extend(block)
    batches = list(records.batches())
    assert len(batches) > 3 and np.array_equal(np.concatenate([each["key"] for each in batches]), np.sort(keys))


def test_a_trace_is_the_same_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rank0.json"
    with path.open("w") as stream:
        count = import_speed.write(stream, 400_000, seed=2)
    want = imported([path])
    monkeypatch.setattr(sorted_records, "_TUPLES", 50)
    monkeypatch.setattr(SortedRecords.__init__, "__defaults__", (150,))
    monkeypatch.setattr(sorted_records, "LEAST_BLOCK_ROWS", 16)
    found = imported([path])
    assert found.sources == want.sources and found.sources[0].events == count > 1000
    assert found.devices == want.devices and {t.what: t for t in found.totals} == {t.what: t for t in want.totals}
    assert [fact.numbers for fact in found.facts] == [pytest.approx(fact.numbers) for fact in want.facts]


def test_generated_traces_differ_by_seed() -> None:
    first, second = (list(zip(range(20), import_speed.events(random.Random(seed)))) for seed in (1, 2))
    assert first != second
