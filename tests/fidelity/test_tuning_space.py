"""Which configurations does a search count, what may restrictions and metrics be, and what is told of those that are
neither?"""

from __future__ import annotations

from typing import Any

import pytest

from gpusim.cases.formulas import Formula
from gpusim.errors import UsageError
from gpusim.search.found import Tuned
from gpusim.search.kept import Predicted
from gpusim.search.space import configurations

SPACE = {"block_x": [32, 64, 128], "block_y": [1, 8, 16], "tile": ["a", "b"]}


def case(block_x: int, block_y: int, tile: str) -> Any: ...


@pytest.mark.parametrize(
    "restrict",
    [
        "block_x * block_y <= 512 and tile == 'a'",
        ["block_x*block_y<=512", "tile in ('a', 'c')"],
        lambda block_x, block_y, tile: block_x * block_y <= 512 and tile == "a",
        lambda p: p["block_x"] * p["block_y"] <= 512 and p["tile"] == "a",
        lambda **p: p["block_x"] * p["block_y"] <= 512 and p["tile"] == "a",
        [lambda block_x, block_y: block_x * block_y <= 512, lambda tile: tile != "b"],
    ],
)
def test_restrictions_are_written_as_for_an_autotuner(restrict: Any) -> None:
    found = configurations(case, "case", SPACE, restrict)
    assert found == [
        {"block_x": x, "block_y": y, "tile": "a"} for x in (32, 64, 128) for y in (1, 8, 16) if x * y <= 512
    ]


@pytest.mark.parametrize(
    ("restrict", "told"),
    [
        ("block_z < 3", "names block_z, which is no parameter; did you mean block_x"),
        ("block_x <", "is no formula"),
        ("__import__('os').system('true')", "calls something other than abs"),
        ("block_x.real > 3", "block_x.real is not taken"),
        ("block_x ** block_x ** block_x > 1", "too large"),
        ("block_x % (block_y - 1) == 0", "cannot be computed of block_x=32, block_y=1"),
        ("tile * 10 == 'a'", "'a' is no number"),
        (lambda block_x, block_z: True, "takes block_z, which is no parameter"),
        (17, "a restriction is a function of a configuration or a formula, not 17"),
        ("block_x > 1024", "of 18 configurations none is left by restrict"),
    ],
)
def test_what_is_no_restriction_is_told(restrict: Any, told: str) -> None:
    with pytest.raises(UsageError, match=None) as raised:
        configurations(case, "case", SPACE, [restrict])
    assert told in str(raised.value)


def test_spaces_that_are_written_wrong_are_told_and_values_count_once() -> None:
    with pytest.raises(UsageError, match="block_x has 32, which is no list of values"):
        configurations(case, "case", {"block_x": 32}, None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="case has no parameter block; did you mean block_x"):
        configurations(case, "case", {"block": [32]}, None)
    repeated = {"block_x": [32, 32], "block_y": [1], "tile": ["a", "a"]}
    assert configurations(case, "case", repeated, None) == [{"block_x": 32, "block_y": 1, "tile": "a"}]


def test_formulas_compute_as_python_does() -> None:
    values = {"a": 7, "b": 2, "c": 0}
    for text in ("a / b", "a // b", "-a % b", "a ** b", "a if b > 1 else c", "c or a", "c and a", "not c", "1 < b < a"):
        assert Formula(text)(values) == eval(text, {}, values)  # the formulas above
    assert Formula("cdiv(a, b) + max(a, b) - min(a, 1)")(values) == 10


def test_a_formula_may_name_axes_that_stay():
    traffic = Formula("8 * n / time", {"n": 3})
    assert traffic({"time": 4}) == 6 and traffic.names == ("time",)
    with pytest.raises(UsageError, match="names tile"):
        Formula("n * tile", {"n": 3}).refuse_unknown(["block"])


def test_metrics_stand_beside_the_best_and_may_use_earlier_ones() -> None:
    rows = (Predicted({"n": 1000}, 2.0, "exact"), Predicted({"n": 10}, None, "coarse", "it does not fit"))
    metrics = {"gflops": "2 * n / time / 1e6", "share": lambda p: p["gflops"] / 10}
    found = Tuned("t4", "case", rows, (), metrics=metrics)
    assert found.measures(rows[0]) == {"gflops": 1.0, "share": 0.1} and found.measures(rows[1]) == {}
    assert "(predicted, gflops 1, share 0.1)" in str(found) and "left out: 1 with it does not fit" in str(found)
