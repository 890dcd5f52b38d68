"""Which figures of two descriptions of a GPU make a case's cost differ: the smallest set of them.

Mental model: the case is captured once; the machine on which it is simulated is GOOD's with some of BAD's figures. A
mixture that contradicts itself (caches larger than what holds them) is no machine and has no value.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gpusim.bisect.criterion import Criterion
from gpusim.bisect.kept import find_reading, keep_reading, key_of
from gpusim.bisect.reading import Point, Reading, reading_of
from gpusim.bisect.smallest_set import smallest_set
from gpusim.cases.source import launch_records, least_cycles, open_source
from gpusim.engine.gpu import simulate
from gpusim.errors import GpusimError, SpecError, UsageError
from gpusim.gpus.consistency import check_consistency
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import say
from gpusim.regress.comparand import SimulationInput
from gpusim.regress.gpu_changes import FigureChange, differing, with_figures
from gpusim.store.hashes import gpu_hash, gpu_values, model_hash, trace_hash
from gpusim.store.store import Store

#: So much of the difference a set of figures has to make to be its cause.
SHARE = 0.9


@dataclass(frozen=True)
class FigureSet:
    """``changes`` that together make the difference; ``alone``: the value with each of them alone, None where that is
    no machine; ``is_smallest`` as in :class:`gpusim.bisect.smallest_set.SmallestSet`; ``value`` with all of them;
    ``reading`` of that."""

    changes: tuple[FigureChange, ...]
    value: float
    alone: tuple[float | None, ...]
    is_smallest: bool
    reading: Reading = field(repr=False)

    def interacts(self, good: float) -> bool:
        """Whether together they make another difference than each by itself, added up."""
        known = [value - good for value in self.alone if value is not None]
        return len(self.changes) > 1 and (len(known) < len(self.alone) or sum(known) != self.value - good)


class GpuFigures:
    """The case of ``request`` on machines between ``good`` and ``bad``. Raises UsageError for descriptions between
    which there is nothing, or whose machine code differs, and as capturing does."""

    def __init__(self, request: str, good: GpuSpec, bad: GpuSpec, store: Store, *, small: bool = False) -> None:
        if good.capability != bad.capability:
            raise UsageError(
                f"{good.name} and {bad.name} run different machine code (compute capability {_dotted(good)} and {_dotted(bad)}):"
                f" their figures cannot be mixed; gpusim regress {request} {request} --base-gpu ... --head-gpu ... lays them side by side"
            )
        self.good, self.bad = good, bad
        self.changes = differing(gpu_values(good), gpu_values(bad))
        if not self.changes:
            raise UsageError(f"{good.name} and {bad.name} have the same figures: nothing lies between them")
        source = open_source(request, good, small=small)
        self.unchecked = source.unchecked
        self._named, self._warm, self._store = source.timed, source.warm, store
        self._request = request
        self._traces = [trace_hash(trace) for trace in (*source.warm, *(named.trace for named in source.timed))]
        self._readings: dict[tuple[FigureChange, ...], Reading] = {}

    @property
    def runs(self) -> int:
        """Machines simulated so far."""
        return len(self._readings)

    def read(self, changes: tuple[FigureChange, ...]) -> Reading:
        """The case on GOOD with ``changes`` applied."""
        if changes not in self._readings:
            self._readings[changes] = self._simulated(changes)
            say(f"{len(changes)} of {len(self.changes)} figures changed: {_told(self._readings[changes])}")
        return self._readings[changes]

    def _simulated(self, changes: tuple[FigureChange, ...]) -> Reading:
        spec = with_figures(self.good, self.bad, list(changes))
        spec = replace(spec, name=self.bad.name if changes == self.changes else self.good.name)
        try:
            check_consistency(
                spec, f"{self.good.name} with {', '.join(change.key for change in changes)} of {self.bad.name}"
            )
        except SpecError as error:
            return Reading(refused=str(error))
        traces = tuple(named.trace for named in self._named)
        key = key_of(what="gpu", request=self._request, traces=self._traces, gpu=gpu_hash(spec), model=model_hash())
        reading = find_reading(self._store, key)
        if reading is None:
            try:
                result = simulate(traces, spec, warm=self._warm)
            except GpusimError as error:
                return Reading(refused=str(error))
            bounds = [least_cycles(traces, index, spec, warmed=bool(self._warm)) for index in range(len(traces))]
            records = launch_records(result, self._named, bounds)
            facts = {"model_hash": model_hash()}
            reading = reading_of(
                records, {record.gpu_hash: gpu_values(spec) for record in records}, facts, self.unchecked
            )
            name = ", ".join(change.key for change in changes) or self.good.name
            keep_reading(self._store, key, Point(name, name), reading, [self._request])
        items = tuple(
            replace(item, simulation_input=SimulationInput(traces, index, self._warm, spec))
            for index, item in enumerate(reading.launches)
        )
        return replace(reading, launches=items)

    def cause(self, criterion: Criterion, metric: str) -> FigureSet | None:
        """The smallest set of figures whose change alone makes the value bad; None where all of them do not."""

        def makes(changes: tuple[FigureChange, ...]) -> bool | None:
            value = self.read(changes).value(metric)
            return None if value is None else criterion.is_bad(value)

        found = smallest_set(self.changes, makes)
        if found is None:
            return None
        reading = self.read(found.members)
        alone = tuple(self.read((change,)).value(metric) for change in found.members)
        value = reading.value(metric)
        assert value is not None
        return FigureSet(found.members, value, alone, found.is_smallest, reading)


def _dotted(spec: GpuSpec) -> str:
    return "{}.{}".format(*spec.capability)


def _told(reading: Reading) -> str:
    return reading.refused or f"{reading.values['cycles']:.0f} cycles"
