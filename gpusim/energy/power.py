"""The clock that a power limit leaves, and the time that follows.

Mental model: at the described clock a launch takes what idles and what its events take. Above the limit the clock falls
until the rest fits: dynamic power goes with a power of the clock, as the voltage follows it. The limit acts on launches
that last; short ones are over before. It does so in two steps: at once a run is held to what boards may draw for a
moment, which is more than their limit and what energies were fitted to, and to the limit itself when the control, which
averages over tens of milliseconds, has seen it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gpusim.energy.figures import figures_for, knows_energy
from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec

#: The least clock over the boost clock that boards fall to (210 of 1,980 MHz among an H100's supported clocks).
SLOWEST = 0.106
_HALVINGS = 40


@dataclass(frozen=True)
class PowerLimit:
    """``limit_watts``: of the board; ``static_watts``: what no clock changes; ``exponent``: of the clock in dynamic
    power; ``settle_seconds``: a launch of that length is held for half of its time; ``long_share``: of the dynamic
    power that it leaves what it leaves runs that outlast the board's control, as one of launches of
    ``control_seconds`` just does not."""

    limit_watts: float
    static_watts: float
    exponent: float
    settle_seconds: float
    long_share: float = 1.0
    control_seconds: float = math.inf

    def __post_init__(self) -> None:
        if not self.limit_watts > self.static_watts:
            raise SpecError(
                f"a power limit of {self.limit_watts:g} W is not above the {self.static_watts:g} W that the GPU takes at rest"
            )

    @property
    def long_watts(self) -> float:
        """That runs which outlast the control may draw, by the figures of shorter ones."""
        return self.static_watts + self.long_share * (self.limit_watts - self.static_watts)

    def clock_share(self, dynamic_watts: float, limit_watts: float | None = None) -> float:
        """The clock over the described one that fits a launch with that dynamic power at the described clock into the
        limit, or into ``limit_watts``."""
        budget = (self.limit_watts if limit_watts is None else limit_watts) - self.static_watts
        return 1.0 if dynamic_watts <= budget else (budget / dynamic_watts) ** (1.0 / self.exponent)

    def slowed_seconds(self, seconds: float, dynamic_joules: float) -> float:
        """What a launch of ``seconds`` at the described clock lasts under the limit, all of it at the SMs' clock."""
        watts = dynamic_joules / seconds
        at = self.clock_share(watts), self.clock_share(watts, self.long_watts)
        return self.mean_seconds(seconds, *(seconds / share for share in at))

    def mean_seconds(self, seconds: float, held_seconds: float, long_seconds: float) -> float:
        """Of the launches of a run, one of which takes ``seconds`` before the limit holds it, ``held_seconds`` when it
        does and ``long_seconds`` when the control has seen the run."""
        held = seconds / (seconds + self.settle_seconds)
        mean = seconds * (1.0 - held) + held_seconds * held
        if self.long_share == 1.0:
            return mean
        late = max(0.0, 1.0 - self.control_seconds / mean)
        return mean * (1.0 - late) + long_seconds * late


class HeldWatts(float):
    """A power limit of a GPU that has been busy for seconds, as a server's or a training run's is: to it a run has no
    end, as of ``run_launches=inf``, its control has settled, and it holds launches however short. Of another number of
    watts, and of as many that have not held, it is told apart."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeldWatts) and float(self) == float(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((HeldWatts, float(self)))


def held_limit(spec: GpuSpec, limit_watts: float | None = None) -> float | None:
    """``limit_watts``, or the limit of the GPU's board, as one that has held for long; None where none is known."""
    if limit_watts is not None:
        return HeldWatts(limit_watts)
    return None if power_limit(spec) is None else HeldWatts(spec.board.power_limit_watts)


