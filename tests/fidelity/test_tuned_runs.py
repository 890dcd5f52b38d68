"""Runs of experts that nothing tuned are found by measured times alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
from operators.tuned_runs import over_more_work, untuned


def _rows(slow_ep: int = 0, times: float = 1.0) -> pd.DataFrame:
    rows = [
        {"hidden_size": 4096, "inter_size": 2048, "topk": 8, "num_experts": 64, "moe_tp_size": tp, "moe_ep_size": ep, "distribution": "balanced",
         "num_tokens": tokens, "version": "1", "us": (20.0 + tokens / 8 / tp / ep) * (times if ep == slow_ep else 1.0)}
        for tp in (1, 2) for ep in (1, 2, 4) for tokens in (1, 16, 256, 2048)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_no_run_is_untuned_where_more_work_takes_no_less():
    rows = _rows()
    assert np.nanmax(over_more_work(rows)) <= 1.0
    assert not untuned(rows).any()


def test_a_run_that_takes_longer_than_more_work_is_untuned_and_no_other():
    rows = _rows(slow_ep=4, times=3.0)
    assert (untuned(rows) == (rows.moe_ep_size == 4)).all()


def test_a_little_longer_and_a_single_row_are_no_untuned_runs():
    assert not untuned(_rows(slow_ep=4, times=1.4)).any()
    rows = pd.concat([_rows(), _rows().assign(num_tokens=lambda rows: rows.num_tokens + 1)], ignore_index=True)
    rows.loc[(rows.moe_ep_size == 4) & (rows.num_tokens == 16) & (rows.moe_tp_size == 1), "us"] *= 3.0
    assert not untuned(rows).any()


def test_what_another_version_took_says_nothing():
    rows = _rows(slow_ep=4, times=3.0)
    rows.loc[rows.moe_ep_size == 4, "version"] = "2"
    assert not untuned(rows).any()
