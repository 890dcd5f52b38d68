"""A measured row survives its JSON form, and nothing that cannot be a measurement becomes a row."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.errors import MeasurementFormatError
from gpusim.silicon.row import METHODS, Estimate, SiliconRow

amounts = st.floats(0, 1e15, allow_nan=False)
estimates = st.lists(amounts, min_size=3, max_size=3).map(sorted).map(lambda v: Estimate(v[1], v[0], v[2]))
sides = st.integers(1, 2**31 - 1)
rows = st.builds(
    SiliconRow,
    kernel=st.text(min_size=1),
    shape=st.text(),
    launch=st.integers(0, 9),
    grid=st.none() | st.tuples(sides, sides, sides),
    sm_clock_mhz=st.none() | amounts,
    method=st.sampled_from(METHODS),
    cache=st.sampled_from(("cold", "warm", "")),
    n=st.integers(1, 99),
    cycles=st.none() | estimates,
    samples_us=st.lists(amounts).map(tuple),
    counters=st.dictionaries(st.text(), amounts),
    flags=st.lists(st.text()).map(tuple),
)


@given(rows)
def test_a_row_survives_its_json_form(row: SiliconRow) -> None:
    assert SiliconRow.from_json(row.to_json()) == row


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"method": "stopwatch"}, "method"),
        ({"cache": "lukewarm"}, "cache"),
        ({"n": 0}, "n=0"),
        ({"n": True}, "n"),
        ({"kernel": ""}, "kernel"),
        ({"grid": [1, 2]}, "grid"),
        ({"cycles": {"median": 1, "low": 2, "high": 3}}, "interval"),
        ({"cycles": {"median": "1", "low": 0, "high": 3}}, "cycles"),
        ({"samples_us": [float("inf")]}, "finite"),
        ({"counters": {"a": None}}, "counters"),
        ({"counters": [1]}, "counters"),
        ({"speed": 1}, "speed"),
    ],
)
def test_what_cannot_be_a_measurement_is_refused_by_name(change: dict, named: str) -> None:
    values = {**json.loads(SiliconRow(kernel="saxpy").to_json()), **change}
    with pytest.raises(MeasurementFormatError, match=named):
        SiliconRow.from_mapping(values)


@pytest.mark.parametrize("text", ["", "[]", "7", "{", '{"shape": ""}'])
def test_json_that_is_no_row_is_refused(text: str) -> None:
    with pytest.raises(MeasurementFormatError):
        SiliconRow.from_json(text)
