"""From the runs of a search to findings: worst case, minimal case, region; what a region explains is part of it.

Mental model: the divergences of a kernel are worked off from the worst down. For the worst that no region explains
yet the smallest diverging shape is looked for, a region is learnt around it from all runs, and sharpened by a few
more runs drawn beside it; every divergence inside is then explained. What is left over starts the next finding. In
the end the behaviour that the divergences of all kernels share is looked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpusim.cases.case_forms import launches_ahead
from gpusim.cases.suite import find_kernel, make_case
from gpusim.cases.user_entries import UserEntry
from gpusim.errors import UsageError
from gpusim.explore.finding import Finding, Witness
from gpusim.explore.region import LabelledRun, Region, join, learn
from gpusim.explore.search import Search, Tried
from gpusim.explore.shared_behaviour import behaviour_of
from gpusim.explore.shrink import shrink
from gpusim.io.progress import task

#: Findings of one kernel at most: after so many regions the rest is noise about the same cause.
MOST_FINDINGS = 4
#: Runs spent on making one case small, and on the neighbours that tell a region's borders.
SHRINK_TRIES, NEIGHBOURS = 48, 24
#: A case of so many blocks is small enough to be read.
FEW_BLOCKS = 4


def findings_of(
    search: Search,
    *,
    options: Mapping[str, Any],
    gpu: str,
    settings: tuple[str, ...] = (),
    keep: Callable[[Tried], None] = lambda tried: None,
) -> list[Finding]:
    """The findings of a search, worst first within each kernel."""
    found: list[Finding] = []
    for kernel in dict.fromkeys(tried.kernel for tried in search.tried):
        explained: list[Region] = []
        of_kernel: list[tuple[Region, Tried, dict[str, Any]]] = []
        worked_off: list[Tried] = []
        while len(explained) < MOST_FINDINGS:
            open_cases = [
                tried
                for tried in search.tried
                if tried.kernel == kernel
                and search.prop.fails(tried.outcome)
                and not any(tried is each for each in worked_off)
                and not any(_explains(region, tried) for region in explained)
            ]
            if not open_cases:
                break
            worst = max(open_cases, key=lambda tried: abs(tried.outcome.divergence))
            worked_off.append(worst)
            with task(f"making the worst of {len(open_cases)} divergences of {kernel} small"):
                minimal = _smallest(search, worst, open_cases, keep)
                _run_neighbours(search, kernel, minimal, keep)
            region = learn(_runs(search, kernel), minimal)
            if any(region.statements == other.statements for other in explained):
                continue  # the same region, from another of its cases
            explained.append(region)
            of_kernel.append((region, worst, minimal))
        whole = _joined(of_kernel, _runs(search, kernel))
        found += _without_subsumed(
            [(each[0], _finding(search, kernel, *each[1:], each[0], options, gpu, settings)) for each in whole]
        )
    return _with_behaviour(search, found)


def _with_behaviour(search: Search, findings: list[Finding]) -> list[Finding]:
    """The findings with what the divergences of their sign have in common, whatever the kernel."""
    passing = [tried.outcome.coverage for tried in search.tried if not search.prop.fails(tried.outcome)]
    shared = {}
    for above in (False, True):
        failing = [
            tried.outcome.coverage
            for tried in search.tried
            if search.prop.fails(tried.outcome) and (tried.outcome.divergence > 0) == above
        ]
        shared[above] = behaviour_of(failing, passing)
    return [replace(each, behaviour=str(shared[each.worst.divergence > 0] or "")) for each in findings]


def _runs(search: Search, kernel: str) -> list[LabelledRun]:
    return [
        LabelledRun(t.shape, t.outcome.divergence, search.prop.fails(t.outcome))
        for t in search.tried
        if t.kernel == kernel
    ]


def _joined(
    regions: list[tuple[Region, Tried, dict[str, Any]]], runs: list[LabelledRun]
) -> list[tuple[Region, Tried, dict[str, Any]]]:
    """One region for those about the same divergences: a fault that a greedy rule did not grasp at once gives several.
    Worst and smallest case are those of the first, which was learnt around the worst, if the joined region holds
    them."""
    result: list[tuple[Region, Tried, dict[str, Any]]] = []
    for region, worst, minimal in regions:
        for place, (before, its_worst, its_minimal) in enumerate(result):
            together = join(before, region, runs)
            if together is not None:
                result[place] = (together, its_worst, its_minimal if together.holds(its_minimal) else minimal)
                break
        else:
            result.append((region, worst, minimal))
    return result


def _without_subsumed(findings: list[tuple[Region, Finding]]) -> list[Finding]:
    """Leave out what a finding that explains more explains too: its region holds the other's worst and least case."""
    result: list[tuple[Region, Finding]] = []
    for region, finding in sorted(findings, key=lambda each: -each[1].explains):
        cases = (finding.worst, finding.minimal)
        if not any(
            all(wider.holds(case.shape) and (wider.low <= 0) == (case.divergence <= 0) for case in cases)
            for wider, _ in result
        ):
            result.append((region, finding))
    return [finding for _, finding in result]


def _explains(region: Region, tried: Tried) -> bool:
    """Whether a divergence lies in a region, with its sign."""
    return region.holds(tried.shape) and (region.low <= 0) == (tried.outcome.divergence <= 0)


