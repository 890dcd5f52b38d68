"""Do launches that follow each other share the clock at which their mean power meets the limit?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.energy.figures import figures_for
from gpusim.energy.shared_clock import CONTROL_SECONDS, Work, idle, mean_watts, shared_clock, shares
from gpusim.errors import SpecError
from gpusim.gpus.load import load_gpu

SPEC = load_gpu("h800")
FIGURES = figures_for(SPEC)
STATIC_WATTS = FIGURES.constant_watts + FIGURES.leakage_watts


def launch(seconds: float, watts: float, of_dram: float = 0.0) -> Work:
    """Bound by SMs, with so much dynamic power beyond that of busy SMs at the described clock; ``of_dram``: by DRAM
    instead, with so much."""
    return Work(lambda share: seconds if of_dram else seconds / share, watts * seconds, of_dram * seconds)


HOT, COOL = launch(1e-3, 900.0), launch(1e-3, 0.0, 100.0)


def test_the_mean_of_a_loop_is_its_joules_over_its_time() -> None:
    watts = mean_watts(SPEC, [HOT, COOL, idle(2e-3)])
    assert watts == pytest.approx(STATIC_WATTS + (2 * FIGURES.busy_watts + 900.0 + 100.0) / 4)


def test_a_launch_keeps_the_clock_that_its_neighbours_average_down() -> None:
    alone, among_others = shared_clock(SPEC, [HOT]), shared_clock(SPEC, [HOT, COOL, idle(1e-3)])
    assert alone.described_watts > 700.0 > among_others.described_watts
    assert alone.share < 0.95 and among_others.share == 1.0
    assert alone.watts == pytest.approx(700.0, rel=0.01)
    # Power goes with the clock to its exponent where SMs bound all.
    assert alone.share == pytest.approx(((700.0 - STATIC_WATTS) / (900.0 + FIGURES.busy_watts)) ** (1 / FIGURES.clock_exponent), rel=0.01)  # fmt: skip


def test_a_cool_launch_runs_as_slowly_as_its_neighbours() -> None:
    assert shares(SPEC, [HOT, HOT, HOT, COOL]) == (shared_clock(SPEC, [HOT, HOT, HOT, COOL]).share,) * 4
    apart = shares(SPEC, [HOT, COOL], interval_seconds=0.0)
    assert apart[0] == shared_clock(SPEC, [HOT]).share and apart[1] == 1.0


def test_what_lasts_longer_than_the_control_takes_has_its_own_clock() -> None:
    long = launch(2 * CONTROL_SECONDS, 900.0)
    found = shares(SPEC, [long, COOL])
    assert found == (shared_clock(SPEC, [long]).share, 1.0)


@given(st.lists(st.tuples(st.floats(1e-6, 1e-2), st.floats(0.0, 2000.0), st.booleans()), min_size=1, max_size=6))
def test_the_shared_clock_lies_between_those_of_its_launches(drawn: list[tuple[float, float, bool]]) -> None:
    works = [launch(seconds, 0.0, watts + 1.0) if dram else launch(seconds, watts) for seconds, watts, dram in drawn]
    together = shared_clock(SPEC, works)
    each = [shared_clock(SPEC, [work]).share for work in works]
    assert min(each) - 1e-3 <= together.share <= max(each) + 1e-3
    assert together.watts <= max(700.0, mean_watts(SPEC, works, 0.106)) + 1e-6


def test_an_impossible_gap_and_no_time_are_refused() -> None:
    with pytest.raises(SpecError, match="gap"):
        idle(-1.0)
    with pytest.raises(SpecError, match="no time"):
        mean_watts(SPEC, [idle(0.0)])
