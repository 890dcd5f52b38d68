"""Runs of experts whose tiles may be another run's are found by what their collector kept, runs that took longer than
more work by measured times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from operators.tuned_runs import over_more_work, untuned


def _rows(slow_ep: int = 0, times: float = 1.0, **columns: Any) -> pd.DataFrame:
    rows = [
        {"hidden_size": 4096, "inter_size": 2048, "topk": 8, "num_experts": 64, "moe_tp_size": tp, "moe_ep_size": ep, "distribution": "balanced", "framework": "trtllm",
         "moe_dtype": "fp8", "kernel_source": "a", "num_tokens": tokens, "version": "1.3.0", "us": (20.0 + tokens / 8 / tp / ep) * (times if ep == slow_ep else 1.0)}
        for tp in (1, 2) for ep in (1, 2, 4) for tokens in (1, 16, 256, 2048)
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(**columns)


def test_no_run_takes_longer_than_more_work_where_that_takes_no_less():
    assert np.nanmax(over_more_work(_rows())) <= 1.0
    assert np.nanmax(over_more_work(_rows(slow_ep=4, times=3.0))) > 2.0


def test_what_another_version_took_says_nothing():
    rows = _rows(slow_ep=4, times=3.0)
    rows.loc[rows.moe_ep_size == 4, "version"] = "2"
    assert np.nanmax(over_more_work(rows)) <= 1.0


def test_a_run_whose_file_is_its_own_has_its_own_tiles():
    rows = _rows()
    assert not untuned(rows, rows).any()
    # Other distributions and numbers of tokens of the same run are tuned alike.
    assert not untuned(rows, pd.concat([rows, rows.assign(distribution="power_law_1.2", num_tokens=3)])).any()


def test_a_run_that_finds_another_networks_file_may_have_its_tiles():
    rows = _rows()
    # Half of 4,096 columns is 2,048, and half of 128 experts is 64: one GPU's part of either network has the same name,
    # and is looked up by other shares.
    other = _rows(inter_size=4096, num_experts=128)
    found = untuned(rows, pd.concat([rows, other]))
    own = (64 // rows.moe_ep_size, 2048 // rows.moe_tp_size)
    named = set(zip(128 // other.moe_ep_size, 4096 // other.moe_tp_size, strict=True))
    assert found.any() and not found.all()
    assert list(found) == [each in named for each in zip(*own, strict=True)]


def test_a_name_that_begins_with_a_runs_own_is_found_too():
    one = _rows(num_experts=4)
    # One expert a GPU finds what was tuned for 16.
    found = untuned(one, pd.concat([one, _rows(num_experts=16)]))
    assert list(found) == list(one.moe_ep_size.isin([1, 4]))


def test_versions_that_tune_every_run_and_formats_that_are_not_tuned_are_left_alone():
    each: list[dict[str, Any]] = [{"version": "1.0.0"}, {"moe_dtype": "fp8_block"}, {"framework": "vllm"}]
    for columns in each:
        rows = _rows(**columns)
        assert not untuned(rows, pd.concat([rows, _rows(inter_size=4096, num_experts=128, **columns)])).any()