def _smallest(
    search: Search, worst: Tried, open_cases: Sequence[Tried], keep: Callable[[Tried], None]
) -> dict[str, Any]:
    """The smallest case that ``worst`` leads to; or, where that has many blocks still, the one that the open case with
    fewest blocks leads to, if its region holds ``worst``: fewer blocks may need larger ones, which no step towards
    smaller axes comes to."""
    minimal = _minimal(search, worst, keep)
    blocks = _blocks(worst.kernel, minimal)
    sign = worst.outcome.divergence > 0
    alike = [each for each in open_cases if (each.outcome.divergence > 0) == sign]
    few = min(alike, key=lambda each: _blocks(each.kernel, each.shape))
    if blocks <= FEW_BLOCKS or _blocks(few.kernel, few.shape) >= blocks:
        return minimal
    other = _minimal(search, few, keep)
    fewer = _blocks(worst.kernel, other) < blocks
    return other if fewer and learn(_runs(search, worst.kernel), other).holds(worst.shape) else minimal


def _minimal(search: Search, worst: Tried, keep: Callable[[Tried], None]) -> dict[str, Any]:
    entry = find_kernel(worst.kernel)
    sign = worst.outcome.divergence >= 0

    def diverges(shape: dict[str, Any]) -> bool:
        outcome = search.measure(worst.kernel, shape, keep)
        return outcome is not None and search.prop.fails(outcome) and (outcome.divergence >= 0) == sign

    free = {axis: values for axis, values in entry.axes.items() if axis not in search.machine_axes}
    small = {axis: value for axis, value in entry.small.items() if axis in free}
    fixed = {axis: value for axis, value in worst.shape.items() if axis not in free}
    shape = {axis: value for axis, value in worst.shape.items() if axis in free}
    least = shrink(
        shape, lambda each: diverges(_whole(each, fixed, worst.shape)), free, small, most_tries=SHRINK_TRIES,
        size=lambda each: _blocks(worst.kernel, _whole(each, fixed, worst.shape)) if _allowed(entry, each) else math.inf,
    )  # fmt: skip
    return _whole(least, fixed, worst.shape)


def _allowed(entry: Any, shape: Mapping[str, Any]) -> bool:
    """Whether a user's annotations let the axes have those values; the suite's kernels say so when they are made."""
    return not isinstance(entry, UserEntry) or all(entry.allows(axis, value) for axis, value in shape.items())


def _blocks(kernel: str, shape: Mapping[str, Any]) -> float:
    """Blocks that the workload's timed launches have together; infinitely many of a shape that the kernel refuses."""
    try:
        launches = launches_ahead(make_case(kernel, dict(shape)))
    except UsageError:
        return math.inf
    return sum(math.prod(_sides(launch.grid)) for launch in launches if launch.timed)


def _sides(grid: Any) -> tuple[int, ...]:
    if callable(grid):  # of compile-time parameters, known once it is compiled
        return (1,)
    return (grid,) if isinstance(grid, int) else tuple(grid)


def _whole(part: Mapping[str, Any], fixed: Mapping[str, Any], order: Mapping[str, Any]) -> dict[str, Any]:
    """All axes in their order."""
    return {axis: part.get(axis, fixed.get(axis)) for axis in order}


def _run_neighbours(search: Search, kernel: str, case: Mapping[str, Any], keep: Callable[[Tried], None]) -> None:
    """Run neighbours of a case, one axis changed at a time, so that a region has borders that were run."""
    entry = find_kernel(kernel)
    left = NEIGHBOURS
    for axis, value in case.items():
        if axis in search.machine_axes:
            continue
        if isinstance(value, int) and not isinstance(value, bool) and axis not in getattr(entry, "listed", ()):
            near = (value + 1, 2 * value, value - 1, 4 * value, value + 32)
        else:
            near = tuple(each for each in entry.axes[axis] if each != value)
        near = [each for each in near if _allowed(entry, {axis: each})]
        for each in near[: max(1, NEIGHBOURS // len(case))]:
            if left > 0 and not (isinstance(each, int) and not isinstance(each, bool) and each < 1):
                left -= 1
                search.measure(kernel, {**case, axis: each}, keep)


def _finding(
    search: Search,
    kernel: str,
    worst: Tried,
    minimal: Mapping[str, Any],
    region: Region,
    options: Mapping[str, Any],
    gpu: str,
    settings: tuple[str, ...],
) -> Finding:
    least = next(tried for tried in search.tried if tried.kernel == kernel and dict(tried.shape) == dict(minimal))
    # Shrinking and looking around may have met a worse case than the search had, and one of fewer blocks.
    inside = [t for t in search.tried if t.kernel == kernel and search.prop.fails(t.outcome) and _explains(region, t)]
    top = max([worst, *inside], key=lambda tried: abs(tried.outcome.divergence))
    if _blocks(kernel, least.shape) > FEW_BLOCKS:
        least = min([least, *inside], key=lambda tried: _blocks(kernel, tried.shape))
    return Finding(
        property=search.prop.name,
        options=options,
        gpu=gpu,
        settings=settings,
        kernel=kernel,
        worst=Witness(top.shape, top.outcome.divergence, top.outcome.detail),
        minimal=Witness(least.shape, least.outcome.divergence, least.outcome.detail),
        rule=str(region),
        inside=region.inside,
        misses=region.misses,
        escapes=region.escapes,
        witnesses_inside=region.witnesses_inside,
        witnesses_outside=region.witnesses_outside,
        explains=len(inside),
    )
