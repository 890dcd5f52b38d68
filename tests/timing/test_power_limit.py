"""Is a launch simulated at the highest clock at which its mean power stays within the limit?"""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import gpusim
from gpusim.engine.result import Result
from gpusim.errors import SpecError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.report.power import each_within_power, over_the_boards_limit, within_power
from gpusim.report.simulation import simulation_text

pytestmark = pytest.mark.usefixtures("without_source_lines")
#: Of a whole GPU, of which four of 132 SMs are busy.
STATIC_WATTS = 120.0


@cuda.jit
def work(out, rounds):
    value = out[cuda.threadIdx.x]
    for _ in range(rounds):
        value = value * np.float32(1.5) + np.float32(0.25)
    out[cuda.threadIdx.x] = value


@pytest.fixture(scope="module")
def trace() -> gpusim.Trace:
    return gpusim.capture(work, 4, 256, (np.ones(256, np.float32), np.int32(200)), gpu="h200")


def test_a_limit_that_is_not_reached_changes_nothing(trace: gpusim.Trace) -> None:
    tried: list[GpuSpec] = []

    def simulate(spec: GpuSpec) -> Result:
        tried.append(spec)
        return gpusim.simulate(trace, spec)

    spec = load_gpu("h200")
    held = within_power(simulate, spec)
    assert tried == [spec] and held.clock_share == 1.0 and held.watts == held.described_watts
    assert STATIC_WATTS < held.watts < 700.0


def test_a_limit_that_is_reached_is_held_at_a_lower_clock(trace: gpusim.Trace) -> None:
    spec = load_gpu("h200")
    free = within_power(lambda at: gpusim.simulate(trace, at), spec)
    limit = STATIC_WATTS + 0.6 * (free.watts - STATIC_WATTS)
    held = within_power(lambda at: gpusim.simulate(trace, at), spec, limit)
    assert held.watts == pytest.approx(limit, rel=0.02)
    assert held.described_watts == free.watts
    assert held.result.clock_hz == pytest.approx(held.clock_share * spec.clock_hz)
    # Power goes with the clock to the power 2.5 where SMs bound the launch.
    assert held.clock_share == pytest.approx(0.6**0.4, rel=0.05)
    assert held.result.time_us > free.result.time_us


def test_what_a_board_may_not_take_for_long_is_said_with_the_clock_that_it_would_hold(trace: gpusim.Trace) -> None:
    spec = load_gpu("h200")
    free = within_power(lambda at: gpusim.simulate(trace, at), spec)
    assert over_the_boards_limit(free.result) == ""
    watts = STATIC_WATTS + 0.6 * (free.watts - STATIC_WATTS)
    small = gpusim.simulate(trace, override_gpu(spec, [f"board.power_limit_watts={watts}"]))
    said = over_the_boards_limit(small)
    assert f"over the board's {watts:.0f} W" in said
    megahertz = float(said.partition("about ")[2].split()[0])
    assert megahertz == pytest.approx(0.6**0.4 * spec.clock_hz / 1e6, rel=0.01)
    assert f"power     {said}" in simulation_text(small, "table", power=said)
    assert "over the board" not in simulation_text(free.result, "table")


def test_a_limit_below_what_idles_is_refused(trace: gpusim.Trace) -> None:
    with pytest.raises(SpecError, match="not above"):
        within_power(lambda at: gpusim.simulate(trace, at), load_gpu("h200"), 50.0)


def test_gaps_count_and_launches_share_a_clock_or_have_their_own(trace: gpusim.Trace) -> None:
    spec = load_gpu("h200")

    def simulate(at: GpuSpec) -> Result:
        return gpusim.simulate([trace, trace], at)

    free = within_power(simulate, spec)
    limit = STATIC_WATTS + 0.6 * (free.watts - STATIC_WATTS)
    slowed = within_power(simulate, spec, limit)
    gap_seconds = 1e-6 * free.result.time_us / 2
    assert slowed.clock_share < 0.9 < within_power(simulate, spec, limit, gap_seconds).clock_share
    apart = each_within_power(simulate, spec, limit)
    assert [len(each.result.launches) for each in apart] == [1, 1]
    # The second finds its code and data in the caches: it takes more power, and gets a lower clock.
    assert apart[1].described_watts > apart[0].described_watts and apart[1].clock_share < apart[0].clock_share
