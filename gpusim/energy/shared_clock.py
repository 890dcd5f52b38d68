"""The clock that launches share which follow each other: the highest at which their mean power stays within the board's
limit.

Mental model: a GPU's power control acts on averages over tens of milliseconds, so of launches that are shorter none has
a clock of its own: the sum of all energies over the sum of all times, idle gaps at what the GPU takes at rest, is what
the limit bounds, and a launch that takes little power runs as slowly as its neighbours. What waits for DRAM keeps its
time and its energy as the clock falls, the rest takes longer and less.

Source of the interval: on a B200, attention launches of 1.5 ms each back to back are fastest in the iterations 10 to
19, slower from 30 on and slowest, at 1,580 of 1,965 MHz, from 70 on; with pauses each 5 ms they keep the clock
(github.com/flashinfer-ai/flashinfer, pull request 2899). To set a clock from outside takes as long: milliseconds to
hundreds of them by GPU (Velicka et al., arXiv 2502.20075).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpusim.energy.figures import figures_for
from gpusim.energy.power import SLOWEST, power_limit
from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec

#: Launches that follow each other within so long have one clock: from 30 launches of 1.5 ms on the clock falls (above).
CONTROL_SECONDS = 0.045
_HALVINGS = 14


@dataclass(frozen=True)
class Work:
    """What a launch takes. ``seconds_at``: its time at a share of the described clock; ``clocked_joules``: of its
    events at the described clock, those of SMs for being busy left out; ``fixed_joules``: of DRAM and links, at any
    clock; ``busy``: whether SMs hold blocks, or the GPU idles."""

    seconds_at: Callable[[float], float]
    clocked_joules: float = 0.0
    fixed_joules: float = 0.0
    busy: bool = True


def idle(seconds: float) -> Work:
    """A gap between launches. Raises SpecError for a time that cannot be."""
    if not 0.0 <= seconds < float("inf"):
        raise SpecError(f"a gap between launches is {seconds!r} seconds, not a number from 0 on")
    return Work(lambda _: seconds, busy=False)


@dataclass(frozen=True)
class SharedClock:
    """``share``: of the described clock; ``watts``: mean power there, ``described_watts`` at the described clock;
    ``limit_watts``: what bounds it, None where that is not known; ``seconds``: of all the launches together, once."""

    share: float
    watts: float
    described_watts: float
    limit_watts: float | None
    seconds: float


def mean_watts(spec: GpuSpec, works: Sequence[Work], share: float = 1.0) -> float:
    """Mean power of ``works``, one after another, at ``share`` of the clock of ``spec``. Raises SpecError where nothing
    is known of the generation's energy, or all take no time."""
    figures = figures_for(spec)
    joules = total_seconds = 0.0
    for work in works:
        seconds = work.seconds_at(share)
        total_seconds += seconds
        joules += work.clocked_joules * share ** (figures.clock_exponent - 1.0) + work.fixed_joules
        joules += seconds * figures.busy_watts * share**figures.clock_exponent if work.busy else 0.0
    if not total_seconds > 0.0:
        raise SpecError("launches that take no time have no power")
    return figures.constant_watts + figures.leakage_watts + joules / total_seconds


def shared_clock(spec: GpuSpec, works: Sequence[Work], limit_watts: float | None = None) -> SharedClock:
    """The highest clock, the described one at most and a tenth of it at least, at which ``works``, repeated, stay
    within ``limit_watts``, or the board's limit. Raises SpecError for a limit that is not above what the GPU takes at
    rest."""
    limit = power_limit(spec, limit_watts)

    def seconds(share: float) -> float:
        return sum(work.seconds_at(share) for work in works)

    if limit is None:
        return SharedClock(1.0, 0.0, 0.0, None, seconds(1.0))
    described = mean_watts(spec, works)
    if described <= limit.limit_watts:
        return SharedClock(1.0, described, described, limit.limit_watts, seconds(1.0))
    low, high = SLOWEST, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if mean_watts(spec, works, middle) <= limit.limit_watts else (low, middle)
    return SharedClock(low, mean_watts(spec, works, low), described, limit.limit_watts, seconds(low))


def shares(
    spec: GpuSpec, works: Sequence[Work], limit_watts: float | None = None, interval_seconds: float = CONTROL_SECONDS
) -> tuple[float, ...]:
    """Each one's share of the described clock: those that last longer than ``interval_seconds`` have one of their own
    (0: all have), the others one together."""
    short = [work for work in works if work.seconds_at(1.0) < interval_seconds]
    common = shared_clock(spec, short, limit_watts).share if any(work.seconds_at(1.0) for work in short) else 1.0
    return tuple(common if work in short else shared_clock(spec, [work], limit_watts).share for work in works)
