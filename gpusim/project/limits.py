"""What limits a model's step, and what would help: shares of its time by unit, and the step with a part of the machine
made faster.

Mental model: an operator's time is counted for the unit that limits it; and since limits shift, each remedy is also
tried: the GPU's description is changed in one value, the step is projected again.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.collective.links import Machine
from gpusim.energy.power import power_limit
from gpusim.errors import GpusimError
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.project.decoder import Decoder
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.whole import ModelProjection, project_model

#: What limits collectives of few bytes: their start and their steps from GPU to GPU.
BETWEEN_GPUS = "latency between GPUs"
#: By how much a remedy makes its part better.
FACTOR = 1.25


@dataclass(frozen=True)
class Remedy:
    """``name``: what is made better by :data:`FACTOR`; ``saved``: share of the step's time."""

    name: str
    settings: tuple[str, ...]
    saved: float


def limiters(projection: ModelProjection) -> list[tuple[str, float]]:
    """Units with their share of the operators' time, the largest first; of what communicates "links" where bytes are
    what takes the time, which wider links would carry faster, and else :data:`BETWEEN_GPUS`."""
    shares: dict[str, float] = {}
    total = 0.0
    for item in projection.items:
        name = item.projection.limiter
        if item.operator.communicates and name != "links":
            name = BETWEEN_GPUS
        shares[name] = shares.get(name, 0.0) + item.seconds
        total += item.seconds
    return sorted(((name, seconds / total) for name, seconds in shares.items()), key=lambda pair: -pair[1])


def _settings(spec: GpuSpec) -> list[tuple[str, tuple[str, ...]]]:
    """Of the remedies that can be written as values of a description."""
    found: list[tuple[str, tuple[str, ...]]] = [
        ("DRAM bandwidth", (f"dram.peak_bytes_per_ns={spec.dram.peak_bytes_per_ns * FACTOR}",))
    ]
    found.append(("L2 bandwidth", (f"l2.slice_bytes_per_ns={spec.l2.slice_bytes_per_ns * FACTOR}",)))
    found.append(("SMs' clock", (f"clock_hz={spec.clock_hz * FACTOR}",)))
    rate = [
        "tensor.f16_macs_per_cycle",
        "tensor.warpgroup_f16_macs_per_cycle",
        "tensor.fp8_macs_per_cycle",
        "tensor.warpgroup_fp8_macs_per_cycle",
    ]
    settings = []
    for key in rate:
        value = getattr(spec.tensor, key.partition(".")[2], 0)
        if value:
            settings.append(f"{key}={int(value * FACTOR)}")
    if spec.tensor_memory.columns_per_cycle:
        settings = [f"tensor_memory.columns_per_cycle={spec.tensor_memory.columns_per_cycle * FACTOR}"]
    found.append(("tensor cores", tuple(settings)))
    return found


def _changed(prices: Prices, settings: tuple[str, ...], machine: Machine | None = None) -> Prices:
    spec = override_gpu(prices.spec, settings)
    return Prices(spec, prices.limit_watts, prices.one_clock, machine=machine or prices.machine)


def remedies(prices: Prices, config: Decoder, plan: Plan, now: ModelProjection) -> list[Remedy]:
    """Each part of the GPU made better alone, the most helpful first. What a GPU does not have is left out."""
    found = []
    if plan.gpus > 1:
        node = prices.spec.node
        rates = ("link_bytes_per_ns", "network_bytes_per_ns")
        settings = tuple(f"node.{rate}={FACTOR * getattr(node, rate):g}" for rate in rates)
        better = project_model(_changed(prices, settings, prices.machine.faster(FACTOR)), config, plan)
        found.append(Remedy("links", settings, 1.0 - better.step.seconds / now.step.seconds))
    limit = power_limit(prices.spec, prices.limit_watts)
    if limit is not None:
        watts = FACTOR * limit.limit_watts
        better = project_model(Prices(prices.spec, watts, prices.one_clock, machine=prices.machine), config, plan)
        found.append(Remedy("power limit", (f"a limit of {watts:g} W",), 1.0 - better.step.seconds / now.step.seconds))
    for name, settings in _settings(prices.spec):
        try:
            better = project_model(_changed(prices, settings), config, plan)
        except GpusimError:  # a value that this description checks against another
            continue
        found.append(Remedy(name, settings, 1.0 - better.step.seconds / now.step.seconds))
    return sorted(found, key=lambda remedy: -remedy.saved)
