"""Coverage as tables: how much of each point, which holes, and which kernel would most likely fill each.

Mental model: a hole has neighbours. In a point with an order the nearest bin that was hit names workloads a step away
from the hole; in a cross the workloads that give one half of the pair are a step away; where nothing near was
hit, the point itself names the kernels of the suite written to walk through it.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any

from gpusim.cases.suite import split_workload
from gpusim.explore.coverage import Coverage
from gpusim.explore.points import CROSS, CROSSES, POINTS, Bin, all_bins, cross_name


def point_records(coverage: Coverage) -> list[dict[str, Any]]:
    """One row a point and cross: bins, hit, percent, the names of its holes."""
    by_point: dict[str, list[Bin]] = {}
    for each in all_bins():
        by_point.setdefault(each[0], []).append(each)
    records = []
    for name, bins in by_point.items():
        missing = [label for _, label in bins if (name, label) not in coverage]
        few = len(missing) <= 4
        records.append(
            {
                "point": name,
                "bins": len(bins),
                "hit": len(bins) - len(missing),
                "percent": 100.0 * (len(bins) - len(missing)) / len(bins),
                "holes": ", ".join(missing if few else missing[:3]) + ("" if few else f" and {len(missing) - 3} more"),
            }
        )
    return records


def hole_records(coverage: Coverage, known: Coverage, *, crosses: bool = True) -> list[dict[str, Any]]:
    """One row a hole: the workload most likely to fill it (as `gpusim cover run` takes it), why that one, and how many
    holes it is known to fill in all.
    ``known``: coverage of a suite that suggestions are taken from, beside what ``coverage`` itself has seen."""
    together = known.merge(coverage)
    holes = [each for each in coverage.holes() if crosses or CROSS not in each[0]]
    fills = Counter(example for each in holes if each in known for example in known.hits[each].examples)
    records = []
    for each in holes:
        if each in known:
            workload = max(known.hits[each].examples, key=lambda example: (fills[example], example), default="")
            reason = "falls into it"
        else:
            workload, reason = suggest(together, each)
        records.append(
            {
                "point": each[0],
                "bin": each[1],
                "try": workload.partition(" @ ")[0],
                "because": reason,
                "fills": fills.get(workload, 0),
            }
        )
    return records


def suggest(known: Coverage, hole: Bin) -> tuple[str, str]:
    """(workload or kernel, reason) for a bin, by what ``known`` has seen."""
    name, label = hole
    if hole in known:
        return known.hits[hole].examples[0], "falls into it"
    if CROSS in name:
        return _suggest_for_cross(known, name, label)
    bins = POINTS[name].bins
    place = bins.index(label)
    near = sorted((abs(place - other), other) for other in range(len(bins)) if (name, bins[other]) in known)
    if not near:
        return "", "no kernel has answered this point yet"
    distance, other = near[0]
    if POINTS[name].ordered:
        return most_frequent(known, (name, bins[other])), f"{distance} bin{'s' * (distance > 1)} away, at {bins[other]}"
    return "", "no recorded workload does this yet"


def _suggest_for_cross(coverage: Coverage, name: str, label: str) -> tuple[str, str]:
    """The kernel that gives most often both halves apart, else either, else what the halves suggest."""
    points = next(pair for pair in CROSSES if cross_name(pair) == name)
    halves = list(zip(points, label.split(CROSS), strict=True))
    seen = [_kernels(coverage, half) for half in halves]
    both = set(seen[0]) & set(seen[1])
    if both:
        kernel = max(sorted(both), key=lambda each: min(seen[0][each], seen[1][each]))
        return kernel, "has hit each half in other launches"
    for half, kernels in zip(halves, seen, strict=True):
        if kernels:
            return max(sorted(kernels), key=kernels.__getitem__), f"has hit {half[0]} = {half[1]}"
    return suggest(coverage, halves[0])


def _kernels(coverage: Coverage, each: Bin) -> Counter[str]:
    """How many remembered examples of a bin each kernel has."""
    if each not in coverage:
        return Counter()
    return Counter(kernel_of(example) for example in coverage.hits[each].examples)


def most_frequent(coverage: Coverage, each: Bin) -> str:
    """The kernel with most remembered examples of a bin."""
    found = _kernels(coverage, each)
    return max(sorted(found), key=found.__getitem__) if found else ""


@lru_cache(maxsize=1 << 16)
def kernel_of(workload: str) -> str:
    """The kernel's name in ``kernel:shape @ gpu``."""
    return split_workload(workload)[0]
