"""The clock that a board's power limit leaves exact launches: simulated again at the clock that fits, until what they
take fits.

Mental model: a launch's events take their joules at the described clock and its voltage. At a share s of the clock an
event takes s ** (exponent - 1) of that and the launch lasts longer, so its power goes with s ** exponent where SMs
bound it, and by less where DRAM does, which keeps its nanoseconds: that is why the launch is simulated again. The
figures are :mod:`gpusim.energy`'s, most of them guesses; no exact launch was compared with a measured power. The limit
is taken to be held all the time, as in a loop of launches, and all launches have one clock, as far as they follow each
other within :data:`gpusim.energy.shared_clock.CONTROL_SECONDS`: their mean power counts, gaps between them at what the
GPU takes at rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gpusim.energy.figures import knows_energy
from gpusim.energy.power import power_limit
from gpusim.energy.shared_clock import Work, idle, mean_watts
from gpusim.engine.result import Result
from gpusim.gpus.clock import at_clock
from gpusim.gpus.spec import GpuSpec
from gpusim.report.energy import launch_work

#: A clock fits when the power is this near to the limit; simulations at other clocks than the described one at most.
_NEAR, _TRIES = 0.02, 3


@dataclass(frozen=True)
class Held:
    """``result``: of the launches at the clock that is held; ``clock_share``: that clock over the described one;
    ``watts``: mean power there, and ``described_watts`` at the described clock; ``limit_watts``: what was held, None
    where the board's limit is not known."""

    result: Result
    clock_share: float
    watts: float
    described_watts: float
    limit_watts: float | None

    @property
    def text(self) -> str:
        """What was held, in a line."""
        if self.limit_watts is None:
            return f"power: no limit is known of {self.result.gpu}; the described clock"
        clocks = f"{self.result.clock_hz / 1e6:.0f} of {self.result.clock_hz / self.clock_share / 1e6:.0f} MHz"
        return f"power: {self.watts:.0f} W at {clocks}, {self.described_watts:.0f} W at the described clock, limit {self.limit_watts:.0f} W (guessed energies)"


def within_power(
    simulate: Callable[[GpuSpec], Result], spec: GpuSpec, limit_watts: float | None = None, gap_seconds: float = 0.0,
    beside: Sequence[Work] = (),
) -> Held:  # fmt: skip
    """``simulate``'s launches at the highest clock, the described one at most, at which their mean power, with a gap of
    ``gap_seconds`` behind each and with ``beside``, that runs in turn with them, stays within ``limit_watts``, or the
    board's limit. Raises SpecError for a limit that is not above what the GPU takes at rest, or a generation of which
    no energy is known."""
    result, share = simulate(spec), 1.0
    limit = power_limit(spec, limit_watts)
    if limit is None:
        return Held(result, 1.0, 0.0, 0.0, None)
    around = [*beside, idle(gap_seconds * len(result.launches))]
    described = watts = _watts(result, spec, share, around)
    for _ in range(_TRIES):
        left = (limit.limit_watts - limit.static_watts) / (watts - limit.static_watts)
        if abs(left - 1.0) <= _NEAR or (share == 1.0 and left > 1.0):
            break
        share = min(1.0, share * left ** (1.0 / limit.exponent))
        result = simulate(at_clock(spec, share * spec.clock_hz))
        watts = _watts(result, spec, share, around)
    return Held(result, share, watts, described, limit.limit_watts)


def over_the_boards_limit(result: Result) -> str:
    """That the launches take more at the described clock than the board may, and about which clock it would hold if
    they were repeated without pauses; empty where they do not, or nothing is known of it. A launch alone is over before
    the board's control acts."""
    limit = power_limit(result.spec) if knows_energy(result.spec) else None
    if limit is None:
        return ""
    watts = _watts(result, result.spec, 1.0, ())
    share = limit.clock_share(watts - limit.static_watts)
    if share > 1.0 - _NEAR:
        return ""
    megahertz = result.clock_hz / 1e6
    return (
        f"{watts:.0f} W at {megahertz:.0f} MHz, over the board's {limit.limit_watts:.0f} W: repeated without pauses about {share * megahertz:.0f} MHz would be held"
        " (--power-limit-watts board simulates it; guessed energies)"
    )


def each_within_power(
    simulate: Callable[[GpuSpec], Result], spec: GpuSpec, limit_watts: float | None = None
) -> tuple[Held, ...]:
    """Each of ``simulate``'s launches at a clock of its own, as if it were repeated for longer than power is averaged
    over, behind the others at the same clock. Raises SpecError as :func:`within_power` does."""
    simulated = functools.cache(lambda clock_hz: simulate(at_clock(spec, clock_hz)))
    count = len(simulated(spec.clock_hz).launches)

    def alone(place: int) -> Held:
        return within_power(lambda at: _only(simulated(at.clock_hz), place), spec, limit_watts)

    return tuple(map(alone, range(count)))


def _only(result: Result, place: int) -> Result:
    launch = result.launches[place]
    return replace(
        result, kernel=launch.kernel, cycles=launch.cycles, counters=launch.counters, stalls=launch.stalls, launches=(launch,),
    )  # fmt: skip


def _watts(result: Result, spec: GpuSpec, share: float, around: Sequence[Work]) -> float:
    """Mean power of launches that were simulated at ``share`` of the clock of ``spec``, and of what runs in turn with
    them."""
    works = [launch_work(each, spec, each.cycles / (share * spec.clock_hz)) for each in result.launches]
    return mean_watts(spec, [*works, *around], share)
