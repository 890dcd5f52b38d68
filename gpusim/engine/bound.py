"""What bounds a run: the unit nearest to its peak, what its warps wait for, or the launch itself.

Mental model: the roof is the unit that was busiest of its peak. From 60 % of it on the run is bound by that unit, below
by what its warps wait for: the threshold that ncu's own rules use ("below 60 % of peak typically indicate latency
issues", Nsight Compute's speed-of-light rule). Where starting and ending launches is half of the time, that is what
bounds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpusim.engine.utilisation import Ran, Unit, utilisation
from gpusim.gpus.spec import GpuSpec
from gpusim.model.stall_reasons import SELECTED, STALL_NAMES
from gpusim.uncertainty.limiters import Limiter

#: Busy share from which on a unit counts as the roof. ncu's rules take 60 % as the end of "latency issues" and 80 % as
#: high.
ROOF_PERCENT = 60.0
#: From this share of the time on, the launch itself is what bounds the run.
LAUNCH_PERCENT = 50.0
#: A part of a unit that is shown itself, or another measure of it.
_SHARED, _BUS = "of it, shared memory", "DRAM bus"
_ROOF_NAMES = {"DRAM bytes": "DRAM bandwidth"}
_MEMORY = ("L1", "L2", "DRAM", "crossbar", "LSU")
_L1_UNITS = ("L1", "LSU")
_L2_UNITS = ("L2", "crossbar")


@dataclass(frozen=True)
class Bound:
    """``roof``: the unit nearest to its peak, and how near; ``percent``: of the time or of the warp-cycles, where
    launches or a wait bound the run; ``reason``: the stall that it waits for."""

    limiter: Limiter
    roof: str
    roof_percent: float
    percent: float = 0.0
    reason: str = ""

    @property
    def is_memory(self) -> bool:
        """Whether the roof is one of moving data."""
        return self.roof.startswith(_MEMORY)


def bound_of(launches: Sequence[Ran], spec: GpuSpec) -> Bound:
    """What bounds ``launches`` together, on ``spec``."""
    units = utilisation(launches, spec)
    highest = max((u for u in units if u.name not in (_SHARED, _BUS)), key=lambda unit: unit.percent)
    roof = _ROOF_NAMES.get(highest.name, highest.name), highest.percent
    cycles = sum(launch.cycles for launch in launches)
    overhead = 100.0 * len(launches) * (spec.launch.start_cycles + spec.launch.end_cycles) / max(1, cycles)
    if overhead >= LAUNCH_PERCENT:
        return Bound(Limiter.LAUNCH, *roof, overhead)
    if highest.percent >= ROOF_PERCENT:
        return Bound(_of_unit(highest.name, units), *roof)
    stalls: dict[str, int] = {}
    for launch in launches:
        for name, count in launch.stalls.items():
            stalls[name] = stalls.get(name, 0) + count
    waits = {name: count for name, count in stalls.items() if name != STALL_NAMES[SELECTED]}
    reason = max(waits, key=waits.__getitem__)
    return Bound(Limiter.LATENCY, *roof, 100.0 * waits[reason] / max(1, sum(stalls.values())), reason)


def _of_unit(name: str, units: Sequence[Unit]) -> Limiter:
    """The limiter that a unit belongs to; L1's path is shared memory's where that fills most of its data stage."""
    if name.startswith("DRAM"):
        return Limiter.DRAM
    if name.startswith(_L2_UNITS):
        return Limiter.L2
    if name.startswith(_L1_UNITS):
        busy = {unit.name: unit.busy for unit in units}
        return Limiter.SHARED if 2 * busy[_SHARED] > busy["L1 data stage"] else Limiter.L1
    return Limiter.PIPE
