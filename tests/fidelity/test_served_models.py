"""Projected servers against throughputs that others published: a few rows of tools/serving_error.py, which nothing was
fitted to."""

from __future__ import annotations

import pandas as pd
import pytest

from gpusim.project.prices import Prices
from tools.serving_error import ROWS, errors


@pytest.fixture(scope="module")
def machines() -> dict[str, Prices]:
    return {}


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("gpu", "model", "sequence", "output"),
    [
        ("h200", "llama3_70b", 2048, 2048),
        ("b200", "llama3_70b", 2048, 2048),
        ("h100", "llama3_405b", 1000, 1000),
    ],
)
def test_a_published_throughput_lies_within_the_interval(
    machines: dict[str, Prices], gpu: str, model: str, sequence: int, output: int
) -> None:
    rows = pd.read_csv(ROWS, keep_default_na=False)
    rows = rows[(rows.gpu == gpu) & (rows.model == model) & (rows.sequence == sequence) & (rows.output == output)]
    found = errors(rows, machines)
    assert len(found) == 1 and found.inside.all()
    assert found.error_percent.abs().max() < 15


def test_every_row_is_of_a_gpu_and_a_network_that_are_known() -> None:
    rows = pd.read_csv(ROWS, keep_default_na=False)
    assert len(rows) == 284
    assert (rows.gpus == rows.tp * rows.pp * rows.dp).all()
    assert (rows.tokens_per_s_per_gpu > 0).all()
    assert not rows.duplicated(["source", "gpu", "gpus", "model", "sequence", "output"]).any()
