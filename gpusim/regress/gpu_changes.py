"""Which figures of the GPU changed, and what each of them is worth, found by simulating.

Mental model: the old machine is turned into the new one a figure at a time, in the order of the GPU's description, and
the launches are simulated after each step; a step's cycles are its worth, given the steps before it, and the steps
add up to the whole difference exactly. Another order would split an interaction of two figures differently. Where more
than :data:`MOST_STEPS` figures differ, they go section by section (all of ``l2`` at once).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from gpusim.engine.gpu import simulate
from gpusim.errors import GpusimError
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import task
from gpusim.regress.comparand import SimulationInput

MOST_STEPS = 12


@dataclass(frozen=True)
class FigureChange:
    """A figure of the GPU that differs."""

    key: str
    base: Any
    head: Any


@dataclass(frozen=True)
class Step:
    """What came of changing the figures of ``what`` (a key, or a section of them), after the steps before it."""

    what: str
    changes: tuple[FigureChange, ...]
    cycles: int


def differing(base: Mapping[str, Any], head: Mapping[str, Any]) -> tuple[FigureChange, ...]:
    """The figures that differ, in the order of the description; none where a side's are not known. A figure that only
    one side has is one that its gpusim's model lacks or gained: the machine is the same."""
    shared = [key for key in base if key in head]
    return tuple(FigureChange(key, base[key], head[key]) for key in shared if base[key] != head[key])


def steps(
    old: GpuSpec, simulation_input: SimulationInput, base_cycles: int, changes: tuple[FigureChange, ...]
) -> tuple[Step, ...]:
    """The launch of ``simulation_input`` (on the new machine) simulated on the way there from the ``old`` one, on which
    it takes ``base_cycles``. Empty where a machine on the way cannot run the launch."""
    groups = _groups(changes)
    done, spec, cycles = [], old, base_cycles
    with task("going from the old GPU to the new one", len(groups), "steps") as shown:
        for what, group in groups:
            spec = with_figures(spec, simulation_input.spec, group)
            try:
                after = cycles_on(replace(simulation_input, spec=spec))
            except GpusimError:
                return ()
            done.append(Step(what, tuple(group), after - cycles))
            shown.to(len(done))
            cycles = after
    return tuple(done)


def cycles_on(simulation_input: SimulationInput) -> int:
    """Cycles of the launch of ``simulation_input`` on its machine."""
    result = simulate(simulation_input.traces, simulation_input.spec, warm=simulation_input.warm)
    return int(result.launches[simulation_input.index].cycles)


def _groups(changes: tuple[FigureChange, ...]) -> list[tuple[str, list[FigureChange]]]:
    by: dict[str, list[FigureChange]] = {}
    for change in changes:
        by.setdefault(change.key if len(changes) <= MOST_STEPS else change.key.partition(".")[0], []).append(change)
    return list(by.items())


def with_figures(spec: GpuSpec, target: GpuSpec, changes: list[FigureChange]) -> GpuSpec:
    """``spec`` with those figures of ``target``."""
    for change in changes:
        section, _, rest = change.key.partition(".")
        if not rest:
            spec = replace(spec, **{section: getattr(target, section)})
        elif isinstance(getattr(spec, section), dict):
            name, _, field = rest.partition(".")
            pipes = dict(getattr(spec, section))
            pipes[name] = replace(pipes[name], **{field: asdict(getattr(target, section)[name])[field]})
            spec = replace(spec, **{section: pipes})
        else:
            value = getattr(getattr(target, section), rest)
            spec = replace(spec, **{section: replace(getattr(spec, section), **{rest: value})})
    return spec
