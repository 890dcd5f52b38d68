"""Files of expected changes: what they must hold, and how a mistake is named."""

from __future__ import annotations

from datetime import date

import pytest

from gpusim.errors import ExpectationError
from gpusim.watch.alerts.expectations import Expectation, load_expectations


@pytest.mark.parametrize(
    ("text_", "said"),
    [
        ("x", "not TOML"),
        ("a = 1", "[[expect]]"),
        ("expect = 3", "[[expect]]"),
        ("expect = [3]", "expect 1: it should be a table"),
        ("[[expect]]\nkernel = 'k'", "no agreed_by"),
        ("[[expect]]\nagreed_by = 'a'\nuntil = 2027-01-01", "no percent"),
        ("[[expect]]\nagreed_by = 'a'\nuntil = 'soon'\npercent = [1, 2]", "until 'soon' is no date"),
        ("[[expect]]\nagreed_by = ' '\nuntil = 2027-01-01\npercent = [1, 2]", "say who agreed"),
        ("[[expect]]\nagreed_by = 'a'\nuntil = 2027-01-01\npercent = [2, 1]", "at least, at most"),
        ("[[expect]]\nagreed_by = 'a'\nuntil = 2027-01-01\npercent = [-2, 1]", "percent"),
        ("[[expect]]\nagreed_by = 'a'\nuntil = 2027-01-01\npercent = 4", "percent"),
        ("[[expect]]\nagreed_by = 'a'\nuntil = 2027-01-01\npercent = [1, 2]\ncommit = 'HEAD'", "commit 'HEAD'"),
        ("[[expect]]\nagreed_by = 'a'\nuntil = 2027-01-01\npercent = [1, 2]\nkernal = 'x'", "unknown key 'kernal'"),
    ],
)
def test_a_file_that_holds_no_expectations_is_refused_by_place(tmp_path, text_, said) -> None:
    path = tmp_path / "expect.toml"
    path.write_text(text_)
    with pytest.raises(ExpectationError) as caught:
        load_expectations(path)
    assert said in str(caught.value) and str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_expectations_are_read_as_they_are_written(tmp_path) -> None:
    path = tmp_path / "expect.toml"
    path.write_text("[[expect]]\nkernel = 'softmax*'\npercent = [2, 5]\nagreed_by = 'Ada'\nuntil = 2027-03-31\n")
    (rule,) = load_expectations(path)
    assert rule == Expectation("Ada", "2027-03-31", kernel="softmax*", percent=(2.0, 5.0))
    assert rule.ended(date(2027, 4, 1)) and not rule.ended(date(2027, 3, 31))
