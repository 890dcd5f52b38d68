"""Energies beside measured board power: a sample of products and attention on a B200, those that set nothing
(tools/energy_error.py)."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from energy_error import Row, errors, measured_rows
from power_readings import contradicted, settled

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "traces" / "library" / "power_sample.csv"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return measured_rows(SAMPLE, True, 20)[0]


@pytest.mark.parametrize(("kind", "most"), [("product", 0.12), ("context", 0.18), ("generation", 0.22)])
def test_energy_given_the_latency_is_near_the_measured_one(rows: list[Row], kind: str, most: float) -> None:
    found = np.abs(errors([row for row in rows if row.kind == kind], False))
    assert len(found) >= 15
    assert found.mean() < most


def test_rows_that_sampling_cannot_resolve_are_left_out_with_the_reason(tmp_path: Path) -> None:
    with SAMPLE.open(encoding="utf-8", newline="") as lines:
        known = list(csv.DictReader(lines))
    short = tmp_path / "short.csv"
    with short.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, known[0])
        writer.writeheader()
        writer.writerows(row | {"est_run_ms": "50"} for row in known if row["kind"] == "context")
    found, left_out = measured_rows(short, True, 20)
    assert not found
    assert left_out[0]["rows"] == left_out[0]["of"] == 80 and "0.9 s" in str(left_out[0]["left_out"])


def test_a_reading_that_still_rises_with_the_length_of_the_run_is_told_from_one_that_has_settled() -> None:
    """Runs of 0.5 and 1 s at one rate: half as much and as much as in the long ones, and columns of which no shorter
    run is known."""
    rows = [("low", 64, 500.0, 400.0), ("low", 128, 1000.0, 600.0), ("high", 64, 500.0, 980.0), ("high", 128, 1000.0, 985.0), ("alone", 128, 1000.0, 700.0)]  # fmt: skip
    columns = {"low": 1024, "high": 2048, "alone": 4096}
    table = pd.DataFrame(
        [
            {"framework": "vllm", "gemm_dtype": "fp8_block", "m": 256, "n": columns[name], "k": k, "latency_ms": k * columns[name] / 1e6, "est_run_ms": run, "power_w": watts}
            for name, k, run, watts in rows
        ]
    )  # fmt: skip
    assert list(settled(table)) == [False, False, True, True, False]


def test_a_reading_below_those_of_launches_that_do_no_more_is_contradicted() -> None:
    rates = pd.Series([10.0, 11.0, 12.0, 13.0, 14.0, 100.0, 100.0])
    watts = pd.Series([600.0, 610.0, 605.0, 600.0, 610.0, 500.0, 900.0])
    kernels = pd.Series(["one"] * 7)
    assert list(contradicted(watts, [rates, rates], [kernels])) == [False] * 5 + [True, False]
    assert not contradicted(watts, [rates, -rates], [kernels]).any(), (
        "what does more of one and less of another tells nothing"
    )
    assert not contradicted(watts, [rates], [pd.Series(list("abcdefg"))]).any(), "nor do other kernels"
