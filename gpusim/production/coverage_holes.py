"""What production spends time on that no case of the suite stands for, and which cover points its launches reach.

Mental model: each row of production has a case of the suite (:mod:`gpusim.production.suite_cases`) or a reason why it
has none; the time of those without is what no simulation says anything about. Those with a case reach bins of the
coverage model: exactly those that a simulation of their shape reaches, where one was run or a coverage file remembers
that workload; else the kernel is known to reach some at other shapes. Coverage files remember few workloads a bin, so
that what they do not remember may be reached all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gpusim.cases.requests import parse_request
from gpusim.explore.cover import cover
from gpusim.explore.coverage import Coverage
from gpusim.explore.coverage_holes import kernel_of
from gpusim.explore.points import POINTS, Bin
from gpusim.gpus.spec import GpuSpec
from gpusim.production.amounts import Amount, amount_of, share_percent
from gpusim.production.columns import NamedTotal
from gpusim.production.suite_cases import NoCase, SuiteCase, case_of


@dataclass(frozen=True)
class Standing:
    """A row of production, and the suite's case for it or why there is none."""

    row: NamedTotal
    case: SuiteCase | NoCase


def standings(rows: Iterable[NamedTotal]) -> list[Standing]:
    """Each row with its case."""
    return [Standing(row, case_of(row)) for row in rows]


def hole_records(found: Sequence[Standing]) -> list[dict[str, Any]]:
    """A row a kind of launch that the suite has no case for, those with most time first."""
    whole = amount_of(each.row for each in found)
    groups: dict[tuple[str, str, str, str, str], Amount] = {}
    for each in found:
        if isinstance(each.case, NoCase):
            name = each.row.name
            key = (name.family, name.operation, name.library, name.dtype, each.case.reason)
            groups.setdefault(key, Amount()).add(each.row)
    order = sorted(groups.items(), key=lambda item: (-item[1].time_ns, -item[1].launches, item[0]))
    return [
        dict(zip(("family", "operation", "library", "dtype", "because"), key))
        | {
            "launches": round(amount.launches),
            "time_ms": amount.time_ns / 1e6,
            "share_percent": share_percent(amount, whole),
        }
        for key, amount in order
    ]


def is_timed(found: Sequence[Standing]) -> bool:
    """Whether shares are of time; else they are of launches."""
    return any(each.row.total.weighted_ns for each in found)


def basis_shares(found: Sequence[Standing]) -> dict[str, float]:
    """Percent of the time by what is known: the shape by the operator, by the grid, the kernel alone, or no case."""
    whole = amount_of(each.row for each in found)
    parts = {basis: Amount() for basis in ("operator", "grid", "kernel", "none")}
    for each in found:
        parts[each.case.basis if isinstance(each.case, SuiteCase) else "none"].add(each.row)
    return {basis: share_percent(amount, whole) for basis, amount in parts.items()}


def point_records(found: Sequence[Standing], reach: Reach) -> list[dict[str, Any]]:
    """A row a bin. ``reached_percent``: of production's time, in launches whose shape reaches it; ``kernel_percent``:
    in launches whose kernel is known to reach it at another shape; ``suite``: whether the suite reaches it."""
    whole = amount_of(each.row for each in found)
    amounts: dict[Bin, tuple[Amount, Amount]] = {}
    for each in found:
        if isinstance(each.case, SuiteCase):
            for one, by_shape in reach.bins(each.case):
                amounts.setdefault(one, (Amount(), Amount()))[0 if by_shape else 1].add(each.row)
    records = []
    for one in ((point.name, label) for point in POINTS.values() for label in point.bins):
        exact, by_kernel = amounts.get(one, (Amount(), Amount()))
        records.append(
            {
                "point": one[0],
                "bin": one[1],
                "reached_percent": share_percent(exact, whole),
                "kernel_percent": share_percent(by_kernel, whole),
                "suite": "yes" if one in reach.suite else "no",
            }
        )
    return records


class Reach:
    """Which bins a case reaches, by what ``suite``, a coverage, remembers, and by simulations."""

    def __init__(self, suite: Coverage):
        self.suite = suite
        self._simulated: dict[str, set[Bin]] = {}
        self._bins: dict[str, dict[str, set[Bin]]] = {}
        for one, hits in suite.hits.items():
            for example in hits.examples:
                self._bins.setdefault(kernel_of(example), {}).setdefault(example, set()).add(one)
        self._known: dict[str, list[tuple[Bin, bool]]] = {}

    def simulate(self, request: str, gpu: GpuSpec) -> int:
        """Simulate a workload whole, and remember all that it reaches; how many bins that is."""
        kernel, shape = parse_request(request)
        self._simulated[request] = set(cover(kernel, shape, gpu).coverage.hits)
        self._known.clear()
        return len(self._simulated[request])

    def bins(self, case: SuiteCase) -> list[tuple[Bin, bool]]:
        """Each bin, and whether it is of the case's own shape."""
        found = self._known.get(case.request)
        if found is None:
            found = self._known[case.request] = self._look(case)
        return found

    def _look(self, case: SuiteCase) -> list[tuple[Bin, bool]]:
        if case.request in self._simulated:
            return [(one, True) for one in sorted(self._simulated[case.request])]
        of_kernel = self._bins.get(case.kernel, {})
        alike = [bins for example, bins in of_kernel.items() if case.basis != "kernel" and _has(example, case)]
        chosen = alike or list(of_kernel.values())
        return [(one, bool(alike)) for one in sorted(set().union(*chosen))]


def _has(example: str, case: SuiteCase) -> bool:
    """Whether a workload has the values of the axes that a case names."""
    shape = parse_request(example.partition(" @ ")[0])[1]
    return all(shape.get(axis) == str(value) for axis, value in case.shape.items())
