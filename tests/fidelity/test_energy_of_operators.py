"""Energies beside measured board power: a sample of products and attention on a B200, those that set nothing (tools/energy_error.py)."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from energy_error import Row, errors, measured_rows

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
