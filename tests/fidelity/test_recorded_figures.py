"""Do the figures that the pages show of a set follow from the rows that its intervals are made from?

Two files are written by two commands (`tools/validate.py --record`, `tools/record_validation.py --run`): one without
the other would let the README state what the model no longer says.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tools.validation.residuals import load_residuals

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "traces" / "external" / "results.json"
BORROWED = ROOT / "gpusim" / "tile" / "other_figures_errors.json"


def _halves() -> dict[tuple[str, str], list[float]]:
    errors = defaultdict(list)
    for row in load_residuals():
        errors[row.source, row.half].append(100 * (row.time_ratio - 1))
    return dict(errors)


def _summaries() -> list[dict]:
    return [each for each in json.loads(RESULTS.read_text())["summaries"] if each["half"] != "both" and each["rows"]]


def test_the_mean_error_that_is_shown_of_a_set_is_that_of_its_recorded_rows() -> None:
    recorded, wrong, compared = _halves(), [], 0
    for shown in _summaries():
        errors = recorded.get((shown["set"], shown["half"]), [])
        if not errors:  # a sample of a set that was never recorded as a whole
            continue
        compared += 1
        mean = sum(map(abs, errors)) / len(errors)
        same = shown["mape_percent"] == pytest.approx(mean, abs=0.05)  # ratios are kept to five places
        if not same or len(errors) != shown["rows"]:
            wrong.append(
                f"{shown['set']} {shown['half']}: {shown['mape_percent']:.2f} of {shown['rows']} rows shown, {mean:.2f} of {len(errors)} recorded"
            )
    assert compared > 20
    assert not wrong, "; ".join(wrong) + ": tools/validate.py SET --rows 64 --final --record"


def test_errors_of_borrowed_figures_are_kept_once() -> None:
    rows = json.loads(BORROWED.read_text())["errors"]
    counted = Counter((row["operator"], row["gpu"], row["figures"]) for row in rows)
    assert [each for each, count in counted.items() if count > 1] == []
