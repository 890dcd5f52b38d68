"""What tests of the search share."""

from __future__ import annotations

import pytest

from gpusim.explore import report_findings, search


@pytest.fixture
def small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search draws a quarter of the shapes for each that it runs: drawing takes most of a short search's time, and
    how well it is steered is not what these tests ask."""
    monkeypatch.setattr(search, "POOL", search.POOL // 4)
    monkeypatch.setattr(search, "ROUND_DRAWS", search.ROUND_DRAWS // 4)


@pytest.fixture
def one_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a kernel's divergences only the worst is made small, where each step is a simulation."""
    monkeypatch.setattr(report_findings, "MOST_FINDINGS", 1)
