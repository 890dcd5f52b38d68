"""The clock that a power limit leaves.

Mental model: at the described clock a launch takes what idles and what its events take. Above the limit the clock falls until the rest fits: dynamic power
goes with a power of the clock, as the voltage follows it. The limit acts on launches that last; short ones are over before.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PowerLimit:
    """``limit_watts``: of the board; ``static_watts``: what no clock changes; ``exponent``: of the clock in dynamic power; ``settle_seconds``: a launch
    of that length is held for half of its time."""

    limit_watts: float
    static_watts: float
    exponent: float
    settle_seconds: float

    def clock_share(self, dynamic_watts: float) -> float:
        """The clock over the described one that fits a launch with that dynamic power at the described clock."""
        if dynamic_watts <= 0.0 or self.static_watts + dynamic_watts <= self.limit_watts:
            return 1.0
        room = max(self.limit_watts - self.static_watts, 0.01 * self.limit_watts)
        return (room / dynamic_watts) ** (1.0 / self.exponent)

    def slowed_seconds(self, seconds: float, dynamic_joules: float) -> float:
        """What a launch of ``seconds`` at the described clock lasts under the limit, all of it at the SMs' clock."""
        share = self.clock_share(dynamic_joules / seconds)
        if share == 1.0:
            return seconds
        held = seconds / (seconds + self.settle_seconds)
        return seconds * (1.0 - held) + seconds / share * held
