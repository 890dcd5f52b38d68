"""What a case costs at one point of an order: at a commit, by a compiler's version, on a GPU.

Mental model: an order is a row of points, of which the first and the last are known to differ; a reading is what the
case cost at one of them, or why it has no cost there. Simulated costs repeat to the digit, so a point is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpusim.errors import UsageError
from gpusim.io.nearest import hint
from gpusim.regress.comparand import ComparedLaunch
from gpusim.store.launch import SimulatedLaunch


@dataclass(frozen=True)
class Point:
    """``label``: what a person calls it (a short hash, a version); ``name``: what identifies it; ``title``: a word more
    (a subject)."""

    label: str
    name: str
    title: str = ""


@dataclass(frozen=True)
class Reading:
    """``values``: metric -> what the case costs; ``launches``: where it was simulated; ``sass``: where it was compiled
    alone; ``refused``: why it has no value there, empty where it has. ``unchecked``: why nobody knows whether the
    result is right. ``facts``: versions and hashes."""

    values: Mapping[str, float] = field(default_factory=dict)
    launches: tuple[ComparedLaunch, ...] = ()
    sass: tuple[str, ...] = ()
    refused: str = ""
    unchecked: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)

    def value(self, metric: str) -> float | None:
        """The value of ``metric``, None where the case has none here. Raises UsageError for a metric that it does not
        have anywhere."""
        if self.refused:
            return None
        if metric not in self.values:
            raise UsageError(f"there is no metric {metric!r}; {hint(metric, list(self.values))}")
        return self.values[metric]


class Order(Protocol):
    """A row of points, of which each can be read."""

    points: Sequence[Point]
    #: What a point is called: "commit", "ptxas", ...
    what: str

    def read(self, index: int) -> Reading:
        """What the case costs at ``points[index]``. What is wrong there is the reading's ``refused``; raises what
        concerns all points."""
        ...


def reading_of(launches: Iterable[SimulatedLaunch], figures: Mapping[str, Mapping], facts: Mapping[str, str],
               unchecked: str = "") -> Reading:  # fmt: skip
    """The reading of a case's simulated launches, ``figures`` those of the GPUs that they name by hash."""
    records = list(launches)
    if not records:
        return Reading(refused="the case has no timed launch", facts=facts)
    items = tuple(
        ComparedLaunch(record, "", figures.get(record.gpu_hash, {}), facts.get("model_hash", "")) for record in records
    )
    values = {
        "cycles": float(sum(record.cycles for record in records)),
        "us": sum(record.time_us for record in records),
        "registers": float(max(record.registers_per_thread for record in records)),
    }
    return Reading(values, items, unchecked=unchecked, facts=facts)
