"""A model's step at one clock: the highest at which the mean power of a GPU over the step stays within the board's
limit.

Mental model: a step's operators last microseconds to milliseconds, and a GPU's power control acts on averages over tens
of milliseconds (:mod:`gpusim.energy.shared_clock`), so products of much power and reads of little have one clock
between them. The step is projected again at lower clocks until its mean power fits; gaps, in which a GPU waits for
others or for the host, count at what it takes at rest. Operators projected each under the limit (the default) are
slowed as far as each alone would be if it were repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TypeVar

from gpusim.energy.figures import figures_for
from gpusim.energy.power import SLOWEST, power_limit
from gpusim.project.prices import Prices

#: A clock fits when the power is this near to the limit; projections at other clocks than the described one at most.
_NEAR, _TRIES = 0.01, 5
#: Of the clock, with which power is taken to go at least.
_LEAST_EXPONENT = 0.2


class _Projected(Protocol):
    @property
    def watts(self) -> float: ...


Step = TypeVar("Step", bound=_Projected)


def at_one_clock(prices: Prices, project: Callable[[Prices], Step]) -> Step:
    """``project``'s step at the highest clock, the described one at most, at which the mean power of a GPU stays within
    the limit of ``prices``. Raises SpecError for a limit that is not above what the GPU takes at rest."""
    limit = power_limit(prices.spec, prices.limit_watts)
    step, share = project(prices.at_share(1.0)), 1.0
    if limit is None:
        return step
    exponent = figures_for(prices.spec).clock_exponent
    for _ in range(_TRIES):
        active = step.watts - limit.static_watts
        left = (limit.limit_watts - limit.static_watts) / active
        if abs(left - 1.0) <= _NEAR or (share == 1.0 and left > 1.0):
            break
        before, share = share, min(1.0, max(SLOWEST, share * math.pow(left, 1.0 / exponent)))
        if share == before:
            break
        step = project(prices.at_share(share))
        # What does not go with the clock (DRAM) makes the power follow it less than the figures say: as it did just
        # now.
        seen = math.log((step.watts - limit.static_watts) / active) / math.log(share / before)
        exponent = min(exponent, max(seen, _LEAST_EXPONENT))
    return step
