"""Which unit of the machine has more to do: the least cycles that each needs, in the old launch and in the new one.

Mental model: a lower bound (:mod:`gpusim.theory.bounds`) is a unit's work over its rate, so what grew there is the
unit's own demand: more instructions on a pipe, more bytes from DRAM, or a slower unit. It is a bound beside the
difference, not a part of it: a unit far below the launch's time may double its work for free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpusim.cases.source import least_cycles
from gpusim.regress.comparand import ComparedLaunch
from gpusim.regress.outcome import Outcome, UnitChange


def with_units(outcome: Outcome) -> Outcome:
    """The outcome with its ``units``: those that differ, by falling growth; none where a side's are not known."""
    if outcome.items is None:
        return outcome
    old, new = (_least(item) for item in outcome.items)
    if not old or not new:
        return outcome
    changes = [UnitChange(unit, old.get(unit, 0.0), new.get(unit, 0.0)) for unit in {**old, **new}]
    changes = [change for change in changes if change.base != change.head]
    return replace(outcome, units=tuple(sorted(changes, key=lambda change: change.base - change.head)))


def _least(item: ComparedLaunch) -> Mapping[str, float]:
    done = item.simulation_input
    if item.record.least_cycles or done is None:
        return item.record.least_cycles
    return least_cycles(done.traces, done.index, done.spec, warmed=bool(done.warm))
