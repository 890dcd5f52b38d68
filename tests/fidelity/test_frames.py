"""Data frames carry the same numbers as the results that they are made from."""

from __future__ import annotations

import gpusim
from gpusim.compare.error import Row
from gpusim.compare.run import Comparison
from gpusim.report.frames import comparison_frame, launches_frame
from tests.support.trace_examples import example_trace


def test_a_comparison_becomes_one_row_a_point() -> None:
    rows = [Row("g", "s", f"i={i}", "GB/s", 90.0 + i, 100.0) for i in range(3)]
    frame = comparison_frame(Comparison(rows, [], {}))
    assert list(frame.columns) == list(rows[0].record())
    assert frame.error_percent.tolist() == [row.error_percent for row in rows]
    assert len(comparison_frame(Comparison([], [], {}))) == 0


def test_a_result_becomes_one_row_a_launch() -> None:
    trace = example_trace()
    result = gpusim.simulate([trace, trace], "h200")
    frame = launches_frame(result)
    assert frame.cycles.tolist() == [launch.cycles for launch in result.launches]
    assert frame.cycles.sum() == result.cycles
    stalls = frame[[c for c in frame.columns if c.startswith("stall.")]]
    assert stalls.to_numpy().sum() == sum(result.stalls.values())
