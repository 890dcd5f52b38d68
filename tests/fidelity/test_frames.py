"""A data frame carries the same numbers as the result that it is made from."""

from __future__ import annotations

from trace_examples import example_trace

import gpusim


def test_a_result_becomes_one_row_a_launch() -> None:
    trace = example_trace()
    result = gpusim.simulate([trace, trace], "h200")
    frame = gpusim.frame(result)
    assert frame.cycles.tolist() == [launch.cycles for launch in result.launches]
    assert frame.cycles.sum() == result.cycles
    assert (frame.time_us_low < frame.time_us).all() and (frame.time_us < frame.time_us_high).all()
    stalls = frame[[c for c in frame.columns if c.startswith("stall.")]]
    assert stalls.to_numpy().sum() == sum(result.stalls.values())