def power_limit(spec: GpuSpec, limit_watts: float | None = None, run_launches: float = 0.0) -> PowerLimit | None:
    """The limit of the GPU's board, or ``limit_watts``; None where none is known. ``run_launches``: how often a launch
    is repeated in its run (0: as often as in the runs of its generation's rows). Raises SpecError for a limit that is
    not above what the GPU takes at rest, or one asked for where nothing is known of the generation's energy."""
    watts = spec.board.power_limit_watts if limit_watts is None else limit_watts
    if not watts or math.isinf(watts) or (limit_watts is None and not knows_energy(spec)):
        return None
    figures = figures_for(spec)
    static_watts = figures.constant_watts + figures.leakage_watts
    if (
        limit_watts is None and static_watts >= watts
    ):  # a described GPU so much larger than its board's that the limit cannot be its own
        return None
    launches = math.inf if isinstance(limit_watts, HeldWatts) else run_launches
    settle_seconds = 1e-3 * figures.settle_ms / (launches or figures.run_launches)
    # Runs whose number of launches nobody gives are the generation's rows', which were too short for the control.
    control_seconds = 1e-3 * figures.control_ms / launches if launches else math.inf
    return PowerLimit(watts, static_watts, figures.clock_exponent, settle_seconds, figures.long_share, control_seconds)


def limited_by_power(seconds: float, unlimited_seconds: float) -> bool:
    """Whether the board's limit is what an operator waits for: it costs more than a fiftieth of the time."""
    return seconds > 1.02 * unlimited_seconds


def slowed_by_power(
    spec: GpuSpec, limit_watts: float | None, seconds: float, dtype: str, flops: float, dram_bytes: float, l2_bytes: float, vector_flops: float = 0.0,
    run_launches: float = 0.0,
) -> float:  # fmt: skip
    """What an operator of ``seconds`` at the described clock lasts under the board's limit, or under ``limit_watts``
    (``inf``: none), by its operations on tensor cores and outside, and its bytes; ``run_launches``: as
    :func:`power_limit` has it."""
    limit = power_limit(spec, limit_watts, run_launches)
    if limit is None:
        return seconds
    figures = figures_for(spec)
    picojoules = figures.tensor_flop_pj(dtype) * flops + figures.vector_flop_pj * vector_flops
    picojoules += figures.dram_byte_pj * dram_bytes + figures.l2_byte_pj * l2_bytes
    return limit.slowed_seconds(seconds, 1e-12 * picojoules + figures.busy_watts * seconds)


def slowed_beside_dram(
    spec: GpuSpec, limit_watts: float | None, seconds_at: Callable[[float], float], dtype: str, flops: float, dram_bytes: float, l2_bytes: float,
    vector_flops: float = 0.0, run_launches: float = 0.0,
) -> float:  # fmt: skip
    """What an operator lasts under the board's limit, or under ``limit_watts`` (``inf``: none), that takes
    ``seconds_at(share)`` at so much of the described clock: what waits for DRAM keeps its time and its energy, the rest
    takes longer and, a byte or an operation, less. Below the least clock that boards have nothing falls further.
    ``run_launches``: as :func:`power_limit` has it."""
    seconds, limit = seconds_at(1.0), power_limit(spec, limit_watts, run_launches)
    if limit is None:
        return seconds
    figures = figures_for(spec)
    picojoules = figures.vector_flop_pj * vector_flops + figures.l2_byte_pj * l2_bytes
    if flops:
        picojoules += figures.tensor_flop_pj(dtype) * flops
    clocked_joules, dram_joules = 1e-12 * picojoules, 1e-12 * figures.dram_byte_pj * dram_bytes

    def held_seconds(budget_share: float) -> float:
        """With so much of what the limit leaves for all but DRAM, of which no rows say that longer runs have less."""

        def watts(share: float) -> float:
            clocked = figures.busy_watts * share**limit.exponent
            clocked += clocked_joules * share ** (limit.exponent - 1.0) / seconds_at(share)
            return limit.static_watts + dram_joules / seconds_at(share) + clocked / budget_share

        if watts(1.0) <= limit.limit_watts:
            return seconds
        low, high = SLOWEST, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            low, high = (middle, high) if watts(middle) <= limit.limit_watts else (low, middle)
        return seconds_at(low)

    return limit.mean_seconds(seconds, held_seconds(1.0), held_seconds(limit.long_share))
