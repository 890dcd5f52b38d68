"""Energy of a model's step: that of every launch on every GPU, and what GPUs take while they wait.

Mental model: launches' energies add; a GPU that waits for its pipeline takes what it takes with nothing to do, and what
runs beside something else takes that once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpusim.energy.figures import figures_for
from gpusim.energy.operator import energy_of
from gpusim.gpus.spec import GpuSpec
from gpusim.project.part import Priced
from gpusim.project.plan import Plan


@dataclass(frozen=True)
class StepEnergy:
    """``joules`` of all GPUs of the plan; ``validated``: whether each part's error is known."""

    joules: float
    validated: bool


def step_energy(
    spec: GpuSpec, plan: Plan, items: Iterable[Priced], once: Iterable[Priced], seconds: float, limit_watts: float | None = None,
    share: float = 1.0,
) -> StepEnergy:  # fmt: skip
    """Of a step of ``seconds`` under the board's power limit or ``limit_watts`` each GPU, whose clock is ``share`` of
    the one at which energies are known: ``items`` run on the GPUs of one stage for each micro-batch, ``once`` on all
    GPUs once."""
    figures = figures_for(spec)
    slow = share ** (figures.clock_exponent - 1.0)
    # What busy SMs take is power: it goes with the voltage and with the clock.
    factors = {"busy SMs": slow * share, "tensor cores": slow, "other arithmetic": slow, "L2": slow}
    joules, busy_seconds, validated = 0.0, 0.0, True
    for part, copies in ((items, plan.stage_gpus * plan.micro_batches), (once, plan.gpus)):
        for item in part:
            found = energy_of(spec, item.projection, limit_watts)
            joules += copies * item.operator.count * sum(part * factors.get(unit, 1.0) for unit, part in found.by_unit)
            busy_seconds += copies * item.seconds
            validated = validated and found.validated
    resting_watts = figures.constant_watts + figures.leakage_watts_at(None)
    # Less than nothing where launches run beside one another: what rests is taken once.
    waiting = plan.gpus * seconds - busy_seconds
    return StepEnergy(joules + waiting * resting_watts, validated)
