"""Energy of one projected operator: its events at what each takes, and its time at what the GPU takes anyway.

Mental model: static power runs for the operator's whole time, each operation and each byte adds its own. What comes out
above the board's limit cannot be: there the clock has fallen and the voltage with it, the power is the limit's, and the
units share what is left. Operands are taken to be random.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gpusim.energy.bands import EnergyBand, energy_band
from gpusim.energy.figures import energy_generation, figures_for
from gpusim.energy.power import power_limit
from gpusim.energy.shared_clock import Work
from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec


class Projected(Protocol):
    """What is read of a projection (:class:`gpusim.tile.projection.Projection`)."""

    @property
    def seconds(self) -> float: ...
    @property
    def high_seconds(self) -> float: ...
    @property
    def validated(self) -> bool: ...
    @property
    def dtype(self) -> str: ...
    @property
    def flops(self) -> float: ...
    @property
    def executed_flops(self) -> float: ...
    @property
    def vector_flops(self) -> float: ...
    @property
    def dram_bytes(self) -> float: ...
    @property
    def l2_bytes(self) -> float: ...
    @property
    def link_bytes(self) -> float: ...
    @property
    def started_blocks(self) -> float: ...


@dataclass(frozen=True)
class Energy:
    """Of one GPU. ``joules``: expected; ``low_joules``, ``high_joules``: four of five measurements should lie between,
    by the errors of power and of time; ``by_unit``: (unit, joules), which add up to ``joules``; ``clock_share``: the
    clock that the limit leaves over the described one; ``validated``: whether the interval is known for this
    generation, and ``reason`` from what."""

    seconds: float
    joules: float
    low_joules: float
    high_joules: float
    average_watts: float
    by_unit: tuple[tuple[str, float], ...]
    clock_share: float
    validated: bool
    reason: str


def energy_of(
    spec: GpuSpec, projection: Projected, limit_watts: float | None = None, celsius: float | None = None
) -> Energy:
    """Energy of ``projection`` on ``spec`` within its ``seconds``. ``limit_watts``: another than the board's;
    ``celsius``: of the die, if not the figures' own. Raises SpecError for a generation or operands of which nothing is
    known, and for a limit below what idles."""
    seconds = projection.seconds
    dynamic = (("busy SMs", figures_for(spec).busy_watts * seconds), *_events(spec, projection))
    units, generation = dict(dynamic), energy_generation(spec)
    time_factor = max(1.0, projection.high_seconds / projection.seconds) if projection.seconds > 0 else 1.0

    def band_of(joules: float) -> EnergyBand:
        power = energy_band(generation, units["tensor cores"], units["DRAM"], joules)
        factor = math.exp(math.hypot(math.log(power.factor), math.log(time_factor)))
        if power.validated and not projection.validated:
            return EnergyBand(factor, False, f"{power.reason}; its time is not validated")
        return EnergyBand(factor, power.validated, power.reason)

    return energy_within(spec, seconds, dynamic, band_of, limit_watts, celsius)


def _events(spec: GpuSpec, projection: Projected) -> tuple[tuple[str, float], ...]:
    """Joules of what is computed and moved, by unit, at the described clock."""
    figures = figures_for(spec)
    flops = max(projection.flops, projection.executed_flops)
    product_pj = figures.tensor_flop_pj(projection.dtype) * flops if flops else 0.0
    tensor_pj, fma_pj = (0.0, product_pj) if projection.dtype == "fp32" else (product_pj, 0.0)
    return (
        ("tensor cores", 1e-12 * tensor_pj),
        ("other arithmetic", 1e-12 * (fma_pj + figures.vector_flop_pj * projection.vector_flops)),
        ("block starts", 1e-9 * figures.block_start_nj * projection.started_blocks),
        ("L2", 1e-12 * figures.l2_byte_pj * projection.l2_bytes),
        ("DRAM", 1e-12 * figures.dram_byte_pj * projection.dram_bytes),
        ("links", 1e-12 * figures.link_byte_pj * projection.link_bytes),
    )


def work_of(spec: GpuSpec, projection: Projected, seconds_at: Callable[[float], float], count: float = 1.0) -> Work:
    """``count`` times ``projection`` as a part of launches that share a clock; ``seconds_at``: its time, once, at a
    share of the described clock."""
    units = dict(_events(spec, projection))
    fixed = units["DRAM"] + units["links"]
    return Work(
        lambda share: count * seconds_at(share), count * (sum(units.values()) - fixed), count * fixed,
    )  # fmt: skip


def energy_within(
    spec: GpuSpec, seconds: float, dynamic: tuple[tuple[str, float], ...], band_of: Callable[[float], EnergyBand],
    limit_watts: float | None = None, celsius: float | None = None,
) -> Energy:  # fmt: skip
    """Energy of what lasts ``seconds`` and takes ``dynamic`` joules by unit at the described clock; ``band_of``: how
    sure a number of joules is. Raises SpecError for a time, a limit or a temperature that cannot be."""
    figures = figures_for(spec)
    if not (math.isfinite(seconds) and seconds > 0.0):
        raise SpecError(f"an operator of {seconds!r} seconds has no power")
    leakage = figures.leakage_watts_at(celsius)
    static_watts = figures.constant_watts + leakage
    limit = power_limit(spec, limit_watts)
    dynamic_watts = sum(joules for _, joules in dynamic) / seconds
    clock_share = share = 1.0
    if limit is not None and static_watts + dynamic_watts > limit.limit_watts:
        # A die that is warmer than the figures' may leak more than the limit leaves: the slowest clock still takes
        # something.
        share = max(limit.limit_watts - static_watts, 0.0) / dynamic_watts
        # The time is the slowed one, so of the clock's power one is in it already.
        clock_share = share ** (1.0 / (limit.exponent - 1.0))
    by_unit = (
        ("constant", figures.constant_watts * seconds),
        ("leakage", leakage * seconds),
        *((name, joules * share) for name, joules in dynamic),
    )
    joules = sum(each for _, each in by_unit)
    band = band_of(joules)
    return Energy(
        seconds=seconds, joules=joules, low_joules=joules / band.factor, high_joules=joules * band.factor,
        average_watts=joules / seconds, by_unit=by_unit, clock_share=clock_share, validated=band.validated, reason=band.reason,
    )  # fmt: skip
