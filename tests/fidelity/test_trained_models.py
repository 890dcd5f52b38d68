"""Projected training steps against what others published: a few rows of tools/model_error.py, which nothing was fitted
to."""

from __future__ import annotations

import pandas as pd
import pytest

from tools.model_error import ROWS, errors


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("source", "model", "recompute", "most_percent"),
    [
        ("megatron-2205.05198", "gpt_22b", "selective", 5),
        ("megatron-2205.05198", "gpt_175b", "full", 5),
        ("nemo-24.07", "llama2_70b", "none", 8),
        ("megatron-bridge-26.02", "llama3_405b", "none", 10),
    ],
)
def test_a_published_training_step_is_projected(source: str, model: str, recompute: str, most_percent: float) -> None:
    rows = pd.read_csv(ROWS)
    rows = rows.loc[(rows.source == source) & (rows.model == model) & (rows.recompute == recompute)]
    found = errors(rows)
    assert len(found) == 1 and found.inside.all()
    assert found.error_percent.abs().max() < most_percent
