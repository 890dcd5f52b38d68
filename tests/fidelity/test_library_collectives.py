"""Projected collectives beside a sample of measured ones (traces/library/collectives)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("gpu", ["a100_80gb", "h100"])
def test_collectives_are_as_far_off_as_the_pages_say(gpu: str) -> None:
    spec = importlib.util.spec_from_file_location("collective_error", ROOT / "tools" / "collective_error.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    for final in (False, True):
        rows = tool.measured(ROOT / "traces" / "library" / "collectives", gpu, final)
        off = tool.errors(gpu, rows)
        assert len(rows) > 20
        assert np.abs(off).mean() < 0.1
        assert np.abs(off[(rows.library == "custom").to_numpy()]).mean() < 0.06
