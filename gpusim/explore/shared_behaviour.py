"""What behaviour the divergences of all kernels share: a statement about cover points instead of axes.

Mental model: a region says where in one kernel's shapes it diverges; the same cause in other kernels has other axes but
the same behaviour (conflicts, a cache regime, a kind of access). Each run's coverage says how it behaved, so the cover
bins are searched for the ones that tell the runs that diverge from those that do not. Learnt from the runs of one
search, like a region: a description with its counts, not a proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpusim.explore.coverage import Coverage
from gpusim.explore.points import NONE, POINTS, Bin

#: Cover points in one statement at most, and by how much the F-measure must grow for one more.
MOST_PARTS, LEAST_GAIN = 2, 0.03
#: Fewer divergences than this have everything in is_shared; below this F-measure nothing tells them from the rest.
#: guess (what a reader would still call a description)
LEAST_DIVERGENCES, LEAST_MEASURE = 3, 0.6
#: How much more often divergences must behave so than other runs. guess
LEAST_LIFT = 3.0


@dataclass(frozen=True)
class Behaviour:
    """``parts``: (point, bins of it), of each of which a run hits one; ``inside`` of ``inside + escapes`` divergences
    do, and ``misses`` of ``others`` runs without one."""

    parts: tuple[tuple[str, frozenset[Bin]], ...]
    inside: int
    escapes: int
    misses: int
    others: int

    def __str__(self) -> str:
        text = " and ".join(_part_text(point, bins) for point, bins in self.parts)
        return (
            f"{text} ({self.inside} of {self.inside + self.escapes} divergences, {self.misses} of {self.others} others)"
        )


def behaviour_of(diverging: Sequence[Coverage], others: Sequence[Coverage]) -> Behaviour | None:
    """What ``diverging`` runs have in is_shared that ``others`` lack; None where no cover point tells them apart better
    than chance, or there are too few."""
    failing = [frozenset(coverage.hits) for coverage in diverging if coverage.hits]
    passing = [frozenset(coverage.hits) for coverage in others if coverage.hits]
    if len(failing) < LEAST_DIVERGENCES or not passing:
        return None
    parts: list[tuple[str, frozenset[Bin]]] = []
    best = _measure(failing, passing, len(failing))
    selected, selected_passing = failing, passing
    while len(parts) < MOST_PARTS and selected_passing:
        tries = [
            (_measure(*_hit(bins, selected, selected_passing), len(failing)), point, bins)
            for point, bins in _candidates()
        ]
        # Among equals the shortest list of bins, then the model's order.
        measure, point, bins = max(tries, key=lambda each: (each[0], -len(each[2])))
        if measure < best + LEAST_GAIN:
            break
        parts.append((point, bins))
        best, (selected, selected_passing) = measure, _hit(bins, selected, selected_passing)
    is_shared = len(selected) * len(passing) >= LEAST_LIFT * len(selected_passing) * len(failing)
    if not parts or best < LEAST_MEASURE or not is_shared:
        return None
    return Behaviour(tuple(parts), len(selected), len(failing) - len(selected), len(selected_passing), len(passing))


def _hit(
    bins: frozenset[Bin], failing: Sequence[frozenset[Bin]], passing: Sequence[frozenset[Bin]]
) -> tuple[list[frozenset[Bin]], list[frozenset[Bin]]]:
    """Those runs that hit one of ``bins``."""
    return [run for run in failing if run & bins], [run for run in passing if run & bins]


def _measure(selected: Sequence[object], selected_passing: Sequence[object], all_failing: int) -> float:
    """F-measure of a statement that holds for ``selected`` of the divergences and ``selected_passing`` of the other
    runs."""
    return 2.0 * len(selected) / (all_failing + len(selected) + len(selected_passing))


def _candidates() -> Iterator[tuple[str, frozenset[Bin]]]:
    """Each bin; of an ordered point also all from a bin to either end."""
    for point in POINTS.values():
        labels = [(point.name, label) for label in point.bins]
        for at, each in enumerate(labels):
            yield point.name, frozenset([each])
            if point.ordered and 0 < at < len(labels) - 1:
                yield point.name, frozenset(labels[at:])
                yield point.name, frozenset(labels[: at + 1])


def _part_text(point: str, bins: frozenset[Bin]) -> str:
    """``bank_conflicts 3-4 to 17-32``."""
    labels = [label for label in POINTS[point].bins if (point, label) in bins]
    if len(labels) == 1:
        return f"{point} {labels[0]}"
    some = [label for label in POINTS[point].bins if label != NONE]
    return f"some {point}" if labels == some else f"{point} {labels[0]} to {labels[-1]}"


__all__ = ["Behaviour", "behaviour_of"]
