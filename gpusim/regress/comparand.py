"""A comparand, BASE or HEAD of a comparison of old and new: launches with their results and, where they are at hand,
their traces.

Mental model: BASE and HEAD may be a stored run, a result file, a folder of traces, a trace or a kernel of the suite;
each becomes a list of compared launches of one form. What was simulated here and now carries traces, so that more can
be asked of it (what would it have cost on the other GPU?); what was stored carries its result alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusim.cases.source import NamedTrace, launch_records
from gpusim.engine.gpu import simulate
from gpusim.gpus.spec import GpuSpec
from gpusim.silicon.row import SiliconRow
from gpusim.store.hashes import gpu_values, model_hash
from gpusim.store.launch import SimulatedLaunch
from gpusim.trace.record import Trace


@dataclass(frozen=True)
class SimulationInput:
    """What it takes to simulate a launch again on a changed machine: the launches of its machine in order, which of
    them it is, and the launches that warm the caches."""

    traces: tuple[Trace, ...]
    index: int
    warm: tuple[Trace, ...]
    spec: GpuSpec


@dataclass(frozen=True)
class ComparedLaunch:
    """A launch of a comparand. ``file``: the trace's file name within a folder, else empty. ``figures``: the GPU's, by
    dotted key, where they are known. ``model``: hash of the gpusim that simulated it, where known. ``seconds``: its
    share of what simulating took here and now."""

    record: SimulatedLaunch
    file: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict, repr=False)
    model: str = ""
    simulation_input: SimulationInput | None = field(default=None, repr=False)
    seconds: float = field(default=0.0, compare=False)

    @property
    def key(self) -> tuple[str, str, int]:
        """What pairs it with a launch of the other comparand."""
        return self.record.kernel, self.record.shape, self.record.launch


@dataclass(frozen=True)
class Comparand:
    """``label`` is what the command line called it. ``measurements`` are a stored run's."""

    label: str
    items: tuple[ComparedLaunch, ...]
    measurements: tuple[SiliconRow, ...] = ()
    folder: bool = False


def simulate_launches(named: Sequence[NamedTrace], warm: Sequence[Trace], spec: GpuSpec) -> tuple[ComparedLaunch, ...]:
    """The compared launches of ``named``, simulated by this gpusim in this order, after ``warm``, on one machine."""
    traces = tuple(launch.trace for launch in named)
    start = time.monotonic()
    result = simulate(traces, spec, warm=tuple(warm))
    seconds = (time.monotonic() - start) / max(1, len(named))
    figures = gpu_values(spec)
    return tuple(
        ComparedLaunch(record, "", figures, model_hash(), SimulationInput(traces, index, tuple(warm), spec), seconds)
        for index, record in enumerate(launch_records(result, named))
    )
