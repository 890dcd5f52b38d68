"""Does whatever is wrong in a value from outside get one line with its place, what was expected and what was found?"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.errors import ResultFileError
from gpusim.io.records import Count, Finite, Scalar, as_record, parse_record, read_json


@dataclass(frozen=True)
class Inner:
    median: float
    names: tuple[str, ...] = ()


Table = TypedDict("Table", {"a.b": list[Finite], "a": NotRequired[int], "deep": NotRequired[dict[str, dict[str, int]]]})


@dataclass(frozen=True)
class Record:
    kernel: str
    launch: Count = 0
    grid: tuple[int, int, int] | None = None
    inner: Inner | None = None
    shape: Mapping[str, Scalar] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"kernel": 3}, "kernel should be a text, not 3"),
        ({"launch": True}, "launch should be a whole number, not True"),
        ({"launch": -1}, "launch should be a whole number of at least 0, not -1"),
        ({"launch": 1.0}, "launch should be a whole number, not 1.0"),
        ({"grid": [1, 2]}, "grid should be a list of length 3, not [1, 2]"),
        ({"grid": [1, 2, "3"]}, "grid[2] should be a whole number, not '3'"),
        ({"inner": {}}, "inner lacks 'median'"),
        ({"inner": {"median": 1, "names": ["a", None]}}, "inner.names[1] should be a text, not None"),
        ({"shape": {"m": 1, "n": []}}, "shape.n should be true or false or a whole number or a number or a text, not []"),
        ({"shape": [1]}, "shape should be an object, not [1]"),
        ({"shape": {"m": 1, "a\nb\ud800": None}}, r"shape['a\nb\ud800'] should be"),
        ({"tables": [{"a.b": []}, {"a.b": [1, "x"]}]}, "tables[1].a.b[1] should be a number, not 'x'"),
        ({"tables": [{"a.b": [float("nan")]}]}, "tables[0].a.b[0] should be a finite number, not nan"),
        ({"tables": [{"a.b": [10**400]}]}, "tables[0].a.b[0] cannot be 1000000"),
        ({"tables": [{"a.b": [], "a": "x"}]}, "tables[0].a should be a whole number, not 'x'"),
        ({"tables": [{"a": 1}]}, "tables[0] lacks 'a.b'"),
        ({"tables": [{"a.b": [], "deep": {"x": {"y": 1}, "x.z": {"y": 1, "[3]": "no"}}}]}, "tables[0].deep.x.z.[3] should be a whole number, not 'no'"),
        ({"shape": {3: 4}}, "shape has a key that is no text"),
        ({"colour": 1, "taste": 2}, "unknown keys 'colour', 'taste'"),
    ],
)  # fmt: skip
def test_a_complaint_names_place_expectation_and_value(changes: dict, complaint: str) -> None:
    with pytest.raises(ResultFileError) as caught:
        as_record(Record, {"kernel": "k", **changes}, "r.json", ResultFileError, closed=True)
    assert str(caught.value).startswith(f"r.json: {complaint}") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"[1]", "it should be an object, not [1]"),
        (b'{"kernel": NaN}', "not JSON"),
        (b'{"kernel": "\xff"}', "not JSON"),
        (b"[" * 100_000, "not JSON: nested too deeply"),
        (b'{"kernel": "k", "shape": {"m": ' + b"[" * 100_000, "not JSON"),
        (b'{"kernel": "k", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not JSON: nested too deeply"),
        (b"", "not JSON"),
        (b'{"kernel": 1e999}', "not JSON: number out of range"),
    ],
)
def test_what_is_no_json_is_refused(text: bytes, complaint: str) -> None:
    with pytest.raises(ResultFileError) as caught:
        parse_record(Record, text, "r.json", ResultFileError)
    assert f"r.json: {complaint}".lower() in str(caught.value).lower() and "\n" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            name: JSON | good
            for name, good in {
                "kernel": st.just("k"),
                "grid": st.lists(JSON | st.just(1), min_size=3, max_size=3),
                "inner": st.fixed_dictionaries({"median": JSON | st.just(1)}),
                "shape": st.dictionaries(st.text(max_size=3), JSON, max_size=3),
                "tables": st.lists(
                    st.fixed_dictionaries(
                        {"a.b": st.lists(JSON, max_size=2)},
                        optional={"deep": st.dictionaries(st.text(max_size=3), JSON, max_size=3)},
                    ),
                    max_size=3,
                ),
            }.items()
        },
    )
)
def test_any_value_is_taken_or_refused_in_one_line(value: dict[str, Any]) -> None:
    try:
        as_record(Record, value, "r.json", ResultFileError, closed=True)
    except ResultFileError as error:
        assert "\n" not in str(error) and len(str(error)) < 400


@given(st.text(st.characters(codec=None, categories=None) | st.sampled_from('\\"u\ud83d\ude00\udcff')))
def test_half_of_a_surrogate_pair_is_read_as_what_can_be_printed(text: str) -> None:
    read = read_json(json.dumps({"a": text}))["a"]
    assert read == re.sub(
        "[\ud800-\udfff]", "\ufffd", text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    )
    assert as_record(Record, {"kernel": read}, "r.json", ResultFileError).kernel.encode() is not None
    assert parse_record(Record, json.dumps({"kernel": text}), "r.json", ResultFileError).kernel == read


def test_json_is_read_strictly() -> None:
    assert read_json('{"a": [1, 2.5, null, true, "\\u00e9"]}') == {"a": [1, 2.5, None, True, "é"]}
    for text in ("Infinity", "[1,]", '{"a":1} x', "1e400"):
        with pytest.raises(ValueError):
            read_json(text)
